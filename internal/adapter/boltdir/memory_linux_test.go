package boltdir

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/boltpages/boltpagestest"
	"cellwall.dev/cellwall/internal/directory"
)

// However large the file, neither writing nor listing it brings it into memory as a whole.
func TestMemoryIsBounded(t *testing.T) {
	const records, size, bound = 8000, 8 << 10, 24 << 20 // 64 MiB of records
	path := filepath.Join(t.TempDir(), "d.db")
	d := open(t, path)
	body := []byte(`"` + strings.Repeat("x", size) + `"`)
	key := func(i int) directory.Key {
		return directory.Key{Part: fmt.Sprintf("tenant-%06d", i), Sort: "ENTRY"}
	}
	for version := range uint64(2) {
		for i := 0; i < records; i += directory.MaxOps {
			b := directory.Batch{Operation: "op"}
			for j := i; j < i+directory.MaxOps; j++ {
				b.Ops = append(b.Ops, directory.Put(key(j), version, body))
			}
			if err := d.Write(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := boltpagestest.Resident(t, path); got > bound {
		t.Errorf("%d bytes of the file in memory after writing it twice, want at most %d", got, bound)
	}
	listed := 0
	for after := (directory.Key{}); ; {
		page, err := d.List(t.Context(), directory.Range{Family: "ENTRY"}, after, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			if after = r.Key; r.Version != 2 || len(r.Body) != len(body) {
				t.Fatalf("record %v has version %d and %d bytes", r.Key, r.Version, len(r.Body))
			}
		}
		if listed += len(page); len(page) < 100 {
			break
		}
	}
	if got := boltpagestest.Resident(t, path); got > bound || listed != records {
		t.Errorf("%d bytes of the file in memory after listing %d records, want at most %d and %d", got, listed, bound, records)
	}
}
