package limit

import (
	"fmt"
	"testing"
)

func BenchmarkAdmit(b *testing.B) {
	for _, tenants := range []int{1, 60_000} {
		names := make([]string, tenants)
		for i := range names {
			names[i] = fmt.Sprint("tenant-", i)
		}
		l, err := NewTenants(Config{Rate: 1e9, Concurrent: 1000, Tenants: 1 << 17})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(tenants), func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if tk, _, ok := l.Admit(names[i*7919%tenants]); ok {
						tk.Release()
					}
				}
			})
		})
	}
}

func BenchmarkGates(b *testing.B) {
	budget, shards, shed := NewBudget(Ratio, Floor), NewShards(1000), NewShed(1000)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			budget.Begin()
			if shed.Enter(0) {
				if shards.Acquire("s01") {
					shards.Release("s01")
				}
				shed.Leave()
			}
			budget.End()
		}
	})
}
