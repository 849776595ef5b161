package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Clocks of operators differ; what was done to a tenant came in the order of its epochs.
func TestEventsFollowTheEpoch(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 11, 30, 12, minute, 0, 0, time.UTC) }
	events := []event{
		{At: at(5), Tenant: "a", Epoch: 3}, // a clock that is behind
		{At: at(6), Tenant: "a", What: "looked"},
		{At: at(2), Tenant: "b", Epoch: 1},
		{At: at(9), Tenant: "a", Epoch: 2}, // one that is before the others
		{At: at(1), Tenant: "a", Epoch: 1},
		{At: at(10), Tenant: "a", Epoch: 4},
	}
	sortEvents(events)
	got := ""
	for _, e := range events {
		got += fmt.Sprintf("%s%d ", e.Tenant, e.Epoch)
	}
	if want := "a1 b1 a0 a2 a3 a4 "; got != want {
		t.Errorf("in the order %s; want %s", got, want)
	}
}

// A tenant of spaces is no empty row.
func TestSpacesAreSeen(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", " ")
	if out := o.must("tenant", "list"); !strings.Contains(out, `" "`) {
		t.Errorf("listed as %s", out)
	}
}
