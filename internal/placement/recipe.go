package placement

import (
	"encoding/binary"
	"math"
)

// appendRecipe is Recipe 12.1. 1 <= k <= n <= MaxShards.
func appendRecipe(dst []int, m *mac, n *reduction, tenant string, k int) []int {
	if k > scanned {
		return appendRecipeMany(dst, m, n, tenant, k)
	}
	start := len(dst)
	words := draw{mac: m, n: n, tenant: tenant}
draws:
	for len(dst) < start+k {
		member, ok := words.next()
		if !ok {
			continue
		}
		for _, seen := range dst[start:] {
			if seen == member {
				continue draws
			}
		}
		dst = append(dst, member)
	}
	return dst
}

// scanned is the largest k whose members are searched one by one. Above it a set pays, although it
// must be cleared for each tenant.
const scanned = 64

// appendRecipeMany is appendRecipe with a set of the members seen. The set is an array, so that it
// needs no allocation.
func appendRecipeMany(dst []int, m *mac, n *reduction, tenant string, k int) []int {
	var seen [MaxShards / 64]uint64
	start := len(dst)
	words := draw{mac: m, n: n, tenant: tenant}
	for len(dst) < start+k {
		member, ok := words.next()
		if !ok || seen[member/64]&(1<<(member%64)) != 0 {
			continue
		}
		seen[member/64] |= 1 << (member % 64)
		dst = append(dst, member)
	}
	return dst
}

// draw is a tenant's endless sequence of words, reduced to indices.
type draw struct {
	mac    *mac
	n      *reduction
	tenant string
	used   uint64 // words taken from all blocks
	block  digest
	end    [9]byte // of the message: 0x00, then the counter
}

// next takes the next word, and tells whether it is an index or is rejected.
func (d *draw) next() (index int, ok bool) {
	const perBlock = uint64(len(digest{}) / 8)
	at := d.used % perBlock
	if at == 0 {
		binary.BigEndian.PutUint64(d.end[1:], d.used/perBlock)
		d.mac.sum(&d.block, d.tenant, d.end[:])
	}
	d.used++
	return d.n.index(binary.BigEndian.Uint64(d.block[at*8:]))
}

// reduction maps words to indices below n without bias.
type reduction struct {
	n    uint64
	last uint64 // the largest word that is not rejected
}

// newReduction takes n >= 1. Rejected are the words from the largest multiple of n that fits 2^64:
// they are too few to give every remainder once more, and would favour the low ones.
func newReduction(n uint64) reduction {
	rest := -n % n // 2^64 mod n, since -n is 2^64 - n in 64 bits
	return reduction{n: n, last: math.MaxUint64 - rest}
}

// index is word mod n, and whether the word counts.
func (r *reduction) index(word uint64) (int, bool) {
	return int(word % r.n), word <= r.last
}
