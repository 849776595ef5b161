package health

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// BenchmarkOrder is one order of 2 of so many shards, and the same with the attempt that follows, by as many
// goroutines as there are processors. cpu-ns/op is processor time, which other work on the machine leaves
// alone.
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
			each := func(name string, do func(dst, members []string)) {
				b.Run(name, func(b *testing.B) {
					b.ReportAllocs()
					before := processor(b)
					b.RunParallel(func(pb *testing.PB) {
						dst := make([]string, 0, 2)
						for i := 0; pb.Next(); i++ {
							do(dst, subsets[i%shards])
						}
					})
					b.ReportMetric(float64(processor(b)-before)/float64(b.N), "cpu-ns/op")
				})
			}
			each(fmt.Sprint(shards, "/", form), func(dst, members []string) {
				h.Order(dst, members, true)
			})
			each(fmt.Sprint(shards, "/", form, "/attempt"), func(dst, members []string) {
				o := h.Order(dst, members, true)
				h.Begin(o[0])
				h.End(o[0], Answered, time.Millisecond)
			})
		}
	}
}

// processor is the time that this process has had processors for.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
