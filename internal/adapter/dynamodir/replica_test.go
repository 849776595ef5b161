package dynamodir

import (
	"errors"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
)

// What a replica answers comes from there, and is called stale; everything else from the home region.
func TestReplica(t *testing.T) {
	home, local := newFake(t), newFake(t)
	r := NewReplica(home.open(), local.open())
	write(t, r, "op", directory.Put(entryKey("p"), 0, []byte(`1`), "x"))
	versions := map[directory.Consistency]uint64{}
	for _, c := range []directory.Consistency{directory.Strong, directory.Relaxed} {
		records, err := r.Read(t.Context(), c, entryKey("p"))
		if err != nil {
			t.Fatal(err)
		}
		versions[c] = records[0].Version
	}
	if versions[directory.Strong] != 1 || versions[directory.Relaxed] != 0 { // nothing was replicated yet
		t.Errorf("versions %v", versions)
	}
	if r.MayBeStale(directory.Strong) || !r.MayBeStale(directory.Relaxed) {
		t.Error("the replica does not say what may be stale")
	}
	for name, c := range map[string]struct {
		r     directory.Range
		there int
	}{
		"part": {directory.Range{Family: "ENTRY", Part: "p"}, 1}, "family": {directory.Range{Family: "ENTRY"}, 1},
		"index": {directory.Range{Family: "ENTRY", Index: directory.First, Value: "x"}, 0},
	} {
		if records, err := r.List(t.Context(), c.r, directory.Key{}, 5); err != nil || len(records) != c.there {
			t.Errorf("%s: %d records, %v; want %d", name, len(records), err, c.there)
		}
	}
	_, cursor, err := r.Changes(t.Context(), "", 1)
	if err != nil {
		t.Fatal(err)
	}
	write(t, local.open(), "op", directory.Put(entryKey("q"), 0, nil)) // as replication does
	if records, _, err := r.Changes(t.Context(), cursor, 1); err != nil || len(records) != 1 {
		t.Errorf("the replica's feed: %d records, %v", len(records), err)
	}
}

// TestReplicaWithoutAWayHome: what the replica has is read; nothing is called consistent that is not, and
// nothing is written, which would be lost to the home region's next write.
func TestReplicaWithoutAWayHome(t *testing.T) {
	local := newFake(t)
	r := NewReplica(nil, local.open())
	write(t, local.open(), "op", directory.Put(entryKey("p"), 0, []byte(`1`), "x"))
	for name, try := range map[string]func() error{
		"read": func() error { _, err := r.Read(t.Context(), directory.Strong, entryKey("p")); return err },
		"write": func() error {
			return r.Write(t.Context(), directory.Batch{Operation: "op", Ops: []directory.Op{directory.Put(entryKey("p"), 1, []byte(`2`))}})
		},
		"list": func() error {
			_, err := r.List(t.Context(), directory.Range{Family: "ENTRY", Part: "p"}, directory.Key{}, 1)
			return err
		},
	} {
		if err := try(); !errors.Is(err, ErrNoHome) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if records, err := r.Read(t.Context(), directory.Relaxed, entryKey("p")); err != nil || records[0].Version != 1 {
		t.Errorf("the replica: %+v, %v", records, err)
	}
}

// TestOpensWhileTheHomeRegionIsDown: a router in a replica's region starts, and refuses a newer format all the same.
func TestOpensWhileTheHomeRegionIsDown(t *testing.T) {
	home, local := newFake(t), newFake(t)
	home.fault = func(string, int) fault { return fault{before: errors.New("no route to host")} }
	replica := NewReplica(home.open(), local.open())
	d, err := directory.Open(t.Context(), replica)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Nearby().Get(t.Context(), "acme"); !errors.Is(err, directory.ErrNotFound) {
		t.Errorf("the replica: %v", err)
	}
	if _, err := d.Nearby().Topology(t.Context(), "eu-1", 1); !errors.Is(err, directory.ErrUnknownTopology) {
		t.Errorf("the replica: %v", err)
	}
	if _, err := d.Get(t.Context(), "acme"); err == nil || errors.Is(err, directory.ErrNotFound) {
		t.Errorf("the home region that is down: %v", err)
	}
	write(t, local.open(), "op", directory.Put(directory.Key{Part: "META", Sort: "FORMAT"}, 0, []byte(`{"format":99}`)))
	if _, err := directory.Open(t.Context(), replica); !errors.Is(err, directory.ErrNewer) {
		t.Errorf("a newer format: %v", err)
	}
	local.fault = home.fault
	if _, err := directory.Open(t.Context(), replica); err == nil || errors.Is(err, directory.ErrNewer) {
		t.Errorf("nothing that answers: %v", err)
	}
}
