package placement

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"testing"
)

// Run them in one process, since only figures of one run compare:
//
//	go test ./internal/placement -run '^$' -bench . -count 10

const benchTenant = "org-00001"

var benchKey = []byte("0123456789abcdef0123456789abcdef")

// BenchmarkRawHMAC is the yardstick: the standard library's HMAC-SHA256 of a message as hmac/v1 signs
// one, with the key's blocks computed in advance (that is what Reset gives), so two blocks in all.
func BenchmarkRawHMAC(b *testing.B) {
	b.ReportAllocs()
	h := hmac.New(sha256.New, benchKey)
	message := append([]byte(benchTenant), make([]byte, 9)...)
	var d digest
	for b.Loop() {
		h.Reset()
		h.Write(message)
		h.Sum(d[:0])
	}
}

func BenchmarkHMACv1(b *testing.B) {
	for _, c := range []struct{ n, k int }{{16, 2}, {100, 4}} {
		benchmarkAppend(b, HMACv1, numbered(c.n), c.k)
	}
}

func BenchmarkRendezvousV1(b *testing.B) {
	for _, c := range []struct{ n, k int }{{16, 2}, {100, 4}, {1000, 4}} {
		benchmarkAppend(b, RendezvousV1, numbered(c.n), c.k)
	}
}

// BenchmarkRendezvousV1Zones is the same over three zones.
func BenchmarkRendezvousV1Zones(b *testing.B) {
	for _, c := range []struct{ n, k int }{{16, 2}, {16, 4}, {100, 4}, {1000, 4}} {
		benchmarkAppend(b, RendezvousV1, zoned(c.n, 3), c.k)
	}
}

// BenchmarkRendezvousV1Weights is the same in one zone with two weights.
func BenchmarkRendezvousV1Weights(b *testing.B) {
	for _, c := range []struct{ n, k int }{{16, 2}, {100, 4}, {1000, 4}} {
		shards := numbered(c.n)
		for i := range shards {
			shards[i].Weight = 1 + i%2
		}
		benchmarkAppend(b, RendezvousV1, shards, c.k)
	}
}

func benchmarkAppend(b *testing.B, scheme Scheme, shards []Shard, k int) {
	b.Run(fmt.Sprintf("%dof%d", k, len(shards)), func(b *testing.B) {
		b.ReportAllocs()
		s := subsets(b, scheme, benchKey, shards, k)
		buf := make([]int, 0, k)
		for b.Loop() {
			buf = s.of(buf[:0], benchTenant)
		}
	})
}
