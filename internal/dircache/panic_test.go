package dircache_test

import (
	"context"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/dircache"
	"cellwall.dev/cellwall/internal/directory"
)

// faulty is a directory whose client panics.
type faulty struct{}

func (faulty) Get(context.Context, string) (directory.Entry, error) { panic("a fault of the adapter") }

// TestALookUpThatPanics has failed, in a goroutine where a panic would end the process, and the next is not held up.
func TestALookUpThatPanics(t *testing.T) {
	for _, single := range []bool{false, true} {
		cache := newCache(t, dircache.Config{Directory: faulty{}, Single: single})
		if _, err := cache.Entry(t.Context(), "acme"); err == nil || !strings.Contains(err.Error(), "a fault of the adapter") {
			t.Errorf("Entry: %v", err)
		}
		if _, err := cache.Fresh(t.Context(), "zeta", 1); err == nil {
			t.Error("Fresh gives no error")
		}
	}
}
