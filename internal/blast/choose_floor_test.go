package blast

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// What is hopeless is broken however tenants are placed: here as they were drawn, all failures measured. And the
// company of tenants is what counting pairs gives.
func TestChooseHopeless(t *testing.T) {
	hopeless := 0
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 8).Draw(t, "shards")
		budget := LossBudget{
			rapid.IntRange(1, n-1).Draw(t, "failures"), rapid.Float64Range(0, 1).Draw(t, "degraded"),
			rapid.Float64Range(0, 1).Draw(t, "lost"), rapid.Float64Range(0, 1).Draw(t, "down"),
		}
		capacity := rapid.Float64Range(1, 40).Draw(t, "capacity")
		var subsets [][]int
		var loads []float64
		bySize := map[int]*TenantClass{}
		for range rapid.IntRange(1, 12).Draw(t, "tenants") {
			all := make([]int, n)
			for i := range all {
				all[i] = i
			}
			k := rapid.IntRange(1, n).Draw(t, "k")
			load := float64(rapid.IntRange(0, 30).Draw(t, "load"))
			subsets, loads = append(subsets, rapid.Permutation(all).Draw(t, "subset")[:k]), append(loads, load)
			if bySize[k] == nil {
				bySize[k] = &TenantClass{PerTenant: k}
			}
			c := bySize[k]
			c.Tenants, c.Load, c.Largest = c.Tenants+1, c.Load+load, max(c.Largest, load)
		}
		p := exactMust[*Population](t)(CollectLoads(n, func(yield func([]int, float64) bool) {
			for i := range subsets {
				if !yield(subsets[i], loads[i]) {
					return
				}
			}
		}))
		shared, same := 0, 0
		for i, a := range subsets {
			for j, b := range subsets {
				if i == j {
					continue
				}
				both := 0
				for _, s := range a {
					if slices.Contains(b, s) {
						both++
					}
				}
				if shared += both; both == len(a) && both == len(b) {
					same++
				}
			}
		}
		if m := float64(len(subsets)); m > 1 {
			if got := p.Company(); math.Abs(got.Shared-float64(shared)/m/(m-1)) > 1e-9 || math.Abs(got.Same-float64(same)/m) > 1e-9 {
				t.Fatalf("%+v, want %d and %d", got, shared, same)
			}
		}

		var classes []TenantClass
		for _, c := range bySize {
			classes = append(classes, *c)
		}
		line, never := budget.Hopeless(n, len(subsets), capacity, classes)
		if !never {
			return
		}
		hopeless++
		s := exactMust[*Spread](t)(p.Failures(budget.ConcurrentFailures, Sampling{}))
		c := exactMust[*Capacity](t)(NewCapacity(p, Provision{PerShard: slices.Repeat([]float64{capacity}, n)}))
		h := exactMust[*Headroom](t)(c.Headroom(budget.ConcurrentFailures, Sampling{}))
		least, all := p.Sizes()[0], float64(len(subsets))
		broken := budget.Check(LossFigures{
			Degraded: s.Degraded.Tenants.Worst / all, FullyDown: s.FullyDown.Tenants.Worst / all,
			CapacityLoss: float64(min(least, budget.ConcurrentFailures)) / float64(least), Utilisation: h.Worst,
		})
		if !slices.ContainsFunc(broken, func(b Breach) bool { return b.Line == line }) {
			t.Fatalf("%s is hopeless, and %+v are broken", line, broken)
		}
	})
	if hopeless == 0 {
		t.Error("nothing was hopeless")
	}
}
