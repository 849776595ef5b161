package blast

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestCascade: it ends within as many steps as shards, with no shard left above its capacity; each step
// fails exactly those that are; and more failures, more load or less capacity never end with fewer.
func TestCascade(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawLoaded(t, 9)
		v := drawProvision(t, d)
		p := d.population(t)
		c := capacity(t, p, v)
		failed := drawFailed(t, d.shards)
		failed = failed[:rapid.IntRange(0, len(failed)).Draw(t, "fail")]
		got := cascade(t, c, failed)
		if len(got.Steps) > d.shards {
			t.Fatalf("%d steps for %d shards", len(got.Steps), d.shards)
		}
		var down []int
		next := slices.Sorted(slices.Values(failed))
		for i := 0; ; i++ {
			if i > 0 || len(next) == 0 {
				next = nil
				for _, s := range after(t, c, down).Shards {
					if !s.Failed && s.Overloaded() {
						next = append(next, s.Shard)
					}
				}
			}
			if at := min(i, len(got.Steps)); len(next) == 0 {
				if at != len(got.Steps) {
					t.Fatalf("%d steps, want %d", len(got.Steps), at)
				}
				break
			}
			if i >= len(got.Steps) || !slices.Equal(got.Steps[i].Failed, next) {
				t.Fatalf("steps %+v, want %v in step %d", got.Steps, next, i)
			}
			down = append(down, next...)
			if !nearImpact(got.Steps[i].Impact, d.impact(down)) {
				t.Fatalf("step %d: %+v, want %+v", i, got.Steps[i].Impact, d.impact(down))
			}
		}
		slices.Sort(down)
		if !slices.Equal(got.Failed, down) || got.All != (len(down) == d.shards) || got.Spreads(failed) != (len(down) > len(failed)) {
			t.Fatalf("%+v, want %v", got, down)
		}

		more := rapid.Permutation(seq(d.shards)).Draw(t, "others")
		more = slices.DeleteFunc(more, func(s int) bool { return slices.Contains(failed, s) })
		more = slices.Concat(failed, more[:rapid.IntRange(0, len(more)).Draw(t, "more fail")])
		contains(t, "with more failures", cascade(t, c, more).Failed, got.Failed)
		heavier := drawn{d.shards, d.subsets, slices.Clone(d.loads)}
		for i := range heavier.loads {
			heavier.loads[i] += float64(rapid.IntRange(0, 1000).Draw(t, "more load"))
		}
		contains(t, "with more load", cascade(t, capacity(t, heavier.population(t), v), failed).Failed, got.Failed)
		v.PerShard = slices.Clone(v.PerShard)
		for s := range v.PerShard {
			v.PerShard[s] *= rapid.SampledFrom([]float64{1, 0.9, 0.5}).Draw(t, "capacity falls to")
		}
		contains(t, "with less capacity", cascade(t, capacity(t, p, v), failed).Failed, got.Failed)
	})
}

func contains(t *rapid.T, what string, all, some []int) {
	for _, s := range some {
		if !slices.Contains(all, s) {
			t.Fatalf("%s %v fail, which lacks %d of %v", what, all, s, some)
		}
	}
}

func cascade(t fataler, c *Capacity, failed []int) *Cascade {
	t.Helper()
	of, err := c.Cascade(failed)
	if err != nil {
		t.Fatal(err)
	}
	return of
}

// A cascade step by step: shard 0 fails, 1 takes its load and fails, then 2; 3 has no tenant in common.
func TestCascadeSteps(t *testing.T) {
	d := drawn{4, [][]int{{0, 1}, {1, 2}, {3}}, []float64{100, 40, 50}}
	c := capacity(t, d.population(t), Provision{PerShard: []float64{110, 110, 30, 60}})
	got := cascade(t, c, []int{0})
	want := [][]int{{0}, {1}, {2}}
	if len(got.Steps) != 3 || got.All || !slices.Equal(got.Failed, []int{0, 1, 2}) {
		t.Fatalf("%+v", got)
	}
	for i, s := range got.Steps {
		if !slices.Equal(s.Failed, want[i]) {
			t.Errorf("step %d: %v, want %v", i, s.Failed, want[i])
		}
	}
	// 100 + 20 on shard 1 of 110; then 40 on shard 2 of 30; then 50 on shard 3 of 60.
	for i, most := range []float64{120.0 / 110, 40.0 / 30, 50.0 / 60} {
		if !near(got.Steps[i].Most, most) {
			t.Errorf("step %d: %v, want %v", i, got.Steps[i].Most, most)
		}
	}
	if got.Steps[2].Impact.FullyDown != 2 || got.Steps[2].Worst != 3 {
		t.Errorf("%+v", got.Steps[2])
	}
}
