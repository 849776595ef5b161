package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestBalanceOf(t *testing.T) {
	// Three, three, one and one tenants: 2 on average, and each one away from it.
	got := balanceOf(subsets{2, []int{0, 1, 0, 1, 0, 2, 1, 3}}, 4)
	if !near(got.most, 1.5) || !near(got.variation, 0.5) {
		t.Errorf("%+v, want 1.5 and 0.5", got)
	}
}

func TestGrowthOf(t *testing.T) {
	before := subsets{2, []int{0, 1, 2, 3, 4, 5, 6, 7}}
	after := subsets{2, []int{1, 0, 2, 8, 8, 9, 6, 7}} // another order is no change
	if got := growthOf(before, after); !near(got.changed, 0.5) || !near(got.relative, 0.75) || got.most != 2 {
		t.Errorf("%+v, want half of the tenants, 0.75 places each and 2 at most", got)
	}
}

func TestZonesOf(t *testing.T) {
	s := subsets{3, []int{0, 4, 8, 0, 4, 1, 0, 1, 2, 3, 6, 9}}
	if got := zonesOf(s); !near(got.one, 0.25) || !near(got.twice, 0.5) {
		t.Errorf("%+v, want a quarter and a half", got)
	}
}

// Counting sets gives what visiting every pair gives.
func TestOverlapOf(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for k := 2; k <= 4; k++ {
		n, tenants := k+r.IntN(6), 2+r.IntN(60)
		s := subsets{k: k}
		for range tenants {
			s.members = append(s.members, r.Perm(n)[:k]...)
		}
		want := make(overlap, k+1)
		for i := range tenants {
			for j := range i {
				shared := 0
				for _, m := range s.of(i) {
					if slices.Contains(s.of(j), m) {
						shared++
					}
				}
				want[shared] += 2 / float64(tenants*(tenants-1))
			}
		}
		got := overlapOf(s)
		for m := range want {
			if !near(got[m], want[m]) {
				t.Errorf("%d tenants with %d of %d: %v, want %v", tenants, k, n, got, want)
			}
		}
	}
}

// The distribution of chance sums to one and has the mean k²/n, and random subsets come near it.
func TestChance(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const tenants = 5000
	for _, s := range shapes {
		drawn, apart := subsets{k: s.k}, subsets{k: s.k}
		for range tenants {
			drawn.members = append(drawn.members, r.Perm(s.n)[:s.k]...)
			for _, z := range r.Perm(zones)[:s.k] {
				apart.members = append(apart.members, z+zones*r.IntN(s.n/zones))
			}
		}
		for _, c := range []struct {
			name string
			want figures
			got  subsets
		}{{"chance", chance(s, tenants), drawn}, {"apart", chanceApart(s, tenants), apart}} {
			var sum, mean float64
			for m, p := range c.want.overlap {
				sum += p
				mean += float64(m) * p
			}
			if !near(sum, 1) || !near(mean, float64(s.k*s.k)/float64(s.n)) {
				t.Errorf("%s, %d of %d: sum %v, mean %v", c.name, s.k, s.n, sum, mean)
			}
			// 12.5 million pairs, but 5,000 tenants only: six standard deviations are well within these.
			if got := overlapOf(c.got); math.Abs(got.atLeast(1)-c.want.overlap.atLeast(1)) > 0.02 {
				t.Errorf("%s, %d of %d: %v share a shard, want %v", c.name, s.k, s.n, got.atLeast(1), c.want.overlap.atLeast(1))
			}
			got := zonesOf(c.got)
			if math.Abs(got.one-c.want.zones.one) > 0.045 || math.Abs(got.twice-c.want.zones.twice) > 0.045 {
				t.Errorf("%s, %d of %d: zones %+v, want %+v", c.name, s.k, s.n, got, c.want.zones)
			}
			if got := balanceOf(c.got, s.n).variation; got > 2*c.want.balance.variation {
				t.Errorf("%s, %d of %d: variation %v, want about %v", c.name, s.k, s.n, got, c.want.balance.variation)
			}
		}
	}
}
