package main

import (
	"math"
	"slices"
)

// figures are what subsets are like.
type figures struct {
	tenants int
	grown   int // shards after growing
	balance balance
	growth  growth
	overlap overlap
	few     overlap // among as many tenants as bounded/v1 places, or all where they are fewer; nil where unknown
	zones   zoneShare
}

// balance is how far the numbers of tenants on the shards are from even.
type balance struct {
	most      float64 // the largest by the mean
	variation float64 // standard deviation by the mean
}

func balanceOf(s subsets, n int) balance {
	counts := make([]int, n)
	for _, m := range s.members {
		counts[m]++
	}
	mean := float64(len(s.members)) / float64(n)
	var squares float64
	for _, c := range counts {
		squares += (float64(c) - mean) * (float64(c) - mean)
	}
	return balance{float64(slices.Max(counts)) / mean, math.Sqrt(squares/float64(n)) / mean}
}

// growth is what tenants go through when shards are added.
type growth struct {
	changed  float64 // part of the tenants whose subset is another
	relative float64 // new members for each tenant; compare sets it in relation to the ideal
	most     int     // new members in one subset
}

func growthOf(before, after subsets) growth {
	var g growth
	var changed, all int
	for i := range before.tenants() {
		added := 0
		for _, m := range after.of(i) {
			if !slices.Contains(before.of(i), m) {
				added++
			}
		}
		if added > 0 {
			changed++
		}
		all += added
		g.most = max(g.most, added)
	}
	g.changed = float64(changed) / float64(before.tenants())
	g.relative = float64(all) / float64(before.tenants())
	return g
}

// overlap is the distribution of shards shared by two tenants, over all pairs.
type overlap []float64 // part of the pairs that share exactly that many

// overlapOf counts all pairs without visiting them. For each j it finds how often each set of j shards
// lies within a subset; two tenants that share m shards have C(m, j) such sets in common, so the sums of
// pairs give the distribution by inclusion and exclusion.
func overlapOf(s subsets) overlap {
	pairs := make([]int, s.k+1) // pairs weighed by C(shared, j)
	pairs[0] = s.tenants() * (s.tenants() - 1) / 2
	for j := 1; j <= s.k; j++ {
		var sets []uint64
		for i := range s.tenants() {
			members := slices.Sorted(slices.Values(s.of(i)))
			for mask := range 1 << s.k {
				if set, size := pack(members, mask); size == j {
					sets = append(sets, set)
				}
			}
		}
		slices.Sort(sets)
		for run, i := 0, 0; i < len(sets); i++ {
			if i > 0 && sets[i] == sets[i-1] {
				run++
				pairs[j] += run
			} else {
				run = 0
			}
		}
	}
	out := make(overlap, s.k+1)
	for m := range out {
		exactly, sign := 0, 1
		for j := m; j <= s.k; j++ {
			exactly += sign * binomial(j, m) * pairs[j]
			sign = -sign
		}
		out[m] = float64(exactly) / float64(pairs[0])
	}
	return out
}

// pack gives the members that the mask takes as one number, and how many they are. A shard number has 16
// bits, so four fit.
func pack(members []int, mask int) (set uint64, size int) {
	for b, m := range members {
		if mask>>b&1 == 1 {
			set = set<<16 | uint64(m)
			size++
		}
	}
	return set, size
}

func binomial(n, k int) int {
	c := 1
	for i := range k {
		c = c * (n - i) / (i + 1)
	}
	return c
}

// atLeast is the part of the pairs that share m shards or more.
func (o overlap) atLeast(m int) float64 {
	var sum float64
	for _, p := range o[m:] {
		sum += p
	}
	return sum
}

// most is the largest number of shards that any two tenants share.
func (o overlap) most() int {
	for m := len(o) - 1; m > 0; m-- {
		if o[m] > 0 {
			return m
		}
	}
	return 0
}

// zoneShare is how often zones are shared within a subset.
type zoneShare struct {
	one   float64 // part of the tenants whose members all lie in one zone
	twice float64 // part with two members or more in some zone
}

func zonesOf(s subsets) zoneShare {
	var one, twice int
	for i := range s.tenants() {
		var in [zones]int
		for _, m := range s.of(i) {
			in[zoneOf(m)]++
		}
		if slices.Max(in[:]) == s.k {
			one++
		}
		if slices.Max(in[:]) > 1 {
			twice++
		}
	}
	return zoneShare{float64(one) / float64(s.tenants()), float64(twice) / float64(s.tenants())}
}

// chance is what subsets drawn at random, each for itself, give on average, and what growing by one shard
// moves at the least.
func chance(s shape, tenants int) figures {
	f := drawn(s, tenants)
	all := float64(binomial(s.n, s.k))
	for m := range s.k + 1 {
		f.overlap = append(f.overlap, float64(binomial(s.k, m)*binomial(s.n-s.k, s.k-m))/all)
	}
	each := s.n / zones
	f.zones.one = zones * float64(binomial(each, s.k)) / all
	f.zones.twice = 1 - float64(binomial(zones, s.k))*math.Pow(float64(each), float64(s.k))/all
	return f
}

// chanceApart is the same for subsets with no two members in a zone: k of the zones, and a shard in each.
func chanceApart(s shape, tenants int) figures {
	f := drawn(s, tenants)
	f.overlap = make(overlap, s.k+1)
	same := float64(zones) / float64(s.n)
	for both := max(0, 2*s.k-zones); both <= s.k; both++ { // zones that two tenants have in common
		p := float64(binomial(s.k, both)*binomial(zones-s.k, s.k-both)) / float64(binomial(zones, s.k))
		for m := range both + 1 {
			f.overlap[m] += p * float64(binomial(both, m)) * math.Pow(same, float64(m)) * math.Pow(1-same, float64(both-m))
		}
	}
	return f
}

// drawn is what both have in common: each shard is in a random subset with the same probability.
func drawn(s shape, tenants int) figures {
	share := float64(s.k) / float64(s.n)
	return figures{
		tenants: tenants,
		grown:   s.n + 1,
		balance: balance{variation: math.Sqrt((1 - share) / (share * float64(tenants)))},
		growth:  growth{changed: float64(s.k) / float64(s.n+1), relative: 1, most: 1},
	}
}
