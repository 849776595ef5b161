package placement

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// Uniform: all 120 ordered subsets of 3 of 6 shards are counted.
func TestUniform(t *testing.T) {
	const n, k, tenants = 6, 3, 60_000
	for _, scheme := range schemes {
		t.Run(string(scheme), func(t *testing.T) {
			s := subsets(t, scheme, []byte("a fixed key is the seed"), numbered(n), k)
			cells := make(map[[k]int]int)
			var buf []int
			for i := range tenants {
				buf = s.of(buf[:0], tenant(i))
				cells[[k]int(buf)]++
			}
			var counts []int
			for a := range n {
				for b := range n {
					for c := range n {
						if a != b && b != c && a != c {
							counts = append(counts, cells[[k]int{a, b, c}])
						}
					}
				}
			}
			if len(counts) != 6*5*4 || len(cells) != len(counts) {
				t.Fatalf("%d ordered subsets seen of %d possible", len(cells), len(counts))
			}
			checkChiSquare(t, counts, tenants, len(counts)-1, 1)
		})
	}
}

// Uniform, over a large population of numbered tenants: how many of them each shard has.
func TestUniformOccupancy(t *testing.T) {
	const tenants = 20_000
	for _, scheme := range schemes {
		for _, c := range []struct{ n, k int }{{4, 1}, {16, 2}, {16, 3}, {40, 3}, {100, 4}, {97, 10}} {
			t.Run(fmt.Sprintf("%s/%d of %d", scheme, c.k, c.n), func(t *testing.T) {
				s := subsets(t, scheme, []byte("a fixed key is the seed"), numbered(c.n), c.k)
				counts := make([]int, c.n)
				var buf []int
				for i := range tenants {
					buf = s.of(buf[:0], tenant(i))
					for _, shard := range buf {
						counts[shard]++
					}
				}
				// The k members of one tenant are drawn without repetition. The covariance of two
				// counts is therefore (n-k)/(n-1) of what it were for tenants·k single draws, and the
				// statistic shrinks by that factor.
				shrink := float64(c.n-c.k) / float64(c.n-1)
				checkChiSquare(t, counts, tenants*c.k, c.n-1, shrink)
				t.Logf("smallest %d, largest %d, mean %.0f", slices.Min(counts), slices.Max(counts), float64(tenants*c.k)/float64(c.n))
			})
		}
	}
}

// checkChiSquare compares counts, which sum to total, with equal ones. Under a uniform scheme the
// statistic, divided by scale, has a chi-square distribution. It must lie between the quantiles at
// 4.5 standard deviations: beyond either, a right scheme would be for 3.4 keys in a million. Counts
// that are too even are as suspicious as uneven ones.
func checkChiSquare(t *testing.T, counts []int, total, degrees int, scale float64) {
	t.Helper()
	mean := float64(total) / float64(len(counts))
	sum, statistic := 0, 0.0
	for _, c := range counts {
		sum += c
		statistic += (float64(c) - mean) * (float64(c) - mean) / mean
	}
	statistic /= scale
	low, high := chiSquareQuantile(degrees, -4.5), chiSquareQuantile(degrees, 4.5)
	t.Logf("chi-square %.1f with %d degrees of freedom, allowed %.1f to %.1f", statistic, degrees, low, high)
	if sum != total {
		t.Errorf("counts sum to %d, want %d", sum, total)
	}
	if statistic < low || statistic > high {
		t.Errorf("chi-square %.1f is outside %.1f to %.1f: %v", statistic, low, high, counts)
	}
}

// chiSquareQuantile is the Wilson-Hilferty approximation (1931): the cube root of chi-square per
// degree of freedom is nearly normal. z counts standard deviations. Good to a few per cent from three
// degrees on.
func chiSquareQuantile(degrees int, z float64) float64 {
	v := 2 / (9 * float64(degrees))
	return float64(degrees) * math.Pow(max(0, 1-v+z*math.Sqrt(v)), 3)
}
