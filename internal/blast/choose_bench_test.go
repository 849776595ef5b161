package blast

import (
	"fmt"
	"testing"
)

// BenchmarkChoose takes the worst input: a budget that no number of shards keeps, so that all are tried,
// several times over to say why.
//
//	go test ./internal/blast -run '^$' -bench BenchmarkChoose -benchtime 3x
func BenchmarkChoose(b *testing.B) {
	for _, most := range []int{64, 1024} {
		for _, tenants := range []int{10_000, 1_000_000} {
			b.Run(fmt.Sprintf("%d/%d", most, tenants), func(b *testing.B) {
				in := ChooseInput{
					Budget:  LossBudget{ConcurrentFailures: 2, DegradedTenants: 0.001, CapacityLoss: 0.5, FullyDown: 0},
					Tenants: tenants, Load: 1e6, Capacity: 10, Zones: 1, MaxShards: most,
				}
				for b.Loop() {
					if _, err := Choose(in); err == nil {
						b.Fatal("a choice")
					}
				}
			})
		}
	}
}

// BenchmarkExact is the largest model: half of MaxShards for each tenant, half failed.
func BenchmarkExact(b *testing.B) {
	u := Uniform{MaxShards, MaxShards / 2}
	b.Run("Fail", func(b *testing.B) {
		for b.Loop() {
			if _, err := u.Fail(MaxShards / 2); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Overlap", func(b *testing.B) {
		for b.Loop() {
			u.Overlap()
		}
	})
	b.Run("Covered/512of65536", func(b *testing.B) {
		u := Uniform{MaxShards, MaxCovered}
		for b.Loop() {
			if _, err := u.Covered(1_000_000); err != nil {
				b.Fatal(err)
			}
		}
	})
}
