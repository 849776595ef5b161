package placement

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// successive is the chance that each shard is among the first k of successive weighted sampling, by
// following every order in which they can come.
func successive(weights []int, k int) []float64 {
	in := make([]float64, len(weights))
	taken := make([]bool, len(weights))
	var follow func(left, total int, p float64)
	follow = func(left, total int, p float64) {
		if left == 0 {
			return
		}
		for i, w := range weights {
			if !taken[i] {
				q := p * float64(w) / float64(total)
				in[i] += q
				taken[i] = true
				follow(left-1, total-w, q)
				taken[i] = false
			}
		}
	}
	total := 0
	for _, w := range weights {
		total += w
	}
	follow(k, total, 1)
	return in
}

func repeat(w, n int, more ...int) []int { return append(more, slices.Repeat([]int{w}, n)...) }

// TestWeighted: how many tenants each shard has is what following every order of successive weighted
// sampling gives.
func TestWeighted(t *testing.T) {
	const tenants = 40_000
	if p := successive(repeat(1, 15, 2), 2); math.Abs(p[0]/p[1]-1.93) > 0.005 {
		t.Fatalf("double weight has %.4f times the tenants at 2 of 16, want 1.93", p[0]/p[1])
	}
	for _, c := range []struct {
		weights []int
		k       int
	}{
		{repeat(1, 15, 2), 2}, {repeat(10, 15, 20), 2}, {[]int{1, 2, 3, 4}, 1}, {[]int{1, 2, 3, 4}, 3},
		{[]int{1, 1, 1, 1000}, 2}, {[]int{1, MaxWeight, MaxWeight, MaxWeight - 1}, 3}, {[]int{7, 5, 3, 2, 2, 1}, 4},
	} {
		t.Run(fmt.Sprint(c.k, " of ", c.weights), func(t *testing.T) {
			s := subsets(t, RendezvousV1, []byte("a fixed key is the seed"), weighted(c.weights...), c.k)
			counts := make([]int, len(c.weights))
			var buf []int
			for i := range tenants {
				buf = s.of(buf[:0], tenant(i))
				for _, shard := range buf {
					counts[shard]++
				}
			}
			for i, p := range successive(c.weights, c.k) {
				// Each count is binomial. Beyond five standard deviations is one key in 1.7 million.
				mean, slack := p*tenants, 5*math.Sqrt(tenants*p*(1-p))+1e-6
				if math.Abs(float64(counts[i])-mean) > slack {
					t.Errorf("shard %d of weight %d has %d tenants, want %.1f within %.1f", i, c.weights[i], counts[i], mean, slack)
				}
			}
		})
	}
}

// Weighted: the order of the shards, against sorting all by their waits in big numbers. Equal words make
// ties.
func TestWeightedOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(1, 30), rapid.IntRange(scanned, 3*scanned)).Draw(t, "n")
		word := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(1, 3))
		r := ranking{
			words:   rapid.SliceOfN(word, n, n).Draw(t, "words"),
			weights: rapid.SliceOfN(rapid.SampledFrom([]uint64{1, 2, 3, 999, MaxWeight}), n, n).Draw(t, "weights"),
		}
		p := point{rapid.Uint64().Draw(t, "first"), rapid.Uint64().Draw(t, "second")}
		want := make([]int, n)
		for i := range want {
			want[i] = i
		}
		slices.SortStableFunc(want, func(a, b int) int {
			x, y := p.score(r.words[a]), p.score(r.words[b])
			left := new(big.Int).Mul(new(big.Int).SetUint64(wait(x)), new(big.Int).SetUint64(r.weights[b]))
			right := new(big.Int).Mul(new(big.Int).SetUint64(wait(y)), new(big.Int).SetUint64(r.weights[a]))
			if c := left.Cmp(right); c != 0 {
				return c
			}
			return new(big.Int).SetUint64(y).Cmp(new(big.Int).SetUint64(x))
		})
		k := rapid.IntRange(1, n).Draw(t, "k")
		if got := r.appendWeighted(nil, p, k); !slices.Equal(got, want[:k]) {
			t.Fatalf("got %v, want %v", got, want[:k])
		}
	})
}

// Weighted: only the ratio of weights counts, and equal weights are no weights.
func TestWeightedRatio(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, shards, tenant := drawKey(t), shardList(t, RendezvousV1), drawTenant(t)
		k := rapid.IntRange(1, len(shards)).Draw(t, "k")
		factor := rapid.IntRange(2, 1000).Draw(t, "factor")
		scaled := slices.Clone(shards)
		for i := range scaled {
			shards[i].Weight = 1 + shards[i].Weight%1000
			scaled[i].Weight = factor * shards[i].Weight
		}
		a, b := subsets(t, RendezvousV1, key, shards, k).of(nil, tenant), subsets(t, RendezvousV1, key, scaled, k).of(nil, tenant)
		if !slices.Equal(a, b) {
			t.Fatalf("%v, and %v with all weights %d times as large", a, b, factor)
		}
		m := newMAC(key)
		r := newRanking(&m, named([]string{"a", "b", "c", "d", "e"}), []int{0, 1, 2, 3, 4})
		p := newPoint(&m, tenant)
		want := r.appendPositions(nil, p, 5)
		r.weights = slices.Repeat([]uint64{uint64(factor)}, 5)
		if got := r.appendWeighted(nil, p, 5); !slices.Equal(got, want) {
			t.Fatalf("%v with equal weights, %v without", got, want)
		}
	})
}

