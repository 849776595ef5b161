package placement

import (
	"encoding/binary"
	"slices"
	"strings"
)

// The ends of the HMAC messages of rendezvous/v1. A message is an id followed by one of them, so two
// ids never give one message. None is the end of another, and the ninth byte from their end is not 0x00
// as it is in a message of hmac/v1, so no two kinds of message are ever equal. A scheme that joins must
// keep to this: its name at the end, at least nine bytes long.
var (
	tenantSuffix = []byte("\x00rendezvous/v1")
	shardSuffix  = []byte("\x00rendezvous/v1 shard")
	zoneSuffix   = []byte("\x00rendezvous/v1 zone")
)

// ranking scores shards against tenants.
type ranking struct {
	// words, indices and weights are parallel, in byte order of the shard ids, so that a scan from the
	// front leaves a tie to the id that is first.
	words   []uint64 // hash of the shard's id
	indices []int    // where the shard stood in the list that was given
	weights []uint64 // nil when all are equal: then they change nothing
}

// newRanking ranks the shards with these indices.
func newRanking(m *mac, shards []Shard, indices []int) ranking {
	r := ranking{words: make([]uint64, len(indices)), indices: slices.Clone(indices)}
	slices.SortFunc(r.indices, func(a, b int) int { return strings.Compare(shards[a].ID, shards[b].ID) })
	equal := true
	for at, i := range r.indices {
		// Keyed like the tenants, so that which shards resemble each other is no public knowledge.
		r.words[at] = m.word(shards[i].ID, shardSuffix)
		r.weights = append(r.weights, uint64(shards[i].Weight))
		equal = equal && r.weights[at] == r.weights[0]
	}
	if equal {
		r.weights = nil
	}
	return r
}

// word is the first 64 bits of the HMAC.
func (m *mac) word(id string, suffix []byte) uint64 {
	var d digest
	m.sum(&d, id, suffix)
	return binary.BigEndian.Uint64(d[:])
}

// appendTop appends the k shards that rank first for the tenant, in their order. 1 <= k <= len(r.words).
func (r *ranking) appendTop(dst []int, t point, k int) []int {
	start := len(dst)
	if r.weights == nil {
		dst = r.appendPositions(dst, t, k)
	} else {
		dst = r.appendWeighted(dst, t, k)
	}
	for j, at := range dst[start:] {
		dst[start+j] = r.indices[at]
	}
	return dst
}

// appendPositions is appendTop for equal weights, in positions of r.words: the highest scores. The
// members found so far are kept sorted in dst itself, and their scores are computed again when they are
// needed: that is rare (about k·ln(n/k) shards get in) and costs less than memory to keep them in.
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

func newPoint(m *mac, tenant string) point {
	var d digest
	m.sum(&d, tenant, tenantSuffix)
	return point{binary.BigEndian.Uint64(d[:]), binary.BigEndian.Uint64(d[8:])}
}

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
