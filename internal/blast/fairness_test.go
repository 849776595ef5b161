package blast

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestFairness: the balance of shards is that of adding up every tenant's part.
func TestFairness(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawLoaded(t, 9)
		p := d.population(t)
		tenants, load := make([]float64, d.shards), make([]float64, d.shards)
		for i, subset := range d.subsets {
			for _, s := range subset {
				tenants[s]++
				load[s] += d.loads[i] / float64(len(subset))
			}
		}
		f := p.Fairness()
		sameBalance(t, f.Tenants, tenants)
		sameBalance(t, f.Load, load)
		v := drawProvision(t, d)
		v.Weights, v.Traffic = nil, Traffic{}
		for s := range load {
			load[s] /= v.PerShard[s]
		}
		sameBalance(t, capacity(t, p, v).Balance(), load)
	})
}

func sameBalance(t *rapid.T, got Balance, perShard []float64) {
	n := float64(len(perShard))
	sum, squares := 0.0, 0.0
	for s, v := range perShard {
		if !near(got.PerShard[s], v) {
			t.Fatalf("shard %d: %v, want %v", s, got.PerShard[s], v)
		}
		sum += v
	}
	for _, v := range perShard {
		squares += math.Pow(v-sum/n, 2)
	}
	if !near(got.Mean, sum/n) || !near(got.Variance, squares/n) || got.PerShard[got.Max] != slices.Max(got.PerShard) {
		t.Fatalf("%+v, want mean %v and variance %v", got, sum/n, squares/n)
	}
	cv, over := 0.0, 0.0
	if sum > 0 {
		cv, over = math.Sqrt(squares/n)/(sum/n), slices.Max(perShard)/(sum/n)
	}
	if !near(got.CV, cv) || !near(got.MaxOverMean, over) {
		t.Fatalf("%+v, want %v and %v", got, cv, over)
	}
}

// TestTop: the largest tenants are those that sorting all would put first.
func TestTop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawLoaded(t, 4)
		for i := range d.loads {
			d.loads[i] = math.Mod(d.loads[i], 7) // so that some are equal
		}
		p := d.population(t)
		m := rapid.IntRange(-1, 10).Draw(t, "largest")
		got := p.Top(m)
		order := seq(len(d.loads))
		slices.SortStableFunc(order, func(a, b int) int { return int(d.loads[b] - d.loads[a]) })
		if len(got) != max(0, min(m, len(order))) {
			t.Fatalf("%d of %d, want %d", len(got), len(order), m)
		}
		sum := 0.0
		for i, of := range got {
			sum += of.Load
			if of.Tenant != order[i] || of.Load != d.loads[of.Tenant] {
				t.Fatalf("number %d is %+v, want tenant %d", i, of, order[i])
			}
			if all := p.Load(); all > 0 && (!near(of.Share, of.Load/all) || !near(of.Cumulative, sum/all)) {
				t.Fatalf("%+v, want %v of %v", of, sum, all)
			}
		}
	})
}

// TestTooBig: a tenant is listed when, alone on the shards, some failure of the others brings one above
// the share; and with what it needs, none does, whichever shards it has, while one less is too few.
func TestTooBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawLoaded(t, 6)
		v := drawProvision(t, d)
		v.Traffic = Traffic{}
		share := rapid.SampledFrom([]float64{0.1, 0.3, 0.5, 1}).Draw(t, "share")
		failures := rapid.IntRange(0, 3).Draw(t, "failures")
		list, err := capacity(t, d.population(t), v).TooBig(share, failures)
		if err != nil {
			t.Fatal(err)
		}
		weights := v.Weights
		if weights == nil {
			weights = slices.Repeat([]float64{1}, d.shards)
		}
		// part is the most that one tenant takes of a shard after any failure of the others.
		part := func(load float64, subset []int) (most float64) {
			alone := drawn{d.shards, [][]int{subset}, []float64{load}}
			for _, at := range everySet(len(subset), min(failures, len(subset)-1)) {
				var failed []int
				for _, i := range at {
					failed = append(failed, subset[i])
				}
				loads, _ := alone.respreadNaive(weights, failed)
				for s, l := range loads {
					most = max(most, l/v.PerShard[s])
				}
			}
			return most
		}
		fits := func(load float64, k int) bool {
			for _, subset := range everySet(d.shards, k) {
				if part(load, subset) > share*(1+1e-9) {
					return false
				}
			}
			return true
		}
		var want []int
		for i, subset := range d.subsets {
			if part(d.loads[i], subset) > share*(1+1e-9) {
				want = append(want, i)
			}
		}
		slices.SortStableFunc(want, func(a, b int) int { return int(d.loads[b] - d.loads[a]) })
		if len(list) != len(want) {
			t.Fatalf("%+v, want %v", list, want)
		}
		for i, b := range list {
			subset := d.subsets[b.Tenant]
			if b.Tenant != want[i] || b.Load != d.loads[b.Tenant] || b.Size != len(subset) || !near(b.Part, part(b.Load, subset)) {
				t.Fatalf("%+v, want tenant %d with %v", b, want[i], part(b.Load, subset))
			}
			if i > 2 { // every subset of every size is much to try
				continue
			}
			needed := 0
			for k := failures + 1; k <= d.shards && needed == 0; k++ {
				if fits(b.Load, k) {
					needed = k
				}
			}
			if b.Needed != needed {
				t.Fatalf("%+v, want %d shards", b, needed)
			}
		}
	})
}
