package placement

import (
	"math"
	"math/bits"
)

// permutation is a keyed bijection of the numbers 0 to size-1, for any size.
//
// It is the generalised Feistel cipher of Black and Rogaway ("Ciphers with Arbitrary Finite Domains",
// CT-RSA 2002, section 5): x is a pair of digits, the left one below a and the right one below b, and in
// turn a function of one digit is added to the other, modulo a or b. Every round can be taken back, so
// every choice of functions gives a bijection of 0 to a·b-1. What lands at size or above is sent through
// again (cycle walking), which ends, because the cycle comes back to where it began. a is the square root
// of size, rounded up, so that a·b exceeds size by less than a: one number in √size walks, and one pass
// is nearly always enough.
//
// There are eight rounds, as in FF3-1 of NIST SP 800-38G: four suffice for a strong pseudorandom
// permutation when the round functions are random (Luby and Rackoff), but only for few known values, and
// here the digits can be as small as 0 to 6.
//
// This is no cipher. The round functions are fast mixes with 128 bits of key each, not AES or HMAC: an
// HMAC alone takes longer than a look-up may. Whoever lacks the keys learns nothing useful from a slot, and from
// one value nothing about the next. That is enough against tenants, who see neither slots nor subsets.
// Nothing is promised against somebody who holds many pairs of slot and subset and the time to analyse
// them; the keys come from HMAC-SHA256, so the placement's own key would be safe even then.
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
