package main

import (
	"math"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// sample is how long one timed pass over one scheme takes, and asked is how many tenants take turns: few
// enough for their ids, and the subrings of a cache, to stay in memory that is near.
const (
	sample = 5 * time.Millisecond
	asked  = 1024
)

// timing is what a lookup costs, in processor time of the whole process, so that collecting what it
// allocates counts and other processes do not.
type timing struct {
	ns    float64 // median
	ratio float64 // median of the ratios to the first scheme in the same pass
	bytes float64 // allocated
}

// times passes over all schemes again and again, in an order that turns, so that what the machine does
// meanwhile falls on all alike.
func times(subjects []*subject, rounds int) []timing {
	lookups := make([]int, len(subjects))
	out := make([]timing, len(subjects))
	for i, s := range subjects {
		repeat(s, asked) // fills what is cached
		out[i].bytes = allocations(s)
		runtime.GC()
		for n := asked; ; n *= 2 {
			if took := repeat(s, n); took >= sample/2 {
				lookups[i] = max(1, int(float64(n)*float64(sample)/float64(took)))
				break
			}
		}
	}
	ns := make([][]float64, len(subjects))
	for round := range rounds {
		for turn := range subjects {
			i := (round + turn) % len(subjects)
			ns[i] = append(ns[i], float64(repeat(subjects[i], lookups[i]))/float64(lookups[i]))
		}
	}
	for i := range subjects {
		ratios := make([]float64, rounds)
		for r := range ratios {
			ratios[r] = ns[i][r] / ns[0][r]
		}
		out[i].ns, out[i].ratio = median(ns[i]), median(ratios)
	}
	return out
}

// repeat looks up and says what processor time that took.
func repeat(s *subject, lookups int) time.Duration {
	last := asked - 1
	if s.slots > 0 {
		last = min(last, s.slots-1)
	}
	start := processorTime()
	for tenant := 0; lookups > 0; lookups-- {
		s.lookup(tenant)
		if tenant++; tenant > last {
			tenant = 0
		}
	}
	return processorTime() - start
}

// allocations is the least that a lookup allocated, in bytes, in several passes: the process's other
// goroutines allocate now and then, too.
func allocations(s *subject) float64 {
	least := math.Inf(1)
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		repeat(s, asked)
		runtime.ReadMemStats(&after)
		least = min(least, float64(after.TotalAlloc-before.TotalAlloc)/asked)
	}
	return least
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
