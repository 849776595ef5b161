package blast

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawProvision draws capacities around what shards carry, so that some are overloaded.
func drawProvision(t *rapid.T, d drawn) Provision {
	total := 1.0
	for _, load := range d.loads {
		total += load
	}
	var v Provision
	for range d.shards {
		percent := rapid.SampledFrom([]int{40, 80, 100, 120, 200, 1000}).Draw(t, "capacity in per cent of the mean")
		v.PerShard = append(v.PerShard, total/float64(d.shards)*float64(percent)/100)
	}
	if rapid.Bool().Draw(t, "weights") {
		for range d.shards {
			v.Weights = append(v.Weights, float64(rapid.IntRange(1, 4).Draw(t, "weight")))
		}
	}
	v.Traffic = drawTraffic(t)
	return v
}

func drawTraffic(t *rapid.T) Traffic {
	return Traffic{
		Router:  rapid.SampledFrom([]Router{Failover, Random, Sticky}).Draw(t, "router"),
		Retries: rapid.IntRange(0, 4).Draw(t, "retries"),
	}
}

func capacity(t fataler, p *Population, v Provision) *Capacity {
	t.Helper()
	c, err := NewCapacity(p, v)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func after(t fataler, c *Capacity, failed []int) *Loads {
	t.Helper()
	l, err := c.After(failed)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// respreadNaive is the load of each shard by looking at every tenant, for a router that fails over.
func (d drawn) respreadNaive(weights []float64, failed []int) (loads []float64, vanished float64) {
	loads = make([]float64, d.shards)
	for i, subset := range d.subsets {
		sum := 0.0
		for _, s := range subset {
			if !slices.Contains(failed, s) {
				sum += weights[s]
			}
		}
		if sum == 0 {
			vanished += d.loads[i]
			continue
		}
		for _, s := range subset {
			if !slices.Contains(failed, s) {
				loads[s] += d.loads[i] * weights[s] / sum
			}
		}
	}
	return loads, vanished
}

// TestRespread: the load of every shard after a failure is that of re-spreading each tenant's.
func TestRespread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawLoaded(t, 9)
		v := drawProvision(t, d)
		v.Traffic = Traffic{}
		c := capacity(t, d.population(t), v)
		failed := drawFailed(t, d.shards)
		weights := v.Weights
		if weights == nil {
			weights = slices.Repeat([]float64{1}, d.shards)
		}
		want, vanished := d.respreadNaive(weights, failed)
		got := after(t, c, failed)
		if !near(got.Vanished, vanished) || !got.Settled {
			t.Fatalf("%+v, want %v vanished", got, vanished)
		}
		worst := -1
		quick := newRespread(c)
		for range 2 { // its scratch is clean for the second
			for s, load := range quick.after(failed) {
				if !near(load, want[s]) {
					t.Fatalf("shard %d has %v looking at groups that are hit, want %v", s, load, want[s])
				}
			}
		}
		for s, of := range got.Shards {
			if of.Shard != s || of.Failed != slices.Contains(failed, s) || of.Capacity != v.PerShard[s] || !near(of.Load, want[s]) {
				t.Fatalf("%+v, want load %v", of, want[s])
			}
			if !of.Failed && (worst < 0 || of.Utilisation() > got.Shards[worst].Utilisation()) {
				worst = s
			}
		}
		if got.Worst != worst {
			t.Fatalf("worst %d, want %d", got.Worst, worst)
		}
	})
}

// TestConservation: what shards are offered and what vanished is the load of all tenants, unless clients
// repeat or the router loses requests. With retries it is never less than the load that is left, for a
// router that fails over, and never more than every attempt that there can be.
func TestConservation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawLoaded(t, 9)
		v := drawProvision(t, d)
		p := d.population(t)
		failed := drawFailed(t, d.shards)
		sum := func(l *Loads) (sum float64) {
			for _, s := range l.Shards {
				if s.Failed && s.Load != 0 {
					t.Fatalf("failed shard %d has load %v", s.Shard, s.Load)
				}
				sum += s.Load
			}
			return sum
		}
		traffic := v.Traffic
		v.Traffic = Traffic{}
		plain := after(t, capacity(t, p, v), failed)
		if got := sum(plain) + plain.Vanished; !near(got, p.Load()) {
			t.Fatalf("%v on shards and vanished, want %v", got, p.Load())
		}
		v.Traffic = traffic
		l := after(t, capacity(t, p, v), failed)
		left := p.Load() - l.Vanished
		if most := float64(traffic.Retries+1) * left; sum(l) > most*(1+1e-9) {
			t.Fatalf("%v on shards, want at most %v", sum(l), most)
		}
		if traffic.Router == Failover && sum(l) < left*(1-1e-9) {
			t.Fatalf("%v on shards, want at least %v", sum(l), left)
		}
	})
}

