package dynamo

import (
	"testing"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
)

func TestContract(t *testing.T) {
	directorytest.Home(t, func(t *testing.T) directory.Home { return open(t, nil) })
}
