package blast

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestLoads: the impact by load, and the capacity lost, are those of looking at every tenant.
func TestLoads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawLoaded(t, 12)
		p := d.population(t)
		failed := drawFailed(t, d.shards)
		if got, want := fail(t, p, failed), d.impact(failed); !nearImpact(got, want) {
			t.Fatalf("%+v, want %+v", got, want)
		}
		losses, err := p.Losses(failed)
		if err != nil {
			t.Fatal(err)
		}
		want := make(map[[2]int]Loss)
		total := 0.0
		for i, s := range d.subsets {
			at := [2]int{len(s), lost(s, failed)}
			l := want[at]
			l.Lost, l.Of = at[1], at[0]
			l.Tenants++
			l.Load += d.loads[i]
			want[at] = l
			total += d.loads[i]
		}
		if len(losses) != len(want) {
			t.Fatalf("%d kinds of loss, want %d", len(losses), len(want))
		}
		for i, l := range losses {
			if at := [2]int{l.Of, l.Lost}; l != want[at] {
				t.Fatalf("%+v, want %+v", l, want[at])
			}
			if i > 0 && slices.Compare([]int{losses[i-1].Of, losses[i-1].Lost}, []int{l.Of, l.Lost}) >= 0 {
				t.Fatalf("%+v is not in order", losses)
			}
		}
		if p.Load() != total {
			t.Fatalf("load %v, want %v", p.Load(), total)
		}
	})
}

// naiveQuantile counts up to the least value that enough others do not exceed.
func naiveQuantile(values []float64, percent int) float64 {
	values = slices.Sorted(slices.Values(values))
	for i, v := range values {
		if (i+1)*100 >= percent*len(values) {
			return v
		}
	}
	return math.NaN()
}

// firstWith is the set with that value whose largest member is least, then the next largest, and so on.
func firstWith(sets [][]int, values []float64, value float64) (first []int) {
	for i, set := range sets {
		if values[i] != value {
			continue
		}
		a, b := slices.Clone(set), slices.Clone(first)
		slices.Reverse(a)
		slices.Reverse(b)
		if first == nil || slices.Compare(a, b) < 0 {
			first = set
		}
	}
	return first
}

func columns(i Impact) [6]float64 {
	return [6]float64{float64(i.FullyDown), i.FullyDownLoad, float64(i.Degraded), i.DegradedLoad, i.LostTenants, i.LostLoad}
}

func summaries(s *Spread) [6]Summary {
	return [6]Summary{
		s.FullyDown.Tenants, s.FullyDown.Load, s.Degraded.Tenants, s.Degraded.Load, s.Lost.Tenants, s.Lost.Load,
	}
}

// TestFailures: all singles, pairs, triples and more have the distribution that failing each set by
// itself, tenant by tenant, gives.
func TestFailures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawLoaded(t, 9)
		p := d.population(t)
		f := rapid.IntRange(1, min(5, d.shards)).Draw(t, "shards that fail")
		got, err := p.Failures(f, Sampling{})
		if err != nil {
			t.Fatal(err)
		}
		sets := everySet(d.shards, f)
		if got.Failed != f || got.Sets != len(sets) || got.Of != float64(len(sets)) || got.Sampled || got.Confidence != 1 || got.Beyond != 0 {
			t.Fatalf("%+v, want all %d sets", got, len(sets))
		}
		var values [6][]float64
		for _, set := range sets {
			for i, v := range columns(d.impact(set)) {
				values[i] = append(values[i], v)
			}
		}
		for i, s := range summaries(got) {
			mean := 0.0
			for _, v := range values[i] {
				mean += v / float64(len(sets))
			}
			worst := slices.Max(values[i])
			if !near(s.Mean, mean) || !near(s.Worst, worst) || s.AtMost != s.Worst {
				t.Fatalf("column %d: %+v, want mean %v, worst %v", i, s, mean, worst)
			}
			if v := columns(d.impact(s.WorstSet))[i]; len(s.WorstSet) != f || !near(v, worst) {
				t.Fatalf("column %d: %v is called worst with %v, want %v", i, s.WorstSet, v, worst)
			}
			if first := firstWith(sets, values[i], worst); i < 4 && !slices.Equal(s.WorstSet, first) { // integers
				t.Fatalf("column %d: %v is called the first with %v, want %v", i, s.WorstSet, worst, first)
			}
			for percent, q := range map[int]Quantile{50: s.P50, 90: s.P90, 99: s.P99} {
				if want := naiveQuantile(values[i], percent); !near(q.Value, want) || q.Low != q.Value || q.High != q.Value {
					t.Fatalf("column %d: p%d is %+v, want %v", i, percent, q, want)
				}
			}
		}
	})
}

