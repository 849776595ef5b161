package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/snapshot"
)

// cells is a directory of several cells, which something happens to while they are listed.
type cells struct {
	*world
	in    map[string][]string // tenants by cell
	epoch map[string]uint64   // 5 of whom it does not have
	then  map[string]func()   // after a cell was listed
}

func newCells(t *testing.T) *cells {
	c := &cells{world: newWorld(t), in: map[string][]string{}, epoch: map[string]uint64{}, then: map[string]func(){}}
	for i := range 60 {
		cell := []string{"eu-1", "eu-2", "us-1"}[i%3]
		c.in[cell] = append(c.in[cell], fmt.Sprintf("tenant-%02d", i))
	}
	return c
}

func (c *cells) ListCell(_ context.Context, cell, after string, limit int) ([]directory.Entry, error) {
	var list []directory.Entry
	for _, tenant := range slices.Sorted(slices.Values(c.in[cell])) {
		if e := c.entry(tenant, max(5, c.epoch[tenant])); tenant > after && len(list) < limit {
			e.Cell, e.Size, e.Pins, e.Slot = cell, "whale", []string{"s01"}, 3
			list = append(list, e)
		}
	}
	if then := c.then[cell]; then != nil {
		then()
	}
	return list, c.is(partEntries + " of " + cell)
}

// move has a tenant in another cell.
func (c *cells) move(tenant, from, to string) {
	c.in[from] = slices.DeleteFunc(c.in[from], func(t string) bool { return t == tenant })
	c.in[to] = append(c.in[to], tenant)
	c.epoch[tenant] = max(5, c.epoch[tenant]) + 2
}

func (c *cells) config(of ...string) FrontDoor {
	return FrontDoor{Cells: of, Store: &c.store, Keyring: &c.ring, Directory: c, Issuer: c, Now: func() time.Time { return c.now }}
}

// keep runs the front door's keeper once, which has to write.
func (c *cells) keep(o Options, of ...string) (*snapshot.Snapshot, Outcome) {
	c.t.Helper()
	k, err := ForFrontDoor(c.config(of...))
	if err != nil {
		c.t.Fatal(err)
	}
	c.now = c.now.Add(time.Minute)
	out, err := k.Write(c.t.Context(), o)
	if err != nil || !out.Written {
		c.t.Fatalf("written %t: %v", out.Written, err)
	}
	object, _, err := c.store.Get(c.t.Context(), "")
	if err != nil {
		c.t.Fatal(err)
	}
	s, err := snapshot.Open(c.t.Context(), &c.ring, object, snapshot.Want{Cell: snapshot.Fleet})
	if err != nil {
		c.t.Fatal(err)
	}
	return s, out
}

var all = []string{"us-1", "eu-1", "eu-2"} // in the order in which they are listed

func TestAllCells(t *testing.T) {
	c := newCells(t)
	s, out := c.keep(Options{}, all...)
	parts := []string{}
	for _, p := range out.Parts {
		parts = append(parts, p.Name)
	}
	if slices.Sort(parts); !slices.Equal(parts, []string{partEntries, partIssuer}) || out.Err() != nil || out.Tenants != 60 || s.Entries.Len() != 60 {
		t.Errorf("%+v", out)
	}
	if s.Times != (snapshot.Times{Entries: c.now, Issuer: c.now}) || string(s.IssuerKeys) != c.jwks || len(s.Topologies)+len(s.Keys)+len(s.Health)+len(s.Suspects) > 0 {
		t.Errorf("%+v", s)
	}
	for cell, tenants := range c.in {
		for _, tenant := range tenants {
			got, ok := s.Entries.Lookup(tenant)
			if diff := cmp.Diff(directory.Entry{Tenant: tenant, Cell: cell, State: directory.Active, Epoch: 5}, got); !ok || diff != "" {
				t.Errorf("%s: %s", tenant, diff)
			}
		}
	}
	// Tenants that move while the cells are listed: one is listed twice, one nowhere, and neither is lost.
	c.then["us-1"] = func() {
		c.move("tenant-02", "us-1", "eu-1") // listed in both
		c.move("tenant-00", "eu-1", "us-1") // listed in neither
		c.then = nil
	}
	s, out = c.keep(Options{}, all...)
	twice, _ := s.Entries.Lookup("tenant-02")
	nowhere, _ := s.Entries.Lookup("tenant-00")
	if s.Entries.Len() != 60 || out.Err() != nil || twice.Cell != "eu-1" || twice.Epoch != 7 || nowhere.Cell != "eu-1" || nowhere.Epoch != 5 {
		t.Errorf("%d entries, %v; %+v, %+v", s.Entries.Len(), out.Err(), twice, nowhere)
	}
	s, _ = c.keep(Options{}, all...)
	if now, _ := s.Entries.Lookup("tenant-00"); now.Cell != "us-1" || now.Epoch != 7 {
		t.Errorf("the next run has %+v", now)
	}
	// A cell that the fleet has no more goes, whoever was in it.
	if s, out = c.keep(Options{}, "us-1", "eu-1"); s.Entries.Len() != 40 || out.Err() != nil {
		t.Errorf("%d entries of two cells, %v", s.Entries.Len(), out.Err())
	}
	// Another one comes.
	if s, out = c.keep(Options{}, all...); s.Entries.Len() != 60 || out.Err() != nil {
		t.Errorf("%d entries of three cells again, %v", s.Entries.Len(), out.Err())
	}
}

