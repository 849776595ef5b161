package wave

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// seeded draws, and logs how to draw the same again.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// cellsOf are n cells with sizes of 0 to most.
func cellsOf(r *rand.Rand, n, most int) []Cell {
	cells := make([]Cell, n)
	for i := range cells {
		cells[i] = Cell{fmt.Sprintf("c%03d", i), r.IntN(most + 1)}
	}
	return cells
}

func namesOf(cells []Cell) []string {
	names := make([]string, len(cells))
	for i, c := range cells {
		names[i] = c.Name
	}
	return names
}

// percents are n waves that end at 100.
func percents(n int) []Entry {
	entries := make([]Entry, n)
	for i := range entries {
		entries[i].Percent = (i + 1) * 100 / n
	}
	return entries
}

// lists cuts cells into n waves at random places.
func lists(r *rand.Rand, cells []string, n int) []Entry {
	cuts := append(r.Perm(len(cells) - 1)[:n-1], len(cells)-1)
	slices.Sort(cuts)
	var entries []Entry
	from := 0
	for _, c := range cuts {
		entries = append(entries, Entry{Cells: cells[from : c+1]})
		from = c + 1
	}
	return entries
}

// each calls do for every number of waves from 1 to 20 and of cells from as many to 200, for waves by percents, by
// lists, and by both, of cells in any order.
func each(t *testing.T, do func(cells []Cell, entries []Entry, waves []Wave)) {
	t.Helper()
	r := seeded(t)
	for w := 1; w <= 20; w++ {
		for n := w; n <= 200; n++ {
			cells := cellsOf(r, n, []int{0, 1, 1000}[(w+n)%3])
			shuffled := namesOf(cells)
			r.Shuffle(n, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			shapes := [][]Entry{percents(w), lists(r, shuffled, w)}
			if w > 1 { // lists of some cells, among the percents that take the others, of which 100 is the last
				few := 1 + r.IntN(w-1)
				both := percents(w - few)
				for _, list := range lists(r, shuffled[:few+r.IntN(n-w+1)], few) {
					both = slices.Insert(both, r.IntN(len(both)), list)
				}
				shapes = append(shapes, both)
			}
			for _, entries := range shapes {
				waves, err := Plan(cells, entries)
				if err != nil {
					t.Fatalf("%d cells, %+v: %v", n, entries, err)
				}
				if len(waves) != len(entries) {
					t.Fatalf("%d cells, %+v: %d waves", n, entries, len(waves))
				}
				do(cells, entries, waves)
			}
		}
	}
}

func TestOnce(t *testing.T) {
	each(t, func(cells []Cell, entries []Entry, waves []Wave) {
		var inWaves, inBatches []string
		for _, w := range waves {
			if len(w.Cells) == 0 {
				t.Fatalf("%+v: an empty wave", entries)
			}
			inWaves = append(inWaves, w.Cells...)
			for _, b := range w.Batches {
				if len(b) == 0 {
					t.Fatalf("%+v: an empty batch", entries)
				}
				inBatches = append(inBatches, b...)
			}
		}
		slices.Sort(inWaves)
		slices.Sort(inBatches)
		if all := namesOf(cells); !slices.Equal(inWaves, all) || !slices.Equal(inBatches, all) {
			t.Fatalf("%+v: waves have %v, batches %v", entries, inWaves, inBatches)
		}
		if last := waves[len(waves)-1]; last.Reached != last.Of {
			t.Fatalf("%+v: %d of %d reached", entries, last.Reached, last.Of)
		}
	})
	r := seeded(t)
	for range 200 {
		shards := shardsOf(r, 1+r.IntN(64), 1+r.IntN(4))
		var in []Shard
		for _, s := range Stages(shards, nobody) {
			for _, id := range s.Shards {
				in = append(in, Shard{id, s.Zone})
			}
		}
		byID := func(a, b Shard) int { return slices.Compare([]byte(a.ID), []byte(b.ID)) }
		slices.SortFunc(in, byID)
		slices.SortFunc(shards, byID)
		if !slices.Equal(in, shards) {
			t.Fatalf("%v are in stages as %v", shards, in)
		}
	}
}

func TestOrdered(t *testing.T) {
	each(t, func(_ []Cell, entries []Entry, waves []Wave) {
		var taken []string
		for i, w := range waves {
			if entries[i].Percent != 0 {
				taken = append(taken, w.Cells...)
			} else if !slices.Equal(w.Cells, entries[i].Cells) {
				t.Fatalf("%v is listed, and the wave is %v", entries[i].Cells, w.Cells)
			}
			if joined := slices.Concat(w.Batches...); !slices.Equal(joined, w.Cells) {
				t.Fatalf("wave %v has batches %v", w.Cells, w.Batches)
			}
		}
		if !slices.IsSorted(taken) { // names rise in the order of the fleet
			t.Fatalf("%+v: percents take %v", entries, taken)
		}
	})
}

func TestWithin(t *testing.T) {
	each(t, func(cells []Cell, entries []Entry, waves []Wave) {
		size := map[string]int{}
		total := 0
		for _, c := range cells {
			size[c.Name] = c.Size
			total += c.Size
		}
		if total == 0 {
			for name := range size {
				size[name] = 1
			}
			total = len(cells)
		}
		reached := 0
		for i, w := range waves {
			for _, name := range w.Cells {
				reached += size[name]
			}
			if w.Reached != reached || w.Of != total {
				t.Fatalf("wave %d reaches %d of %d, want %d of %d", i, w.Reached, w.Of, reached, total)
			}
			percent := entries[i].Percent
			if percent == 0 {
				continue
			}
			if reached*100 > percent*total && len(w.Cells) > 1 {
				t.Fatalf("wave %d of %d%% has %v and reaches %d of %d", i, percent, w.Cells, reached, total)
			}
			var after []string // that percents take later, and how many waves do
			later := 0
			for j := i + 1; j < len(waves); j++ {
				if entries[j].Percent != 0 {
					after = append(after, waves[j].Cells...)
					later++
				}
			}
			if len(after) > later && (reached+size[after[0]])*100 <= percent*total {
				t.Fatalf("wave %d of %d%% has %v, and %s would be within it", i, percent, w.Cells, after[0])
			}
		}
	})
}

func TestThird(t *testing.T) {
	each(t, func(cells []Cell, entries []Entry, waves []Wave) {
		for _, w := range waves {
			for _, b := range w.Batches {
				if len(b) > 1 && 3*len(b) > len(cells) {
					t.Fatalf("%d of %d cells at once: %v", len(b), len(cells), b)
				}
			}
			most := max(1, len(cells)/3)
			if fewest := (len(w.Cells) + most - 1) / most; len(w.Batches) != fewest {
				t.Fatalf("%d cells of %d in %d batches, and %d would do", len(w.Cells), len(cells), len(w.Batches), fewest)
			}
		}
	})
}

// shardsOf are n shards in at most as many zones, which need not be dealt evenly.
func shardsOf(r *rand.Rand, n, zones int) []Shard {
	shards := make([]Shard, n)
	for i := range shards {
		shards[i] = Shard{fmt.Sprintf("s%02d", i), string(rune('a' + r.IntN(zones)))}
	}
	return shards
}

func nobody(func([]int) bool) {}

func TestOneZone(t *testing.T) {
	r := seeded(t)
	for range 500 {
		shards := shardsOf(r, 1+r.IntN(32), 1+r.IntN(4))
		inZone := map[string][]int{}
		for i, s := range shards {
			inZone[s.Zone] = append(inZone[s.Zone], i)
		}
		spread := make([][]int, 100) // of tenants with one shard in each of some zones
		for i := range spread {
			for _, zone := range slices.Sorted(maps.Keys(inZone)) {
				if r.IntN(2) == 0 {
					spread[i] = append(spread[i], inZone[zone][r.IntN(len(inZone[zone]))])
				}
			}
		}
		stages := Stages(shards, slices.Values(spread))
		if len(stages) != len(inZone) {
			t.Fatalf("%d stages in %d zones", len(stages), len(inZone))
		}
		for _, s := range stages {
			var ids []string
			for _, i := range inZone[s.Zone] {
				ids = append(ids, shards[i].ID)
			}
			if !slices.Equal(s.Shards, ids) {
				t.Fatalf("stage %s has %v, want %v", s.Zone, s.Shards, ids)
			}
			if s.Twice != 0 {
				t.Fatalf("%d tenants with one shard a zone have two in stage %s", s.Twice, s.Zone)
			}
		}
	}
}

func TestCounted(t *testing.T) {
	// Every pair of m shards in each of two zones: m(m-1)/2 pairs lie in each, and m² have one in both.
	for m := 1; m <= 12; m++ {
		var shards []Shard
		var pairs [][]int
		for i := range 2 * m {
			shards = append(shards, Shard{fmt.Sprint(i), string(rune('a' + i%2))})
			for j := range i {
				pairs = append(pairs, []int{i, j})
			}
		}
		inOne := m * (m - 1) / 2
		got := Stages(shards, slices.Values(pairs))
		if got[0].Whole != inOne || got[0].Twice != inOne || got[1].Whole != 2*inOne+m*m || got[1].Twice != inOne {
			t.Errorf("m = %d: %+v", m, got)
		}
	}
	r := seeded(t)
	for range 300 {
		shards := shardsOf(r, 1+r.IntN(16), 1+r.IntN(4))
		subsets := make([][]int, r.IntN(50))
		for i := range subsets {
			subsets[i] = r.Perm(len(shards))[:r.IntN(len(shards)+1)]
		}
		done := map[string]bool{}
		for _, s := range Stages(shards, slices.Values(subsets)) {
			done[s.Zone] = true
			whole, twice := 0, 0
			for _, subset := range subsets {
				old, here := 0, 0
				for _, i := range subset {
					if !done[shards[i].Zone] {
						old++
					}
					if shards[i].Zone == s.Zone {
						here++
					}
				}
				if old == 0 && len(subset) > 0 {
					whole++
				}
				if here >= 2 {
					twice++
				}
			}
			if s.Whole != whole || s.Twice != twice {
				t.Fatalf("stage %s of %v, subsets %v: %d whole and %d twice, want %d and %d", s.Zone, shards, subsets, s.Whole, s.Twice, whole, twice)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	cells := []Cell{{"a", 4}, {"b", 16}, {"c", 16}}
	list := func(names ...string) Entry { return Entry{Cells: names} }
	upTo := func(p int) Entry { return Entry{Percent: p} }
	for _, c := range []struct {
		entries []Entry
		want    error
	}{
		{[]Entry{list("a", "b"), list("d")}, ErrUnknownCell},
		{[]Entry{list("a", "b"), list("b", "c")}, ErrTwice},
		{[]Entry{list("a", "a"), upTo(100)}, ErrTwice},
		{[]Entry{list("a"), list("b")}, ErrLeftOut},
		{[]Entry{list("a"), upTo(50)}, ErrLeftOut},
		{nil, ErrLeftOut},
		{[]Entry{list(), upTo(100)}, ErrEmpty},
		{[]Entry{upTo(10), upTo(20), upTo(30), upTo(100)}, ErrEmpty},
		{[]Entry{upTo(50), upTo(50)}, ErrPercent},
		{[]Entry{upTo(101)}, ErrPercent},
		{[]Entry{upTo(-1)}, ErrPercent},
		{[]Entry{{Cells: []string{"a"}, Percent: 100}}, ErrBoth},
	} {
		if waves, err := Plan(cells, c.entries); !errors.Is(err, c.want) || waves != nil {
			t.Errorf("%+v: %v, %v, want %v", c.entries, waves, err, c.want)
		}
	}
	if _, err := Plan([]Cell{{"a", 1}, {"a", 1}}, []Entry{upTo(100)}); !errors.Is(err, ErrTwice) {
		t.Errorf("a cell twice: %v", err)
	}
	// More waves than cells are refused, whatever their number.
	for w := 2; w <= 20; w++ {
		for n := 1; n < w; n++ {
			few := make([]Cell, n)
			for i := range few {
				few[i] = Cell{fmt.Sprint(i), 1}
			}
			if _, err := Plan(few, percents(w)); !errors.Is(err, ErrEmpty) {
				t.Errorf("%d waves of %d cells: %v", w, n, err)
			}
		}
	}
}
