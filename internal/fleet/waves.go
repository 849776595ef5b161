package fleet

import (
	"time"

	"cellwall.dev/cellwall/internal/wave"
)

// ResolvedWave is a wave with the cells that it reaches.
type ResolvedWave struct {
	Cells []string      // names, at least one
	Bake  time.Duration // watched wait after each stage of the wave
	Share Percent       // of the fleet's shards, reached after this wave, rounded down
}

// Resolve returns the waves with their cells, each cell of the fleet in exactly one wave, by the rule of
// wave.Resolve over the cells' shards.
func (f *Fleet) Resolve() []ResolvedWave {
	waves, _ := resolve(f.Cells, f.Rollout.Waves)
	return waves
}

// WaveEntries are the waves as the fleet file has them, for a plan by other sizes than shards.
func (f *Fleet) WaveEntries() []wave.Entry { return waveEntries(f.Rollout.Waves) }

func waveEntries(waves []Wave) []wave.Entry {
	entries := make([]wave.Entry, len(waves))
	for i, w := range waves {
		entries[i].Cells = w.Cells
		if w.Percent != nil {
			entries[i].Percent = *w.Percent
		}
	}
	return entries
}

// resolve returns the waves and the names of the cells that none reaches. A wave for which no cell is
// left is empty.
func resolve(cells []Cell, waves []Wave) (out []ResolvedWave, left []string) {
	sizes := make([]wave.Cell, len(cells))
	for i, c := range cells {
		sizes[i] = wave.Cell{Name: c.Name, Size: len(c.Shards)}
	}
	resolved, left := wave.Resolve(sizes, waveEntries(waves))
	for i, w := range resolved {
		out = append(out, ResolvedWave{Cells: w.Cells, Bake: waves[i].Bake, Share: Percent(w.Reached * 10_000 / w.Of)})
	}
	return out, left
}
