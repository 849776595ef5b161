package fleet

import (
	"fmt"
	"slices"
	"strings"
)

// waves sees that the waves reach every cell exactly once, and that none is empty. What needs no cells is
// seen whatever is wrong with them, and names are judged by the names that could be read.
func (c *checker) waves() {
	if !c.set("rollout.waves") || !c.decoded("rollout.waves") {
		return // the default, or no list
	}
	before := len(c.faults)
	c.percents()
	whole := c.waveCells()
	if !whole || len(c.faults) > before {
		return // what is left over is a consequence
	}
	byShare := slices.ContainsFunc(c.f.Rollout.Waves, func(w Wave) bool { return w.Percent != nil })
	var cells []Cell
	for i, cell := range c.f.Cells {
		switch named := c.known(cellPath(i, "name")); {
		case named && (c.counted(i) || !byShare):
			cells = append(cells, cell)
		case byShare:
			return // which cells a wave takes depends on all of them
		}
	}
	c.coverage(cells)
}

func wavePath(i int, rest string) string {
	return join(fmt.Sprintf("rollout.waves[%d]", i), rest)
}

// percents sees to the form of each wave, and that the percents rise and end at 100.
func (c *checker) percents() {
	percent, last := 0, ""
	faulty := false // the last percent cannot be read, or has its fault already
	for i, w := range c.f.Rollout.Waves {
		path, at := wavePath(i, ""), wavePath(i, "percent")
		if !c.decoded(path) || !c.known(at) {
			faulty = true
			continue
		}
		listed := len(w.Cells) > 0 || !c.known(wavePath(i, "cells"))
		wrong := true
		switch {
		case w.Percent == nil && !listed:
			c.wrong(path, path+" has no cells", "a wave deploys something", "add cells: [...] or percent: …")
		case w.Percent != nil && listed:
			c.wrong(path, path+" has both cells and percent", "they may contradict each other", "keep one of the two")
		case percent == 100:
			c.wrong(path, path+" follows the wave of percent 100", "nothing is left for it", "move it before that wave, or remove it")
		case w.Percent != nil && *w.Percent <= percent:
			fix := fmt.Sprintf("write more than %d", percent)
			if i == len(c.f.Rollout.Waves)-1 {
				fix = "write 100"
			}
			c.wrong(at, fmt.Sprintf("%s is %d", at, *w.Percent), fmt.Sprintf("percents are cumulative, and %s reached %d", last, percent), fix)
		default:
			wrong = false
		}
		if w.Percent != nil {
			percent, last, faulty = *w.Percent, path, wrong
		}
	}
	if percent > 0 && percent < 100 && !faulty {
		c.wrong(last+".percent", fmt.Sprintf("%s.percent is %d, the last one", last, percent), "the waves must reach every cell", "write 100")
	}
}

// waveCells sees that the waves list cells of the fleet, each once. whole is false when something about
// them could not be read.
func (c *checker) waveCells() (whole bool) {
	var all []string
	for i, cell := range c.f.Cells {
		if c.known(cellPath(i, "name")) {
			all = append(all, cell.Name)
		}
	}
	whole = true
	seen := map[string]pos{}
	for i, w := range c.f.Rollout.Waves {
		whole = whole && c.known(wavePath(i, "cells"), wavePath(i, "percent"))
		for j, name := range w.Cells {
			at := wavePath(i, fmt.Sprintf("cells[%d]", j))
			if !c.known(at) {
				continue
			}
			if slices.Contains(all, name) || c.mayBeNamed(name) {
				c.once(seen, at, name, "each cell is in one wave")
				continue
			}
			fix := "write one of " + strings.Join(all[:min(len(all), 20)], ", ")
			if near := nearest(name, all); near != "" {
				fix = fmt.Sprintf("did you mean %s?", near)
			} else if len(all) == 0 {
				fix = "write the name of a cell"
			}
			c.wrong(at, fmt.Sprintf("%s is %s", at, quote(name)), "the fleet has no such cell", fix)
		}
	}
	return whole
}

// mayBeNamed tells whether a cell whose own name could not be read may be the one that is meant: its name
// is absent, or becomes this one when it is put right.
func (c *checker) mayBeNamed(name string) bool {
	if !c.decoded("cells") {
		return true
	}
	for i := range c.f.Cells {
		at := cellPath(i, "name")
		if c.known(at) {
			continue
		}
		if text, ok := c.texts[at]; !ok || text == name || strings.HasSuffix(suggestName(text), " "+name) {
			return true
		}
	}
	return false
}

// coverage sees that no cell is left over, and no wave left empty, by waves whose own values are all right.
func (c *checker) coverage(cells []Cell) {
	resolved, left := resolve(cells, c.f.Rollout.Waves)
	for i, w := range resolved {
		if len(w.Cells) == 0 {
			path := wavePath(i, "percent")
			c.wrong(path, path+" leaves the wave empty", "waves take whole cells, one at least, and none is left", "remove the wave, or an earlier one")
		}
	}
	if len(left) > 0 {
		c.wrong("rollout.waves", "no wave reaches "+strings.Join(left[:min(len(left), 20)], ", "), "the waves must reach every cell", "add them to a wave, or end with {percent: 100}")
	}
}
