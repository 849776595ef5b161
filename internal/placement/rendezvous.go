package placement

import (
	"encoding/binary"
	"slices"
	"strings"
)

// The ends of the HMAC messages of rendezvous/v1. A message is an id followed by one of them, so two
// ids never give one message. Neither is the end of the other, and the ninth byte from their end is
// not 0x00 as it is in a message of hmac/v1, so no two kinds of message are ever equal. A scheme that
// joins must keep to this: its name at the end, at least nine bytes long.
var (
	tenantSuffix = []byte("\x00rendezvous/v1")
	shardSuffix  = []byte("\x00rendezvous/v1 shard")
)

// ranking scores shards against tenants.
type ranking struct {
	// words and indices are parallel, in byte order of the shard ids, so that a scan from the front
	// leaves a tie to the id that is first.
	words   []uint64 // hash of the shard's id
	indices []int    // where the shard stood in the list that was given
}

func newRanking(m *mac, shards []Shard) ranking {
	r := ranking{words: make([]uint64, len(shards)), indices: make([]int, len(shards))}
	for i := range shards {
		r.indices[i] = i
	}
	slices.SortFunc(r.indices, func(a, b int) int { return strings.Compare(shards[a].ID, shards[b].ID) })
	for at, i := range r.indices {
		// Keyed like the tenants, so that which shards resemble each other is no public knowledge.
		var d digest
		m.sum(&d, shards[i].ID, shardSuffix)
		r.words[at] = binary.BigEndian.Uint64(d[:])
	}
	return r
}

// appendTop appends the k shards of the highest score, the highest first. 1 <= k <= len(r.words).
func appendTop(dst []int, m *mac, r *ranking, tenant string, k int) []int {
	var d digest
	m.sum(&d, tenant, tenantSuffix)
	t := point{binary.BigEndian.Uint64(d[:]), binary.BigEndian.Uint64(d[8:])}
	start := len(dst)
	dst = r.appendPositions(dst, t, k)
	for j, at := range dst[start:] {
		dst[start+j] = r.indices[at]
	}
	return dst
}

// appendPositions is appendTop in positions of r.words. The members found so far are kept sorted in
// dst itself, and their scores are computed again when they are needed: that is rare (about
// k·ln(n/k) shards get in) and costs less than memory to keep them in.
func (r *ranking) appendPositions(dst []int, t point, k int) []int {
	start := len(dst)
	var lowest uint64 // of the members, once there are k
	for at, word := range r.words {
		score := t.score(word)
		top := dst[start:]
		if len(top) == k {
			if score <= lowest {
				continue
			}
			top = top[:k-1] // the last member makes room
		} else {
			dst = append(dst, 0)
		}
		lo, hi := 0, len(top)
		for lo < hi {
			mid := int(uint(lo+hi) / 2)
			if t.score(r.words[top[mid]]) >= score {
				lo = mid + 1
			} else {
				hi = mid
			}
		}
		top = dst[start:]
		copy(top[lo+1:], top[lo:])
		top[lo] = at
		if len(top) == k {
			lowest = t.score(r.words[top[k-1]])
		}
	}
	return dst
}

// point is the tenant's place among the scores: 128 bits of its HMAC, so that tenants which agree in
// 64 bits still have unrelated subsets.
type point [2]uint64

// score ranks a shard for a tenant. For a fixed pair of shards the second word makes their order
// depend on bits that the first mix has not seen.
func (t point) score(shard uint64) uint64 {
	return mix(mix(t[0]^shard) + t[1])
}

// mix is a bijection of 64 bits in which every bit of the result depends on every bit of x: the
// finaliser of SplitMix64 (variant 13 of David Stafford's, "Better Bit Mixing", 2011).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
