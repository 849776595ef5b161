package placement

import (
	"bytes"
	"maps"
	"math"
	"slices"
)

// Anew says whether the subsets of the two placements have nothing to do with each other, so that going
// from one to the other moves every tenant but for chance: another scheme, key or level; under HMACv1
// another number of shards, or one that both have at another place of the list; under BoundedV1 other
// shards or another number that two tenants may share.
func Anew(from, to *Placer) bool {
	if from.scheme != to.scheme || !bytes.Equal(from.mac.inner, to.mac.inner) {
		return true
	}
	switch from.scheme {
	case HMACv1:
		if len(from.list) != len(to.list) {
			return true
		}
		place := make(map[string]int, len(from.list))
		for i, s := range from.list {
			place[s.ID] = i
		}
		for i, s := range to.list {
			if was, both := place[s.ID]; both && was != i {
				return true
			}
		}
		return false
	case BoundedV1:
		return from.maxShared != to.maxShared || from.bounded.stripes() != to.bounded.stripes() || !sameShards(from.list, to.list)
	}
	return false
}

// sameShards compares ids and zones, in any order.
func sameShards(a, b []Shard) bool {
	zone := make(map[string]string, len(a))
	for _, s := range a {
		zone[s.ID] = s.Zone
	}
	for _, s := range b {
		if z, ok := zone[s.ID]; !ok || z != s.Zone {
			return false
		}
	}
	return len(a) == len(b)
}

// Growth is what a tenant goes through, on average, when it leaves one placement for another. A place is a
// membership of one shard.
type Growth struct {
	Anew     bool    // the subsets are unrelated
	Ideal    float64 // new places that no scheme could spare a tenant, if each shard is to have its fair share
	Expected float64 // new places that these placements give it
}

// Extra is the new places beyond the ideal. Zones that are unequal make it positive, when a shard comes to
// a small one, or negative, when it comes to a large one and gets less than its fair share. The first shard of
// a new zone is the extreme: it serves as much as a whole zone, which beside three zones of four shards is one
// member of half of all tenants when k is 2, where a fair share were 2 of 13.
func (g Growth) Extra() float64 { return g.Expected - g.Ideal }

// Grow compares two placements, by the ids of their shards. For one shard added to n, all alike, both
// figures are k/(n+1), which is the part of the tenants that move.
//
// Expected is exact where each shard can only gain tenants or only lose some: when shards are added, or
// taken out, or weights or k changed in one direction. Where several such changes cross it is the least
// that the shares on both sides allow.
func Grow(from, to Subsets) Growth {
	g := Growth{
		Anew:  Anew(from.placer, to.placer),
		Ideal: LeastMoved(from.byID(from.Fair()), to.byID(to.Fair())),
	}
	before, after := from.byID(from.Shares()), to.byID(to.Shares())
	if !g.Anew {
		g.Expected = LeastMoved(before, after)
		return g
	}
	for _, id := range slices.Sorted(maps.Keys(after)) { // in one order, so that the sum is one
		g.Expected += after[id] * (1 - before[id])
	}
	return g
}

// LeastMoved is how many new places a tenant gets at the least, on average, when the shares of the shards,
// by their names, become others: what a shard has more of must have come to it.
func LeastMoved(before, after map[string]float64) float64 {
	var moved float64
	for _, id := range slices.Sorted(maps.Keys(after)) { // in one order, so that the sum is one
		moved += math.Max(0, after[id]-before[id])
	}
	return moved
}

func (s Subsets) byID(shares []float64) map[string]float64 {
	named := make(map[string]float64, len(shares))
	for i, share := range shares {
		named[s.placer.list[i].ID] = share
	}
	return named
}
