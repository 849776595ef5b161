package blast

import (
	"errors"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestFixedPoint: the sum of loads is their exact sum to within the stated step for each, whatever their
// sizes, and exact for integers.
func TestFixedPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loads := rapid.SliceOfN(rapid.Float64Range(0, MaxLoad), 1, 50).Draw(t, "loads")
		d := drawn{shards: 1}
		want, most := new(big.Float).SetPrec(2000), 0.0
		for _, load := range loads {
			d.subsets = append(d.subsets, []int{0})
			d.loads = append(d.loads, load)
			want.Add(want, big.NewFloat(load))
			most = max(most, load)
		}
		p := d.population(t)
		exact, _ := want.Float64()
		step := most * 4 * float64(len(loads)) / (1 << 62) // powers of two, rounded up
		if got := p.Load(); math.Abs(got-exact) > step*float64(len(loads))+exact*0x1p-52 {
			t.Fatalf("load %v, want %v", got, exact)
		}
	})
	const n = 1 << 20
	p, err := CollectLoads(1, func(yield func([]int, float64) bool) {
		for range n {
			if !yield([]int{0}, 1<<31-1) {
				return
			}
		}
	})
	if want := float64(n * (1<<31 - 1)); err != nil || p.Load() != want {
		t.Fatalf("%v, %v; want %v", p.Load(), err, want)
	}
}

// TestOrderFree: everything is equal, to the last bit, in whatever order tenants, members and failures
// come.
func TestOrderFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawLoaded(t, 8)
		for i := range d.loads {
			d.loads[i] *= math.Pi // no sum of these is exact
		}
		other := d.shuffled(t)
		failed := drawFailed(t, d.shards)
		v := drawProvision(t, d)
		f := rapid.IntRange(1, min(4, d.shards-1)).Draw(t, "shards that fail")
		a := everything(t, d, v, failed, f)
		b := everything(t, other, v, rapid.Permutation(failed).Draw(t, "failed in another order"), f)
		for i := range a {
			if !reflect.DeepEqual(a[i], b[i]) {
				t.Fatalf("%+v and %+v", a[i], b[i])
			}
		}
	})
}

// everything is what there is to measure.
func everything(t *rapid.T, d drawn, v Provision, failed []int, f int) (all []any) {
	add := func(of any, err error) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, of)
	}
	p := d.population(t)
	c := capacity(t, p, v)
	add(p.Load(), nil)
	add(fail(t, p, failed), nil)
	add(overlap(t, p), nil)
	add(p.Losses(failed))
	add(p.Failures(f, Sampling{}))
	add(p.Experience(failed, v.Traffic))
	add(p.Fairness(), nil)
	add(p.bounds(f), nil)
	add(after(t, c, failed), nil)
	add(c.Headroom(f, Sampling{}))
	add(c.Cascade(failed))
	add(c.Balance(), nil)
	return all
}

func TestCollectRefuses(t *testing.T) {
	for _, c := range []struct {
		name    string
		shards  int
		subsets [][]int
		want    error
	}{
		{"no shards", 0, nil, ErrShardCount},
		{"negative shards", -1, nil, ErrShardCount},
		{"too many shards", MaxShards + 1, nil, ErrShardCount},
		{"empty subset", 3, [][]int{{0}, {}}, ErrSubset},
		{"negative member", 3, [][]int{{0, -1}}, ErrSubset},
		{"member beyond the shards", 3, [][]int{{0, 3}}, ErrSubset},
		{"member beyond 16 bits", 3, [][]int{{1 << 16}}, ErrSubset},
		{"member twice", 3, [][]int{{2, 0, 2}}, ErrSubset},
	} {
		if p, err := Collect(c.shards, slices.Values(c.subsets)); !errors.Is(err, c.want) || p != nil {
			t.Errorf("%s: %v, %v; want %v", c.name, p, err, c.want)
		}
	}
	for _, load := range []float64{-1, math.NaN(), math.Inf(1), math.Inf(-1), math.Nextafter(MaxLoad, math.Inf(1))} {
		d := drawn{2, [][]int{{0}, {1}}, []float64{MaxLoad, load}}
		if p, err := CollectLoads(2, d.seq()); !errors.Is(err, ErrLoad) || p != nil || !strings.HasPrefix(err.Error(), "tenant 1: ") {
			t.Errorf("load %v: %v, %v; want %v", load, p, err, ErrLoad)
		}
	}
	p := collect(t, 3, slices.Values([][]int{{0, 1}}))
	for _, failed := range [][]int{nil, {}, {3}, {-1}, {math.MaxInt}, {0, 1, 0}} {
		if impact, err := p.Fail(failed); !errors.Is(err, ErrFailed) || impact != (Impact{}) {
			t.Errorf("failed %v: %+v, %v; want %v", failed, impact, err, ErrFailed)
		}
		if losses, err := p.Losses(failed); !errors.Is(err, ErrFailed) || losses != nil {
			t.Errorf("failed %v: %+v, %v; want %v", failed, losses, err, ErrFailed)
		}
	}
	for _, f := range []int{-1, 0, 4} {
		if s, err := p.Failures(f, Sampling{}); !errors.Is(err, ErrFailed) || s != nil {
			t.Errorf("%d failed: %v, %v; want %v", f, s, err, ErrFailed)
		}
		if sets, ok := p.Feasible(f); ok || sets != 0 {
			t.Errorf("%d failed: %v sets, feasible %v", f, sets, ok)
		}
	}
	many := collect(t, 3000, random(3000, 2, 1))
	for _, s := range []Sampling{
		{Sets: 0, Confidence: 0.9}, {Sets: -1, Confidence: 0.9}, {Sets: MaxSets + 1, Confidence: 0.9},
		{Sets: 9}, {Sets: 9, Confidence: 1}, {Sets: 9, Confidence: -1}, {Sets: 9, Confidence: math.NaN()}, {Seed: 1},
	} {
		if spread, err := many.Failures(2, s); !errors.Is(err, ErrSampling) || spread != nil {
			t.Errorf("%+v: %v, %v; want %v", s, spread, err, ErrSampling)
		}
	}
}

// No tenants, or one, are populations too.
func TestSmallPopulations(t *testing.T) {
	for n, subsets := range [][][]int{{}, {{0, 1}}} {
		p := collect(t, 2, slices.Values(subsets))
		if got := overlap(t, p); got != (Overlap{}) {
			t.Errorf("%d tenants: %+v", n, got)
		}
		if got := hitOf(fail(t, p, []int{0})); got != (hit{0, n}) {
			t.Errorf("%d tenants: %+v", n, got)
		}
	}
}
