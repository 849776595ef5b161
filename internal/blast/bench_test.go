package blast

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"
)

// BenchmarkOverlap counts the pairs of a million tenants with random subsets.
//
//	go test ./internal/blast -run '^$' -bench . -benchtime 3x
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
