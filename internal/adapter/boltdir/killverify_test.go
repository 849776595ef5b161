package boltdir

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
)

// verify opens the file and holds what is there against what was told, and against itself.
func verify(t *testing.T, path string, lines []string) {
	t.Helper()
	home, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	d, err := directory.Open(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		var tenant, operation string
		var epoch uint64
		if _, err := fmt.Sscan(line, &tenant, &epoch, &operation); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		past, err := d.History(t.Context(), tenant, epoch-1, 1)
		if err != nil || len(past) != 1 || past[0].After.Epoch != epoch || past[0].After.Operation != operation {
			t.Errorf("%q was acknowledged, and the history has %+v, %v", line, past, err)
		}
	}
	entries, err := d.List(t.Context(), "", killTenants+1)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]*directory.Cell{}
	for _, cell := range killCells {
		want[cell] = &directory.Cell{Pinned: map[string]directory.Rate{}}
	}
	states := map[directory.State]int{}
	slots := map[uint64]string{}
	placed := int64(0)
	for _, e := range entries {
		states[e.State]++
		c := want[e.Cell]
		c.Load += e.Load
		c.Tenants++
		for _, pin := range e.Pins {
			n := directory.Rate(len(e.Pins))
			c.Pinned[pin] += (e.Load + n - 1) / n
		}
		if e.Topology == 1 {
			placed++
		}
		if e.Slot > 0 {
			if slots[e.Slot] != "" {
				t.Errorf("%s and %s have slot %d", slots[e.Slot], e.Tenant, e.Slot)
			}
			slots[e.Slot] = e.Tenant
		}
		past, err := d.History(t.Context(), e.Tenant, e.Epoch-1, 10)
		if err != nil || len(past) != 1 || past[0].After.Operation != e.Operation {
			t.Errorf("the entry of %s has epoch %d by %s; the history goes on with %+v, %v", e.Tenant, e.Epoch, e.Operation, past, err)
		}
	}
	for _, name := range killCells {
		c := want[name]
		cell, err := d.Cell(t.Context(), name)
		if err != nil || cell.Load != c.Load || cell.Tenants != c.Tenants {
			t.Errorf("cell %s has load %v of %d tenants, and they have %v of %d, %v", name, cell.Load, cell.Tenants, c.Load, c.Tenants, err)
		}
		for i := range 33 {
			if s := killShard(i); cell.Pinned[s] != c.Pinned[s] {
				t.Errorf("shard %s has %v pinned to it, and tenants pin %v", s, cell.Pinned[s], c.Pinned[s])
			}
		}
		byCell, err := d.ListCell(t.Context(), name, "", killTenants+1)
		if err != nil || int64(len(byCell)) != c.Tenants {
			t.Errorf("%d tenants are listed by cell, %v; want %d", len(byCell), err, c.Tenants)
		}
	}
	if top, err := d.Topology(t.Context(), "eu-1", 1); err != nil || top.Tenants != placed {
		t.Errorf("the topology has %d tenants, %v; want %d", top.Tenants, err, placed)
	}
	verifySlots(t, home, slots)
	for _, state := range []directory.State{directory.Placing, directory.Active, directory.Suspended, directory.Moving} {
		if byState, err := d.ListState(t.Context(), state, "", killTenants+1); err != nil || len(byState) != states[state] {
			t.Errorf("%d tenants are listed as %s, %v; want %d", len(byState), state, err, states[state])
		}
	}
}

var killCells = []string{"eu-1", "us-1"}

// verifySlots holds the records of slots against who has them by the entries.
func verifySlots(t *testing.T, home directory.Home, slots map[uint64]string) {
	t.Helper()
	records, err := home.List(t.Context(), directory.Range{Family: "SLOT", Part: "CELL#eu-1"}, directory.Key{}, killSlots+1)
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for _, r := range records {
		var number uint64
		var body struct{ Tenant string }
		if _, err := fmt.Sscanf(r.Sort, "SLOT#%d", &number); err != nil {
			t.Fatalf("%v: %v", r.Key, err)
		}
		if err := json.Unmarshal(r.Body, &body); err != nil {
			t.Fatal(err)
		}
		if body.Tenant != slots[number] {
			t.Errorf("slot %d is %q's, and the entry of %q has it", number, body.Tenant, slots[number])
		}
		if body.Tenant != "" {
			taken++
		}
	}
	if taken != len(slots) {
		t.Errorf("%d slots are taken, and %d tenants have one", taken, len(slots))
	}
}

// verifyPast goes through every tenant's history, which no epoch may lack, and returns how often a slot was given
// back.
func verifyPast(t *testing.T, path string) (given int) {
	t.Helper()
	home, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	d, err := directory.Open(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := d.List(t.Context(), "", killTenants+1)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		var last directory.Entry
		for last.Epoch < e.Epoch {
			lines, err := d.History(t.Context(), e.Tenant, last.Epoch, 1000)
			if err != nil || len(lines) == 0 {
				t.Fatalf("the history of %s ends at %d of %d, %v", e.Tenant, last.Epoch, e.Epoch, err)
			}
			for _, l := range lines {
				if l.After.Epoch != last.Epoch+1 || (l.Before == nil) != (last.Epoch == 0) || l.Before != nil && !reflect.DeepEqual(*l.Before, last) {
					t.Fatalf("%s: after %+v comes %+v", e.Tenant, last, l)
				}
				if last.Slot > 0 && l.After.Slot == 0 {
					given++
				}
				last = l.After
			}
		}
		if !reflect.DeepEqual(last, e) {
			t.Errorf("the history of %s ends with %+v, and the entry is %+v", e.Tenant, last, e)
		}
	}
	return given
}
