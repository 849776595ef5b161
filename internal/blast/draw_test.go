package blast

import (
	"iter"
	"math"
	"slices"

	"pgregory.net/rapid"
)

// drawn is a population as it was drawn, for counting naively.
type drawn struct {
	shards  int
	subsets [][]int
	loads   []float64
}

// drawLoaded draws tenants with subsets of few unlike sizes. Loads are integers, so that sums of them are
// exact however they are added.
func drawLoaded(t *rapid.T, most int) drawn {
	d := drawn{shards: most - rapid.IntRange(0, most-2).Draw(t, "shards fewer than most")}
	sizes := rapid.SliceOfN(rapid.IntRange(1, d.shards), 1, 3).Draw(t, "sizes of subsets")
	// Drawn from a list, since a range would mostly give a few.
	for range rapid.SampledFrom([]int{0, 1, 2, 7, 15, 30, 60}).Draw(t, "tenants") {
		k := rapid.SampledFrom(sizes).Draw(t, "size")
		d.subsets = append(d.subsets, rapid.Permutation(seq(d.shards)).Draw(t, "subset")[:k])
		d.loads = append(d.loads, float64(rapid.IntRange(0, 1_000_000).Draw(t, "load")))
	}
	return d
}

func (d drawn) seq() iter.Seq2[[]int, float64] {
	return func(yield func([]int, float64) bool) {
		for i, s := range d.subsets {
			if !yield(s, d.loads[i]) {
				return
			}
		}
	}
}

func (d drawn) population(t fataler) *Population {
	t.Helper()
	p, err := CollectLoads(d.shards, d.seq())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// shuffled is the same tenants in another order, with the members of each in another order.
func (d drawn) shuffled(t *rapid.T) drawn {
	other := drawn{shards: d.shards}
	for _, i := range rapid.Permutation(seq(len(d.subsets))).Draw(t, "tenants in another order") {
		other.subsets = append(other.subsets, rapid.Permutation(d.subsets[i]).Draw(t, "members in another order"))
		other.loads = append(other.loads, d.loads[i])
	}
	return other
}

// lost is how many members of a subset have failed.
func lost(subset, failed []int) (n int) {
	for _, s := range subset {
		if slices.Contains(failed, s) {
			n++
		}
	}
	return n
}

// impact looks at every tenant.
func (d drawn) impact(failed []int) (i Impact) {
	for tenant, subset := range d.subsets {
		load, l := d.loads[tenant], lost(subset, failed)
		if l > 0 {
			i.Degraded++
			i.DegradedLoad += load
		}
		if l == len(subset) {
			i.FullyDown++
			i.FullyDownLoad += load
		}
		i.LostTenants += float64(l) / float64(len(subset))
		i.LostLoad += load * float64(l) / float64(len(subset))
	}
	return i
}

// near allows for the order in which fractions are added.
func near(a, b float64) bool {
	return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b))
}

func nearImpact(a, b Impact) bool {
	if !near(a.LostTenants, b.LostTenants) || !near(a.LostLoad, b.LostLoad) {
		return false
	}
	a.LostTenants, a.LostLoad = b.LostTenants, b.LostLoad
	return a == b
}

// everySet gives each set of f of n shards, from a recursion that shares nothing with combinations.
func everySet(n, f int) (sets [][]int) {
	for set := range everySubset(n, f, 1) {
		sets = append(sets, slices.Clone(set))
	}
	return sets
}
