// Package wave says in which order a change reaches the cells of a fleet, and the shards of each cell.
//
// # Guarantees
//
// Each is held by the test of the same name.
//
//  1. Once: each cell is in exactly one wave and in one batch of it, and each shard in one stage of its cell.
//  2. Ordered: cells that a percent takes come in the order of the fleet, over all waves; cells that a wave lists
//     stay in the order of the list. The batches of a wave, one after the other, are the wave.
//  3. Within: after a wave of a percent no more than that percent is reached, unless the wave has one cell alone.
//     It has as many as that allows, but for those that later waves need to have one each.
//  4. Third: no more than a third of the fleet's cells, or one, are in a batch.
//  5. OneZone: a stage lies in one zone and has all shards of it. A tenant with one shard in each of its zones
//     never has two of them in a stage.
//  6. Counted: the tenants that a stage leaves whole on the new version, and those with two shards in it, are
//     counted, not estimated.
//  7. Refused: waves that name an unknown cell, or one twice, that leave one out, or that are empty are errors.
package wave

import (
	"errors"
	"fmt"
	"slices"
)

// Cell is what waves need to know of a cell.
type Cell struct {
	Name string
	Size int // its share of the fleet: tenants, or shards until tenants are known; 0 or more
}

// Entry says which cells are in a wave: those of the list, or as many as stay within a percentage.
type Entry struct {
	Cells   []string
	Percent int // 1 to 100, cumulative over the sizes of all cells; 0: the list
}

// Wave is the cells that are deployed, and have baked, before the next wave begins.
type Wave struct {
	Cells   []string
	Batches [][]string // the same cells: those of a batch go at once, and the next batch when they have baked
	Reached int        // size of all cells of this wave and those before
	Of      int        // size of the fleet, at least 1
}

// Errors of Plan. They come wrapped with what was found; test with errors.Is.
var (
	ErrUnknownCell = errors.New("the fleet has no such cell")
	ErrTwice       = errors.New("a cell is in one wave")
	ErrLeftOut     = errors.New("the waves must reach every cell")
	ErrEmpty       = errors.New("a wave deploys something")
	ErrPercent     = errors.New("percents are 1 to 100 and rise")
	ErrBoth        = errors.New("a wave has a list or a percent")
)

// Plan returns the waves, or the first rule that they break.
func Plan(cells []Cell, entries []Entry) ([]Wave, error) {
	listed := map[string]bool{}
	for _, c := range cells {
		if _, again := listed[c.Name]; again {
			return nil, fmt.Errorf("cell %q is twice in the fleet: %w", c.Name, ErrTwice)
		}
		listed[c.Name] = false
	}
	percent := 0
	for i, e := range entries {
		if e.Percent != 0 {
			if len(e.Cells) > 0 {
				return nil, fmt.Errorf("wave %d has both: %w", i+1, ErrBoth)
			}
			if e.Percent <= percent || e.Percent > 100 {
				return nil, fmt.Errorf("wave %d has percent %d after %d: %w", i+1, e.Percent, percent, ErrPercent)
			}
			percent = e.Percent
		}
		for _, name := range e.Cells {
			before, known := listed[name]
			if !known {
				return nil, fmt.Errorf("wave %d names %q: %w", i+1, name, ErrUnknownCell)
			}
			if before {
				return nil, fmt.Errorf("wave %d names %q again: %w", i+1, name, ErrTwice)
			}
			listed[name] = true
		}
	}
	waves, left := Resolve(cells, entries)
	for i, w := range waves {
		if len(w.Cells) == 0 {
			return nil, fmt.Errorf("no cell is left for wave %d: %w", i+1, ErrEmpty)
		}
	}
	if len(left) > 0 {
		return nil, fmt.Errorf("%q is in no wave: %w", left, ErrLeftOut)
	}
	return waves, nil
}

// Resolve returns the waves of entries that need not be right, and the names of the cells that none reaches. A wave
// for which no cell is left is empty.
//
// A percent takes cells in the order given, from those that no wave lists, as long as what is reached, in this wave
// and those before, stays within that share of all. It takes one at least, and leaves one for each later percent.
// When no cell has a size, all count alike.
func Resolve(cells []Cell, entries []Entry) (waves []Wave, left []string) {
	size := make(map[string]int, len(cells))
	total := 0
	for _, c := range cells {
		size[c.Name] = c.Size
		total += c.Size
	}
	if total == 0 {
		for _, c := range cells {
			size[c.Name] = 1
		}
		total = len(cells)
	}
	listed := map[string]bool{}
	later := 0 // waves of a percent that are still to come
	for _, e := range entries {
		for _, name := range e.Cells {
			listed[name] = true
		}
		if e.Percent != 0 {
			later++
		}
	}
	for _, c := range cells {
		if !listed[c.Name] {
			left = append(left, c.Name)
		}
	}
	reached := 0
	for _, e := range entries {
		in := slices.Clone(e.Cells)
		for _, name := range e.Cells {
			reached += size[name]
		}
		if e.Percent != 0 {
			later--
			for len(left) > 0 && (len(in) == 0 || len(left) > later && (reached+size[left[0]])*100 <= e.Percent*total) {
				reached += size[left[0]]
				in, left = append(in, left[0]), left[1:]
			}
		}
		waves = append(waves, Wave{Cells: in, Batches: batches(in, AtOnce(len(cells))), Reached: reached, Of: max(1, total)})
	}
	return waves, left
}

// AtOnce is how many cells of a fleet of n may be deployed or baking at once: a third, rounded down, and one at least.
func AtOnce(n int) int { return max(1, n/3) }

// batches cuts a wave into as few parts of at most most cells as there can be, as even as they can be.
func batches(cells []string, most int) [][]string {
	parts := (len(cells) + most - 1) / most
	out := make([][]string, parts)
	for i := range out {
		out[i] = cells[i*len(cells)/parts : (i+1)*len(cells)/parts : (i+1)*len(cells)/parts]
	}
	return out
}
