package placement

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

type boundedVector struct {
	Key       string   `json:"key"`
	Zones     int      `json:"zones"`
	Size      int      `json:"shardsPerZone"`
	PerTenant int      `json:"maxPerTenant"`
	Shared    int      `json:"maxShared"`
	Slots     uint64   `json:"slots"`
	Slot      uint64   `json:"slot"`
	Subset    []string `json:"subset"`
}

const boundedGoldenFile = "testdata/bounded-v1.json"

// TestGoldenBounded: the outputs that are pinned do not change. A change would break the promise between
// tenants placed before and after it.
func TestGoldenBounded(t *testing.T) {
	if *update {
		writeGoldenBounded(t)
	}
	raw, err := os.ReadFile(boundedGoldenFile)
	if err != nil {
		t.Fatal(err)
	}
	var vectors []boundedVector
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) < 100 {
		t.Fatalf("only %d vectors", len(vectors))
	}
	type placement struct {
		key string
		shape
	}
	placers := map[placement]*Placer{} // the large ones take a while to make
	for i, v := range vectors {
		s := shape{v.Zones, v.Size, v.PerTenant, v.Shared}
		p := placers[placement{v.Key, s}]
		if p == nil {
			p = s.placer(t, v.Key)
			placers[placement{v.Key, s}] = p
		}
		got := ids(s.shards(), bySlot(t, p, len(v.Subset), v.Slot))
		if p.Slots() != v.Slots || !slices.Equal(got, v.Subset) {
			t.Errorf("vector %d: %s, slot %d: got %v of %d, want %v of %d", i, s, v.Slot, got, p.Slots(), v.Subset, v.Slots)
		}
	}
}

func writeGoldenBounded(t *testing.T) {
	var vectors []boundedVector
	for _, key := range []string{"k", strings.Repeat("key", 30)} {
		for _, s := range []shape{
			{4, 7, 4, 2}, {4, 11, 4, 2}, {3, 4, 2, 1}, {3, 9, 3, 1}, {4, 25, 4, 3}, {3, 343, 3, 2}, {4, 512, 4, 2},
			{3, 14, 6, 1}, {1, 25, 5, 2}, {5, 49, 4, 0}, {7, 1024, 5, 4}, {16, 16, 16, 14}, {1, 65521, 1, 0},
		} {
			p := s.placer(t, key)
			n := p.Slots()
			for _, slot := range []uint64{1, 2, n / 3, n - 1, n} {
				subset := ids(s.shards(), bySlot(t, p, s.stripes(), slot))
				vectors = append(vectors, boundedVector{key, s.zones, s.size, s.k, s.t, n, slot, subset})
			}
		}
	}
	raw, err := json.Marshal(vectors)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.ReplaceAll(string(raw), "},{", "},\n{")
	if err := os.WriteFile(boundedGoldenFile, []byte(lines+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
