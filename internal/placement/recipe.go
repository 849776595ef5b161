package placement

import (
	"encoding/binary"
	"math"
)

// appendRecipe is Recipe 12.1. 1 <= k <= n <= MaxShards.
func appendRecipe(dst []int, m *mac, tenant string, n, k int) []int {
	if k > scanned {
		return appendRecipeMany(dst, m, tenant, n, k)
	}
	start := len(dst)
	words := draw{mac: m, tenant: tenant}
draws:
	for len(dst) < start+k {
		member, ok := words.next(uint64(n))
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
func appendRecipeMany(dst []int, m *mac, tenant string, n, k int) []int {
	var seen [MaxShards / 64]uint64
	start := len(dst)
	words := draw{mac: m, tenant: tenant}
	for len(dst) < start+k {
		member, ok := words.next(uint64(n))
		if !ok || seen[member/64]&(1<<(member%64)) != 0 {
			continue
		}
		seen[member/64] |= 1 << (member % 64)
		dst = append(dst, member)
	}
	return dst
}

// draw is a tenant's endless sequence of 64-bit words.
type draw struct {
	mac     *mac
	tenant  string
	block   digest
	used    uint64 // words taken from all blocks
	message [9]byte
}

// next reduces the next word to an index below n, or refuses it.
func (d *draw) next(n uint64) (index int, ok bool) {
	const perBlock = uint64(len(digest{}) / 8)
	at := d.used % perBlock
	if at == 0 {
		// The first byte of the message's end stays 0x00; the counter follows.
		binary.BigEndian.PutUint64(d.message[1:], d.used/perBlock)
		d.block = d.mac.sum(d.tenant, d.message[:])
	}
	d.used++
	return reduce(binary.BigEndian.Uint64(d.block[at*8:]), n)
}

// reduce returns word mod n, unless word is at or above the largest multiple of n that fits 2^64:
// of those words there are too few to give every remainder once more, and the low ones would be
// favoured. n >= 1.
func reduce(word, n uint64) (index int, ok bool) {
	remainder := -n % n // 2^64 mod n, since -n is 2^64 - n in 64 bits
	if word > math.MaxUint64-remainder {
		return 0, false
	}
	return int(word % n), true
}
