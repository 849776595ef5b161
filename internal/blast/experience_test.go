package blast

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// follow sends one request through every choice that a router has, and adds up the probability that it
// succeeds and its attempts.
func follow(traffic Traffic, subset, failed []int) (success, attempts float64) {
	to := subset
	if traffic.Router == Failover {
		alive := slices.DeleteFunc(slices.Clone(subset), func(s int) bool { return slices.Contains(failed, s) })
		if len(alive) > 0 {
			to = alive
		}
	}
	var attempt func(p float64, left int, among []int)
	attempt = func(p float64, left int, among []int) {
		attempts += p
		for _, s := range among {
			q := p / float64(len(among))
			switch next := among; {
			case !slices.Contains(failed, s):
				success += q
			case left > 0:
				if traffic.Router == Sticky {
					next = []int{s}
				}
				attempt(q, left-1, next)
			}
		}
	}
	attempt(1, traffic.Retries, to)
	return success, attempts
}

// TestExperience: success, attempts and the load on survivors are those of following a request of every
// tenant through every choice of the router.
func TestExperience(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawLoaded(t, 5)
		p := d.population(t)
		failed := drawFailed(t, d.shards)
		traffic := drawTraffic(t)
		e, err := p.Experience(failed, traffic)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range e.Outcomes {
			if i > 0 && o.Success < e.Outcomes[i-1].Success {
				t.Fatalf("%+v is not in order", e.Outcomes)
			}
		}
		var tenants, success, load, ofLoad, below float64
		for i, subset := range d.subsets {
			s, attempts := follow(traffic, subset, failed)
			at := slices.IndexFunc(e.Outcomes, func(o Outcome) bool { return o.Of == len(subset) && o.Lost == lost(subset, failed) })
			if at < 0 || !near(e.Outcomes[at].Success, s) || !near(e.Outcomes[at].Attempts, attempts) {
				t.Fatalf("%v of %v: success %v, attempts %v, got %+v", failed, subset, s, attempts, e.Outcomes)
			}
			tenants++
			success += s
			load += d.loads[i]
			ofLoad += d.loads[i] * s
			if s < 0.9 {
				below++
			}
		}
		if got, _ := e.Below(0.9); got != below {
			t.Fatalf("%v tenants below 0.9, want %v", got, below)
		}
		if tenants > 0 && !near(e.SuccessOfTenants, success/tenants) || load > 0 && !near(e.SuccessOfLoad, ofLoad/load) {
			t.Fatalf("%+v, want %v of %v and %v of %v", e, success, tenants, ofLoad, load)
		}
	})
}

// Experience, of load: what survivors carry is what Capacity gives when nothing is overloaded.
func TestExperienceOnSurvivors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "shards")
		subset := rapid.Permutation(seq(n)).Draw(t, "subset")[:rapid.IntRange(1, n).Draw(t, "size")]
		failed := drawFailed(t, n)
		d := drawn{n, [][]int{subset}, []float64{60}}
		traffic := drawTraffic(t)
		p := d.population(t)
		e, err := p.Experience(failed, traffic)
		if err != nil {
			t.Fatal(err)
		}
		l := after(t, capacity(t, p, Provision{PerShard: slices.Repeat([]float64{1e9}, n), Traffic: traffic}), failed)
		for _, s := range subset {
			want := 60 / float64(len(subset)) * e.Outcomes[0].OnSurvivors
			if slices.Contains(failed, s) {
				want = 0
			}
			if !near(l.Shards[s].Load, want) {
				t.Fatalf("shard %d has %v, want %v", s, l.Shards[s].Load, want)
			}
		}
	})
}

// Experience, of a mean: it is the mean over every set of shards.
func TestExperienceMean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawLoaded(t, 7)
		p := d.population(t)
		f := rapid.IntRange(1, min(3, d.shards)).Draw(t, "shards that fail")
		traffic := drawTraffic(t)
		spread, err := p.Failures(f, Sampling{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := spread.Experience(traffic)
		if err != nil {
			t.Fatal(err)
		}
		sets := everySet(d.shards, f)
		tenants, load := 0.0, 0.0
		for _, set := range sets {
			e, err := p.Experience(set, traffic)
			if err != nil {
				t.Fatal(err)
			}
			tenants += e.SuccessOfTenants / float64(len(sets))
			load += e.SuccessOfLoad / float64(len(sets))
		}
		if !near(got.SuccessOfTenants, tenants) || !near(got.SuccessOfLoad, load) {
			t.Fatalf("%+v, want %v and %v", got, tenants, load)
		}
	})
}

func TestExperienceRefuses(t *testing.T) {
	p := collect(t, 2, everySubset(2, 1, 1))
	if e, err := p.Experience([]int{0}, Traffic{Router: -1}); !errors.Is(err, ErrTraffic) || e != nil {
		t.Errorf("%v, %v", e, err)
	}
	if e, err := p.Experience([]int{2}, Traffic{}); !errors.Is(err, ErrFailed) || e != nil {
		t.Errorf("%v, %v", e, err)
	}
	if e, err := new(Spread).Experience(Traffic{Retries: -1}); !errors.Is(err, ErrTraffic) || e != nil {
		t.Errorf("%v, %v", e, err)
	}
	for router, want := range map[Router]string{Failover: "failover", Random: "random", Sticky: "sticky", 9: "Router(9)"} {
		if got := router.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