// Failures, set by set: inclusion and exclusion gives what the index gives, to the last bit.
func TestFailuresBothWays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawLoaded(t, 9)
		p := d.population(t)
		f := rapid.IntRange(1, min(3, d.shards)).Draw(t, "shards that fail")
		var sets [][]int
		var impacts []Impact
		newPortions(p, f).each(func(set []int, i Impact) {
			sets = append(sets, slices.Clone(set))
			impacts = append(impacts, i)
		})
		at := 0
		combinations(d.shards, f, func(set []int) {
			if got := fail(t, p, set); !slices.Equal(set, sets[at]) || got != impacts[at] {
				t.Fatalf("set %d: %v has %+v, want %v with %+v", at, sets[at], impacts[at], set, got)
			}
			at++
		})
		if at != len(sets) || float64(at) != binomial(d.shards, f) {
			t.Fatalf("%d and %d sets, want %v", at, len(sets), binomial(d.shards, f))
		}
	})
}

// TestMean: for a population that has every subset equally often, any set of f shards has the same
// impact, which is the mean: the binomial expressions.
func TestMean(t *testing.T) {
	for n := 2; n <= 8; n++ {
		for k := 1; k <= n; k++ {
			p := collect(t, n, everySubset(n, k, 2))
			for f := 1; f <= n; f++ {
				s, err := p.Failures(f, Sampling{})
				if err != nil {
					t.Fatal(err)
				}
				all := float64(2 * choose(n, k))
				for i, want := range [6]float64{
					float64(2 * choose(f, k)), float64(2 * choose(f, k)),
					all - float64(2*choose(n-f, k)), all - float64(2*choose(n-f, k)),
					all * float64(f) / float64(n), all * float64(f) / float64(n),
				} {
					of := summaries(s)[i]
					if !near(of.Mean, want) || !near(of.Worst, want) || !near(of.P50.Value, want) {
						t.Errorf("%d of %d, %d failed, column %d: %+v, want %v", k, n, f, i, of, want)
					}
				}
			}
		}
	}
}

// TestSample: a sample's means are exact, its intervals hold the true quantile at least as often as they
// say, and no set is worse than the bound.
func TestSample(t *testing.T) {
	const runs, n, f = 400, 14, 3
	d := random1000(n)
	p := d.population(t)
	exact, err := p.Failures(f, Sampling{})
	if err != nil {
		t.Fatal(err)
	}
	var missed [6][3]int // by column and percentile
	beyond := 0
	for seed := range uint64(runs) {
		sampling := Sampling{Seed: seed, Sets: 200, Confidence: 0.9}
		got := sampled(p, f, sampling)
		if seed == 0 && !reflect.DeepEqual(got, sampled(p, f, sampling)) {
			t.Fatal("equal samplings differ")
		}
		for i, s := range summaries(got) {
			want := summaries(exact)[i]
			if s.Mean != want.Mean || s.AtMost < want.Worst || s.Worst > want.Worst {
				t.Fatalf("column %d: %+v, want within %+v", i, s, want)
			}
			for at, q := range [][2]Quantile{{s.P50, want.P50}, {s.P90, want.P90}, {s.P99, want.P99}} {
				if q[0].Low > q[0].Value || q[0].High < q[0].Value {
					t.Fatalf("%+v is outside of its interval", q[0])
				}
				if v := q[1].Value; v < q[0].Low || v > q[0].High {
					missed[i][at]++
				}
			}
		}
		worse := 0
		for _, set := range everySet(n, f) {
			if fail(t, p, set).DegradedLoad > got.Degraded.Load.Worst {
				worse++
			}
		}
		if float64(worse)/float64(exact.Sets) > got.Beyond {
			beyond++
		}
	}
	// Seeds are fixed, so these are constants; each bound allows for 1 in 10 by definition.
	const allowed = runs / 10
	t.Logf("of %d intervals missed, by column and percentile: %v; bounds on worse sets: %d", runs, missed, beyond)
	for i, column := range missed {
		for at, misses := range column {
			if misses > allowed {
				t.Errorf("column %d, P%d: %d of %d intervals missed, want at most %d", i, [3]int{50, 90, 99}[at], misses, runs, allowed)
			}
		}
	}
	if beyond > allowed {
		t.Errorf("%d of %d bounds on worse sets, want at most a tenth", beyond, runs)
	}
}

// Sample, of the bound: no set of any population exceeds it, and capacity lost reaches it.
func TestSampleBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawLoaded(t, 8)
		p := d.population(t)
		f := rapid.IntRange(1, d.shards).Draw(t, "shards that fail")
		for i, s := range summaries(measured(t, p, f)) {
			bound := p.bounds(f)[i]
			if s.Worst > bound*(1+1e-12) || i >= 4 && !near(s.Worst, bound) {
				t.Fatalf("column %d: worst %v, bound %v", i, s.Worst, bound)
			}
		}
	})
}

// Sample, of the draws: each set is equally likely, whatever was drawn before.
func TestSampleUniform(t *testing.T) {
	const n, f, draws = 5, 2, 200_000
	counts := make(map[[2 * f]int]int)
	var last [f]int
	Sampling{Seed: 1, Sets: draws}.draw(n, f, func(set []int) {
		now := [f]int(slices.Sorted(slices.Values(set)))
		if last != [f]int{} { // the first has none before it
			counts[[2 * f]int{last[0], last[1], now[0], now[1]}]++
		}
		last = now
	})
	const cells = 10 * 10
	chi2, want := 0.0, float64(draws)/cells
	for _, count := range counts {
		chi2 += (float64(count) - want) * (float64(count) - want) / want
	}
	// With 99 degrees of freedom, above 160 has a probability of 1e-4; the seed is fixed.
	if len(counts) != cells || chi2 > 160 {
		t.Errorf("%d pairs of successive sets, chi² %v", len(counts), chi2)
	}
}

