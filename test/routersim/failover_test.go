package routersim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestOneShardIll has one shard of 16 fall ill after 10 s and get well after 130 s, and tells which share of
// the requests of its tenants needed a second attempt. No idempotent request fails, in either form: the second
// attempt at the latest is answered.
func TestOneShardIll(t *testing.T) {
	skipUnderRace(t)
	const (
		from, to, end = 10 * time.Second, 130 * time.Second, 250 * time.Second
		seed          = 5
		bad           = 3
	)
	// One shard's tenants are an eighth of all. Of 200 requests a second their 25, waiting for a second each, hold
	// half of 50 environments, which is as much as plan allows.
	const localRate, lambdaRate = 400, 200
	t.Logf("seed %d; 2 of %d shards, %d tenants, %d requests a second, to environments %d, attempts time out after %v", seed, shards, tenants, localRate, lambdaRate, attemptTimeout)
	edges := []time.Duration{0, from, from + time.Second, from + 10*time.Second, from + time.Minute, to, to + time.Minute, end}
	header := []string{"before", "first 1 s", "1 to 10 s", "10 to 60 s", "60 to 120 s", "healed, 60 s", "60 to 120 s"}
	t.Logf("| fault, form | %s | slowest 1 %% of affected while ill |", strings.Join(header, " | "))
	for _, f := range []struct {
		name string
		fault
	}{{"dead", dead}, {"hung", hung}, {"slow", slow}, {"throttling", throttle}, {"erroring", erroring}} {
		for _, form := range []struct {
			name     string
			lambda   int
			snapshot time.Duration
		}{{"local", 0, 0}, {"50 alone", 50, 0}, {"50, snapshot", 50, time.Minute}} {
			var all, again, first [7]int
			var took []time.Duration
			failed := 0
			w := &world{rng: rand.New(rand.NewPCG(seed, uint64(f.fault))), rate: localRate, lambda: form.lambda, snapshot: form.snapshot}
			if form.lambda > 0 {
				w.rate = lambdaRate
			}
			w.state = func(s int, at time.Duration) fault {
				if s == bad && at >= from && at < to {
					return f.fault
				}
				return fine
			}
			w.observe = func(r request) {
				if !r.answered {
					failed++
				}
				if !slices.Contains(w.subsets[r.tenant], w.names[bad]) {
					return
				}
				for i := range all {
					if r.at >= edges[i] && r.at < edges[i+1] {
						all[i]++
						if len(r.attempts) > 1 {
							again[i]++
						}
						if r.attempts[0] == bad {
							first[i]++
						}
					}
				}
				if r.at >= from && r.at < to {
					took = append(took, r.took)
				}
			}
			w.run(end)
			counted := again
			if f.fault == slow {
				counted = first
			}
			var cells []string
			for i := range all {
				cells = append(cells, fmt.Sprintf("%.2f %%", 100*float64(counted[i])/float64(all[i])))
			}
			slices.Sort(took)
			t.Logf("| %s, %s | %s | %v |", f.name, form.name, strings.Join(cells, " | "), took[len(took)*99/100].Round(time.Millisecond))
			if failed > 0 {
				t.Errorf("%s, %s: %d idempotent requests failed", f.name, form.name, failed)
			}
			if w.refused > 0 {
				t.Errorf("%s, %s: %d requests found no environment free", f.name, form.name, w.refused)
			}
		}
	}
}