// TestRetries: where retries come to rest, every overloaded shard refuses what is above its capacity,
// every tenant attempts as often as those refusals make it, and served is what was not refused.
func TestRetries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawLoaded(t, 6)
		v := drawProvision(t, d)
		v.Weights = nil
		failed := drawFailed(t, d.shards)
		l := after(t, capacity(t, d.population(t), v), failed)
		if !l.Settled {
			t.Skip("not at rest")
		}
		refused := make([]float64, d.shards)
		for s, of := range l.Shards {
			if of.Failed {
				refused[s] = 1
			} else {
				refused[s] = max(0, 1-of.Capacity/max(of.Load, of.Capacity))
			}
		}
		want, served := make([]float64, d.shards), 0.0
		for i, subset := range d.subsets {
			to := subset
			if v.Traffic.Router == Failover {
				to = slices.DeleteFunc(slices.Clone(subset), func(s int) bool { return slices.Contains(failed, s) })
			}
			if len(to) == 0 {
				continue
			}
			again := d.loads[i] // requests that make the next attempt
			share := slices.Repeat([]float64{again / float64(len(to))}, len(to))
			for range v.Traffic.Retries + 1 {
				again = 0
				for j, s := range to {
					want[s] += share[j]
					served += share[j] * (1 - refused[s])
					share[j] *= refused[s]
					again += share[j]
				}
				if v.Traffic.Router != Sticky { // drawn anew
					for j := range to {
						share[j] = again / float64(len(to))
					}
				}
			}
		}
		for s, of := range l.Shards {
			if !of.Failed && math.Abs(of.Load-want[s]) > 1e-4*max(1, want[s]) {
				t.Fatalf("shard %d: %v, want %v", s, of.Load, want[s])
			}
		}
		if math.Abs(l.Served-served) > 1e-4*max(1, served) {
			t.Fatalf("%v served, want %v", l.Served, served)
		}
	})
}

// TestHeadroom: the worst utilisation, and each shard's need, are those over every failure by itself, and
// with what is needed nothing is overloaded.
func TestHeadroom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawLoaded(t, 8)
		v := drawProvision(t, d)
		v.Traffic.Router = rapid.SampledFrom([]Router{Failover, Sticky}).Draw(t, "router")
		v.Traffic.Retries = 0
		p := d.population(t)
		c := capacity(t, p, v)
		f := rapid.IntRange(1, d.shards-1).Draw(t, "shards that fail")
		h, err := c.Headroom(f, Sampling{})
		if err != nil {
			t.Fatal(err)
		}
		worst, needed := 0.0, make([]float64, d.shards)
		for _, set := range everySet(d.shards, f) {
			for s, of := range after(t, c, set).Shards {
				needed[s] = max(needed[s], of.Load)
				worst = max(worst, of.Utilisation())
			}
		}
		if h.Failed != f || h.Sets != choose(d.shards, f) || h.Sampled || !near(h.Worst, worst) || h.AtMost != h.Worst {
			t.Fatalf("%+v, want worst %v", h, worst)
		}
		if u := after(t, c, h.WorstSet).Shards[h.WorstShard].Utilisation(); !near(u, worst) {
			t.Fatalf("shard %d after %v is at %v, want %v", h.WorstShard, h.WorstSet, u, worst)
		}
		normal := after(t, c, nil)
		if u := normal.Shards[normal.Worst].Utilisation(); !near(h.Normal, u) || h.Kept() != (worst <= 1+1e-9) {
			t.Fatalf("%+v, want %v with nothing failed", h, u)
		}
		for s := range needed {
			if !near(h.Needed[s], needed[s]) {
				t.Fatalf("shard %d needs %v, want %v", s, h.Needed[s], needed[s])
			}
			v.PerShard[s] = max(1, needed[s])
		}
		if with, err := capacity(t, p, v).Headroom(f, Sampling{}); err != nil || !with.Kept() {
			t.Fatalf("with what is needed %+v, %v", with, err)
		}
		if worst > 0 { // capacities that are just enough leave the fullest shard what it has to have free
			for s := range v.PerShard {
				v.PerShard[s] = c.limits[s] * worst
			}
			just, err := capacity(t, p, v).Headroom(f, Sampling{})
			if err != nil || !near(just.Worst, 1) || !near(just.Normal, 1-h.Free) {
				t.Fatalf("%+v, %v; want %v free", just, err, h.Free)
			}
		}
		some := &Headroom{}
		Sampling{Seed: 1, Sets: 3, Confidence: 0.5}.draw(d.shards, f, func(set []int) {
			some.Needed = make([]float64, d.shards)
			some.measure(c, newRespread(c), set)
		})
		if some.Worst > worst*(1+1e-9) || c.mostAfter(f) < worst*(1-1e-9) {
			t.Fatalf("sampled %v and bound %v around %v", some.Worst, c.mostAfter(f), worst)
		}
	})
}

