package directory_test

import (
	"testing"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
)

func TestMemory(t *testing.T) {
	directorytest.Home(t, func(*testing.T) directory.Home { return directory.NewMemory() })
}
