package placement

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Shares, in large zones: they sum to k, to the nine places that are promised.
func TestSharesOfLargeZones(t *testing.T) {
	for _, c := range []struct {
		n, k, heavy int
	}{
		{100, 50, 2}, {200, 100, 2}, {400, 1, 2}, {400, 200, 2}, {400, 399, 2}, {400, 200, MaxWeight},
		{400, 201, MaxWeight}, {1000, 500, 2}, {1000, 990, 3}, {3000, 7, 5},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			shards := numbered(c.n)
			for i := range shards {
				if i%2 == 1 {
					shards[i].Weight = c.heavy
				}
			}
			shares := subsets(t, RendezvousV1, []byte("k"), shards, c.k).Shares()
			sum := 0.0
			for i, share := range shares {
				sum += share
				if share != shares[i%2] {
					t.Fatalf("shards %d and %d have one weight, and shares of %v and %v", i%2, i, shares[i%2], share)
				}
			}
			t.Logf("sum - k is %.1e", sum-float64(c.k))
			if math.Abs(sum-float64(c.k)) > 1e-9 || shares[1] <= shares[0] {
				t.Errorf("shares of %v and %v sum to %v, want %d", shares[0], shares[1], sum, c.k)
			}
		})
	}
}

// Shares, with two weights: what counting the ways of successive sampling by their number of heavy members
// gives, exactly, for zones that are too large to follow every order.
func TestSharesOfTwoWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		light, heavy := rapid.IntRange(1, 150).Draw(t, "light"), rapid.IntRange(1, 150).Draw(t, "heavy")
		weight := rapid.SampledFrom([]int{2, 3, 10, 1000, MaxWeight}).Draw(t, "weight")
		k := rapid.IntRange(1, light+heavy).Draw(t, "k")
		// taken[h] is the chance that h of the members so far are heavy.
		taken := make([]float64, k+1)
		taken[0] = 1
		for j := range k {
			next := make([]float64, k+1)
			for h, p := range taken[:j+1] {
				if p == 0 {
					continue
				}
				a, b := float64(light-(j-h)), float64(weight)*float64(heavy-h)
				if b > 0 {
					next[h+1] += p * b / (a + b)
				}
				if a > 0 {
					next[h] += p * a / (a + b)
				}
			}
			taken = next
		}
		mean := 0.0
		for h, p := range taken {
			mean += float64(h) * p
		}
		shares := subsets(t, RendezvousV1, []byte("k"), weighted(append(slices.Repeat([]int{1}, light), slices.Repeat([]int{weight}, heavy)...)...), k).Shares()
		if got, want := shares[light], mean/float64(heavy); math.Abs(got-want) > 1e-9 {
			t.Fatalf("a heavy shard has %.12f, want %.12f", got, want)
		}
		if got, want := shares[0], (float64(k)-mean)/float64(light); math.Abs(got-want) > 1e-9 {
			t.Fatalf("a light shard has %.12f, want %.12f", got, want)
		}
	})
}

// Shares, with any weights: what following every order gives.
func TestSharesOfAnyWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weight := rapid.OneOf(rapid.IntRange(1, 9), rapid.IntRange(1, MaxWeight), rapid.SampledFrom([]int{1, 1000, MaxWeight}))
		weights := rapid.SliceOfN(weight, 1, 7).Draw(t, "weights")
		k := rapid.IntRange(1, len(weights)).Draw(t, "k")
		want := successive(weights, k)
		for i, got := range subsets(t, RendezvousV1, []byte("k"), weighted(weights...), k).Shares() {
			if math.Abs(got-want[i]) > 1e-9 {
				t.Fatalf("share %d is %.12f, want %.12f", i, got, want[i])
			}
		}
	})
}

// The rule is exact for polynomials of degree 31 and less.
func TestGauss(t *testing.T) {
	for degree := 0; degree < 32; degree += 2 { // odd powers cancel
		sum := 0.0
		for _, node := range gauss {
			sum += 2 * node[1] * math.Pow(node[0], float64(degree))
		}
		if want := 2 / float64(degree+1); math.Abs(sum-want) > 1e-14 {
			t.Errorf("x^%d integrates to %.16f, want %.16f", degree, sum, want)
		}
	}
}

func BenchmarkShares(b *testing.B) {
	for _, n := range []int{100, 1000, 4000} {
		shards := numbered(n)
		for i := range shards {
			shards[i].Weight = 1 + i%2
		}
		s := subsets(b, RendezvousV1, []byte("k"), shards, n/2)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				s.Shares()
			}
		})
	}
}
