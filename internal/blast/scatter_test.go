package blast

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestScatter(t *testing.T) {
	if got, err := ScatterSlow(50, 0.01); err != nil || math.Abs(got-0.395) > 0.00005 {
		t.Errorf("50 shards beyond their 99th percentile: %v, %v; want 39.5 %%", got, err)
	}
	for _, c := range []struct {
		shards     int
		slow, want float64
	}{{1, 0.01, 0.01}, {2, 0.5, 0.75}, {100, 0.01, 0.6339676587267709}, {7, 0, 0}, {7, 1, 1}} {
		if got, err := ScatterSlow(c.shards, c.slow); err != nil || math.Abs(got-c.want) > 1e-15 {
			t.Errorf("%d shards, %v slow: %v, %v; want %v", c.shards, c.slow, got, err, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 500).Draw(t, "shards")
		p := rapid.Float64Range(0, 0.9).Draw(t, "slow")
		got, err := ScatterSlow(n, p)
		if err != nil {
			t.Fatal(err)
		}
		inTime := 1.0
		for range n {
			inTime *= 1 - p
		}
		if math.Abs(got-(1-inTime)) > 1e-13 {
			t.Fatalf("%v, want %v", got, 1-inTime)
		}
		tail, err := ScatterTail(n, p)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ScatterSlow(n, tail); err != nil || math.Abs(back-p) > 1e-12 {
			t.Fatalf("a tail of %v gives %v, %v; want %v", tail, back, err, p)
		}
	})
	for _, c := range []struct {
		shards int
		slow   float64
	}{{0, 0.1}, {-1, 0.1}, {MaxShards + 1, 0.1}, {3, -0.1}, {3, 1.1}, {3, math.NaN()}} {
		if _, err := ScatterSlow(c.shards, c.slow); !errors.Is(err, ErrModel) {
			t.Errorf("slow for %+v: %v", c, err)
		}
		if _, err := ScatterTail(c.shards, c.slow); !errors.Is(err, ErrModel) {
			t.Errorf("tail for %+v: %v", c, err)
		}
	}
}
