package directorytest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/placement"
)

func withTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

// What a tenant takes of its cell follows each of its changes.
func countersFollow(t *testing.T, r rules) {
	check := func(cell string, load directory.Rate, tenants int64, pinned map[string]directory.Rate) {
		t.Helper()
		r.cellIs(t, directory.Cell{Name: cell, Load: load, Tenants: tenants, Pinned: pinned})
	}
	placed := func(version uint64, tenants int64) {
		t.Helper()
		if top, err := r.Topology(t.Context(), "eu-1", version); err != nil || top.Tenants != tenants {
			t.Errorf("topology %d has %d tenants, %v; want %d", version, top.Tenants, err, tenants)
		}
	}
	e := r.create(t, entry("acme", directory.Active))
	check("eu-1", 1500, 1, nil)
	placed(3, 1)
	e = r.replace(t, e, "pin", func(e *directory.Entry) { e.Pins = []string{"s01", "s02"} })
	check("eu-1", 1500, 1, map[string]directory.Rate{"s01": 750, "s02": 750})
	e = r.replace(t, e, "grow", func(e *directory.Entry) { e.Load, e.Topology = 3001, 2 })
	check("eu-1", 3001, 1, map[string]directory.Rate{"s01": 1501, "s02": 1501})
	placed(3, 0)
	placed(2, 1)
	e = r.replace(t, e, "move", func(e *directory.Entry) { e.State = directory.Moving })
	check("eu-1", 3001, 1, map[string]directory.Rate{"s01": 1501, "s02": 1501})
	e = r.replace(t, e, "moved", func(e *directory.Entry) {
		e.State, e.Cell, e.Pins, e.Topology = directory.Active, "us-1", []string{"s03"}, 3
	})
	check("eu-1", 0, 0, nil)
	placed(2, 0)
	check("us-1", 3001, 1, map[string]directory.Rate{"s03": 3001})
	r.replace(t, e, "unpin", func(e *directory.Entry) { e.Pins = nil })
	check("us-1", 3001, 1, nil)
}

// A tenant with as many pins as one may have changes all of them, and its load, at once; it is created,
// enrolled and moved with as many. One pin more is refused before anything is written.
func mostPins(t *testing.T, r rules) {
	wide := topology("wide", 1)
	wide.Shards = nil
	for i := range 2*directory.MaxPins + 1 {
		wide.Shards = append(wide.Shards, directory.Shard{ID: fmt.Sprintf("a-long-name-%04d", i), Weight: 1, State: directory.InUse})
	}
	shards := func(from, n int) []string {
		var ids []string
		for _, s := range wide.Shards[from : from+n] {
			ids = append(ids, s.ID)
		}
		return ids
	}
	addCell(t, r.Directory, directory.Cell{Name: "wide"}, 1)
	publish(t, r.Directory, wide)
	pinned := func(pins []string, load directory.Rate) map[string]directory.Rate {
		by := map[string]directory.Rate{}
		for _, p := range pins {
			by[p] = (load + directory.MaxPins - 1) / directory.MaxPins
		}
		return by
	}
	first, second := shards(0, directory.MaxPins), shards(directory.MaxPins, directory.MaxPins)
	whale := directory.Entry{Tenant: "whale", Cell: "wide", State: directory.Active, Topology: 1, Load: 31_000, Pins: first}
	e := r.create(t, whale)
	r.cellIs(t, directory.Cell{Name: "wide", Load: 31_000, Tenants: 1, Pinned: pinned(first, 31_000)})
	e = r.replace(t, e, "pin anew", func(e *directory.Entry) { e.Pins, e.Load = second, 62_000 })
	r.cellIs(t, directory.Cell{Name: "wide", Load: 62_000, Tenants: 1, Pinned: pinned(second, 62_000)})

	more := e.Clone()
	more.Pins = shards(0, directory.MaxPins+1)
	for name, try := range map[string]func() error{
		"change": func() error { _, err := r.Replace(t.Context(), e, more, change("one more")); return err },
		"create": func() error {
			more := more.Clone()
			more.Tenant = "another"
			_, err := r.Create(t.Context(), more, change("one more"))
			return err
		},
	} {
		if err := try(); !errors.Is(err, directory.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprint("at most ", directory.MaxPins)) {
			t.Errorf("%s with a pin more than there may be: %v", name, err)
		}
	}
	r.cellIs(t, directory.Cell{Name: "wide", Load: 62_000, Tenants: 1, Pinned: pinned(second, 62_000)})

	e = r.replace(t, e, "move", func(e *directory.Entry) { e.State = directory.Moving })
	r.replace(t, e, "moved", func(e *directory.Entry) {
		e.Cell, e.State, e.Pins, e.Topology = "eu-1", directory.Active, nil, 3
	})
	r.cellIs(t, directory.Cell{Name: "wide"})
	var many []directory.Entry // together they move more counters than one batch does
	for i := range 2 * directory.MaxPins {
		e := whale.Clone()
		e.Tenant, e.Load, e.Pins = fmt.Sprint("t", i), 31, append(shards(i, min(directory.MaxPins, 2*directory.MaxPins+1-i)), shards(0, max(0, i-directory.MaxPins-1))...)
		many = append(many, e)
	}
	if got, err := r.Enrol(t.Context(), many, change("enrol")); err != nil || got.Created != len(many) {
		t.Errorf("%d of %d enrolled, %v", got.Created, len(many), err)
	}
	if c := r.cell(t, "wide"); c.Tenants != int64(len(many)) || c.Load != directory.Rate(31*len(many)) || len(c.Pinned) != len(wide.Shards) {
		t.Errorf("%d tenants with load %v on %d shards", c.Tenants, c.Load, len(c.Pinned))
	}
}

