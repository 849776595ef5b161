package boltitems

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/boltpages/boltpagestest"
	"cellwall.dev/cellwall/internal/directory"
)

// However many tenants the shards hold, neither holding nor listing them brings all of the file into memory.
func TestMemoryIsBounded(t *testing.T) {
	const tenants, each, bound = 150_000, 5000, 6 << 20
	path := filepath.Join(t.TempDir(), "items.db")
	s, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	h := s.Holds()
	tail := strings.Repeat("x", 80)
	for i := 0; i < tenants; i += each {
		many := make([]directory.Holding, each)
		for j := range many {
			many[j] = directory.Holding{Tenant: fmt.Sprintf("tenant-%06d-%s", i+j, tail), Epoch: 1}
		}
		if err := h.HoldMany(t.Context(), "eu-1", "s01", many); err != nil {
			t.Fatal(err)
		}
	}
	listed := 0
	for after := ""; ; {
		page, err := h.Holdings(t.Context(), "eu-1", "s01", after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		listed += len(page)
		if len(page) < 1000 {
			break
		}
		after = page[len(page)-1].Tenant
	}
	if got := boltpagestest.Resident(t, path); got > bound || listed != tenants {
		t.Errorf("%d bytes of the file in memory after listing %d tenants, want at most %d and %d", got, listed, bound, tenants)
	}
}
