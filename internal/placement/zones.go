package placement

import (
	"fmt"
	"slices"
)

// MaxZones is the largest number of zones under rendezvous/v1, ten times those of any region. It keeps a
// tenant's order of the zones on the stack.
const MaxZones = 64

// spread is rendezvous/v1: a tenant has an order of the zones, and in each zone an order of the shards.
// Its members are the first of each zone, then the second of each, and so on; a zone that has no more is
// left out.
//
// That is what keeps changes small. The members are the first k of a table with a row for each round and
// a column for each zone. One shard more adds one cell to it, which can push out the k-th cell and no
// other; and in a column it can take one place, whose holder and those after it move down by one.
type spread struct {
	order ranking   // of the zones
	zones []ranking // parallel to order.words
	sizes []int     // of the zones, parallel
}

func newSpread(m *mac, shards []Shard) (spread, error) {
	byZone := map[string][]int{}
	var names []string
	for i, s := range shards {
		if byZone[s.Zone] == nil {
			names = append(names, s.Zone)
		}
		byZone[s.Zone] = append(byZone[s.Zone], i)
	}
	if len(names) > MaxZones {
		return spread{}, fmt.Errorf("%w: %d, want at most %d", ErrZones, len(names), MaxZones)
	}
	slices.Sort(names) // so that equal scores go to the name that is first in byte order
	var s spread
	for _, name := range names {
		s.order.words = append(s.order.words, m.word(name, zoneSuffix))
		s.zones = append(s.zones, newRanking(m, shards, byZone[name]))
		s.sizes = append(s.sizes, len(byZone[name]))
	}
	return s, nil
}

// deal is how the members fall to the zones: full from each, or all that it has, and one more from rest
// zones, the first in the tenant's order that have one.
type deal struct{ full, rest int }

// deal says how many rounds of k members are whole, and how many members are left for the round after
// them.
func (s *spread) deal(k int) deal {
	var r deal
	for given := 0; ; r.full++ {
		round := 0
		for _, size := range s.sizes {
			if size > r.full {
				round++
			}
		}
		if r.rest = k - given; r.rest < round || round == 0 {
			return r
		}
		given += round
	}
}

// append appends the tenant's k members. 1 <= k <= the number of shards; r is s.deal(k).
func (s *spread) append(dst []int, m *mac, tenant string, k int, r deal) []int {
	t := newPoint(m, tenant)
	if len(s.zones) == 1 {
		return s.zones[0].appendTop(dst, t, k)
	}
	var room [MaxZones]int
	order := s.order.appendPositions(room[:0], t, min(k, len(s.zones)))
	if k <= len(s.zones) { // one of each
		for _, z := range order {
			dst = s.zones[z].appendTop(dst, t, 1)
		}
		return dst
	}
	if k > scanned {
		return s.appendMany(dst, t, order, k, r)
	}
	var blocks [scanned]uint16
	return s.appendRounds(dst, t, order, r, blocks[:k])
}

// appendMany keeps its 128 KiB off the stacks of those who ask for few members.
//
//go:noinline
func (s *spread) appendMany(dst []int, t point, order []int, k int, r deal) []int {
	var blocks [MaxShards]uint16
	return s.appendRounds(dst, t, order, r, blocks[:k])
}

// appendRounds appends the members of all zones, zone by zone, and then deals them round.
func (s *spread) appendRounds(dst []int, t point, order []int, r deal, blocks []uint16) []int {
	var ends [MaxZones]int // of each zone's members in blocks
	start, rest := len(dst), r.rest
	for p, z := range order {
		take := min(s.sizes[z], r.full)
		if s.sizes[z] > r.full && rest > 0 {
			take++
			rest--
		}
		if take > 0 {
			dst = s.zones[z].appendTop(dst, t, take)
		}
		ends[p] = len(dst) - start
	}
	for j, member := range dst[start:] {
		blocks[j] = uint16(member)
	}
	for at, round := start, 0; at < len(dst); round++ {
		from := 0
		for p := range order {
			if from+round < ends[p] {
				dst[at] = int(blocks[from+round])
				at++
			}
			from = ends[p]
		}
	}
	return dst
}