// sampled measures a sample of what is feasible to measure whole.
func sampled(p *Population, f int, sampling Sampling) *Spread {
	s := &Spread{Failed: f, Of: binomial(p.shards, f)}
	p.sample(s, sampling)
	return s
}

func random1000(n int) drawn {
	d := drawn{shards: n}
	for subset := range random(n, 2, 1000) {
		d.subsets = append(d.subsets, slices.Clone(subset))
		d.loads = append(d.loads, float64(len(d.subsets)%37*len(d.subsets)%101))
	}
	return d
}

// A fleet whose pairs cannot all be measured is sampled when asked to, and refused otherwise.
func TestFailuresTooMany(t *testing.T) {
	p := collect(t, 3000, random(3000, 2, 100))
	if sets, ok := p.Feasible(2); ok || sets != 3000*2999/2 {
		t.Errorf("%v sets, feasible %v", sets, ok)
	}
	if s, err := p.Failures(2, Sampling{}); !errors.Is(err, ErrTooMany) || s != nil {
		t.Errorf("%v, %v; want %v", s, err, ErrTooMany)
	}
	s, err := p.Failures(2, Sampling{Seed: 7, Sets: 1000, Confidence: 0.95})
	if err != nil || !s.Sampled || s.Sets != 1000 || s.Confidence != 0.95 {
		t.Fatalf("%+v, %v", s, err)
	}
	if want := 1 - math.Pow(0.05, 0.001); !near(s.Beyond, want) {
		t.Errorf("beyond %v, want %v", s.Beyond, want)
	}
	huge := collect(t, 2000, everyShard(2000, 2000))
	if s, err := huge.Failures(1000, Sampling{Sets: MaxSets, Confidence: 0.5}); !errors.Is(err, ErrTooMany) || s != nil {
		t.Errorf("%v, %v; want %v", s, err, ErrTooMany)
	}
	if sets, ok := huge.Feasible(1000); ok || sets != math.MaxFloat64 && !(sets > 1e300) {
		t.Errorf("%v sets, feasible %v", sets, ok)
	}
}

// everyShard is tenants that hold all shards but one each.
func everyShard(n, tenants int) func(func([]int) bool) {
	return func(yield func([]int) bool) {
		for i := range tenants {
			if !yield(slices.Delete(seq(n), i, i+1)) {
				return
			}
		}
	}
}

func TestBinomial(t *testing.T) {
	for n := range 60 {
		row := 0.0
		for k := -1; k <= n+1; k++ {
			row += binomial(n, k)
		}
		if want := math.Ldexp(1, n); !near(row/want, 1) {
			t.Errorf("row %d adds up to %v, want %v", n, row, want)
		}
	}
	for _, c := range []struct {
		n, k int
		want float64
	}{{8, 2, 28}, {40, 3, 9_880}, {2048, 4, 730_862_190_080}, {64, 3, 41_664}, {5, 6, 0}, {7, 7, 1}} {
		if got := binomial(c.n, c.k); got != c.want {
			t.Errorf("C(%d, %d) is %v, want %v", c.n, c.k, got, c.want)
		}
	}
}

// TestSets: declared sets are measured as Fail measures them, and sets of equal labels are complete.
func TestSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawLoaded(t, 9)
		p := d.population(t)
		labels := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", ""}), d.shards, d.shards).Draw(t, "zones")
		sets := Alike("zone ", labels)
		for i, s := range sets {
			if i > 0 && sets[i-1].Name >= s.Name {
				t.Fatalf("%q comes before %q", sets[i-1].Name, s.Name)
			}
			for shard, label := range labels {
				if slices.Contains(s.Shards, shard) != ("zone "+label == s.Name) {
					t.Fatalf("shard %d in zone %q, set %+v", shard, label, s)
				}
			}
		}
		impacts, err := p.FailSets(sets)
		if err != nil || len(impacts) != len(sets) {
			t.Fatal(impacts, err)
		}
		for i, s := range impacts {
			if s.Name != sets[i].Name || !nearImpact(s.Impact, d.impact(sets[i].Shards)) {
				t.Fatalf("%+v, want %+v", s, d.impact(sets[i].Shards))
			}
		}
	})
	p := collect(t, 3, everySubset(3, 2, 1))
	for _, sets := range [][]Set{
		{{"", []int{0}}}, {{"a", []int{0}}, {"a", []int{1}}}, {{"a", nil}}, {{"a", []int{0}}, {"b", []int{3}}}, {{"a", []int{0, 0}}},
	} {
		if got, err := p.FailSets(sets); !errors.Is(err, ErrFailed) || got != nil {
			t.Errorf("%v: %v, %v; want %v", sets, got, err, ErrFailed)
		}
	}
}
