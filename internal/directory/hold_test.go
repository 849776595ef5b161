package directory_test

import (
	"testing"

	"cellwall.dev/cellwall/internal/directory/directorytest"
)

// TestHoldSchedules runs one goroutine at a time, so that the race detector has nothing to find, and takes
// four times as long under it. make test runs it without.
func TestHoldSchedules(t *testing.T) {
	if underRace {
		t.Skip("one goroutine at a time: run without the race detector")
	}
	directorytest.HoldSchedules(t)
}
