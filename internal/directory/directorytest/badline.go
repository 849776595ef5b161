package directorytest

import (
	"testing"

	"cellwall.dev/cellwall/internal/directory"
)

// BadLine runs, under the names that they have in Home, the tests in which many write at once. It is for
// a home that is reached over a line that delays, reorders and drops, and that repeats a write until it
// knows what came of it.
func BadLine(t *testing.T, open func(t *testing.T) directory.Home) {
	t.Helper()
	t.Run("Home", func(t *testing.T) {
		t.Run("CountersAtOnce", func(t *testing.T) { countersAtOnce(t, homeSuite{open(t)}) })
		t.Run("OneBatchWins", func(t *testing.T) { oneBatchWins(t, homeSuite{open(t)}) })
	})
	t.Run("Directory", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, rules){
			"OneWinner": oneWinner, "Whole": whole, "Linearizable": linearizable, "SlotsUnique": slotsUnique,
			"NeverOverfull": neverOverfullAskedOnce,
		} {
			if Brief && name != "Linearizable" && name != "NeverOverfull" {
				continue
			}
			t.Run(name, func(t *testing.T) {
				home := open(t)
				test(t, rules{Fill(t, home), home})
			})
		}
	})
	t.Run("Store", func(t *testing.T) {
		t.Run("OneWriterWinsEachEpoch", func(t *testing.T) {
			oneWriterWinsEachEpoch(t, suite{Fill(t, open(t)).Store("test"), t.Name()})
		})
	})
}
