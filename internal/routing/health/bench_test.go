package health

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkOrder is one order of 2 of so many shards, and the same with the attempt that follows, by as many
// goroutines as there are processors.
func BenchmarkOrder(b *testing.B) {
	for _, shards := range []int{16, 256} {
		for _, lambda := range []bool{false, true} {
			h := New(Config{Lambda: lambda})
			var subsets [][]string
			for i := range shards {
				n := fmt.Sprint("s", i)
				h.Begin(n)
				h.End(n, Answered, time.Duration(i+1)*time.Millisecond)
				subsets = append(subsets, []string{n, fmt.Sprint("s", (i+7)%shards)})
			}
			form := map[bool]string{false: "local", true: "lambda"}[lambda]
			b.Run(fmt.Sprint(shards, "/", form), func(b *testing.B) {
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					dst := make([]string, 0, 2)
					for i := 0; pb.Next(); i++ {
						h.Order(dst, subsets[i%shards], true)
					}
				})
			})
			b.Run(fmt.Sprint(shards, "/", form, "/attempt"), func(b *testing.B) {
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					dst := make([]string, 0, 2)
					for i := 0; pb.Next(); i++ {
						o := h.Order(dst, subsets[i%shards], true)
						h.Begin(o[0])
						h.End(o[0], Answered, time.Millisecond)
					}
				})
			})
		}
	}
}
