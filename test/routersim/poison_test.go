package routersim

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/routing/poison"
)

var runs = flag.Uint64("runs", 0, "seeds that the poison simulations are run with; 0 is one short run")

// skipUnderRace leaves a simulation out: it has one goroutine, where the race detector finds nothing.
func skipUnderRace(t *testing.T) {
	if underRace {
		t.Skip("one goroutine: run without the race detector")
	}
}

// forms are the two of a router, with the rate at which each is simulated.
var forms = []struct {
	name   string
	lambda int
	rate   float64
}{{"local", 0, 400}, {"50 environments", 50, 200}}

// TestFalseAlarms counts tenants that are suspected although nobody is poisonous.
func TestFalseAlarms(t *testing.T) {
	skipUnderRace(t)
	seeds, long := *runs, 20*time.Minute
	if seeds == 0 {
		seeds, long = 1, 6*time.Minute
	}
	t.Logf("seeds 1 to %d, %v each", seeds, long)
	outage := func(ill fault, which ...int) func(int, time.Duration) fault {
		return func(s int, at time.Duration) fault {
			// Ill for two minutes of five, so that there are as many beginnings and ends.
			if slices.Contains(which, s) && at%(5*time.Minute) > 3*time.Minute {
				return ill
			}
			return fine
		}
	}
	t.Log("| what fails | form | load | requests | suspected | per million requests | firm | held by all | pinned |")
	for _, c := range []struct {
		name   string
		random float64
		state  func(int, time.Duration) fault
	}{
		{"0.1 % of requests", 0.001, nil},
		{"1 %", 0.01, nil},
		{"5 %", 0.05, nil},
		{"one shard dead", 0.001, outage(dead, 3)},
		{"one shard hung", 0.001, outage(hung, 3)},
		{"two shards dead", 0.001, outage(dead, 3, 7)},
		{"two shards fail one of two", 0.001, outage(flaky, 3, 7)},
		{"a zone of five dead", 0.001, outage(dead, 0, 1, 2, 3, 4)},
	} {
		for _, form := range forms {
			for _, heavy := range []float64{0, 0.1} {
				requests, verdicts, firm, held, pinned := 0, 0, 0, 0, 0
				for seed := range seeds {
					w := &world{rng: rand.New(rand.NewPCG(seed+1, 0)), rate: form.rate, lambda: form.lambda, heavy: heavy, random: c.random, state: c.state}
					w.observe = func(request) { requests++ }
					k := newKeeper(w)
					w.onVerdict = func(_ time.Duration, environment int, v poison.Verdict) {
						k.hear(environment, v)
						verdicts++
						if v.Firm {
							firm++
						}
					}
					w.run(long)
					held, pinned = held+k.suspected, pinned+len(k.pinned)
				}
				load := "even"
				if heavy > 0 {
					load = "one tenant a tenth"
				}
				t.Logf("| %s | %s | %s | %d | %d | %.1f | %d | %d | %d |", c.name, form.name, load, requests, verdicts, float64(verdicts)/float64(requests)*1e6, firm, held, pinned)
				if firm+held+pinned > 0 {
					t.Errorf("%s, %s, %s: of innocent tenants %d had firm verdicts, %d were held by all, %d pinned", c.name, form.name, load, firm, held, pinned)
				}
			}
		}
	}
}

// TestPoisonIsFound measures how long a poisonous tenant goes on before it is suspected, and what it costs the
// shards until then and after.
func TestPoisonIsFound(t *testing.T) {
	skipUnderRace(t)
	const (
		begin = 5 * time.Minute
		end   = 20 * time.Minute
	)
	seeds := max(1, *runs)
	t.Logf("seeds 1 to %d; median and most of these runs; the tenant begins after %v", seeds, begin)
	t.Log("| its requests | form | tenant's requests a second | first suspected after | its bad requests until then | shards down until then | firm after | downs a minute, unchecked | in the last 10 min |")
	for _, c := range []struct {
		name     string
		share    float64 // of its requests that are poisonous
		how      poisonous
		collapse time.Duration
		heavy    float64         // share of all load that it has; 0 is as everybody
		hidden   map[string]bool // forms in which it is not found
	}{
		{"kill the shard for 2 s", 1, kills, 2 * time.Second, 0, map[string]bool{"50 environments": true}},
		{"one in ten kills the shard for 2 s", 0.1, kills, 2 * time.Second, 0.01, map[string]bool{"50 environments": true}},
		{"one in ten kills the shard for 2 s", 0.1, kills, 2 * time.Second, 0.1, map[string]bool{"local": true, "50 environments": true}},
		{"kill their slice's environment", 1, kills, 0, 0, nil},
		{"one in ten kills its slice's environment", 0.1, kills, 0, 0.01, nil},
		{"hang", 1, hangs, 0, 0, nil},
		{"one in ten hangs", 0.1, hangs, 0, 0.01, nil},
		{"one in ten hangs", 0.1, hangs, 0, 0.1, map[string]bool{"50 environments": true}},
	} {
		for _, form := range forms {
			var delays, firms, bads, downs, rest []float64
			missed := 0
			rate := form.rate * (c.heavy + (1-c.heavy)/tenants)
			for seed := range seeds {
				w := &world{rng: rand.New(rand.NewPCG(seed+1, 1)), rate: form.rate, lambda: form.lambda, heavy: c.heavy, random: 0.001, collapse: c.collapse}
				var found, firm time.Duration
				bad, hit, late := 0, 0, 0
				chance := 1.0
				w.poison = func(tenant int, at time.Duration) poisonous {
					if tenant != 0 || at < begin || w.rng.Float64() >= c.share {
						return harmless
					}
					hit++
					if at > end-10*time.Minute {
						late++
					}
					return c.how
				}
				w.observe = func(r request) {
					if r.tenant == 0 && r.at >= begin && found == 0 && !r.answered {
						bad++
					}
				}
				hits := 0
				w.onVerdict = func(at time.Duration, _ int, v poison.Verdict) {
					if v.Tenant != "t0" || at < begin {
						return
					}
					if found == 0 {
						found, hits = at, hit
					}
					// Environments see different requests, so that their words can be taken together.
					if chance *= v.Chance; chance <= 1e-6 && firm == 0 {
						firm = at
					}
				}
				w.run(end)
				if found == 0 || firm == 0 {
					missed++
					continue
				}
				delays = append(delays, (found - begin).Seconds())
				firms = append(firms, (firm - begin).Seconds())
				bads = append(bads, float64(bad))
				downs = append(downs, float64(hits))
				rest = append(rest, float64(late)/10)
			}
			if missed > 0 && !c.hidden[form.name] {
				t.Errorf("%s, %s, %.1f a second: not found in %d of %d runs", c.name, form.name, rate, missed, seeds)
			}
			if missed > 0 {
				t.Logf("| %s | %s | %.1f | not found in %d of %d runs |", c.name, form.name, rate, missed, seeds)
			} else {
				t.Logf("| %s | %s | %.1f | %s s | %s | %s | %s s | %.0f | %s |", c.name, form.name, rate, spread(delays), spread(bads), spread(downs), spread(firms), 120*rate*c.share, spread(rest))
			}
		}
	}
}

// spread is median and most.
func spread(x []float64) string {
	slices.Sort(x)
	return fmt.Sprintf("%.0f, %.0f", math.Ceil(x[len(x)/2]), math.Ceil(x[len(x)-1]))
}
