package directory_test

import (
	"fmt"
	"testing"

	"cellwall.dev/cellwall/internal/placement"
)

// What prints a Placer, or a copy of one, prints nothing of its key: under %s, fmt would go into what it holds.
func TestPlacerIsPrintedWithoutItsKey(t *testing.T) {
	p := placer(t, placement.RendezvousV1, 8)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		for _, value := range []any{p, *p} {
			if got := fmt.Sprintf(verb, value); got != `topology 1 of cell "eu-1", rendezvous/v1 of 8 shards` {
				t.Errorf("%s of a %T: %s", verb, value, got)
			}
		}
	}
}
