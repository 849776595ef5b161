package placement

import (
	"slices"
	"testing"
)

// FuzzAppend: whatever the key, the tenant and the sizes, a subset is complete, nested and repeatable.
func FuzzAppend(f *testing.F) {
	f.Add([]byte("k"), "acme", uint16(16), uint16(2), false)
	f.Add([]byte("shuffle-shard-v1"), "with\x00nul", uint16(1), uint16(1), true)
	f.Add(make([]byte, 65), "\xff\x00rendezvous/v1", uint16(100), uint16(70), true)
	f.Fuzz(func(t *testing.T, key []byte, tenant string, n, k uint16, rendezvous bool) {
		n, scheme := n%512, HMACv1
		if rendezvous {
			scheme = RendezvousV1
		}
		p, err := New(Config{Scheme: scheme, Key: key, Shards: numbered(int(n))})
		if (err == nil) != (len(key) > 0 && n > 0) {
			t.Fatalf("key of %d bytes, %d shards: %v", len(key), n, err)
		}
		if err != nil {
			return
		}
		s, err := p.PerTenant(int(k))
		if (err == nil) != (k >= 1 && k <= n) {
			t.Fatalf("%d of %d shards: %v", k, n, err)
		}
		if err != nil {
			return
		}
		subset := s.of(nil, tenant)
		checkComplete(t, subset, int(n), int(k))
		if again := s.of(nil, tenant); !slices.Equal(again, subset) {
			t.Fatalf("%v, then %v", subset, again)
		}
		if half, err := p.PerTenant(int(k+1) / 2); err != nil || !slices.Equal(half.of(nil, tenant), subset[:(k+1)/2]) {
			t.Fatalf("half of the members are not the first of %v (%v)", subset, err)
		}
	})
}
