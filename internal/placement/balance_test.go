package placement

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestShares: they are what following every order of the draws gives, exactly, zone by zone; each lies
// from 0 to 1, and they sum to k.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		weights []int
		k       int
	}{
		{[]int{1, 2, 3, 4}, 1}, {[]int{1, 2, 3, 4}, 3}, {[]int{1, 1, 1, 1000}, 2}, {[]int{1, MaxWeight, MaxWeight, MaxWeight - 1}, 3},
		{[]int{1, 1, MaxWeight}, 2}, {[]int{7, 5, 3, 2, 2, 1}, 4}, {repeat(1, 15, 2), 2}, {[]int{3, 3, 3}, 2}, {[]int{1, 2}, 2},
	} {
		want := successive(c.weights, c.k)
		for i, got := range subsets(t, RendezvousV1, []byte("k"), weighted(c.weights...), c.k).Shares() {
			if math.Abs(got-want[i]) > 1e-9 {
				t.Errorf("%d of weights %v: share %d is %.12f, want %.12f", c.k, c.weights, i, got, want[i])
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		scheme := drawScheme(t)
		shards := shardList(t, scheme)
		k := rapid.IntRange(1, len(shards)).Draw(t, "k")
		s := subsets(t, scheme, drawKey(t), shards, k)
		for what, shares := range map[string][]float64{"shares": s.Shares(), "fair shares": s.Fair()} {
			sum := 0.0
			for _, share := range shares {
				sum += share
			}
			if math.Abs(sum-float64(k)) > 1e-9 || slices.Min(shares) < 0 || slices.Max(shares) > 1+1e-12 {
				t.Fatalf("%s %v sum to %v, want %d", what, shares, sum, k)
			}
		}
	})
}

// Shares, over unequal zones with weights: what a population has.
func TestSharesOfAPopulation(t *testing.T) {
	const tenants = 40_000
	for name, c := range map[string]struct {
		shards []Shard
		k      int
	}{
		"3/2/1": {sparse(), 2}, "3/2/1, four": {sparse(), 4}, "3/2/1, five": {sparse(), 5}, "16 in 3": {zoned(16, 3), 2}, "weights in 4": {heavyZones(), 6},
	} {
		t.Run(name, func(t *testing.T) {
			s := subsets(t, RendezvousV1, []byte("a fixed key is the seed"), c.shards, c.k)
			counts := make([]int, len(c.shards))
			var buf []int
			for i := range tenants {
				buf = s.of(buf[:0], tenant(i))
				for _, shard := range buf {
					counts[shard]++
				}
			}
			for i, p := range s.Shares() {
				mean, slack := p*tenants, 5*math.Sqrt(tenants*p*math.Max(0, 1-p))+1e-3
				if math.Abs(float64(counts[i])-mean) > slack {
					t.Errorf("shard %d has %d tenants, want %.1f within %.1f", i, counts[i], mean, slack)
				}
			}
		})
	}
}

// TestBalance: the inequality of unequal zones, by hand. Of 3/2/1 shards and k = 2 each zone has 2/3 of the
// tenants; fair is 1/3 each.
func TestBalance(t *testing.T) {
	for _, c := range []struct {
		name        string
		shards      []Shard
		k           int
		most, least float64
	}{
		{"3/2/1", sparse(), 2, 2, 2.0 / 3},
		{"equal zones", zoned(24, 3), 4, 1, 1},
		{"no zones", numbered(7), 3, 1, 1},
		{"16 in 3 zones", zoned(16, 3), 2, 16.0 / 15, 16.0 / 18},
		{"all", sparse(), 6, 1, 1},
	} {
		b := subsets(t, RendezvousV1, []byte("k"), c.shards, c.k).Balance()
		if math.Abs(b.Most-c.most) > 1e-9 || math.Abs(b.Least-c.least) > 1e-9 {
			t.Errorf("%s: %+v, want %v and %v", c.name, b, c.most, c.least)
		}
	}
	b := subsets(t, RendezvousV1, []byte("k"), sparse(), 2).Balance()
	if b.MostShard != 5 || b.LeastShard > 2 {
		t.Errorf("%+v: want the shard that is alone, and one of three", b)
	}
	// Double weight is 1.93 times the tenants of another, and so less than its fair share.
	b = subsets(t, RendezvousV1, []byte("k"), weighted(repeat(1, 15, 2)...), 2).Balance()
	if got := b.Least * 2 / b.Most; b.LeastShard != 0 || fmt.Sprintf("%.2f", got) != "1.93" {
		t.Errorf("%+v: double weight has %.4f times the tenants", b, got)
	}
}
