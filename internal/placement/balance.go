package placement

import (
	"math"
	"slices"
)

// Shares returns for each shard the chance that it is a member of a tenant's subset, which is also the
// part of all tenants that it is to have. They sum to k.
//
// Under RendezvousV1 a zone has as many members as every other while it has shards for them, so the shards
// of a small zone have more than those of a large one. With weights a share is an integral, calculated to
// nine decimal places. Time grows with the square of a zone's shards, or with their number times that of
// their different weights where that is more; memory with their number. A zone of 1,000 shards takes some tens
// of milliseconds, one of MaxShards several seconds.
func (s Subsets) Shares() []float64 {
	p := s.placer
	if p.scheme != RendezvousV1 {
		return s.even()
	}
	shares := make([]float64, p.shards)
	sp, longer := &p.rendezvous, 0 // zones that have a shard for one member more
	for _, size := range sp.sizes {
		if size > s.deal.full {
			longer++
		}
	}
	for z := range sp.zones {
		zone, full := &sp.zones[z], min(sp.sizes[z], s.deal.full)
		for at, share := range zone.shares(full) {
			shares[zone.indices[at]] = share
		}
		if sp.sizes[z] <= s.deal.full || s.deal.rest == 0 {
			continue
		}
		one := float64(s.deal.rest) / float64(longer) // the chance of one member more
		for at, share := range zone.shares(full + 1) {
			i := zone.indices[at]
			shares[i] += one * (share - shares[i])
		}
	}
	return shares
}

func (s Subsets) even() []float64 {
	return slices.Repeat([]float64{float64(s.k) / float64(s.placer.shards)}, s.placer.shards)
}

// Fair returns what each shard would have if only weights counted and no zones: k/n each when they are
// equal, else in proportion to them, up to 1, since no shard can serve a tenant twice.
func (s Subsets) Fair() []float64 {
	p := s.placer
	if p.scheme != RendezvousV1 {
		return s.even()
	}
	weights := make([]float64, p.shards)
	order := make([]int, p.shards)
	total := 0.0
	for z := range p.rendezvous.zones {
		zone := &p.rendezvous.zones[z]
		for at, i := range zone.indices {
			weights[i] = float64(zone.weight(at))
			total += weights[i]
		}
	}
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(weights[b] - weights[a]) })
	fair, left := make([]float64, p.shards), float64(s.k)
	for _, i := range order { // the heaviest first: what one has above 1, goes to the others
		fair[i] = min(1, left*weights[i]/total)
		left -= fair[i]
		total -= weights[i]
	}
	return fair
}

// Balance is how far the shards of a placement are from their fair shares.
type Balance struct {
	Most, Least           float64 // the largest and the smallest share, as a multiple of the fair one: 1 is even
	MostShard, LeastShard int     // index of a shard that has it
}

// Balance compares Shares with Fair. Only zones that are unequal, by their number of shards or by weight,
// and weights make it uneven.
func (s Subsets) Balance() Balance {
	b := Balance{Most: math.Inf(-1), Least: math.Inf(1)}
	fair := s.Fair()
	for i, share := range s.Shares() {
		ratio := share / fair[i]
		if ratio > b.Most {
			b.Most, b.MostShard = ratio, i
		}
		if ratio < b.Least {
			b.Least, b.LeastShard = ratio, i
		}
	}
	return b
}

// weight is that of the shard at a position; equal ones are 1.
func (r *ranking) weight(at int) uint64 {
	if r.weights == nil {
		return 1
	}
	return r.weights[at]
}
