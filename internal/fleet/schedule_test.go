package fleet

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// TestOffset: the first fire times, which must never change: a changed one fires twice, or not, on the day of the
// deployment.
func TestOffset(t *testing.T) {
	for _, c := range []struct {
		name, cell, shard string
		every, want       time.Duration
	}{
		{"sweep", "eu-1", "s01", 15 * time.Minute, 8 * time.Minute},
		{"sweep", "eu-1", "s02", 15 * time.Minute, 11 * time.Minute},
		{"sweep", "eu-2", "s01", 15 * time.Minute, 2 * time.Minute},
		{"report", "eu-1", "s01", 24 * time.Hour, 23*time.Hour + 8*time.Minute},
		{"beat", "eu-1", "s01", time.Minute, 0},
	} {
		if got := (Schedule{c.name, c.every}).Offset(c.cell, c.shard); got != c.want {
			t.Errorf("%s of shard %s of %s: %v, want %v", c.name, c.shard, c.cell, got, c.want)
		}
	}
}

// TestOffsetsSpread: over many shards no minute is chosen more often than chance allows. The number of shards in one
// minute of m is binomial; six standard deviations are met by chance once in a billion, and nothing here is random.
func TestOffsetsSpread(t *testing.T) {
	for _, every := range []time.Duration{time.Minute, 2 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour} {
		const cells, shards = 200, 64
		minutes := int(every / time.Minute)
		counts := make([]int, minutes)
		for c := range cells {
			for s := range shards {
				at := (Schedule{"sweep", every}).Offset(fmt.Sprintf("eu-%d", c), fmt.Sprintf("s%02d", s+1))
				if at < 0 || at >= every || at%time.Minute != 0 {
					t.Fatalf("every %v: offset %v", every, at)
				}
				counts[at/time.Minute]++
			}
		}
		n, p := float64(cells*shards), 1/float64(minutes)
		far := 6*math.Sqrt(n*p*(1-p)) + 1
		for minute, count := range counts {
			if math.Abs(float64(count)-n*p) > far {
				t.Errorf("every %v: %d of %d shards in minute %d, want %.0f ± %.0f", every, count, cells*shards, minute, n*p, far)
			}
		}
	}
}
