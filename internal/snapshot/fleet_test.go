package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	mathrand "math/rand/v2"
	"slices"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

var threeCells = []string{"us-1", "eu-1", "eu-2"}

// randomFleet draws a front door's snapshot with up to n tenants, and its entries as they should be found.
func randomFleet(t testing.TB, r *mathrand.Rand, n int) (*Snapshot, map[string]directory.Entry) {
	t.Helper()
	b, want := NewFleetBuilder(append(threeCells, "us-1")), map[string]directory.Entry{}
	for range n {
		e := randomEntry(r, randomTenant(r))
		e.Cell = threeCells[r.IntN(3)]
		if err := b.Add(e); err != nil {
			t.Fatal(err)
		}
		if old, twice := want[e.Tenant]; !twice || e.Epoch > old.Epoch {
			want[e.Tenant] = directory.Entry{Tenant: e.Tenant, Cell: e.Cell, State: e.State, Epoch: e.Epoch}
		}
	}
	entries, err := b.Entries()
	if err != nil {
		t.Fatal(err)
	}
	return &Snapshot{
		Cell: Fleet, Generation: 1 + r.Uint64N(1<<50), Taken: epoch0, Times: Times{Entries: epoch0, Issuer: epoch0.Add(-time.Hour)},
		Entries: entries, IssuerKeys: json.RawMessage(`{"keys":[]}`),
	}, want
}

