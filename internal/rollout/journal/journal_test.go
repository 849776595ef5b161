package journal_test

import (
	"testing"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/rollout/journal/journaltest"
)

func TestContract(t *testing.T) {
	journaltest.Run(t, func(*testing.T) directory.Home { return directory.NewMemory() })
}
