package placement

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrStripes says that BoundedV1 cannot cut the shards into equal stripes that suit it. The text tells
// which numbers of shards would do.
var ErrStripes = errors.New("shards do not make equal stripes")

// striping is how shards lie in stripes.
type striping struct {
	zones, parts, q int
	shards          []uint16 // indices of the shards: zone by zone, in a zone in byte order of their ids
}

// newStriping makes one stripe of each zone, or as many equal ones as it takes for k members. Zones come
// in byte order of their names.
func newStriping(shards []Shard, k int) (striping, error) {
	s := striping{shards: make([]uint16, len(shards))}
	if k < 1 || k > len(shards) {
		return striping{}, fmt.Errorf("%w: at most %d of %d shards, want 1 to %d", ErrPerTenant, k, len(shards), len(shards))
	}
	for i := range s.shards {
		s.shards[i] = uint16(i)
	}
	slices.SortFunc(s.shards, func(a, b uint16) int {
		if c := strings.Compare(shards[a].Zone, shards[b].Zone); c != 0 {
			return c
		}
		return strings.Compare(shards[a].ID, shards[b].ID)
	})
	// The smallest and the largest zone, by number of shards.
	var small, large zone
	for start := 0; start < len(s.shards); s.zones++ {
		z := zone{name: shards[s.shards[start]].Zone}
		for ; start < len(s.shards) && shards[s.shards[start]].Zone == z.name; start++ {
			z.shards++
		}
		if s.zones == 0 || z.shards < small.shards {
			small = z
		}
		if z.shards > large.shards {
			large = z
		}
	}
	s.parts = (k + s.zones - 1) / s.zones
	if small.shards == large.shards && s.fits(small.shards) {
		s.q = small.shards / s.parts
		return s, nil
	}
	return striping{}, fmt.Errorf("%w: %s; %d shards per tenant in %d of them make %d stripes, each wants a prime power of shards, %d or more: %s",
		ErrStripes, found(small, large), k, s.zones, s.zones*s.parts, s.zones*s.parts, s.advice(small.shards, large.shards))
}

type zone struct {
	name   string
	shards int
}

func found(small, large zone) string {
	if small.shards == large.shards {
		return fmt.Sprintf("zones have %d shards", small.shards)
	}
	return fmt.Sprintf("zone %q has %d shards, zone %q has %d", small.name, small.shards, large.name, large.shards)
}

// fits tells whether zones of n shards can be cut.
func (s *striping) fits(n int) bool {
	q := n / s.parts
	_, _, ok := primePower(q)
	return ok && q*s.parts == n && q >= s.zones*s.parts
}

// advice names the nearest numbers of shards in a zone that fit, up to the smallest zone and from the
// largest on.
func (s *striping) advice(small, large int) string {
	var fit []string
	for n := small; n > 0; n-- {
		if s.fits(n) {
			fit = append(fit, fmt.Sprint(n))
			break
		}
	}
	for n := large; n*s.zones <= MaxShards; n++ {
		if s.fits(n) {
			fit = append(fit, fmt.Sprint(n))
			break
		}
	}
	if fit == nil {
		return fmt.Sprintf("no number of shards in each zone would do, up to %d in all", MaxShards)
	}
	return "give each zone " + strings.Join(fit, " or ")
}
