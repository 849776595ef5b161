package localcell

import (
	"runtime/debug"
	"testing"
)

// TestCollectLater: the heap of a router grows further than Go's, within a bound, and whoever started it may say
// otherwise.
func TestCollectLater(t *testing.T) {
	const percent, limit = 77, 900 << 20
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	before := debug.SetGCPercent(percent)
	defer debug.SetGCPercent(before)
	for name, c := range map[string]struct {
		gogc, gomemlimit string
		percent          int
		limit            int64
	}{
		"as it is":        {"", "", garbage, routerHeap},
		"a percentage":    {"50", "", percent, routerHeap},
		"a limit":         {"", "1GiB", garbage, limit},
		"both by another": {"50", "1GiB", percent, limit},
	} {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
		t.Setenv("GOGC", c.gogc)
		t.Setenv("GOMEMLIMIT", c.gomemlimit)
		collectLater()
		gotLimit, gotPercent := debug.SetMemoryLimit(-1), debug.SetGCPercent(percent)
		if gotPercent != c.percent || gotLimit != c.limit {
			t.Errorf("%s: %d percent within %d bytes, want %d within %d", name, gotPercent, gotLimit, c.percent, c.limit)
		}
	}
}
