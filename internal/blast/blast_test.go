package blast

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/placement"
)

type recipeVector struct {
	Tenants struct {
		Format string `json:"format"`
		Count  int    `json:"count"`
	} `json:"tenants"`
	N           int     `json:"n"`
	K           int     `json:"k"`
	Key         string  `json:"key_hex"`
	Failed      []int   `json:"failed"`
	FullyDown   *int    `json:"fully_down"`
	Degraded    *int    `json:"degraded"`
	Overlapping *uint64 `json:"overlapping_pairs"`
	Pairs       *uint64 `json:"pairs"`
}

// TestRecipe: the 20 vectors of Recipe 12.2, which are over tenants placed by hmac/v1.
func TestRecipe(t *testing.T) {
	raw, err := os.ReadFile("testdata/recipe-12-2.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []recipeVector
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	failures, overlaps := 0, 0
	for i, v := range vectors {
		p := collect(t, v.N, placed(t, v))
		if v.Failed != nil {
			failures++
			got, err := p.Fail(v.Failed)
			if want := (hit{*v.FullyDown, *v.Degraded}); err != nil || hitOf(got) != want {
				t.Errorf("vector %d: %+v, %v; want %+v", i, got, err, want)
			}
		}
		if v.Pairs != nil {
			overlaps++
			got, err := p.Overlap()
			if want := (Overlap{*v.Overlapping, *v.Pairs}); err != nil || got != want {
				t.Errorf("vector %d: %+v, %v; want %+v", i, got, err, want)
			}
		}
	}
	if failures != 15 || overlaps != 5 {
		t.Errorf("%d vectors with a failure and %d with overlap, want 15 and 5", failures, overlaps)
	}
}

func placed(t *testing.T, v recipeVector) iter.Seq[[]int] {
	key, err := hex.DecodeString(v.Key)
	if err != nil {
		t.Fatal(err)
	}
	shards := make([]placement.Shard, v.N)
	for i := range shards {
		shards[i] = placement.Shard{ID: fmt.Sprint(i), Weight: 1}
	}
	placer, err := placement.New(placement.Config{Scheme: placement.HMACv1, Key: key, Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	subsets, err := placer.PerTenant(v.K)
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func([]int) bool) {
		var buf []int
		for i := range v.Tenants.Count {
			if buf, err = subsets.Append(buf[:0], placement.Tenant{ID: fmt.Sprintf(v.Tenants.Format, i)}); err != nil {
				t.Error(err)
				return
			}
			if !yield(buf) {
				return
			}
		}
	}
}

type fataler interface {
	Helper()
	Fatal(args ...any)
}

func collect(t fataler, n int, subsets iter.Seq[[]int]) *Population {
	t.Helper()
	p, err := Collect(n, subsets)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func overlap(t fataler, p *Population) Overlap {
	t.Helper()
	o, err := p.Overlap()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// hit is the tenants of an Impact.
type hit struct{ down, degraded int }

func hitOf(i Impact) hit { return hit{i.FullyDown, i.Degraded} }

func fail(t fataler, p *Population, failed []int) Impact {
	t.Helper()
	impact, err := p.Fail(failed)
	if err != nil {
		t.Fatal(err)
	}
	return impact
}

// drawPopulation draws up to 60 tenants with subsets of unlike sizes, some of them equal.
func drawPopulation(t *rapid.T) (n int, subsets [][]int) {
	n = rapid.IntRange(1, 20).Draw(t, "shards")
	k := rapid.IntRange(1, n).Draw(t, "most members")
	subset := rapid.Custom(func(t *rapid.T) []int {
		return rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 1, k, rapid.ID).Draw(t, "subset")
	})
	return n, rapid.SliceOfN(subset, 0, 60).Draw(t, "tenants")
}

func drawFailed(t *rapid.T, n int) []int {
	return rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 1, n, rapid.ID).Draw(t, "failed")
}

func share(a, b []int) bool {
	return slices.ContainsFunc(a, func(s int) bool { return slices.Contains(b, s) })
}

func TestNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, subsets := drawPopulation(t)
		failed := drawFailed(t, n)
		p := collect(t, n, slices.Values(subsets))
		var impact hit
		var o Overlap
		for i, a := range subsets {
			if share(a, failed) {
				impact.degraded++
			}
			if !slices.ContainsFunc(a, func(s int) bool { return !slices.Contains(failed, s) }) {
				impact.down++
			}
			for _, b := range subsets[:i] {
				o.Pairs++
				if share(a, b) {
					o.Overlapping++
				}
			}
		}
		if p.Tenants() != len(subsets) {
			t.Fatalf("%d tenants, want %d", p.Tenants(), len(subsets))
		}
		if got := hitOf(fail(t, p, failed)); got != impact {
			t.Fatalf("impact %+v, want %+v", got, impact)
		}
		if got := overlap(t, p); got != o {
			t.Fatalf("overlap %+v, want %+v", got, o)
		}
	})
}

// Naive, for both ways to count pairs alone: small populations are all compared.
func TestNaiveBothWays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, subsets := drawPopulation(t)
		p := collect(t, n, slices.Values(subsets))
		c := counter{groups: p.groups, at: make([]int, n)}
		var list []part
		for i, g := range p.groups {
			list = append(list, part{uint32(i), uint32(len(g.members))})
		}
		want := c.compare(list)
		var sum uint64
		for _, with := range c.deal(list) { // one step of splitting, then comparing
			var tenants uint64
			for _, p := range with {
				tenants += c.groups[p.group].tenants
			}
			sum += pairs(tenants) - c.compare(with)
		}
		if sum != want {
			t.Fatalf("%d by splitting, %d by comparing", sum, want)
		}
		if slices.ContainsFunc(c.at, func(n int) bool { return n != 0 }) {
			t.Fatal("the scratch is left dirty")
		}
	})
}

