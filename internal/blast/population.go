package blast

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"
)

// MaxShards is the largest number of shards in a population.
const MaxShards = 1 << 16

// MaxTenants is the largest population: its pairs fit 64 bits many times over.
const MaxTenants = 1 << 31

// MaxLoad is the largest load of one tenant, in whatever unit the loads are.
const MaxLoad = 1 << 60

// Population is the subsets and the loads of all tenants. Tenants with equal members are kept as one
// group; of a tenant by itself no more is kept than its load and its group. It is immutable and safe
// for concurrent use.
//
// Loads are added in fixed point, so that no sum depends on the order of tenants and a difference of
// sums loses nothing. The step is 2^-62 of the largest load times the number of tenants, rounded up to
// powers of two: integers are exact as long as that product is below 2^61.
type Population struct {
	shards  int
	tenants int
	groups  []group   // by members, in lexicographic order
	groupOf []uint32  // of each tenant
	loads   []float64 // of each tenant; nil when each is 1
	step    int       // a load of 1 unit is 2^step
	total   uint64    // load of all, in units
	classes []class   // by size, ascending
	with    [][]uint32
}

// group is the tenants of one subset.
type group struct {
	members []uint16 // ascending
	tenants uint64
	load    uint64 // in units
	class   int
}

// class is the tenants with subsets of one size.
type class struct {
	size    int
	tenants uint64
	load    uint64 // in units
}

// Collect gathers the subsets of tenants on shards 0 to shards-1, one for each tenant, with a load of
// 1 each. Subsets may differ in size. A subset is not kept, so its slice may be used again for the
// next. ErrSubset tells the first one that is empty, names a shard twice or names one that does not
// exist.
func Collect(shards int, subsets iter.Seq[[]int]) (*Population, error) {
	return gather(shards, false, func(yield func([]int, float64) bool) {
		for subset := range subsets {
			if !yield(subset, 1) {
				return
			}
		}
	})
}

// CollectLoads is Collect for tenants with loads: each subset comes with its tenant's, 0 to MaxLoad, in
// requests per second where they are compared with a capacity. ErrLoad tells the first one that is no
// such number.
//
// Time and memory are linear in the tenants: 12 bytes each, and what the different subsets take, which
// are sorted once.
func CollectLoads(shards int, tenants iter.Seq2[[]int, float64]) (*Population, error) {
	return gather(shards, true, tenants)
}

func gather(shards int, withLoads bool, tenants iter.Seq2[[]int, float64]) (*Population, error) {
	if shards < 1 || shards > MaxShards {
		return nil, fmt.Errorf("%w: %d, want 1 to %d", ErrShardCount, shards, MaxShards)
	}
	p := &Population{shards: shards}
	index := make(map[string]uint32)
	var members, arena []uint16
	var key []byte
	for subset, load := range tenants {
		tenant := len(p.groupOf)
		if tenant == MaxTenants {
			return nil, fmt.Errorf("%w: at most %d can be counted", ErrTenants, MaxTenants)
		}
		if !(load >= 0 && load <= MaxLoad) {
			return nil, fmt.Errorf("tenant %d: %w: %v, want a number from 0 to 2^60", tenant, ErrLoad, load)
		}
		var err error
		if members, err = p.sorted(members[:0], subset); err != nil {
			return nil, fmt.Errorf("tenant %d: %w", tenant, err)
		}
		key = key[:0]
		for _, m := range members {
			key = binary.BigEndian.AppendUint16(key, m)
		}
		at, ok := index[string(key)]
		if !ok {
			at = uint32(len(p.groups))
			index[string(key)] = at
			if cap(arena)-len(arena) < len(members) { // one allocation for thousands of subsets
				arena = make([]uint16, 0, max(len(members), 1<<13))
			}
			from := len(arena)
			arena = append(arena, members...)
			p.groups = append(p.groups, group{members: arena[from:len(arena):len(arena)]})
		}
		p.groups[at].tenants++
		p.groupOf = append(p.groupOf, at)
		if withLoads {
			p.loads = append(p.loads, load)
		}
	}
	p.tenants = len(p.groupOf)
	p.arrange()
	p.addLoads()
	p.classify()
	return p, nil
}

