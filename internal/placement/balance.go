package placement

import (
	"math"
	"slices"
)

// Shares returns for each shard the chance that it is a member of a tenant's subset, which is also the
// part of all tenants that it is to have. They sum to k.
//
// Under RendezvousV1 a zone has as many members as every other while it has shards for them, so the shards
// of a small zone have more than those of a large one. With weights a share is an integral, whose value is
// right to nine places; it takes time and memory in the order of the zone's shards times its members.
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

// shares is the chance of each position to be among the first c.
func (r *ranking) shares(c int) []float64 {
	n := len(r.words)
	shares := make([]float64, n)
	switch {
	case c == 0:
	case r.weights == nil || c == n:
		for at := range shares {
			shares[at] = float64(c) / float64(n)
		}
	default:
		r.race(c, shares)
	}
	return shares
}

// race integrates over the time t at which a shard arrives: it is among the first c when fewer than c of
// the others came before, each of which did with probability 1-exp(-w·t). The integral is a sum over equal
// steps of log t, which converges as fast as the functions fall off at both ends.
func (r *ranking) race(c int, shares []float64) {
	const step = 1.0 / 8
	total, least := 0.0, math.Inf(1)
	for at := range r.words {
		w := float64(r.weight(at))
		total += w
		least = min(least, w)
	}
	// Before the first step nobody came (once in 10^11), after the last everybody did.
	from, to := math.Log(1e-11/total), math.Log(50/least)
	n := len(r.words)
	came := make([]float64, n)
	before := make([]float64, n*c) // before[at*c+m]: m of the positions below at came
	after := make([]float64, c)    // after[m]: m or fewer of the positions above
	for x := from; x <= to; x += step {
		t := math.Exp(x)
		row := make([]float64, c)
		row[0] = 1
		for at := range came {
			came[at] = -math.Expm1(-float64(r.weight(at)) * t)
			copy(before[at*c:], row)
			for m := c - 1; m >= 0; m-- {
				row[m] *= 1 - came[at]
				if m > 0 {
					row[m] += row[m-1] * came[at]
				}
			}
		}
		for m := range after {
			after[m] = 1
		}
		for at := n - 1; at >= 0; at-- {
			fewer := 0.0 // than c of the others came
			for m := range c {
				fewer += before[at*c+m] * after[c-1-m]
			}
			shares[at] += step * t * float64(r.weight(at)) * (1 - came[at]) * fewer
			for m := c - 1; m >= 0; m-- {
				after[m] *= 1 - came[at]
				if m > 0 {
					after[m] += after[m-1] * came[at]
				}
			}
		}
	}
}

// weight is that of the shard at a position; equal ones are 1.
func (r *ranking) weight(at int) uint64 {
	if r.weights == nil {
		return 1
	}
	return r.weights[at]
}
