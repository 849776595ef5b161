package placement

import (
	"errors"
	"slices"
	"testing"
)

// FuzzBounded: whatever the shape, it is refused with a known error or places any two slots within the
// bound, each with a whole subset.
func FuzzBounded(f *testing.F) {
	f.Add([]byte("k"), uint8(4), uint16(512), int8(4), int8(2), uint64(1), uint64(134_217_728))
	f.Add([]byte("k"), uint8(3), uint16(14), int8(6), int8(1), uint64(49), uint64(50))
	f.Add([]byte("k"), uint8(16), uint16(16), int8(16), int8(14), uint64(0), uint64(1)<<60)
	f.Add([]byte{0}, uint8(1), uint16(1), int8(-1), int8(-1), uint64(1), uint64(1))
	f.Fuzz(func(t *testing.T, key []byte, zones uint8, size uint16, k, shares int8, one, two uint64) {
		s := shape{int(zones%20) + 1, int(size%1100) + 1, int(k), int(shares)}
		p, err := New(Config{Scheme: BoundedV1, Key: key, Shards: s.shards(), MaxShared: s.t, MaxPerTenant: s.k})
		if err != nil {
			if p != nil || !errors.Is(err, ErrStripes) && !errors.Is(err, ErrPerTenant) && !errors.Is(err, ErrMaxShared) && !errors.Is(err, ErrEmptyKey) {
				t.Fatalf("%s: %v, %v", s, p, err)
			}
			return
		}
		set, err := p.PerTenant(s.k)
		if err != nil {
			t.Fatal(s, err)
		}
		var subsets [][]int
		for _, slot := range []uint64{one, two, one%p.Slots() + 1, two%p.Slots() + 1} {
			subset, err := set.Append([]int{-1}, Tenant{Slot: slot})
			if (err == nil) != (slot >= 1 && slot <= p.Slots()) {
				t.Fatalf("%s: slot %d of %d: %v", s, slot, p.Slots(), err)
			}
			if err != nil {
				if !slices.Equal(subset, []int{-1}) {
					t.Fatalf("%s: slot %d: %v and %v", s, slot, subset, err)
				}
				continue
			}
			checkComplete(t, subset[1:], s.zones*s.size, s.k)
			subsets = append(subsets, subset[1:])
		}
		a, b := subsets[len(subsets)-2], subsets[len(subsets)-1]
		if n := shared(a, b); n > s.t && one%p.Slots() != two%p.Slots() {
			t.Fatalf("%s: slots %d and %d share %d", s, one%p.Slots()+1, two%p.Slots()+1, n)
		}
	})
}
