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

// beyond says that a shard of this score and weight cannot come before e, from the bound
// -log2(u) > 1-u: it is true for nearly all shards once there are k members, and spares their logarithm.
func (e entrant) beyond(score, weight uint64) bool {
	atLeast := ^score >> (64 - waitBits)
	hi, lo := bits.Mul64(atLeast, e.weight)
	eHi, eLo := bits.Mul64(e.wait, weight)
	return hi > eHi || hi == eHi && lo > eLo
}

func (r *ranking) entrant(t point, at int) entrant {
	score := t.score(r.words[at])
	return entrant{score, wait(score), r.weights[at]}
}

// appendWeighted is appendTop for unequal weights, in positions of r.words. It is built like
// appendPositions.
func (r *ranking) appendWeighted(dst []int, t point, k int) []int {
	start := len(dst)
	var last entrant // of the members, once there are k
	for at, word := range r.words {
		full := len(dst)-start == k
		score := t.score(word)
		if full && last.beyond(score, r.weights[at]) {
			continue
		}
		e := entrant{score, wait(score), r.weights[at]}
		top := dst[start:]
		switch {
		case full && !e.before(last):
			continue
		case full:
			top = top[:k-1] // the last member makes room
		default:
			dst = append(dst, 0)
		}
		lo, hi := 0, len(top)
		for lo < hi {
			mid := int(uint(lo+hi) / 2)
			if e.before(r.entrant(t, top[mid])) {
				hi = mid
			} else {
				lo = mid + 1
			}
		}
		top = dst[start:]
		copy(top[lo+1:], top[lo:])
		top[lo] = at
		if len(top) == k {
			last = r.entrant(t, top[k-1])
		}
	}
	return dst
}
