package placement

import "testing"

// BenchmarkBoundedV1 looks slots up one after the other, so that no branch can be learnt. Compare it with
// BenchmarkRawHMAC in one run.
func BenchmarkBoundedV1(b *testing.B) {
	for _, s := range []shape{{4, 512, 4, 2}, {4, 11, 4, 2}, {3, 343, 3, 2}, {3, 128, 6, 2}} {
		b.Run(s.String(), func(b *testing.B) {
			b.ReportAllocs()
			p := s.placer(b, string(benchKey))
			set, err := p.PerTenant(s.k)
			if err != nil {
				b.Fatal(err)
			}
			buf, slot := make([]int, 0, s.k), uint64(0)
			for b.Loop() {
				slot = slot%p.Slots() + 1
				if buf, err = set.Append(buf[:0], Tenant{Slot: slot}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNewBoundedV1(b *testing.B) {
	for _, s := range []shape{{4, 11, 4, 2}, {4, 512, 4, 2}, {4, 16384, 4, 2}} {
		b.Run(s.String(), func(b *testing.B) {
			c := Config{Scheme: BoundedV1, Key: benchKey, Shards: s.shards(), MaxShared: s.t, MaxPerTenant: s.k}
			for b.Loop() {
				if _, err := New(c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
