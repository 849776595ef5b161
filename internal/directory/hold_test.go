package directory_test

import (
	"testing"

	"cellwall.dev/cellwall/internal/directory/directorytest"
)

func TestHoldSchedules(t *testing.T) { directorytest.HoldSchedules(t) }