// ClosedForm: every subset of k of n shards, each for r tenants.
func TestClosedForm(t *testing.T) {
	for n := 1; n <= 9; n++ {
		for k := 1; k <= n; k++ {
			for _, r := range []int{1, 3} {
				p := collect(t, n, everySubset(n, k, r))
				all := choose(n, k)
				if p.Tenants() != r*all {
					t.Fatalf("%d of %d, %d times: %d tenants, want %d", k, n, r, p.Tenants(), r*all)
				}
				// A tenant overlaps all but those placed on the other n-k shards.
				tenants := uint64(r * all)
				want := Overlap{
					Overlapping: pairs(tenants) - tenants*uint64(r*choose(n-k, k))/2,
					Pairs:       pairs(tenants),
				}
				if got := overlap(t, p); got != want {
					t.Errorf("%d of %d, %d times: %+v, want %+v", k, n, r, got, want)
				}
				for f := 1; f <= n; f++ {
					failed := make([]int, f)
					for i := range failed {
						failed[i] = n - 1 - i
					}
					want := hit{r * choose(f, k), r * (all - choose(n-f, k))}
					if got := hitOf(fail(t, p, failed)); got != want {
						t.Errorf("%d of %d, %d times, %d failed: %+v, want %+v", k, n, r, f, got, want)
					}
				}
			}
		}
	}
}

// The worked case of Recipe 12.2's text: 3 of 16 shards, where about half of all pairs overlap.
func TestClosedFormDeep(t *testing.T) {
	for _, c := range []struct{ n, k int }{{16, 3}, {30, 4}, {12, 6}} { // large enough to be split
		p := collect(t, c.n, everySubset(c.n, c.k, 3))
		tenants := 3 * uint64(choose(c.n, c.k))
		want := pairs(tenants) - tenants*3*uint64(choose(c.n-c.k, c.k))/2
		if got := overlap(t, p); got.Overlapping != want {
			t.Errorf("%d of %d: %d, want %d", c.k, c.n, got.Overlapping, want)
		}
	}
}

func choose(n, k int) int {
	if k > n {
		return 0
	}
	c := 1
	for i := range k {
		c = c * (n - i) / (i + 1)
	}
	return c
}

// everySubset gives each k of n, r times.
func everySubset(n, k, r int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		subset := make([]int, k)
		var from func(at, least int) bool
		from = func(at, least int) bool {
			if at == k {
				for range r {
					if !yield(subset) {
						return false
					}
				}
				return true
			}
			for s := least; s <= n-(k-at); s++ {
				subset[at] = s
				if !from(at+1, s+1) {
					return false
				}
			}
			return true
		}
		from(0, 0)
	}
}

func TestMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawLoaded(t, 12)
		p := d.population(t)
		var before Impact
		failed := rapid.Permutation(seq(d.shards)).Draw(t, "the order in which shards fail")
		for i := range failed {
			now := fail(t, p, failed[:i+1])
			was, is := columns(before), columns(now)
			for j := range is {
				if is[j] < was[j]*(1-1e-12) || is[j] > is[2+j%2]*(1+1e-12) {
					t.Fatalf("%+v, then %+v", before, now)
				}
			}
			before = now
		}
		n, load := float64(p.Tenants()), p.Load()
		for j, v := range columns(before) {
			if want := [2]float64{n, load}[j%2]; !near(v, want) {
				t.Fatalf("with every shard failed %+v, want %v tenants and load %v", before, n, load)
			}
		}
	})
}

func seq(n int) (s []int) {
	for i := range n {
		s = append(s, i)
	}
	return s
}

func TestBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, subsets := drawPopulation(t)
		p := collect(t, n, slices.Values(subsets))
		c := counter{groups: p.groups, at: make([]int, n)}
		var list []part
		k := 0
		for i, g := range p.groups {
			list = append(list, part{uint32(i), uint32(len(g.members))})
			k = max(k, len(g.members))
		}
		g := uint64(len(list))
		c.overlap(list)
		if bound := min(g<<k, g*g*uint64(k)); c.work > bound {
			t.Fatalf("%d steps for %d subsets of up to %d shards, want at most %d", c.work, g, k, bound)
		}
	})
	// Refused: 100,000 tenants with half of 200 shards each, all different.
	const n, k = 200, 100
	p := collect(t, n, func(yield func([]int) bool) {
		subset := seq(k)
		for i := range 100_000 {
			for j := range 17 { // the bits of i choose between shards 2j and 2j+1
				subset[j] = 2*j + i>>j&1
			}
			for j := 17; j < k; j++ {
				subset[j] = 17 + j
			}
			if !yield(subset) {
				return
			}
		}
	})
	if o, err := p.Overlap(); !errors.Is(err, ErrTooLarge) || o != (Overlap{}) {
		t.Errorf("%+v, %v; want %v", o, err, ErrTooLarge)
	}
	// Saturation instead of overflow.
	huge := []part{{0, MaxShards}, {0, MaxShards}, {0, MaxShards}}
	if split, _ := costs(huge); split < MaxWork {
		t.Errorf("cost %d of subsets with %d members", split, MaxShards)
	}
}