func cellChanges(t *testing.T, r rules) {
	add := func(c directory.Cell, operation string) error {
		_, err := r.AddCell(t.Context(), c, change(operation))
		return err
	}
	cell := directory.Cell{Name: "ap-1", Headroom: 30, Open: true, Capacity: 5, Topology: 9}
	if err := add(cell, "add"); err != nil {
		t.Fatal(err)
	}
	if c := r.cell(t, "ap-1"); c.Open || c.Capacity != 0 || c.Topology != 0 {
		t.Errorf("a stamped cell is %+v, want it closed", c)
	}
	if err := add(cell, "add"); err != nil {
		t.Errorf("repeated: %v", err)
	}
	wantIs(t, add(cell, "another"), directory.ErrCellExists)
	wantIs(t, add(directory.Cell{Name: ""}, "nameless"), directory.ErrInvalid)
	wantIs(t, add(directory.Cell{Name: "x", Headroom: 91}, "headroom"), directory.ErrInvalid)

	open := func(name string, capacity directory.Rate, operation string) error {
		_, err := r.OpenCell(t.Context(), name, capacity, 0, 30, change(operation))
		return err
	}
	wantIs(t, open("ap-1", 0, "without capacity"), directory.ErrInvalid)
	wantIs(t, open("nowhere", 1000, "nowhere"), directory.ErrUnknownCell)
	if err := open("ap-1", 10_000, "open"); err != nil {
		t.Fatal(err)
	}
	if err := open("ap-1", 10_000, "open"); err != nil {
		t.Errorf("repeated: %v", err)
	}
	wantIs(t, open("ap-1", 20_000, "open"), directory.ErrReused)
	if c := r.cell(t, "ap-1"); !c.Open || c.Limit() != 7_000 {
		t.Errorf("open %t, limit %v; want 7", c.Open, c.Limit())
	}
	if _, err := r.CloseCell(t.Context(), "ap-1", change("close")); err != nil {
		t.Fatal(err)
	}
	lines, err := r.CellHistory(t.Context(), "ap-1", 0, 10)
	if err != nil || len(lines) != 3 || lines[1].By != "ann" || !lines[1].After.Open || lines[2].After.Open {
		t.Errorf("history %+v, %v; want added, opened, closed", lines, err)
	}
}

func unknown(t *testing.T, r rules) {
	for name, c := range map[string]struct {
		edit func(*directory.Entry)
		want error
	}{
		"cell":       {func(e *directory.Entry) { e.Cell = "nowhere" }, directory.ErrUnknownCell},
		"slot":       {func(e *directory.Entry) { e.Slot = 1 }, directory.ErrInvalid},
		"pin":        {func(e *directory.Entry) { e.Pins = []string{"s09"} }, directory.ErrInvalid},
		"size":       {func(e *directory.Entry) { e.Size = "shark" }, directory.ErrInvalid},
		"topology":   {func(e *directory.Entry) { e.Topology = 4 }, directory.ErrUnknownTopology},
		"far moving": {func(e *directory.Entry) { e.State = directory.Moving }, directory.ErrState},
	} {
		e := entry("acme", directory.Active)
		c.edit(&e)
		_, err := r.Create(t.Context(), e, change("op"))
		wantIs(t, err, c.want)
		if _, err := r.Get(t.Context(), "acme"); !errors.Is(err, directory.ErrNotFound) {
			t.Errorf("unknown %s: the tenant is there, %v", name, err)
		}
	}
	for _, c := range []directory.Change{{By: "ann"}, {Operation: "op"}, {Operation: "op", By: "a\xff"}, {Operation: "op", By: "ann", Why: string(make([]byte, 1025))}} {
		_, err := r.Create(t.Context(), entry("acme", directory.Active), c)
		wantIs(t, err, directory.ErrInvalid)
	}
	_, err := r.Replace(t.Context(), directory.Entry{}, entry("acme", directory.Active), change("op"))
	wantIs(t, err, directory.ErrInvalid)
	e := r.create(t, entry("acme", directory.Active))
	_, err = r.Replace(t.Context(), e, entry("another", directory.Active), change("op"))
	wantIs(t, err, directory.ErrInvalid)
}