// checkRoundTripOfFleet is TestRoundTrip's part for front doors.
func checkRoundTripOfFleet(t *testing.T, r *mathrand.Rand) {
	t.Helper()
	s, want := randomFleet(t, r, r.IntN(300))
	h := NewHolder(Fleet)
	opened, err := Open(t.Context(), &ring, seal(t, s), Want{Cell: Fleet, Now: s.Taken})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Take(opened); err != nil {
		t.Fatal(err)
	}
	for tenant, e := range want {
		if got, taken, ok := h.Entry(tenant); !ok || !taken.Equal(epoch0) || got.Cell != e.Cell || got.State != e.State || got.Epoch != e.Epoch || got.Tenant != tenant {
			t.Fatalf("tenant %q is %+v (%t), want %+v", tenant, got, ok, e)
		}
		if got, _ := opened.Entries.Lookup(tenant); got.Topology != 0 || got.Slot != 0 || got.Size != "" || got.Pins != nil {
			t.Fatalf("a front door is told how a cell places: %+v", got)
		}
	}
	if keys, taken, ok := h.IssuerKeys(); !ok || string(keys) != string(s.IssuerKeys) || !taken.Equal(s.Times.Issuer) || opened.Entries.Len() != len(want) || opened.Times != s.Times {
		t.Fatalf("%d of %d entries, keys %s of %v", opened.Entries.Len(), len(want), keys, taken)
	}
	// Whatever the order in which cells and tenants come.
	other := *s
	b := NewFleetBuilder([]string{"eu-2", "eu-1", "us-1"})
	for _, e := range want {
		if err := b.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	if other.Entries, err = b.Entries(); err != nil {
		t.Fatal(err)
	}
	first, err := Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Encode(&other); err != nil || !bytes.Equal(first, again) {
		t.Fatalf("two encodings of one front door's snapshot, %v", err)
	}
}

// TestFormatOfFleet holds the encoding of a front door's: its keeper and the front door may be of two versions for a
// moment.
func TestFormatOfFleet(t *testing.T) {
	b := NewFleetBuilder([]string{"eu-2", "eu-1"})
	for _, e := range []directory.Entry{{Tenant: "zeta", Cell: "eu-1", State: directory.Moving, Epoch: 300}, {Tenant: "acme", Cell: "eu-2", State: directory.Active, Epoch: 7, Topology: 9, Pins: []string{"s01"}}} {
		if err := b.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := b.Entries()
	if err != nil {
		t.Fatal(err)
	}
	e, err := Encode(&Snapshot{Cell: Fleet, Generation: 7, Taken: time.Unix(0, 5), Entries: entries})
	const want = "\x01\x06global\a\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		`C{"cells":["eu-1","eu-2"],"topologies":null,"keys":{},"health":null}` + "\x02\x04acme\x01\a\x01\x04zeta\x03\xac\x02\x00"
	if err != nil || string(e) != want {
		t.Errorf("encoded as\n%q, want\n%q, %v", e, want, err)
	}
}

// checkOnlyTheFleets is TestOnlyTheCells' part for front doors.
func checkOnlyTheFleets(t *testing.T) {
	t.Helper()
	good := func() *Snapshot {
		b := NewFleetBuilder(threeCells)
		if err := b.Add(directory.Entry{Tenant: "acme", Cell: "us-1", State: directory.Active, Epoch: 1}); err != nil {
			t.Fatal(err)
		}
		if err := b.Add(directory.Entry{Tenant: "zeta", Cell: "us-2", State: directory.Active, Epoch: 1}); !errors.Is(err, ErrInvalid) {
			t.Errorf("the entry of a cell that is not listed: %v", err)
		}
		if err := b.Add(directory.Entry{Tenant: "zeta", Cell: Fleet, State: directory.Active, Epoch: 1}); !errors.Is(err, ErrInvalid) {
			t.Errorf("the entry of no cell: %v", err)
		}
		entries, err := b.Entries()
		if err != nil {
			t.Fatal(err)
		}
		return &Snapshot{Cell: Fleet, Generation: 1, Taken: epoch0, Entries: entries}
	}
	if _, err := Encode(good()); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*Snapshot){
		"topologies":         func(s *Snapshot) { s.Topologies = []directory.Topology{{Cell: Fleet, Version: 1}} },
		"placement keys":     func(s *Snapshot) { s.Keys = map[string]Secret{"1": bytes.Repeat([]byte("k"), 32)} },
		"health":             func(s *Snapshot) { s.Health = []Report{{Shard: "s01"}} },
		"suspects":           func(s *Snapshot) { s.Suspects = []Suspect{{Tenant: "acme", Until: epoch0}} },
		"a cell's name":      func(s *Snapshot) { s.Cell = "us-1" },
		"a cell's entries":   func(s *Snapshot) { s.Entries = plainSnapshot(t, "us-1", 1, epoch0).Entries },
		"no cells":           func(s *Snapshot) { s.Entries = &Entries{cell: Fleet} },
		"cells out of order": func(s *Snapshot) { s.Entries.cells = []string{"us-1", "eu-1", "eu-2"} },
		"a cell twice":       func(s *Snapshot) { s.Entries.cells = []string{"eu-1", "eu-1", "us-1"} },
		"a cell without one": func(s *Snapshot) { s.Entries.cells = []string{"", "eu-2", "us-1"} },
		"itself as a cell":   func(s *Snapshot) { s.Entries.cells = []string{"eu-1", Fleet, "us-1"} },
	} {
		s := good()
		change(s)
		if _, err := Encode(s); !errors.Is(err, ErrInvalid) {
			t.Errorf("a front door's snapshot with %s: %v", what, err)
		}
	}
	if err := NewHolder(Fleet).Take(plainSnapshot(t, "eu-1", 1, epoch0)); !errors.Is(err, ErrCell) {
		t.Errorf("a front door takes a cell's: %v", err)
	}
	if err := NewHolder("eu-1").Take(good()); !errors.Is(err, ErrCell) {
		t.Errorf("a cell takes a front door's: %v", err)
	}
}

// TestMalformedFleet: what no Builder packs so is refused.
func TestMalformedFleet(t *testing.T) {
	for name, c := range map[string]struct {
		data  []byte
		count int
		ok    bool
	}{
		"the last cell":     {packedEntry("a", 1, 1, 2), 1, true},
		"two":               {slices.Concat(packedEntry("a", 1, 1, 2), packedEntry("b", 3, 9, 0)), 2, true},
		"one cell too high": {packedEntry("a", 1, 1, 3), 1, false},
		"without a cell":    {packedEntry("a", 1, 1), 1, false},
		"epoch 0":           {packedEntry("a", 1, 0, 2), 1, false},
		"with pins":         {packedEntry("a", 1|flagPins, 1, 2, 1, 3, 's', '0', '1'), 1, false},
		"with a slot":       {packedEntry("a", 1|flagSlot, 1, 2, 1), 1, false},
		"a longer varint":   {packedEntry("a", 1, 1, 0x82, 0), 1, false},
		"not in order":      {slices.Concat(packedEntry("b", 1, 1, 2), packedEntry("a", 1, 1, 0)), 2, false},
	} {
		e, err := index(Fleet, []string{"eu-1", "eu-2", "us-1"}, c.data, c.count)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrMalformed) || err == nil && e.Len() != c.count {
			t.Errorf("%s: %v", name, err)
		}
	}
}
