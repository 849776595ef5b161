package blast

import (
	"fmt"
	"math"
	"slices"
)

// Headroom is what shards must have free so that, after any failure of that many shards, none of the
// others is above its capacity.
type Headroom struct {
	Failed  int
	Sets    int  // sets measured
	Sampled bool // the sets were drawn; otherwise Sets is all there are

	Normal      float64 // utilisation of the shard that is used most, with nothing failed
	NormalShard int

	Worst      float64 // utilisation of the shard that is used most, after the failure that is worst for it
	WorstShard int
	WorstSet   []int   // that failure, ascending
	AtMost     float64 // no failure of that many uses a shard more than this; the Worst when all were measured

	// Needed is the capacity of each shard with which its utilisation stays at 100 % after the failure
	// that is worst for it, in the unit of the loads. It covers the failures measured.
	Needed []float64
	// Free is the share of its capacity that the fullest shard has to have free before the failure,
	// if all capacities are raised, or lowered, alike: 1 - Normal/Worst.
	Free float64
}

// Kept tells whether no shard is above its capacity, by more than rounding, after any failure measured.
func (h *Headroom) Kept() bool { return !overloaded(h.Worst, 1) }

// Headroom measures the load of every shard after each failure of that many shards: all sets while
// feasible (MaxSets, and 2^31 steps), otherwise a sample. Fewer failures need no more, since the load of
// a shard that is left never falls when another fails. ErrFailed for less than one shard or for all of
// them, ErrTooMany when it is not feasible and Sampling is zero or itself too much, ErrSampling.
//
// Loads are those of tenants and of retries after failed members. Retries after overload play no part,
// since there is none while the headroom is kept.
func (c *Capacity) Headroom(failed int, sampling Sampling) (*Headroom, error) {
	n := c.p.shards
	if failed < 1 || failed >= n {
		return nil, fmt.Errorf("%w: %d shards together of %d: want at least one, and one that is left", ErrFailed, failed, n)
	}
	sets := binomial(n, failed)
	h := &Headroom{Failed: failed, Worst: -1, Needed: slices.Clone(c.normal)}
	r := newRespread(c)
	measure := func(set []int) { h.measure(c, r, set) }
	switch steps := r.stepsPerSet(failed); {
	case sets <= MaxSets && sets*steps <= maxSteps:
		h.Sets = int(sets)
		combinations(n, failed, measure)
	case sampling == Sampling{}:
		return nil, fmt.Errorf("%w: %.4g sets of %d of %d shards: measure a sample of them", ErrTooMany, sets, failed, n)
	default:
		if err := sampling.check(); err != nil {
			return nil, err
		}
		if float64(sampling.Sets)*steps > maxSteps {
			return nil, fmt.Errorf("%w: a sample of %d sets of %d shards: draw fewer sets", ErrTooMany, sampling.Sets, failed)
		}
		h.Sets, h.Sampled = sampling.Sets, true
		sampling.draw(n, failed, measure)
	}
	for s, load := range c.normal {
		if u := load / c.limits[s]; s == 0 || u > h.Normal {
			h.Normal, h.NormalShard = u, s
		}
	}
	h.AtMost = h.Worst
	if h.Sampled {
		h.AtMost = max(h.Worst, c.mostAfter(failed))
	}
	slices.Sort(h.WorstSet)
	if h.Worst > 0 {
		h.Free = max(0, 1-h.Normal/h.Worst)
	}
	return h, nil
}

func (h *Headroom) measure(c *Capacity, r *respread, set []int) {
	for s, load := range r.after(set) {
		h.Needed[s] = max(h.Needed[s], load)
		if r.down[s] {
			continue
		}
		if u := load / c.limits[s]; u > h.Worst {
			h.Worst, h.WorstShard = u, s
			h.WorstSet = append(h.WorstSet[:0], set...)
		}
	}
}

// mostAfter bounds the utilisation of any shard after f failures: as if each tenant that holds it had
// lost its f other heaviest members.
func (c *Capacity) mostAfter(f int) float64 {
	bound := make([]float64, c.p.shards)
	var others []float64
	for i, g := range c.p.groups {
		for _, m := range g.members {
			others = others[:0]
			for _, o := range g.members {
				if o != m {
					others = append(others, c.weights[o])
				}
			}
			slices.Sort(others)
			left := c.weights[m]
			for _, w := range others[:max(0, len(others)-f)] {
				left += w
			}
			bound[m] += c.perWeight(i, left, 0) * c.weights[m]
		}
	}
	most := math.Inf(-1)
	for s, load := range bound {
		most = max(most, load/c.limits[s])
	}
	return most
}

// respread computes loads after one failure after another, by looking only at groups that are hit. Its
// scratch is used again.
type respread struct {
	c     *Capacity
	down  []bool
	seen  []bool   // groups that were met; false between failures
	met   []uint32 // the groups that are hit
	loads []float64
}

func newRespread(c *Capacity) *respread {
	return &respread{
		c:     c,
		down:  make([]bool, c.p.shards),
		seen:  make([]bool, len(c.p.groups)),
		loads: make([]float64, c.p.shards),
	}
}

// stepsPerSet is what a failure takes, on average.
func (r *respread) stepsPerSet(failed int) float64 {
	n, steps := float64(r.c.p.shards), 0.0
	for _, g := range r.c.p.groups {
		k := float64(len(g.members))
		times := k * float64(failed) / n // that it is met; it is counted once
		steps += times + 2*k*min(1, times)
	}
	return 2*n + steps
}

// after is the load of each shard after this failure; 0 of those that failed. The slice and r.down hold
// until the next one.
func (r *respread) after(set []int) []float64 {
	c := r.c
	copy(r.loads, c.normal)
	clear(r.down)
	r.met = r.met[:0]
	for _, s := range set {
		r.down[s] = true
		for _, g := range c.p.with[s] {
			if !r.seen[g] {
				r.seen[g] = true
				r.met = append(r.met, g)
			}
		}
	}
	for _, at := range r.met {
		r.seen[at] = false
		members := c.p.groups[at].members
		left := 0.0
		for _, m := range members {
			if !r.down[m] {
				left += c.weights[m]
			}
		}
		if left == 0 {
			continue
		}
		more := c.perWeight(int(at), left, 0) - c.perWeight(int(at), c.sums[at], 0)
		for _, m := range members {
			r.loads[m] += more * c.weights[m]
		}
	}
	for _, s := range set {
		r.loads[s] = 0
	}
	return r.loads
}
