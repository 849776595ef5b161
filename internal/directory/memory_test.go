package directory_test

import (
	"testing"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
)

func TestMemory(t *testing.T) {
	directorytest.Run(t, func(*testing.T) directory.Store { return directory.NewMemory() })
}
