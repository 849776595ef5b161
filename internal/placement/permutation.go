package placement

import (
	"math"
	"math/bits"
)

// permutation is a keyed bijection of the numbers 0 to size-1, for any size.
//
// It is the generalised Feistel cipher of Black and Rogaway ("Ciphers with Arbitrary Finite Domains",
// CT-RSA 2002): x is a pair of digits, the left one below a and the right one below b, and by turns a
// function of one digit is added to the other, modulo a or b. Every round can be taken back, so every
// choice of functions gives a bijection of 0 to a·b-1. A result from size on is sent through again (their
// cycle walking). That ends, because a cycle comes back to where it began, which is below size. a is the
// square root of size, rounded up, so that a·b exceeds size by less than a: of √size numbers one is sent
// through again.
//
// There are eight rounds, as in FF3 of NIST SP 800-38G (FF1 has ten). Four are enough for a strong
// pseudorandom permutation when the functions are random (Luby and Rackoff, 1988), but only against few
// known values, and the digits here can be as few as two or three.
//
// Over the smallest sizes it is less than random. Where a and b are both odd, a round is a product of cycles
// of odd length, and so is the whole: of 9 numbers it gives even permutations alone, half of all there are. That
// costs no guarantee, since those speak of all slots or of few, and of no such size is a topology in earnest.
//
// This is no cipher. Its round functions are fast mixes with 128 bits of key each, where FF3 has AES: the
// HMAC of one round would take longer than a whole look-up may. Without the keys a slot tells nothing of
// its subset, and one slot's subset nothing plain of the next one's. That is meant for tenants, who see
// neither. Nothing is promised against somebody who holds many slots with their subsets and analyses
// them; not even they would come to the placement's own key, because the rounds' keys are HMAC-SHA256 of it.
type permutation struct {
	size  uint64
	left  uint64  // a
	right divisor // b
	keys  [rounds]roundKey
}

const rounds = 8

// roundKey makes a function of numbers below 2^32.
type roundKey struct{ multiplier, addend uint64 }

// newPermutation takes a size from 1 to MaxInt64.
func newPermutation(size uint64, keys [rounds]roundKey) permutation {
	left := uint64(math.Sqrt(float64(size)))
	for left*left < size { // floating point is off by one at most
		left++
	}
	for (left-1)*(left-1) >= size {
		left--
	}
	return permutation{size: size, left: left, right: newDivisor((size + left - 1) / left), keys: keys}
}

// of is the image of x, which is below size.
func (p *permutation) of(x uint64) uint64 {
	for {
		l, r := p.right.split(x)
		for i := 0; i < rounds; i += 2 {
			l = addModulo(l, p.keys[i].below(p.left, r), p.left)
			r = addModulo(r, p.keys[i+1].below(p.right.by, l), p.right.by)
		}
		if x = l*p.right.by + r; x < p.size {
			return x
		}
	}
}

// below is the round function of x, below n. The upper half of the first line is a strongly universal
// hash of x, if the key is random (Dietzfelbinger, "Universal hashing and k-wise independent random
// variables via integer arithmetic without primes", STACS 1996). The second folds it into the lower half
// and spreads it again, so that the whole is not linear. The third scales without a division.
func (k *roundKey) below(n, x uint64) uint64 {
	x = x*k.multiplier + k.addend
	x = (x ^ x>>32) * 0x94d049bb133111eb // of mix
	x, _ = bits.Mul64(x, n)
	return x
}

// addModulo is x+y modulo n, for x and y below n.
func addModulo(x, y, n uint64) uint64 {
	if x += y; x >= n {
		x -= n
	}
	return x
}
