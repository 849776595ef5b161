package limit

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestEnvironments measures the approximation of a tenant's rate by environments that know nothing of each
// other. It says which share of its rate a tenant gets over ten minutes that asks for a multiple of it at random
// times, when of n environments a are in use.
func TestEnvironments(t *testing.T) {
	const (
		seed    = 9
		minutes = 10
		rate    = 20.0
	)
	t.Logf("seed %d; %v requests a second, for %d minutes", seed, rate, minutes)
	t.Log("| n | in use | asks for | gets, of its rate | is refused |")
	for _, c := range []struct {
		n, used    int
		asks       float64
		gets, most float64 // share of the rate
	}{
		{50, 50, 0.5, 0.49, 0.51},
		{50, 50, 0.9, 0.85, 0.91},
		{50, 50, 1, 0.92, 1},
		{50, 50, 2, 0.97, 1.04},
		{50, 50, 10, 1, 1.04},
		{50, 10, 0.5, 0.19, 0.22}, // n is too high: a fifth of the rate is left
		{10, 50, 10, 4.9, 5.2},    // n is too low: five times the rate gets through
		{10, 10, 2, 0.98, 1.04},
	} {
		rng := rand.New(rand.NewPCG(seed, uint64(c.n*1000+c.used)))
		k := &clock{time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)}
		var environments []*Tenants
		for range c.used {
			l, err := NewTenants(Config{Rate: rate, Burst: 40, Environments: c.n, Now: k.now})
			if err != nil {
				t.Fatal(err)
			}
			environments = append(environments, l)
		}
		asked, admitted := 0, 0
		for end := k.at.Add(minutes * time.Minute); k.at.Before(end); asked++ {
			k.at = k.at.Add(time.Duration(rng.ExpFloat64() / (rate * c.asks) * float64(time.Second)))
			if tk, _, ok := environments[rng.IntN(c.used)].Admit("tenant"); ok {
				tk.Release()
				admitted++
			}
		}
		seconds := float64(minutes * 60)
		gets := float64(admitted) / (rate * seconds)
		t.Logf("| %d | %d | %.1f × | %.1f %% | %.1f %% |", c.n, c.used, c.asks, 100*gets, 100*float64(asked-admitted)/float64(asked))
		if gets < c.gets || gets > c.most {
			t.Errorf("%+v: gets %.3f of its rate", c, gets)
		}
		burst := max(leastBurst, (40+c.n-1)/c.n)
		if bound := rate*seconds*float64(c.used)/float64(c.n) + float64(c.used*burst); float64(admitted) > bound+float64(c.used) {
			t.Errorf("%+v: %d admitted, over the stated bound of %.0f", c, admitted, bound)
		}
	}
}
