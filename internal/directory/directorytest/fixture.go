package directorytest

import (
	"fmt"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/placement"
)

// NewStore is an empty directory in memory for tests of what uses one: cells eu-1 and us-1 are open, with
// topologies up to version 3 of shards s01 to s08.
func NewStore(t testing.TB) directory.Store {
	t.Helper()
	return Fill(t, directory.NewMemory()).Store("test")
}

// Fill opens the directory in an empty home and gives it the cells and topologies of NewStore. Each cell
// has a capacity of 1,000 requests per second, and each shard of 125.
func Fill(t testing.TB, home directory.Home) *directory.Directory {
	t.Helper()
	d, err := directory.Open(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	for _, cell := range []string{"eu-1", "us-1"} {
		addCell(t, d, directory.Cell{Name: cell, Headroom: directory.DefaultHeadroom}, 1000)
		for v := range uint64(3) {
			publish(t, d, topology(cell, v+1))
		}
	}
	return d
}

// addCell adds a cell with the zones of topology. It is open unless the capacity, in requests per second,
// is 0.
func addCell(t testing.TB, d *directory.Directory, c directory.Cell, capacity directory.Rate) {
	t.Helper()
	c.Zones = []string{"a", "b", "c"}
	if _, err := d.AddCell(t.Context(), c, change("add "+c.Name)); err != nil {
		t.Fatal(err)
	}
	if capacity == 0 {
		return
	}
	if _, err := d.OpenCell(t.Context(), c.Name, capacity*1000, capacity*1000/8, c.Headroom, change("open "+c.Name)); err != nil {
		t.Fatal(err)
	}
}

func publish(t testing.TB, d *directory.Directory, topology directory.Topology) {
	t.Helper()
	op := fmt.Sprintf("publish %s %d", topology.Cell, topology.Version)
	if _, err := d.Publish(t.Context(), topology, change(op)); err != nil {
		t.Fatal(err)
	}
}

func topology(cell string, version uint64) directory.Topology {
	t := directory.Topology{
		Cell: cell, Version: version, Scheme: placement.RendezvousV1, KBySize: map[string]int{"": 2, "whale": 4}, KeyVersion: "1",
	}
	for i := range 8 {
		t.Shards = append(t.Shards, directory.Shard{ID: fmt.Sprintf("s%02d", i+1), Zone: "abc"[i%3 : i%3+1], Weight: 1, State: directory.InUse})
	}
	return t
}

// change is by "ann" at the time at.
func change(operation string) directory.Change {
	return directory.Change{Operation: operation, By: "ann", Why: "because", At: at}
}
