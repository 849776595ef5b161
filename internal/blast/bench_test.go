package blast

import (
	"bytes"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/placement"
)

// BenchmarkOverlap counts the pairs of a million tenants with random subsets.
//
//	go test ./internal/blast -run '^$' -bench Overlap -benchtime 3x
func BenchmarkOverlap(b *testing.B) {
	for _, c := range []struct{ n, k int }{{16, 2}, {40, 3}, {100, 4}, {100, 6}} {
		b.Run(fmt.Sprintf("1M/%dof%d", c.k, c.n), func(b *testing.B) {
			p := collect(b, c.n, random(c.n, c.k, 1_000_000))
			for b.Loop() {
				overlap(b, p)
			}
		})
	}
}

// BenchmarkScale places tenants with loads on 64 shards, 3 each, and measures every single failure and
// every pair. Peak memory is that of the process, so run one size at a time for it:
//
//	go test ./internal/blast -run '^$' -bench 'Scale/1000000$' -benchtime 3x -benchmem
func BenchmarkScale(b *testing.B) {
	for _, tenants := range []int{10_000, 100_000, 1_000_000} {
		b.Run(strconv.Itoa(tenants), func(b *testing.B) {
			start := cpu(b)
			for b.Loop() {
				p := placedLoads(b, placement.RendezvousV1, 64, 3, tenants)
				for f := 1; f <= 2; f++ {
					measured(b, p, f)
				}
			}
			b.ReportMetric((cpu(b)-start).Seconds()/float64(b.N), "cpu-s/op")
			reportPeak(b)
		})
	}
}

// BenchmarkFailures measures what was collected before: a million tenants, 3 of 64 shards.
func BenchmarkFailures(b *testing.B) {
	p := placedLoads(b, placement.RendezvousV1, 64, 3, 1_000_000)
	for f := 1; f <= 3; f++ {
		b.Run(strconv.Itoa(f), func(b *testing.B) {
			for b.Loop() {
				measured(b, p, f)
			}
		})
	}
	c := capacity(b, p, Provision{PerShard: slices.Repeat([]float64{p.Load() / 50}, 64), Traffic: Traffic{Retries: 2}})
	for f := 1; f <= 2; f++ {
		b.Run(fmt.Sprintf("headroom/%d", f), func(b *testing.B) {
			for b.Loop() {
				if _, err := c.Headroom(f, Sampling{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("cascade", func(b *testing.B) {
		for b.Loop() {
			cascade(b, c, []int{0, 1, 2, 3, 4, 5})
		}
	})
	b.Run("sample/4", func(b *testing.B) {
		for b.Loop() {
			if _, err := p.Failures(4, Sampling{Seed: 1, Sets: 10_000, Confidence: 0.95}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func measured(t fataler, p *Population, f int) *Spread {
	t.Helper()
	s, err := p.Failures(f, Sampling{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// placedLoads places tenants tenant-000000 and so on, with a few loads far above the others.
func placedLoads(t fataler, scheme placement.Scheme, n, k, tenants int) *Population {
	t.Helper()
	shards := make([]placement.Shard, n)
	for i := range shards {
		shards[i] = placement.Shard{ID: fmt.Sprintf("s%02d", i), Weight: 1}
	}
	placer, err := placement.New(placement.Config{Scheme: scheme, Key: []byte(benchKey), Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	subsets, err := placer.PerTenant(k)
	if err != nil {
		t.Fatal(err)
	}
	p, err := CollectLoads(n, func(yield func([]int, float64) bool) {
		var subset []int
		for i := range tenants {
			if subset, err = subsets.Append(subset[:0], placement.Tenant{ID: tenantID(i)}); err != nil {
				t.Fatal(err)
			}
			if !yield(subset, float64(1+100_000/(i+1))) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const (
	benchKey     = "a key for benchmarks, 32 bytes.."
	tenantPrefix = "tenant-"
)

func tenantID(i int) string { return fmt.Sprintf("%s%06d", tenantPrefix, i) }

// cpu is the time that the process has had on all cores: on a busy machine it says more than the clock.
func cpu(b *testing.B) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// reportPeak reports the most memory that the process ever had, where the system tells.
func reportPeak(b *testing.B) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return
	}
	for line := range bytes.Lines(status) {
		if fields := bytes.Fields(line); len(fields) == 3 && string(fields[0]) == "VmHWM:" {
			kib, err := strconv.Atoi(string(fields[1]))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(kib)/1024, "peak-MiB")
		}
	}
}

// BenchmarkCollect gathers a million subsets.
func BenchmarkCollect(b *testing.B) {
	for b.Loop() {
		collect(b, 100, random(100, 4, 1_000_000))
	}
}

func random(n, k, tenants int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		rng := rand.New(rand.NewPCG(1, 1))
		all := seq(n)
		for range tenants {
			for i := range k { // the first k steps of a shuffle
				j := i + rng.IntN(n-i)
				all[i], all[j] = all[j], all[i]
			}
			if !yield(all[:k]) {
				return
			}
		}
	}
}

// BenchmarkTooBig lists 20,000 tenants on 512 shards that are all too big.
func BenchmarkTooBig(b *testing.B) {
	const shards, tenants = 512, 20_000
	d := drawn{shards: shards}
	for subset := range random(shards, 3, tenants) {
		d.subsets = append(d.subsets, slices.Clone(subset))
		d.loads = append(d.loads, float64(100+len(d.subsets)%1000))
	}
	c := capacity(b, d.population(b), Provision{PerShard: slices.Repeat([]float64{100}, shards)})
	for b.Loop() {
		list, err := c.TooBig(0.1, 1)
		if err != nil || len(list) != tenants {
			b.Fatalf("%d of %d, %v", len(list), tenants, err)
		}
	}
}
