package placement

import "math/bits"

// MaxWeight is the largest weight of a shard: shards that differ more than a million times in size are
// not shards of one service, and a weight times a wait must fit 128 bits with room to spare.
const MaxWeight = 1 << 20

// A score, read as a number u in (0, 1), is how a shard with weight 1 came out of a draw. Waiting times
// -log(u)/w then put the shards into the order of successive sampling without replacement: the first is
// shard i with probability w_i/Σw, the next is so among the rest, and so on (Efraimidis and Spirakis,
// "Weighted random sampling with a reservoir", 2006; the exponential race). Only the ratio of weights
// counts, a weight that changes moves that one shard in the order, and equal weights give the order of
// the scores themselves.
//
// The logarithm is computed in integers, so that every processor gives the same order.

// waitBits is the number of binary places of a wait. A wait is right to 2^-waitBits, and the waits that
// decide are about one n-th, so that no chance is off by more than about n·2^-waitBits: 2^-40 at
// MaxShards, which some 2^80 tenants would show.
const waitBits = 56

// wait is -log2(score/2^64) in units of 2^-waitBits, rounded up; a score of 0 counts as 1. It is from
// 1 to 64·2^waitBits, and never rises with the score.
func wait(score uint64) uint64 {
	score |= b2u(score == 0)
	exponent := uint64(63 - bits.LeadingZeros64(score))
	// mantissa/2^63 is in [1, 2). Each squaring doubles its logarithm, whose next binary digit is whether
	// the square reaches 2. Squares are rounded down, by less than 2^-63: together that takes less than
	// 2^-61 from the logarithm.
	mantissa := score << bits.LeadingZeros64(score)
	log := exponent
	for range waitBits {
		hi, lo := bits.Mul64(mantissa, mantissa) // the square is (hi·2^64 + lo)/2^126
		digit := hi >> 63
		log = log<<1 | digit
		mantissa = hi<<(1-digit) | lo>>63&(1-digit)
	}
	return 64<<waitBits - log
}

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// entrant is a shard in the race.
type entrant struct{ score, wait, weight uint64 }

// before says whether a comes before b: the shorter wait by weight, at equal ones the higher score.
func (a entrant) before(b entrant) bool {
	aHi, aLo := bits.Mul64(a.wait, b.weight)
	bHi, bLo := bits.Mul64(b.wait, a.weight)
	switch {
	case aHi != bHi:
		return aHi < bHi
	case aLo != bLo:
		return aLo < bLo
	}
	return a.score > b.score
}

// beyond says that a shard of this score and weight cannot come before e. It is true for nearly all
// shards once there are k members, and spares their logarithm: -log2(u) is at least (1-u)/ln 2, which is
// above (1-u)·23/16.
func (e entrant) beyond(score, weight uint64) bool {
	short := ^score >> (64 - waitBits)
	hi, lo := bits.Mul64(short+short>>2+short>>3+short>>4, e.weight)
	eHi, eLo := bits.Mul64(e.wait, weight)
	return hi > eHi || hi == eHi && lo > eLo
}

// race is the members found so far. They are sorted in the slice that it appends to; the first of them
// are known as entrants too, so that their logarithms are not computed again.
type race struct {
	*ranking
	tenant point
	known  [scanned]entrant
}

func (r *race) entrant(at int) entrant {
	score := r.tenant.score(r.words[at])
	return entrant{score, wait(score), r.weights[at]}
}

// place is the entrant at place j among the members.
func (r *race) place(members []int, j int) entrant {
	if j < len(r.known) {
		return r.known[j]
	}
	return r.entrant(members[j])
}

// insert puts the shard at position at in front of the member at place j. The last member drops out.
func (r *race) insert(members []int, j, at int, e entrant) {
	copy(members[j+1:], members[j:])
	members[j] = at
	if j < len(r.known) {
		copy(r.known[j+1:], r.known[j:])
		r.known[j] = e
	}
}

// appendWeighted is appendTop for unequal weights, in positions of r.words. It is built like
// appendPositions.
func (r *ranking) appendWeighted(dst []int, t point, k int) []int {
	start := len(dst)
	run := race{ranking: r, tenant: t}
	var last entrant // of the members, once there are k
	for at, word := range r.words {
		full := len(dst)-start == k
		if full && last.beyond(t.score(word), r.weights[at]) {
			continue
		}
		e := run.entrant(at)
		if full && !e.before(last) {
			continue
		}
		lo, hi := 0, len(dst)-start
		if full {
			hi-- // the last member makes room
		} else {
			dst = append(dst, 0)
		}
		members := dst[start:]
		for lo < hi {
			mid := int(uint(lo+hi) / 2)
			if e.before(run.place(members, mid)) {
				hi = mid
			} else {
				lo = mid + 1
			}
		}
		run.insert(members, lo, at, e)
		if len(members) == k {
			last = run.place(members, k-1)
		}
	}
	return dst
}
