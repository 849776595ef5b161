package footnote

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/localcell/traffic"
)

// BenchmarkUnaffected measures what a bad shard costs the tenants that have nothing to do with it: the p99 of their
// requests' latency in runs with one shard bad, over that in runs without, in interleaved pairs. It reports the ratio
// with a 95 % interval, by 2,000 resamplings of the pairs and of the requests within them (a bootstrap by its percentiles). The
// promise is at most 1.25. A pair is one iteration: run it with -benchtime 10x.
func BenchmarkUnaffected(b *testing.B) {
	c := newCell(b, tenants)
	for n, how := range hows {
		b.Run(how, func(b *testing.B) {
			part := *c
			part.TB = b
			shard := fmt.Sprintf("s%02d", 3*n+1)
			affected := part.of(func(t traffic.Tenant) bool { return isMember(t, shard) })
			var pairs [][2][]float64 // calm and bad
			for b.Loop() {
				var pair [2][]float64
				first := rand.IntN(2) // whatever a run leaves behind, and what else the machine does, meets both alike
				for _, bad := range []int{first, 1 - first} {
					if bad == 1 {
						part.fail(shard, how)
					}
					pair[bad] = part.latencies(affected)
					time.Sleep(500 * time.Millisecond)
				}
				pairs = append(pairs, pair)
			}
			ratio := p99Ratio(pairs, func(int) int { return -1 })
			seed := rand.Uint64()
			random := rand.New(rand.NewPCG(seed, 0))
			var all []float64
			for range 2000 {
				all = append(all, p99Ratio(pairs, random.IntN))
			}
			slices.Sort(all)
			b.ReportMetric(0, "ns/op") // of a pair: says nothing
			b.ReportMetric(ratio, "ratio")
			b.ReportMetric(all[len(all)*25/1000], "ratio-low")
			b.ReportMetric(all[len(all)*975/1000], "ratio-high")
			b.Logf("%d pairs, seed %d: p99 of unaffected tenants with %s %s over without %.3f, 95 %% interval %.3f to %.3f", len(pairs), seed, shard, how, ratio, all[len(all)*25/1000], all[len(all)*975/1000])
		})
	}
}

// latencies are those of a run's requests of tenants other than these, in milliseconds. It makes all whole at the end.
func (c *cell) latencies(affected map[string]bool) (ms []float64) {
	c.Helper()
	l := c.load
	l.For, l.RPS, l.Seed = 4*time.Second, 200, rand.Uint64()
	var mu sync.Mutex
	l.Observe = func(o traffic.Observed) {
		if affected[o.Tenant] {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		ms = append(ms, float64(o.Took)/float64(time.Millisecond))
	}
	report := c.send(l, func() {
		time.Sleep(l.For)
		c.heal() // jobs of the shard are awaited
	})
	if report.Failures > 0 || len(ms) == 0 {
		c.Errorf("%d failures, %d requests of unaffected tenants", report.Failures, len(ms))
	}
	return ms
}

// p99Ratio is the p99 of all runs with a bad shard, together, over that of all without. draw resamples the pairs, and
// the requests within each; one that says -1 takes them as they are.
func p99Ratio(pairs [][2][]float64, draw func(n int) int) float64 {
	var all [2][]float64
	for i := range pairs {
		p := i
		if d := draw(len(pairs)); d >= 0 {
			p = d
		}
		for side, ms := range pairs[p] {
			for j := range ms {
				if d := draw(len(ms)); d >= 0 {
					all[side] = append(all[side], ms[d])
				} else {
					all[side] = append(all[side], ms[j])
				}
			}
		}
	}
	for side := range all {
		slices.Sort(all[side])
	}
	at := func(ms []float64) float64 { return ms[max(0, int(math.Ceil(0.99*float64(len(ms))))-1)] }
	return at(all[1]) / at(all[0])
}

// TestP99Ratio holds the arithmetic of the measurement.
func TestP99Ratio(t *testing.T) {
	var calm, bad []float64
	for n := range 100 {
		calm, bad = append(calm, float64(n+1)), append(bad, float64(2*n+2))
	}
	asIs := func(int) int { return -1 }
	if got := p99Ratio([][2][]float64{{calm, bad}, {calm, bad}}, asIs); got != 2 {
		t.Errorf("twice the latency has a ratio of %v", got)
	}
	bad[99], bad[98] = 1e6, 1e6 // two of a hundred
	if got := p99Ratio([][2][]float64{{calm, bad}}, asIs); got != 1e6/99 {
		t.Errorf("the ratio of the 99th of a hundred is %v", got)
	}
	if got := p99Ratio([][2][]float64{{calm, bad}}, func(int) int { return 0 }); got != 2 { // the first of each
		t.Errorf("resampled, the ratio is %v", got)
	}
}