// sorted appends the subset's members to dst in ascending order.
func (p *Population) sorted(dst []uint16, subset []int) ([]uint16, error) {
	if len(subset) == 0 {
		return dst, fmt.Errorf("%w: it is empty", ErrSubset)
	}
	for _, shard := range subset {
		if shard < 0 || shard >= p.shards {
			return dst, fmt.Errorf("%w: shard %d does not exist, shards are 0 to %d", ErrSubset, shard, p.shards-1)
		}
		dst = append(dst, uint16(shard))
	}
	slices.Sort(dst)
	for i := 1; i < len(dst); i++ {
		if dst[i] == dst[i-1] {
			return dst, fmt.Errorf("%w: shard %d is in it twice", ErrSubset, dst[i])
		}
	}
	return dst, nil
}

// arrange puts the groups into an order that does not depend on that of the tenants: it is the order in
// which fractions are added, so that results are equal to the last bit.
func (p *Population) arrange() {
	order := make([]uint32, len(p.groups))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int {
		return slices.Compare(p.groups[a].members, p.groups[b].members)
	})
	groups, to := make([]group, len(order)), make([]uint32, len(order))
	for i, g := range order {
		groups[i], to[g] = p.groups[g], uint32(i)
	}
	for i, g := range p.groupOf {
		p.groupOf[i] = to[g]
	}
	p.groups = groups
}

// addLoads chooses the step and adds up the loads of each group.
func (p *Population) addLoads() {
	if p.loads == nil {
		for i := range p.groups {
			p.groups[i].load = p.groups[i].tenants
			p.total += p.groups[i].load
		}
		return
	}
	most := 0.0
	for _, load := range p.loads {
		most = max(most, load)
	}
	_, above := math.Frexp(most) // most < 2^above, tenants < 2^Len
	p.step = above + bits.Len(uint(p.tenants)) - 62
	for i, load := range p.loads {
		units := uint64(math.RoundToEven(math.Ldexp(load, -p.step)))
		p.groups[p.groupOf[i]].load += units
		p.total += units
	}
}

// classify finds the sizes of subsets, and the groups of each shard.
func (p *Population) classify() {
	at := make(map[int]int)
	for _, g := range p.groups {
		at[len(g.members)] = 0
	}
	for size := range at {
		p.classes = append(p.classes, class{size: size})
	}
	slices.SortFunc(p.classes, func(a, b class) int { return a.size - b.size })
	for i, c := range p.classes {
		at[c.size] = i
	}
	entries := make([]int, p.shards)
	total := 0
	for i := range p.groups {
		g := &p.groups[i]
		g.class = at[len(g.members)]
		p.classes[g.class].tenants += g.tenants
		p.classes[g.class].load += g.load
		total += len(g.members)
		for _, m := range g.members {
			entries[m]++
		}
	}
	free := make([]uint32, total)
	p.with = make([][]uint32, p.shards)
	for s, n := range entries {
		p.with[s], free = free[:0:n], free[n:]
	}
	for i, g := range p.groups {
		for _, m := range g.members {
			p.with[m] = append(p.with[m], uint32(i))
		}
	}
}

// Shards is the number of shards, n.
func (p *Population) Shards() int { return p.shards }

// Tenants is the size of the population.
func (p *Population) Tenants() int { return p.tenants }

// Load is the load of all tenants, in the unit of theirs.
func (p *Population) Load() float64 { return p.amount(p.total) }

// Subsets is the number of different subsets.
func (p *Population) Subsets() int { return len(p.groups) }

// Sizes lists the sizes of subsets, ascending.
func (p *Population) Sizes() []int {
	sizes := make([]int, len(p.classes))
	for i, c := range p.classes {
		sizes[i] = c.size
	}
	return sizes
}

// amount is a load in the tenants' unit.
func (p *Population) amount(units uint64) float64 { return math.Ldexp(float64(units), p.step) }

// loadOf is the load of one tenant as it was given.
func (p *Population) loadOf(tenant int) float64 {
	if p.loads == nil {
		return 1
	}
	return p.loads[tenant]
}