// TestFrontDoorKeeps: sources that are down or have lost tenants leave what a front door's snapshot had.
func TestFrontDoorKeeps(t *testing.T) {
	c := newCells(t)
	c.down[partEntries+" of eu-2"] = true
	k, err := ForFrontDoor(c.config(all...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Write(t.Context(), Options{}); !errors.Is(err, ErrFirst) || !errors.Is(err, errDown) || c.store.puts > 0 {
		t.Errorf("a first one without a cell: %v", err)
	}
	delete(c.down, partEntries+" of eu-2")
	c.down[partIssuer] = true
	s, out := c.keep(Options{}, all...)
	if s.IssuerKeys != nil || !errors.Is(out.Err(), errDown) {
		t.Errorf("a first one without the issuer: %v", out.Err())
	}
	delete(c.down, partIssuer)
	c.keep(Options{}, all...)
	then := c.now
	c.down[partEntries+" of eu-2"], c.down[partIssuer] = true, true
	s, out = c.keep(Options{}, all...)
	if s.Entries.Len() != 60 || string(s.IssuerKeys) != c.jwks || s.Times != (snapshot.Times{Entries: then, Issuer: then}) || !errors.Is(out.Err(), errDown) {
		t.Errorf("with all down %+v, %v", s, out.Err())
	}
	c.down = map[string]bool{}
	// A listing that lags behind; a cell of which most is in no cell; and one whose tenants have moved.
	c.epoch["tenant-03"] = 9
	c.keep(Options{}, all...)
	c.epoch["tenant-03"] = 8
	if s, out = c.keep(Options{}, all...); out.Err() != nil {
		t.Error(out.Err())
	}
	if e, _ := s.Entries.Lookup("tenant-03"); e.Epoch != 9 {
		t.Errorf("the epoch fell to %d", e.Epoch)
	}
	lost := c.in["eu-2"]
	c.in["eu-2"] = lost[:9]
	if s, out = c.keep(Options{}, all...); s.Entries.Len() != 60 || !errors.Is(out.Err(), ErrShrunk) {
		t.Errorf("less than half of a cell is left: %d, %v", s.Entries.Len(), out.Err())
	}
	if s, out = c.keep(Options{Force: true}, all...); s.Entries.Len() != 49 || out.Err() != nil {
		t.Errorf("and that is meant: %d, %v", s.Entries.Len(), out.Err())
	}
	c.in["us-1"] = append(c.in["us-1"], lost[9:]...)
	c.keep(Options{}, all...)
	for _, tenant := range slices.Clone(c.in["eu-1"]) {
		c.move(tenant, "eu-1", "us-1")
	}
	if s, out = c.keep(Options{}, all...); s.Entries.Len() != 60 || out.Err() != nil {
		t.Errorf("a cell that was emptied into another: %d, %v", s.Entries.Len(), out.Err())
	}
	for name, change := range map[string]func(*FrontDoor){
		"cells": func(f *FrontDoor) { f.Cells = nil }, "store": func(f *FrontDoor) { f.Store = nil },
		"keyring": func(f *FrontDoor) { f.Keyring = nil }, "directory": func(f *FrontDoor) { f.Directory = nil },
	} {
		f := c.config(all...)
		change(&f)
		if _, err := ForFrontDoor(f); err == nil {
			t.Errorf("a front door's keeper without %s", name)
		}
	}
}

// endless is a directory of as many tenants in 20 cells, made page by page.
type endless int

func (n endless) ListCell(_ context.Context, cell, after string, limit int) ([]directory.Entry, error) {
	of, next := 0, 0
	fmt.Sscanf(cell, "eu-%d", &of)
	if after != "" {
		fmt.Sscanf(after, "tenant-%d-", &next)
		next = next/20 + 1
	}
	var list []directory.Entry
	for ; len(list) < limit && next < int(n)/20; next++ {
		list = append(list, directory.Entry{Tenant: fmt.Sprintf("tenant-%08d-in-the-front-door", 20*next+of), Cell: cell, State: directory.Active, Epoch: 3, Topology: 1})
	}
	return list, nil
}

// BenchmarkFrontDoor is a run of a front door's keeper that has written before, but for what the directory, the
// bucket and the key service take.
func BenchmarkFrontDoor(b *testing.B) {
	for _, n := range []endless{100_000, 1_000_000} {
		b.Run(fmt.Sprint(int(n)), func(b *testing.B) {
			var of []string
			for i := range 20 {
				of = append(of, fmt.Sprintf("eu-%d", i))
			}
			k, err := ForFrontDoor(FrontDoor{Cells: of, Store: &memory{}, Keyring: &ring{}, Directory: n})
			if err != nil {
				b.Fatal(err)
			}
			run := func() {
				if out, err := k.Write(b.Context(), Options{}); err != nil || !out.Written || out.Tenants != int(n) || out.Err() != nil {
					b.Fatalf("%+v, %v", out, err)
				}
			}
			run()
			for b.Loop() {
				run()
			}
		})
	}
}
