package blast

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Balance is how evenly something lies on shards.
type Balance struct {
	PerShard    []float64
	Mean        float64
	Variance    float64 // mean square of the distance from the mean
	CV          float64 // coefficient of variation: square root of the variance over the mean; 0 when that is 0
	Max         int     // the shard with most, the first of equals
	MaxOverMean float64 // 0 when the mean is 0
}

func newBalance(perShard []float64) Balance {
	b := Balance{PerShard: perShard}
	n := float64(len(perShard))
	for s, v := range perShard {
		b.Mean += v / n
		if v > perShard[b.Max] {
			b.Max = s
		}
	}
	for _, v := range perShard {
		b.Variance += (v - b.Mean) * (v - b.Mean) / n
	}
	if b.Mean > 0 {
		b.CV = math.Sqrt(b.Variance) / b.Mean
		b.MaxOverMean = perShard[b.Max] / b.Mean
	}
	return b
}

// Fairness is how evenly tenants lie on shards.
type Fairness struct {
	Tenants Balance // tenants that hold the shard
	Load    Balance // load, each tenant's split evenly over its shards
}

// Fairness measures the balance of all shards.
func (p *Population) Fairness() Fairness {
	tenants, load := make([]float64, p.shards), make([]float64, p.shards)
	for _, g := range p.groups {
		part := p.amount(g.load) / float64(len(g.members))
		for _, m := range g.members {
			tenants[m] += float64(g.tenants)
			load[m] += part
		}
	}
	return Fairness{newBalance(tenants), newBalance(load)}
}

// Balance is that of utilisation with nothing failed, split as provisioned.
func (c *Capacity) Balance() Balance {
	used := make([]float64, len(c.normal))
	for s, load := range c.normal {
		used[s] = load / c.limits[s]
	}
	return newBalance(used)
}

// Top is one of the largest tenants.
type Top struct {
	Tenant     int     // as collected, from 0
	Load       float64 // of the tenant
	Share      float64 // of the load of all
	Cumulative float64 // share of this one and those before it
}

// Top lists the m tenants with most load, or all when they are fewer, largest first; of equals the one
// collected first.
func (p *Population) Top(m int) []Top {
	var top []Top
	order := func(a, b Top) int { return cmp.Compare(b.Load, a.Load) }
	for tenant := range p.tenants {
		of := Top{Tenant: tenant, Load: p.loadOf(tenant)}
		if len(top) >= m && (m <= 0 || of.Load <= top[m-1].Load) {
			continue
		}
		at, _ := slices.BinarySearchFunc(top, of, func(e, target Top) int {
			if e.Load == target.Load {
				return -1 // after its equals
			}
			return order(e, target)
		})
		top = slices.Insert(top, at, of)
		top = top[:min(m, len(top))]
	}
	all, sum := p.Load(), 0.0
	for i := range top {
		sum += top[i].Load
		if all > 0 {
			top[i].Share, top[i].Cumulative = top[i].Load/all, sum/all
		}
	}
	return top
}

// Big is a tenant that takes too much of a shard.
type Big struct {
	Tenant int // as collected, from 0
	Load   float64
	Size   int     // shards of its subset
	Part   float64 // of the capacity of the shard that it uses most, after failures
	// Needed is the least number of shards with which it takes no more than it may of any, whichever
	// shards they are; 0 when all of the population's are too few: it needs its own cell.
	Needed int
}

// TooBig lists the tenants that by themselves take more than this share of the capacity of one of their
// shards, when the given number of their other shards has failed and those left share their load; the
// largest first, of equals the one collected first. A tenant keeps at least one shard. ErrCapacity for a
// share that is not above 0 and at most 1, ErrFailed for a negative number of failures.
func (c *Capacity) TooBig(share float64, failures int) ([]Big, error) {
	if !(share > 0 && share <= 1) {
		return nil, fmt.Errorf("%w: share %v of a shard for one tenant, want above 0 and at most 1", ErrCapacity, share)
	}
	if failures < 0 {
		return nil, fmt.Errorf("%w: %d shards", ErrFailed, failures)
	}
	parts := make([]float64, len(c.p.groups))
	for i, g := range c.p.groups {
		parts[i] = c.mostOf(g.members, max(1, len(g.members)-failures))
	}
	var every []uint16
	for s := range c.p.shards {
		every = append(every, uint16(s))
	}
	var list []Big
	for tenant, g := range c.p.groupOf {
		load := c.p.loadOf(tenant)
		if part := load * parts[g]; overloaded(part, share) {
			list = append(list, Big{Tenant: tenant, Load: load, Size: len(c.p.groups[g].members), Part: part})
		}
	}
	slices.SortStableFunc(list, func(a, b Big) int { return cmp.Compare(b.Load, a.Load) })
	// The part of a load of 1 that a tenant takes at the most, with so many shards left, whichever they are.
	parted := map[int]float64{}
	most := func(left int) float64 {
		part, known := parted[left]
		if !known {
			part = c.mostOf(every, left)
			parted[left] = part
		}
		return part
	}
	for i := range list {
		// The part falls as shards are added: find the first number left that will do.
		left, ok := 0, false
		for low, high := 1, c.p.shards-failures; low <= high; {
			mid := (low + high) / 2
			if overloaded(list[i].Load*most(mid), share) {
				low = mid + 1
			} else {
				left, ok, high = mid, true, mid-1
			}
		}
		if ok {
			list[i].Needed = left + failures
		}
	}
	return list, nil
}

// mostOf is the largest part of a shard's capacity that a tenant with a load of 1 takes, when it has
// that many shards left of these: for each shard, when it is left with the lightest others.
func (c *Capacity) mostOf(members []uint16, left int) float64 {
	weights := make([]float64, len(members))
	for i, m := range members {
		weights[i] = c.weights[m]
	}
	slices.Sort(weights)
	// The sum of the lightest, with and without one more, in case the shard is among them.
	lightest := 0.0
	for _, w := range weights[:left-1] {
		lightest += w
	}
	most := 0.0
	for _, m := range members {
		w, others := c.weights[m], lightest
		if left > 1 && w <= weights[left-2] {
			others += weights[left-1] - w
		}
		most = max(most, w/(w+others)/c.limits[m])
	}
	return most
}
