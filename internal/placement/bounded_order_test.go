package placement

import (
	"slices"
	"testing"
)

// Rotating: every zone is as often the first, and after each first every other zone is as often the
// second.
func TestRotating(t *testing.T) {
	const slots = 60_000
	for _, s := range []shape{{4, 512, 4, 2}, {3, 128, 3, 2}, {3, 128, 6, 2}, {7, 49, 3, 2}} {
		p := s.placer(t, "a fixed key is the seed")
		first, pairs := make([]int, s.zones), make([]int, s.zones*s.zones)
		for slot := range uint64(slots) {
			subset := bySlot(t, p, 2, slot+1)
			a, b := subset[0]/s.size, subset[1]/s.size
			first[a]++
			pairs[a*s.zones+b]++
		}
		var apart []int
		for i, n := range pairs {
			if i/s.zones != i%s.zones {
				apart = append(apart, n)
			} else if n != 0 {
				t.Errorf("%s: zone %d is second to itself", s, i%s.zones)
			}
		}
		// All slots together are even: a sample of so large a part of them varies by that much less.
		rest := 1 - slots/float64(p.Slots())
		checkChiSquare(t, first, slots, len(first)-1, rest)
		checkChiSquare(t, apart, slots, len(apart)-1, rest)
	}
}

// Rotating, over all slots of small topologies: two zones differ by one row of slots as the first, and by a
// row for each part of a zone as the second. That is what coarse comes to, and nothing is coarser.
func TestRotatingByRows(t *testing.T) {
	for _, s := range []shape{{3, 3, 3, 1}, {5, 5, 5, 1}, {3, 4, 3, 1}, {4, 9, 4, 1}, {3, 3, 3, 0}, {2, 5, 2, 1}, {4, 4, 4, 2}, {3, 16, 6, 1}, {3, 16, 6, 2}, {2, 21, 6, 2}, {3, 14, 6, 1}} {
		p := s.placer(t, "k")
		first, pairs := make([]int, s.zones), make([]int, s.zones*s.zones)
		for slot := range p.Slots() {
			subset := bySlot(t, p, 2, slot+1)
			a, b := subset[0]/s.size, subset[1]/s.size
			first[a]++
			pairs[a*s.zones+b]++
		}
		var apart []int
		for i, n := range pairs {
			if i/s.zones != i%s.zones {
				apart = append(apart, n)
			}
		}
		row := s.q()
		if s.t == 0 {
			row = 1
		}
		t.Logf("%s: first %v, first and second %v", s, first, apart)
		if least, most := slices.Min(first), slices.Max(first); most-least > row {
			t.Errorf("%s: zones are the first of %d to %d subsets, want %d apart at most", s, least, most, row)
		}
		parts := s.stripes() / s.zones
		if least, most := slices.Min(apart), slices.Max(apart); most-least > parts*row {
			t.Errorf("%s: after a first zone, another is the second of %d to %d subsets, want %d apart at most", s, least, most, parts*row)
		}
	}
}

// Rotating: where zones are cut, a part of one zone goes with every part of the others. By how often is up
// to chance, with a few hundred groups of rows; half of the mean is six standard deviations away.
func TestRotatingParts(t *testing.T) {
	const slots = 20_000
	s := shape{3, 128, 6, 2}
	p := s.placer(t, "k")
	counts := map[[3]int]int{}
	for slot := range uint64(slots) {
		var parts [3]int
		for _, shard := range bySlot(t, p, 3, slot+1) {
			parts[shard/128] = shard % 128 / 64
		}
		counts[parts]++
	}
	for parts, n := range counts {
		if n < slots/8/2 {
			t.Errorf("parts %v go together %d times, want about %d", parts, n, slots/8)
		}
	}
	if len(counts) != 8 {
		t.Errorf("%d of 8 choices of parts occur: %v", len(counts), counts)
	}
}