// A wait is the logarithm within one unit, and the bound on it is one.
func TestWait(t *testing.T) {
	if wait(math.MaxUint64) != 1 || wait(0) != 64<<waitBits || wait(1) != 64<<waitBits || wait(1<<63) != 1<<waitBits {
		t.Errorf("waits of the ends: %d, %d, %d, %d", wait(math.MaxUint64), wait(0), wait(1), wait(1<<63))
	}
	rapid.Check(t, func(t *rapid.T) {
		score := rapid.OneOf(rapid.Uint64Min(1), rapid.Uint64Min(math.MaxUint64-1000), rapid.Uint64Range(1, 1000)).Draw(t, "score")
		got := wait(score)
		checkWait(t, score, got)
		if score < math.MaxUint64 && wait(score+1) > got {
			t.Fatalf("the wait rises from score %d to the next", score)
		}
		e := entrant{score, got, rapid.Uint64Range(1, MaxWeight).Draw(t, "weight")}
		other, weight := rapid.Uint64().Draw(t, "other score"), rapid.Uint64Range(1, MaxWeight).Draw(t, "other weight")
		if e.beyond(other, weight) && (entrant{other, wait(other), weight}).before(e) {
			t.Fatalf("score %d of weight %d comes before %+v, and is said not to", other, weight, e)
		}
	})
}

// checkWait asks, in numbers of 400 bits, that 2^-w and 2^-(w-1), in 2^-waitBits, enclose the score. The
// powers come from square roots of two, one for each binary place.
func checkWait(t *rapid.T, score, w uint64) {
	power := func(w uint64) *big.Float { // 2^(64 - w/2^waitBits)
		root := new(big.Float).SetPrec(400).SetInt64(2)
		x := new(big.Float).SetPrec(400).SetInt64(1)
		exponent := 64<<waitBits - w
		for place := waitBits - 1; place >= 0; place-- {
			root = new(big.Float).SetPrec(400).Sqrt(root)
			if exponent>>place&1 == 1 {
				x.Mul(x, root)
			}
		}
		return x.SetMantExp(x, int(exponent>>waitBits))
	}
	s := new(big.Float).SetPrec(400).SetUint64(score)
	// One unit is the rounding; 2^-5 more is what the squares lose.
	if power(w).Cmp(s) > 0 || power(w-1).Cmp(s) < 0 && power(w-2).Cmp(s) < 0 {
		t.Fatalf("score %d has wait %d, which is not its logarithm", score, w)
	}
}

// Wait: pinned, all 56 binary places of them. They were worked out with 120 decimal digits, apart from the
// code.
func TestWaitGolden(t *testing.T) {
	for score, want := range map[uint64]uint64{
		1: 4611686018427387904, 2: 4539628424389459968, 3: 4497477433985083769, 5: 4444373466380734933,
		0x123456789abcdef0: 274811896826202473, 0x7fffffffffffffff: 72057594037927937, 0x8000000000000000: 72057594037927936,
		0xb504f333f9de6484: 36028797018963969, 0xdeadbeefcafef00d: 14496566844140371,
		0xffffffffffffff00: 2, 0xfffffffffffffffe: 1,
	} {
		if got := wait(score); got != want {
			t.Errorf("score %#x has wait %d, want %d", score, got, want)
		}
	}
}

// Weighted: orders that only the last binary places of the waits tell; with 40 places, or 48, some come out the
// other way round. Read as numbers below 1, the square of the light shard's score is less than the score of the
// heavy one, but by 2^-54 only, so that the heavy one comes first. The words are those that have these scores.
func TestWeightedPlaces(t *testing.T) {
	p := point{0x0123456789abcdef, 0xfedcba9876543210}
	for _, c := range []struct{ light, heavy, lightWord, heavyWord uint64 }{
		{0xc0ffee1234567890, 0x9180e4f7742bd7b8, 0x608237dfc428f0cf, 0x2b0e67fa65d73cbf},
		{0xf00dfeed87654321, 0xe11a3ec13fd9d737, 0x42a61cee1fd8c6d9, 0x8033c7074a13389e},
		{0xb5a4c3d2e1f00f1e, 0x80e266f3af79e6de, 0xe95750e77e38e6d8, 0xdbde29bc14a470c3},
	} {
		if p.score(c.lightWord) != c.light || p.score(c.heavyWord) != c.heavy {
			t.Fatalf("words %#x and %#x have scores %#x and %#x", c.lightWord, c.heavyWord, p.score(c.lightWord), p.score(c.heavyWord))
		}
		if hi, _ := bits.Mul64(c.light, c.light); hi+1<<10 != c.heavy {
			t.Fatalf("the square of %#x is not as far from %#x as it is meant to be", c.light, c.heavy)
		}
		r := ranking{words: []uint64{c.lightWord, c.heavyWord}, weights: []uint64{1, 2}}
		if got := r.appendWeighted(nil, p, 2); !slices.Equal(got, []int{1, 0}) {
			t.Errorf("scores %#x and, of weight 2, %#x: order %v", c.light, c.heavy, got)
		}
	}
}

func BenchmarkWait(b *testing.B) {
	x := uint64(1)
	for b.Loop() {
		x = x*6364136223846793005 + wait(x)
	}
}
