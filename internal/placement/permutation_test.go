package placement

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func randomKeys(rng *rand.Rand) (keys [rounds]roundKey) {
	for i := range keys {
		keys[i] = roundKey{rng.Uint64(), rng.Uint64()}
	}
	return keys
}

// TestPermutation: the image of 0 to size-1 is 0 to size-1, for every size up to 300 and for powers.
func TestPermutation(t *testing.T) {
	const seed = 3
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, seed))
	sizes := []uint64{343, 1331, 2401, 65521, 65536, 1 << 18}
	for size := uint64(1); size <= 300; size++ {
		sizes = append(sizes, size)
	}
	for _, size := range sizes {
		p := newPermutation(size, randomKeys(rng))
		seen := make([]bool, size)
		for x := range size {
			y := p.of(x)
			if y >= size || seen[y] {
				t.Fatalf("size %d: %d goes to %d, which is beyond or taken", size, x, y)
			}
			seen[y] = true
		}
	}
}

// The image can be led back, for sizes that cannot be counted through.
func TestPermutationInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.Uint64Range(1, math.MaxInt64), rapid.SampledFrom([]uint64{1, 2, 3, 1 << 27, 1 << 62, math.MaxInt64})).Draw(t, "size")
		var keys [rounds]roundKey
		for i := range keys {
			keys[i] = roundKey{rapid.Uint64().Draw(t, "multiplier"), rapid.Uint64().Draw(t, "addend")}
		}
		p := newPermutation(size, keys)
		if a, b := p.left, p.right.by; a*b < size || a*b-size >= a || (a-1)*(a-1) >= size || a*a < size {
			t.Fatalf("size %d is covered by %d·%d", size, a, b)
		}
		x := rapid.Uint64Range(0, size-1).Draw(t, "x")
		y := p.of(x)
		if y >= size {
			t.Fatalf("%d goes to %d of %d", x, y, size)
		}
		if back := p.inverse(y); back != x {
			t.Fatalf("%d goes to %d and back to %d", x, y, back)
		}
	})
}

// inverse takes the rounds back, in terms that share nothing with of but the round function.
func (p *permutation) inverse(y uint64) uint64 {
	a, b := p.left, p.right.by
	for {
		l, r := y/b, y%b
		for i := rounds - 1; i > 0; i -= 2 {
			r = (r + b - p.keys[i].below(b, l)) % b
			l = (l + a - p.keys[i-1].below(a, r)) % a
		}
		if y = l*b + r; y < p.size {
			return y
		}
	}
}

// Over random keys every place is as likely for a number, and every pair of places for two neighbours.
func TestPermutationUniform(t *testing.T) {
	const seed, size, trials = 9, 49, 100_000
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, seed))
	single, pairs := make([]int, size), make([]int, size*size)
	for range trials {
		p := newPermutation(size, randomKeys(rng))
		x, y := p.of(20), p.of(21)
		single[x]++
		pairs[x*size+y]++
	}
	checkChiSquare(t, single, trials, size-1, 1)
	var apart []int
	for i, n := range pairs {
		if i/size != i%size {
			apart = append(apart, n)
		}
	}
	checkChiSquare(t, apart, trials, len(apart)-1, 1)
}

// Under one key, numbers that follow each other land without relation: the differences of neighbours'
// images are spread alike.
func TestPermutationScatters(t *testing.T) {
	const seed, size, bins = 13, 1 << 27, 64
	t.Logf("seed %d", seed)
	p := newPermutation(size, randomKeys(rand.New(rand.NewPCG(seed, seed))))
	const trials = 100_000
	places, steps := make([]int, bins), make([]int, bins)
	before := p.of(0)
	for x := uint64(1); x <= trials; x++ {
		y := p.of(x)
		places[y*bins/size]++
		steps[(y-before)%size*bins/size]++
		before = y
	}
	checkChiSquare(t, places, trials, bins-1, 1)
	checkChiSquare(t, steps, trials, bins-1, 1)
}

func TestDivisor(t *testing.T) {
	numbers := rapid.OneOf(rapid.Uint64Range(0, math.MaxInt64), rapid.Uint64Range(0, 1000))
	rapid.Check(t, func(t *rapid.T) {
		by := rapid.OneOf(rapid.Uint64Range(1, 300), rapid.Uint64Range(1, math.MaxInt64), rapid.Uint64Range(math.MaxInt64-5, math.MaxInt64)).Draw(t, "by")
		multiple := rapid.Uint64Range(0, math.MaxInt64/by).Draw(t, "multiple") * by
		for _, x := range []uint64{numbers.Draw(t, "x"), multiple, multiple - min(1, multiple), math.MaxInt64} {
			d := newDivisor(by)
			if quotient, rest := d.split(x); quotient != x/by || rest != x%by {
				t.Fatalf("%d by %d is %d, rest %d", x, by, quotient, rest)
			}
		}
	})
}
