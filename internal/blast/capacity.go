package blast

import (
	"fmt"
	"math"
	"slices"
)

// Provision is what shards can carry and how load finds them.
type Provision struct {
	PerShard []float64 // capacity of each shard, above 0, in the unit of the loads (requests per second)
	// Weights is how a tenant's load is split over its shards: in proportion to theirs, each above 0
	// and at most 2^60. Without it (nil) the split is even.
	Weights []float64
	Traffic Traffic
}

// Capacity compares the load of a population with what its shards can carry. It is immutable and safe
// for concurrent use.
type Capacity struct {
	p       *Population
	limits  []float64
	weights []float64
	traffic Traffic
	loads   []float64 // of each group
	sums    []float64 // weight of each group
	normal  []float64 // load of each shard with nothing failed
}

// NewCapacity checks a provision for a population. ErrCapacity when there is not one capacity, and one
// weight if any, for each shard, or one is not in range; ErrTraffic.
func NewCapacity(p *Population, provision Provision) (*Capacity, error) {
	if err := provision.Traffic.check(); err != nil {
		return nil, err
	}
	weights := provision.Weights
	if weights == nil {
		weights = slices.Repeat([]float64{1}, p.shards)
	}
	for _, list := range []struct {
		name   string
		values []float64
	}{{"capacity", provision.PerShard}, {"weight", weights}} {
		if len(list.values) != p.shards {
			return nil, fmt.Errorf("%w: %d of %s for %d shards", ErrCapacity, len(list.values), list.name, p.shards)
		}
		for shard, v := range list.values {
			if !(v > 0 && v <= MaxLoad) {
				return nil, fmt.Errorf("%w: %s %v of shard %d, want above 0 and up to 2^60", ErrCapacity, list.name, v, shard)
			}
		}
	}
	c := &Capacity{p: p, limits: slices.Clone(provision.PerShard), weights: slices.Clone(weights), traffic: provision.Traffic}
	c.loads, c.sums = make([]float64, len(p.groups)), make([]float64, len(p.groups))
	for i, g := range p.groups {
		c.loads[i] = p.amount(g.load)
		for _, m := range g.members {
			c.sums[i] += c.weights[m]
		}
	}
	c.normal = c.offered(make([]bool, p.shards), nil)
	return c, nil
}

// Overloaded tells whether a load is above a capacity. What rounding may add, one part in 10^9, is not.
func overloaded(load, limit float64) bool { return load > limit*(1+1e-9) }

// ShardLoad is the load of a shard and what it can carry.
type ShardLoad struct {
	Shard    int
	Failed   bool
	Load     float64 // requests offered to it, retries included; 0 when it has failed
	Capacity float64
}

// Utilisation is load over capacity: above 1 the shard refuses the rest.
func (s ShardLoad) Utilisation() float64 { return s.Load / s.Capacity }

// Overloaded tells whether the load is above the capacity, by more than rounding.
func (s ShardLoad) Overloaded() bool { return overloaded(s.Load, s.Capacity) }

// Loads is the load of each shard at one time.
type Loads struct {
	Shards   []ShardLoad
	Worst    int     // the shard that is used most, the first of equals; -1 when all have failed
	Vanished float64 // load of tenants with no shard left
	Served   float64 // requests that are answered, at the first attempt or a later one
	// Amplified is the load offered to shards over that of the tenants who have one left: 1 when no
	// attempt is lost and none repeated, 0 when there is no load.
	Amplified float64
	// Settled tells that retries among overloaded shards came to rest: the last round of them added less
	// than one part in 10^9 to any load. When they did not, in 1,000 rounds, loads are a little too low.
	Settled bool
}

// After is the load of each shard after the failure of these, which may be none: the load of each
// tenant re-spread over its shards that are left, as the router does it. ErrFailed for shards that do
// not exist or are named twice.
//
// An overloaded shard serves its capacity and refuses the rest, evenly. What it refuses is repeated by
// clients, at once, as often as Traffic says, which loads the others. The loads are where this comes to
// rest from below.
func (c *Capacity) After(failed []int) (*Loads, error) {
	if err := c.p.checkNamed(failed); err != nil {
		return nil, err
	}
	down := make([]bool, c.p.shards)
	for _, s := range failed {
		down[s] = true
	}
	return c.after(down), nil
}

func (c *Capacity) after(down []bool) *Loads {
	refused := make([]float64, c.p.shards) // share that each shard refuses
	for s := range refused {
		if down[s] {
			refused[s] = 1
		}
	}
	l := &Loads{Worst: -1}
	var offered []float64
	for round := 0; round < 1000 && !l.Settled; round++ {
		last := offered
		offered = c.offered(down, refused)
		l.Settled = true
		for s, load := range offered {
			if down[s] {
				continue
			}
			if overloaded(load, c.limits[s]) {
				refused[s] = max(refused[s], 1-c.limits[s]/load) // never less again through rounding
			}
			if c.traffic.Retries > 0 && (last == nil && refused[s] > 0 || last != nil && load > last[s]*(1+1e-9)) {
				l.Settled = false
			}
		}
	}
	c.report(l, offered, down)
	return l
}

// offered is the load offered to each shard that is not down, when shards refuse these shares of what
// they are offered; none when nil.
func (c *Capacity) offered(down []bool, refused []float64) []float64 {
	loads := make([]float64, c.p.shards)
	for i, g := range c.p.groups {
		left, gone := 0.0, 0.0 // weight that is left, and what of it is refused
		for _, m := range g.members {
			if down[m] {
				continue
			}
			left += c.weights[m]
			if refused != nil {
				gone += c.weights[m] * refused[m]
			}
		}
		if left == 0 {
			continue
		}
		each := c.perWeight(i, left, gone)
		for _, m := range g.members {
			if down[m] {
				continue
			}
			load := each * c.weights[m]
			if c.traffic.Router == Sticky && refused != nil {
				load *= c.traffic.attempts(refused[m])
			}
			loads[m] += load
		}
	}
	return loads
}

// perWeight is the load that a group puts on a member that is left, for each unit of the member's
// weight. Of the group's weight, left is what is left, and gone what of that is refused. For Sticky
// retries come on top, which depend on the member.
func (c *Capacity) perWeight(group int, left, gone float64) float64 {
	load, all := c.loads[group], c.sums[group]
	switch c.traffic.Router {
	case Failover:
		return load * c.traffic.attempts(gone/left) / left
	case Random:
		return load * c.traffic.attempts((all-left+gone)/all) / all
	default:
		return load / all
	}
}

func (c *Capacity) report(l *Loads, offered []float64, down []bool) {
	l.Shards = make([]ShardLoad, c.p.shards)
	worst, sum := math.Inf(-1), 0.0
	for s, load := range offered {
		l.Shards[s] = ShardLoad{Shard: s, Failed: down[s], Load: load, Capacity: c.limits[s]}
		sum += load
		l.Served += min(load, c.limits[s])
		if u := l.Shards[s].Utilisation(); !down[s] && u > worst {
			worst, l.Worst = u, s
		}
	}
	left := 0.0
	for i, g := range c.p.groups {
		if slices.ContainsFunc(g.members, func(m uint16) bool { return !down[m] }) {
			left += c.loads[i]
		} else {
			l.Vanished += c.loads[i]
		}
	}
	if left > 0 {
		l.Amplified = sum / left
	}
}
