package collectlater

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func percent() int {
	p := debug.SetGCPercent(100)
	debug.SetGCPercent(p)
	return p
}

// TestCollectLater: the percentage is high until the first collection, and no longer.
func TestCollectLater(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	collectLater()
	if got := percent(); got != lateCollection {
		t.Errorf("before the first collection the percentage is %d, want %d", got, lateCollection)
	}
	for deadline := time.Now().Add(10 * time.Second); percent() != 100; {
		if time.Now().After(deadline) {
			t.Fatalf("after collections the percentage is still %d", percent())
		}
		runtime.GC()
		time.Sleep(time.Millisecond) // cleanups run beside
	}
}

// TestCollectLaterLeavesWhatWasSet: who set another percentage keeps it.
func TestCollectLaterLeavesWhatWasSet(t *testing.T) {
	before := debug.SetGCPercent(50)
	defer debug.SetGCPercent(before)
	collectLater()
	if got := percent(); got != 50 {
		t.Errorf("the percentage is %d, want the 50 that was set", got)
	}
}
