package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ResolvedWave is a wave with the cells that it reaches.
type ResolvedWave struct {
	Cells []string      // names, at least one
	Bake  time.Duration // watched wait after the wave
	Share Percent       // of the fleet's shards, reached after this wave, rounded down
}

// Resolve returns the waves with their cells, each cell of the fleet in exactly one wave.
//
// A wave with a percent takes cells in the order of the file, from those that no wave lists, as long as
// the shards reached (in this wave and the ones before) stay within that share of all shards; it takes
// one cell at least.
func (f *Fleet) Resolve() []ResolvedWave {
	waves, _ := resolve(f.Cells, f.Rollout.Waves)
	return waves
}

// resolve returns the waves and the names of the cells that none reaches. A wave for which no cell is
// left is empty.
func resolve(cells []Cell, waves []Wave) (out []ResolvedWave, left []string) {
	shards := make(map[string]int, len(cells))
	total := 0
	for _, c := range cells {
		shards[c.Name] = len(c.Shards)
		total += len(c.Shards)
	}
	listed := map[string]bool{}
	for _, w := range waves {
		for _, name := range w.Cells {
			listed[name] = true
		}
	}
	for _, c := range cells {
		if !listed[c.Name] {
			left = append(left, c.Name)
		}
	}
	reached := 0
	for _, w := range waves {
		r := ResolvedWave{Cells: slices.Clone(w.Cells), Bake: w.Bake}
		for _, name := range w.Cells {
			reached += shards[name]
		}
		for w.Percent != nil && len(left) > 0 && (len(r.Cells) == 0 || (reached+shards[left[0]])*100 <= *w.Percent*total) {
			reached += shards[left[0]]
			r.Cells, left = append(r.Cells, left[0]), left[1:]
		}
		r.Share = Percent(reached * 10000 / max(1, total))
		out = append(out, r)
	}
	return out, left
}

// waves sees that the waves reach every cell exactly once, and that none is empty.
func (c *checker) waves() {
	if !c.set("rollout.waves") || c.bad["rollout.waves"] {
		return // the default, or no list
	}
	all := make([]string, 0, len(c.f.Cells))
	sure := !c.bad["cells"] // the names and sizes of all cells
	for i := range c.f.Cells {
		sure = sure && c.known(cellPath(i, "name"), cellPath(i, "shards"))
		all = append(all, c.f.Cells[i].Name)
	}
	before := len(c.faults)
	seen := map[string]pos{}
	percent, last := 0, ""
	for i, w := range c.f.Rollout.Waves {
		path := fmt.Sprintf("rollout.waves[%d]", i)
		if !c.known(path+".cells", path+".percent") {
			sure = false
			continue
		}
		switch {
		case w.Percent == nil && len(w.Cells) == 0:
			c.wrong(path, path+" has no cells", "a wave deploys something", "add cells: [...] or percent: …")
		case w.Percent != nil && len(w.Cells) > 0:
			c.wrong(path, path+" has both cells and percent", "they may contradict each other", "keep one of the two")
		case percent == 100:
			c.wrong(path, path+" follows the wave of percent 100", "nothing is left for it", "move it before that wave, or remove it")
		case w.Percent != nil && *w.Percent <= percent:
			c.wrong(path+".percent", fmt.Sprintf("%s.percent is %d", path, *w.Percent), fmt.Sprintf("percents are cumulative, and %s reached %d", last, percent), fmt.Sprintf("write more than %d", percent))
		}
		if w.Percent != nil {
			percent, last = *w.Percent, path
		}
		for j, name := range w.Cells {
			at := fmt.Sprintf("%s.cells[%d]", path, j)
			if sure && !slices.Contains(all, name) {
				fix := "write one of " + strings.Join(all[:min(len(all), 20)], ", ")
				if near := nearest(name, all); near != "" {
					fix = fmt.Sprintf("did you mean %s?", near)
				}
				c.wrong(at, fmt.Sprintf("%s is %s", at, quote(name)), "the fleet has no such cell", fix)
				continue
			}
			c.once(seen, at, name, "each cell is in one wave")
		}
	}
	if sure && len(c.faults) == before {
		c.coverage(percent, last)
	}
}

// coverage sees to the waves whose own values are all right.
func (c *checker) coverage(percent int, last string) {
	resolved, left := resolve(c.f.Cells, c.f.Rollout.Waves)
	for i, w := range resolved {
		if len(w.Cells) == 0 {
			path := fmt.Sprintf("rollout.waves[%d].percent", i)
			c.wrong(path, path+" leaves the wave empty", "waves take whole cells, one at least, and none is left", "remove the wave, or an earlier one")
		}
	}
	switch {
	case percent > 0 && percent < 100:
		c.wrong(last+".percent", fmt.Sprintf("%s.percent is %d, the last one", last, percent), "the waves must reach every cell", "write 100")
	case len(left) > 0:
		c.wrong("rollout.waves", "no wave reaches "+strings.Join(left[:min(len(left), 20)], ", "), "the waves must reach every cell", "add them to a wave, or end with {percent: 100}")
	}
}