// closeAll closes the cells of Fill.
func (r rules) closeAll(t *testing.T) {
	t.Helper()
	for _, cell := range []string{"eu-1", "us-1"} {
		if _, err := r.CloseCell(t.Context(), cell, change("close "+cell)); err != nil {
			t.Fatal(err)
		}
	}
}

// slotted places by slot: bounded/v1 with two shards a tenant, of which two tenants share at most one, in
// three zones of q shards, a prime power from 3. It has q² slots.
func slotted(cell string, version, q uint64) directory.Topology {
	t := topology(cell, version)
	t.Scheme, t.KBySize, t.MaxShared, t.Slots, t.Shards = placement.BoundedV1, map[string]int{"": 2}, 1, q*q, nil
	for i := range int(3 * q) {
		t.Shards = append(t.Shards, directory.Shard{ID: fmt.Sprintf("s%02d", i+1), Zone: "abc"[i%3 : i%3+1], Weight: 1, State: directory.InUse})
	}
	return t
}

// A slot that was given back rests for SlotQuarantine.
func slotsRest(t *testing.T, r rules) {
	r.closeAll(t)
	addCell(t, r.Directory, directory.Cell{Name: "ap-1", Headroom: 0}, 10)
	publish(t, r.Directory, slotted("ap-1", 1, 3))
	for i := range 8 { // all slots but one
		r.place(t, directory.SignUp{Tenant: fmt.Sprint("t", i), Load: 1})
	}
	e := r.place(t, directory.SignUp{Tenant: "acme", Load: 1})
	slot := e.Slot
	for _, state := range []directory.State{directory.Active, directory.Moving, directory.Active} {
		e = r.replace(t, e, fmt.Sprint("step ", e.Epoch), func(x *directory.Entry) {
			x.State = state
			if e.State == directory.Moving {
				x.Cell, x.Slot, x.Topology = "eu-1", 0, 3
			}
		})
	}
	c := change("sign up next")
	place := func() (directory.Entry, error) {
		return r.Place(t.Context(), directory.SignUp{Tenant: "next", Load: 1}, c)
	}
	_, err := place()
	wantIs(t, err, directory.ErrNoSlot)
	c.At = at.Add(directory.SlotQuarantine - 1)
	_, err = place()
	wantIs(t, err, directory.ErrNoSlot)
	c.At = at.Add(directory.SlotQuarantine)
	if next, err := place(); err != nil || next.Slot != slot {
		t.Errorf("after the quarantine: slot %d, %v; want %d", next.Slot, err, slot)
	}
}

// The one slot that is free is found, wherever it lies, and taken once.
func lastSlot(t *testing.T, r rules) {
	const q, slots = 17, 289
	r.closeAll(t)
	addCell(t, r.Directory, directory.Cell{Name: "ap-1", Headroom: 0}, 10)
	publish(t, r.Directory, slotted("ap-1", 1, q))
	var entries []directory.Entry
	for i := range slots - 1 {
		entries = append(entries, directory.Entry{Tenant: fmt.Sprint("t", i), Cell: "ap-1", State: directory.Active, Topology: 1, Slot: uint64(i) + 2})
	}
	if got, err := r.Enrol(t.Context(), entries, change("enrol")); err != nil || got.Created != slots-1 {
		t.Fatalf("%d created, %v", got.Created, err)
	}
	if e := r.place(t, directory.SignUp{Tenant: "last", Load: 1}); e.Slot != 1 {
		t.Errorf("slot %d, want 1", e.Slot)
	}
	_, err := r.Place(t.Context(), directory.SignUp{Tenant: "late", Load: 1}, change("late"))
	wantIs(t, err, directory.ErrNoSlot)
	taken := directory.Entry{Tenant: "late", Cell: "ap-1", State: directory.Active, Topology: 1, Slot: 7}
	_, err = r.Create(t.Context(), taken, change("late"))
	wantIs(t, err, directory.ErrSlotTaken)
	if _, err := r.Get(t.Context(), "late"); !errors.Is(err, directory.ErrNotFound) {
		t.Errorf("the tenant that found no slot: %v", err)
	}
}
