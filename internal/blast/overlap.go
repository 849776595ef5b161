package blast

import (
	"fmt"
	"math/bits"
)

// Overlap is how many pairs of tenants share at least one shard.
type Overlap struct {
	Overlapping uint64
	Pairs       uint64 // of all tenants: t·(t-1)/2
}

// MaxWork bounds Overlap, in elementary steps of up to some tens of nanoseconds: a few minutes.
const MaxWork = 1 << 33

// Overlap counts pairs exactly. Its work is at most
//
//	t + min(g·2^k, g²·k)
//
// for t tenants with g different subsets of k shards. In t that is linear, since g is at most
// n!/(k!·(n-k)!), whatever t is. ErrTooLarge refuses a population for which the second term is above
// MaxWork, before any work. With k up to 13 that is none of up to a million tenants.
//
// Two tenants that overlap have exactly one smallest shared shard. So the pairs that overlap are,
// summed over all shards s, those that both have s but share none below s:
//
//	overlap(L) = Σ_s pairs(L_s) - overlap(L_s below s)
//
// where L_s are those of L that have s, and "below s" leaves them their members below s. This is
// inclusion and exclusion over all sub-subsets, taken depth first, so that it needs no table of them.
// A list for which comparing every pair is cheaper is compared.
func (p *Population) Overlap() (Overlap, error) {
	c := counter{groups: p.groups, at: make([]int, p.shards)}
	list := make([]part, len(p.groups))
	for i, g := range p.groups {
		list[i] = part{group: uint32(i), members: uint32(len(g.members))}
	}
	if split, compare := costs(list); min(split, compare) > MaxWork {
		return Overlap{}, fmt.Errorf("%w: %d different subsets, some of %d shards: measure a sample of the tenants, or place them on fewer shards each",
			ErrTooLarge, len(list), longest(list))
	}
	return Overlap{Overlapping: c.overlap(list), Pairs: pairs(uint64(p.tenants))}, nil
}

// part is the first members of a group, those that are still looked at.
type part struct {
	group   uint32
	members uint32
}

// counter counts overlapping pairs.
type counter struct {
	groups []group
	at     []int  // scratch, one for each shard; zero between uses
	work   uint64 // steps taken
}

func (c *counter) members(p part) []uint16 { return c.groups[p.group].members[:p.members] }

// overlap counts the pairs of tenants in the list that share a member.
func (c *counter) overlap(list []part) uint64 {
	if split, compare := costs(list); compare <= split {
		c.work += compare
		return c.compare(list)
	}
	var sum uint64
	for _, with := range c.deal(list) {
		var tenants uint64
		rest := with[:0]
		for _, p := range with {
			tenants += c.groups[p.group].tenants
			if p.members > 0 {
				rest = append(rest, p)
			}
		}
		sum += pairs(tenants) - c.overlap(rest)
	}
	return sum
}

// deal returns a list for each shard that is a member of a part: those parts, with their members
// below the shard.
func (c *counter) deal(list []part) [][]part {
	var shards []uint16 // in the order in which they are met, which is as good as any
	total := 0
	for _, p := range list {
		for _, s := range c.members(p) {
			if c.at[s] == 0 {
				shards = append(shards, s)
			}
			c.at[s]++
			total++
		}
	}
	c.work += uint64(total)
	lists := make([][]part, len(shards))
	free := make([]part, total)
	for i, s := range shards {
		n := c.at[s]
		lists[i], free = free[:0:n], free[n:]
		c.at[s] = i
	}
	for _, p := range list {
		for i, s := range c.members(p) {
			to := &lists[c.at[s]]
			*to = append(*to, part{p.group, uint32(i)})
		}
	}
	for _, s := range shards {
		c.at[s] = 0
	}
	return lists
}

// compare is overlap by looking at every pair of parts.
func (c *counter) compare(list []part) uint64 {
	var sum uint64
	for i, p := range list {
		tenants, members := c.groups[p.group].tenants, c.members(p)
		if len(members) > 0 {
			sum += pairs(tenants)
		}
		for _, q := range list[:i] {
			if intersect(members, c.members(q)) {
				sum += tenants * c.groups[q.group].tenants
			}
		}
	}
	return sum
}

// costs bounds the steps that overlap takes, from here on, when it deals the list to its members and
// when it compares every pair. They saturate far above MaxWork.
func costs(list []part) (split, compare uint64) {
	const saturated = 1 << 62
	for _, p := range list {
		// Each sub-subset of the part is dealt once.
		split = min(saturated, split+1<<min(p.members, 61))
	}
	// Of two lists that are walked together, no more elements are looked at than both have.
	n := uint64(len(list))
	hi, lo := bits.Mul64(n*n, uint64(longest(list)))
	if hi > 0 || lo > saturated {
		return split, saturated
	}
	return split, lo
}

// longest is the most members that a part has.
func longest(list []part) (n uint32) {
	for _, p := range list {
		n = max(n, p.members)
	}
	return n
}

// intersect tells whether two ascending lists have a common element.
func intersect(a, b []uint16) bool {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == b[0]:
			return true
		case a[0] < b[0]:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return false
}

// pairs is the number of pairs among n things, n <= 2^32.
func pairs(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	return n * (n - 1) / 2
}
