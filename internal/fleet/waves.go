package fleet

import (
	"slices"
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
