package footnote

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/localcell"
)

// What the soak allows when all is calm again: as many goroutines and open files more than before, for what happens to
// be open, and a heap so much larger than at two fifths of the time, with requests under way.
const (
	moreOpen   = 12
	heapFactor = 1.1
	moreHeap   = 1 << 20 // bytes
	settleFor  = 150 * time.Second
)

// TestSoak: two cells behind a front door, with raced routers, front door and supervisor, under load for minutes,
// while in each cell one shard after another goes bad, and directory, issuer and keepers do in between. Afterwards
// nothing is lost, nothing failed that is safe to repeat, and no process has kept goroutines, connections or memory.
func TestSoak(t *testing.T) {
	if *soak == 0 {
		t.Skip("lasts for minutes: make soak")
	}
	c := newCell(t, 200, "--cells", "2")
	for id, status := range c.sweep(c.all) {
		if status != http.StatusOK {
			t.Fatalf("%s was answered %d before all", id, status)
		}
	}
	before, openBefore := c.vitals(), c.open()

	l := c.load
	l.For, l.RPS, l.Seed = *soak, 60, rand.Uint64()
	var halfway map[string]localcell.Vitals
	faults := map[string]int{}
	report := c.send(l, func() {
		begun := time.Now()
		until := begun.Add(*soak - *soak/10)
		var mu sync.Mutex
		var all sync.WaitGroup
		for _, victims := range [][]string{shardsOf("eu-1"), shardsOf("us-1"), {"directory", "issuer", "eu-1/keeper", "us-1/keeper"}} {
			all.Go(func() {
				for time.Now().Before(until) {
					process, how := victims[rand.IntN(len(victims))], hows[rand.IntN(len(hows))]
					if !strings.Contains(process, "/s") {
						how = hows[rand.IntN(2)] // kill or hang
					}
					if _, err := c.running.Fail(t.Context(), process, localcell.Fault{How: how}); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					faults[how]++
					mu.Unlock()
					time.Sleep(time.Second + rand.N(4*time.Second))
					if _, err := c.running.Heal(t.Context(), process); err != nil {
						t.Error(err)
						return
					}
					time.Sleep(time.Second + rand.N(2*time.Second))
				}
			})
		}
		all.Go(func() {
			time.Sleep(2 * *soak / 5)
			halfway = c.vitals()
		})
		all.Wait()
	})
	c.want(report)
	t.Logf("%d faults %v in %v; %d requests at 99 %% within %.1f ms", sum(faults), faults, *soak, report.Requests, report.Latency.P99)

	var left []string
	for deadline := time.Now().Add(settleFor); ; time.Sleep(5 * time.Second) {
		left = left[:0]
		now, open := c.vitals(), c.open()
		for name, v := range now {
			if v.Goroutines > before[name].Goroutines+moreOpen {
				left = append(left, fmt.Sprintf("%s has %d goroutines, and had %d", name, v.Goroutines, before[name].Goroutines))
			}
			if float64(v.Heap) > heapFactor*float64(halfway[name].Heap)+moreHeap {
				left = append(left, fmt.Sprintf("%s has a heap of %.1f MB, and had %.1f MB", name, mb(v.Heap), mb(halfway[name].Heap)))
			}
		}
		for name, n := range open {
			if n > openBefore[name]+moreOpen {
				left = append(left, fmt.Sprintf("%s has %d open files, and had %d", name, n, openBefore[name]))
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			for _, name := range slices.Sorted(maps.Keys(now)) {
				t.Logf("%s: goroutines %d before, %d after; open files %d before, %d after; heap %.1f MB before, %.1f MB at two fifths, %.1f MB after", name,
					before[name].Goroutines, now[name].Goroutines, openBefore[name], open[name], mb(before[name].Heap), mb(halfway[name].Heap), mb(now[name].Heap))
			}
			break
		}
	}
	if len(left) > 0 {
		t.Errorf("after %v of calm:\n%s", settleFor, strings.Join(left, "\n"))
	}
}

func (c *cell) vitals() map[string]localcell.Vitals {
	c.Helper()
	v, err := c.running.Vitals(c.Context())
	if err != nil {
		c.Error(err)
	}
	return v
}

// open is how many files each process has open, connections among them; empty where there is no /proc.
func (c *cell) open() map[string]int {
	c.Helper()
	processes, err := c.running.Status(c.Context())
	if err != nil {
		c.Error(err)
	}
	all := map[string]int{}
	for _, p := range append(processes, localcell.ProcessStatus{Name: "supervisor", PID: c.running.Supervisor.PID}) {
		if files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID)); err == nil {
			all[p.Name] = len(files)
		}
	}
	return all
}

func shardsOf(cell string) (shards []string) {
	for n := range 16 {
		shards = append(shards, fmt.Sprintf("%s/s%02d", cell, n+1))
	}
	return shards
}

func sum(counts map[string]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}

func mb(bytes uint64) float64 { return float64(bytes) / 1e6 }