// Headroom of what is too much to measure whole.
func TestHeadroomSampled(t *testing.T) {
	const n = 3000
	p := collect(t, n, random(n, 3, 5000))
	c := capacity(t, p, Provision{PerShard: slices.Repeat([]float64{20}, n)})
	if h, err := c.Headroom(2, Sampling{}); !errors.Is(err, ErrTooMany) || h != nil {
		t.Errorf("%v, %v; want %v", h, err, ErrTooMany)
	}
	h, err := c.Headroom(2, Sampling{Seed: 3, Sets: 2000, Confidence: 0.95})
	if err != nil || !h.Sampled || h.Sets != 2000 || h.AtMost < h.Worst || h.Worst < h.Normal {
		t.Errorf("%+v, %v", h, err)
	}
	for _, f := range []int{-1, 0, n, n + 1} {
		if h, err := c.Headroom(f, Sampling{}); !errors.Is(err, ErrFailed) || h != nil {
			t.Errorf("%d failed: %v, %v; want %v", f, h, err, ErrFailed)
		}
	}
}

func TestCapacityRefuses(t *testing.T) {
	p := collect(t, 2, everySubset(2, 1, 1))
	ok := []float64{1, 1}
	for _, c := range []struct {
		name string
		v    Provision
		want error
	}{
		{"no capacity", Provision{}, ErrCapacity},
		{"one capacity for two shards", Provision{PerShard: ok[:1]}, ErrCapacity},
		{"zero capacity", Provision{PerShard: []float64{1, 0}}, ErrCapacity},
		{"negative capacity", Provision{PerShard: []float64{1, -1}}, ErrCapacity},
		{"not a number", Provision{PerShard: []float64{1, math.NaN()}}, ErrCapacity},
		{"infinite", Provision{PerShard: []float64{1, math.Inf(1)}}, ErrCapacity},
		{"zero weight", Provision{PerShard: ok, Weights: []float64{0, 1}}, ErrCapacity},
		{"one weight", Provision{PerShard: ok, Weights: ok[:1]}, ErrCapacity},
		{"unknown router", Provision{PerShard: ok, Traffic: Traffic{Router: 3}}, ErrTraffic},
		{"negative retries", Provision{PerShard: ok, Traffic: Traffic{Retries: -1}}, ErrTraffic},
		{"too many retries", Provision{PerShard: ok, Traffic: Traffic{Retries: MaxRetries + 1}}, ErrTraffic},
	} {
		if got, err := NewCapacity(p, c.v); !errors.Is(err, c.want) || got != nil {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
	}
	c := capacity(t, p, Provision{PerShard: ok})
	for _, failed := range [][]int{{2}, {-1}, {0, 0}} {
		if l, err := c.After(failed); !errors.Is(err, ErrFailed) || l != nil {
			t.Errorf("%v: %v, %v", failed, l, err)
		}
		if of, err := c.Cascade(failed); !errors.Is(err, ErrFailed) || of != nil {
			t.Errorf("%v: %v, %v", failed, of, err)
		}
	}
	for _, share := range []float64{0, -1, 1.1, math.NaN()} {
		if list, err := c.TooBig(share, 0); !errors.Is(err, ErrCapacity) || list != nil {
			t.Errorf("share %v: %v, %v", share, list, err)
		}
	}
	if list, err := c.TooBig(1, -1); !errors.Is(err, ErrFailed) || list != nil {
		t.Errorf("%v, %v", list, err)
	}
}
