package snapshot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

// packedEntry is an entry as Entries has it, however wrong.
func packedEntry(tenant string, rest ...byte) []byte {
	return append(append([]byte{byte(len(tenant))}, tenant...), rest...)
}

// TestMalformedEntries: what the directory would not have, or Add would not have packed so, is refused.
func TestMalformedEntries(t *testing.T) {
	good := packedEntry("b", 1, 1, 1) // active, epoch 1, topology 1
	pins := func(list ...string) []byte {
		out := []byte{1 | flagPins, 1, 1, byte(len(list))}
		for _, p := range list {
			out = packShort(out, p)
		}
		return out
	}
	many := make([]string, directory.MaxPins+1)
	for i := range many {
		many[i] = fmt.Sprint("s", i)
	}
	for name, c := range map[string]struct {
		data  []byte
		count int
		ok    bool
	}{
		"one":                     {good, 1, true},
		"two":                     {slices.Concat(packedEntry("a", 1, 1, 1), good), 2, true},
		"the longest id":          {packedEntry(strings.Repeat("a", 128), 1, 1, 1), 1, true},
		"the most pins":           {packedEntry("a", pins(many[:directory.MaxPins]...)...), 1, true},
		"the same twice":          {slices.Concat(good, good), 2, false},
		"not in order":            {slices.Concat(good, packedEntry("a", 1, 1, 1)), 2, false},
		"fewer than said":         {good, 2, false},
		"more than said":          {slices.Concat(packedEntry("a", 1, 1, 1), good), 1, false},
		"cut short":               {good[:len(good)-1], 1, false},
		"no tenant":               {packedEntry("", 1, 1, 1, 1), 1, false},
		"a longer id":             {packedEntry(strings.Repeat("a", 129), 1, 1, 1), 1, false},
		"an id that is no UTF-8":  {packedEntry("\xff", 1, 1, 1), 1, false},
		"epoch 0":                 {packedEntry("a", 1, 0, 1), 1, false},
		"an unknown flag":         {packedEntry("a", 1|flagsEnd, 1, 1), 1, false},
		"slot 0":                  {packedEntry("a", 1|flagSlot, 1, 1, 0), 1, false},
		"no size":                 {packedEntry("a", 1|flagSize, 1, 1, 0), 1, false},
		"a size with a space":     {packedEntry("a", 1|flagSize, 1, 1, 2, 'x', ' '), 1, false},
		"a long size":             {append(packedEntry("a", 1|flagSize, 1, 1, 17), strings.Repeat("x", 17)...), 1, false},
		"no pins":                 {packedEntry("a", pins()...), 1, false},
		"too many pins":           {packedEntry("a", pins(many...)...), 1, false},
		"one pin twice":           {packedEntry("a", pins("s1", "s1")...), 1, false},
		"a pin that is no UTF-8":  {packedEntry("a", pins("\xff")...), 1, false},
		"a pin without a name":    {packedEntry("a", 1|flagPins, 1, 1, 1, 0), 1, false},
		"more than there can be":  {good, maxEntries + 1, false},
		"nothing, of which there": {nil, 0, true},
	} {
		e, err := index("eu-1", nil, c.data, c.count)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrMalformed) || err == nil && e.Len() != c.count {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTheHigherEpochStays: a tenant that a listing has twice is in the snapshot once, by its higher epoch.
func TestTheHigherEpochStays(t *testing.T) {
	entry := func(tenant string, epoch uint64) directory.Entry {
		return directory.Entry{Tenant: tenant, Cell: "eu-1", State: directory.Active, Epoch: epoch}
	}
	for _, list := range [][]directory.Entry{
		{entry("a", 1), entry("b", 2), entry("b", 3), entry("c", 1)},
		{entry("a", 1), entry("b", 3), entry("b", 2), entry("c", 1)},
		{entry("c", 1), entry("b", 3), entry("a", 1), entry("b", 2)},
	} {
		e, err := Pack("eu-1", list)
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := e.Lookup("b"); e.Len() != 3 || !ok || b.Epoch != 3 {
			t.Errorf("%v: %d entries, b has epoch %d", list, e.Len(), b.Epoch)
		}
	}
	for name, e := range map[string]directory.Entry{"no epoch": entry("a", 0), "no tenant": entry("", 1), "no state": {Tenant: "a", Cell: "eu-1", Epoch: 1}} {
		if _, err := Pack("eu-1", []directory.Entry{e}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestManyPinnedSubsets: beyond what is kept once for all, subsets are still right.
func TestManyPinnedSubsets(t *testing.T) {
	b, n := NewBuilder("eu-1"), maxPins+1000
	pins := func(i int) []string { return []string{fmt.Sprintf("s%03d", i%400), fmt.Sprintf("t%03d", i/400)} }
	for i := range n {
		if err := b.Add(directory.Entry{Tenant: fmt.Sprintf("t%06d", i), Cell: "eu-1", State: directory.Active, Epoch: 1, Pins: pins(i)}); err != nil {
			t.Fatal(err)
		}
	}
	e, err := b.Entries()
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < n; i += 7 {
		if got, ok := e.Lookup(fmt.Sprintf("t%06d", i)); !ok || !slices.Equal(got.Pins, pins(i)) {
			t.Fatalf("tenant %d has pins %q", i, got.Pins)
		}
	}
	if len(e.pins) != maxPins {
		t.Errorf("%d subsets are kept, want %d", len(e.pins), maxPins)
	}
}

// TestInsideIsAsOutside: a keeper that signs a header which is not its content's is not believed.
func TestInsideIsAsOutside(t *testing.T) {
	for name, s := range map[string]*Snapshot{"generation": plainSnapshot(t, "eu-1", 8, epoch0), "cell": plainSnapshot(t, "eu-2", 7, epoch0)} {
		key, wrapped, err := ring.DataKey(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		gcm, err := aead(key)
		if err != nil {
			t.Fatal(err)
		}
		inside, err := Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		h := header{"eu-1", 7, wrapped, make([]byte, gcm.NonceSize()), len(inside) + tagBytes}
		rand.Read(h.Nonce)
		out := append(h.front(), gcm.Seal(nil, h.Nonce, inside, h.front())...)
		mac, err := ring.Sign(t.Context(), message(out))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), &ring, append(out, mac...), Want{Cell: "eu-1", Now: epoch0}); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "inside it") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The signed message says what it is for, and is one that KMS takes.
func TestMessage(t *testing.T) {
	if m := message([]byte("x")); !strings.HasPrefix(string(m), macLabel) || len(m) != len(macLabel)+32 || len(m) > 4096 {
		t.Errorf("message %q", m)
	}
}

func TestSealRefuses(t *testing.T) {
	good := func() *Snapshot { return plainSnapshot(t, "eu-1", 1, epoch0) }
	for name, change := range map[string]func(*Snapshot){
		"no generation": func(s *Snapshot) { s.Generation = 0 },
		"no time":       func(s *Snapshot) { s.Taken = time.Time{} },
		"no suspect":    func(s *Snapshot) { s.Suspects = []Suspect{{Until: epoch0}} },
		"held for ever": func(s *Snapshot) { s.Suspects = []Suspect{{Tenant: "acme"}} },
		"a suspect twice": func(s *Snapshot) {
			s.Suspects = []Suspect{{Tenant: "acme", Until: epoch0}, {Tenant: "acme", Until: epoch0}}
		},
		"before 1970": func(s *Snapshot) { s.Times.Issuer = time.Unix(-1, 0) },
		"a long cell": func(s *Snapshot) { s.Cell = strings.Repeat("x", 17) },
		"topologies twice": func(s *Snapshot) {
			s.Topologies = []directory.Topology{{Cell: "eu-1", Version: 1}, {Cell: "eu-1", Version: 1}}
		},
		"an empty key": func(s *Snapshot) { s.Keys["2"] = nil },
		"no version":   func(s *Snapshot) { s.Keys[""] = Secret("k") },
		"shards twice": func(s *Snapshot) { s.Health = []Report{{Shard: "s01"}, {Shard: "s01"}} },
		"no shard":     func(s *Snapshot) { s.Health = []Report{{}} },
		"below 0":      func(s *Snapshot) { s.Health = []Report{{Shard: "s01", Throttled: -1}} },
		"no JWKS":      func(s *Snapshot) { s.IssuerKeys = []byte(`[]`) },
		"broken JWKS":  func(s *Snapshot) { s.IssuerKeys = []byte(`{"keys":`) },
	} {
		s := good()
		change(s)
		if _, err := Seal(t.Context(), &ring, s); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Seal(t.Context(), &keyring{down: errDown}, good()); !errors.Is(err, errDown) {
		t.Errorf("no key service: %v", err)
	}
	if _, err := Seal(t.Context(), short{&ring}, good()); !errors.Is(err, ErrInvalid) {
		t.Errorf("a short key: %v", err)
	}
}

// short gives data keys that are too short.
type short struct{ Sealer }

func (short) DataKey(context.Context) (Secret, []byte, error) {
	return Secret("short"), []byte("w"), nil
}

// Of many who bring snapshots at once, none takes a later one's place.
func TestTakenAtOnce(t *testing.T) {
	for range 200 {
		h := NewHolder("eu-1")
		var list []*Snapshot
		for g := uint64(1); g <= 8; g++ {
			list = append(list, plainSnapshot(t, "eu-1", g, epoch0))
		}
		begin := make(chan struct{})
		var wg sync.WaitGroup
		for _, s := range list {
			wg.Go(func() {
				<-begin
				_ = h.Take(s)
			})
		}
		close(begin)
		wg.Wait()
		if h.Generation() != 8 {
			t.Fatalf("generation %d stands", h.Generation())
		}
	}
}
