package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// BenchmarkPlan is a whole plan, reading included, of one cell with 64 shards and k = 3.
//
//	go test ./internal/cli -run '^$' -bench BenchmarkPlan -benchmem -benchtime 1x
func BenchmarkPlan(b *testing.B) {
	b.Chdir(b.TempDir())
	fleet := strings.NewReplacer("perTenant: 2", "perTenant: 3", "shards: 7", "shards: 64", "capacity: 100", "capacity: 1000000").Replace(planFleet)
	if err := os.WriteFile("fleet.yaml", []byte(fleet), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, tenants := range []int{10_000, 100_000, 1_000_000} {
		text := planTenants(tenants)
		b.Run(fmt.Sprint(tenants), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if status, _, errw := command(text, "plan", "--cell", "eu-1", "--tenants-file", "-"); status != ExitDone {
					b.Fatal(errw)
				}
			}
		})
	}
}
