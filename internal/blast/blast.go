// Package blast measures how much of a population fails together: how many tenants a set of failed
// shards takes down or degrades, and how many pairs of tenants share a shard. The numbers are counts
// over the subsets that tenants really have, not estimates.
//
// # Guarantees
//
// Each is held by the test of the same name.
//
//  1. Recipe: the counts are those of Recipe 12.2, for its published vectors.
//  2. Naive: they are the counts that looking at every tenant, and at every pair, gives.
//  3. ClosedForm: a population that has each possible subset equally often gives the binomial
//     expressions exactly.
//  4. OrderFree: neither the order of tenants nor that of a subset's members matters.
//  5. Monotone: a failure of more shards never degrades or takes down fewer tenants; who is fully
//     down is degraded too.
//  6. Bounded: Overlap takes no more steps than it says, and refuses before the first one when those
//     were too many.
package blast

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// MaxShards is the largest number of shards in a population.
const MaxShards = 1 << 16

// MaxTenants is the largest population: its pairs fit 64 bits many times over.
const MaxTenants = 1 << 31

// Errors of this package. They come wrapped with what was found; test with errors.Is.
var (
	ErrShardCount = errors.New("number of shards out of range")
	ErrSubset     = errors.New("not a subset of the shards")
	ErrTenants    = errors.New("too many tenants")
	ErrFailed     = errors.New("not a set of shards that can fail")
	ErrTooLarge   = errors.New("pairwise overlap is too much work")
)

// Population is the subsets of all tenants. Tenants with equal members are kept as one group. It is
// immutable and safe for concurrent use.
type Population struct {
	shards  int
	tenants int
	groups  []group
}

// group is the tenants of one subset.
type group struct {
	members []uint16 // ascending
	tenants uint64
}

// Collect gathers the subsets of tenants on shards 0 to shards-1, one for each tenant. Subsets may
// differ in size. A subset is not kept, so its slice may be used again for the next. ErrSubset tells
// the first one that is empty, names a shard twice or names one that does not exist.
func Collect(shards int, subsets iter.Seq[[]int]) (*Population, error) {
	if shards < 1 || shards > MaxShards {
		return nil, fmt.Errorf("%w: %d, want 1 to %d", ErrShardCount, shards, MaxShards)
	}
	p := &Population{shards: shards}
	index := make(map[string]int)
	var members []uint16
	var key []byte
	for subset := range subsets {
		if p.tenants == MaxTenants {
			return nil, fmt.Errorf("%w: at most %d can be counted", ErrTenants, MaxTenants)
		}
		var err error
		if members, err = p.sorted(members[:0], subset); err != nil {
			return nil, fmt.Errorf("tenant %d: %w", p.tenants, err)
		}
		key = key[:0]
		for _, m := range members {
			key = binary.BigEndian.AppendUint16(key, m)
		}
		at, ok := index[string(key)]
		if !ok {
			at = len(p.groups)
			index[string(key)] = at
			p.groups = append(p.groups, group{members: slices.Clone(members)})
		}
		p.groups[at].tenants++
		p.tenants++
	}
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

// Tenants is the size of the population.
func (p *Population) Tenants() int { return p.tenants }

// Impact is what a failure does to tenants.
type Impact struct {
	FullyDown int // all shards of the subset have failed
	Degraded  int // at least one has; includes the fully down
}

// Fail counts the tenants that the failure of these shards hits. ErrFailed when the list is empty,
// names a shard twice or names one that does not exist. The work is one look at each member of each
// different subset.
func (p *Population) Fail(failed []int) (Impact, error) {
	if len(failed) == 0 {
		return Impact{}, fmt.Errorf("%w: name at least one shard", ErrFailed)
	}
	down := make([]bool, p.shards)
	for _, shard := range failed {
		if shard < 0 || shard >= p.shards {
			return Impact{}, fmt.Errorf("%w: shard %d does not exist, shards are 0 to %d", ErrFailed, shard, p.shards-1)
		}
		if down[shard] {
			return Impact{}, fmt.Errorf("%w: shard %d is named twice", ErrFailed, shard)
		}
		down[shard] = true
	}
	var impact Impact
	for _, g := range p.groups {
		lost := 0
		for _, m := range g.members {
			if down[m] {
				lost++
			}
		}
		if lost > 0 {
			impact.Degraded += int(g.tenants)
		}
		if lost == len(g.members) {
			impact.FullyDown += int(g.tenants)
		}
	}
	return impact, nil
}
