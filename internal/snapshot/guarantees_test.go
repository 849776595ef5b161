package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cellwall.dev/cellwall/internal/directory"
)

func TestRoundTrip(t *testing.T) {
	r := seeded(t)
	for range 50 {
		checkRoundTripOfFleet(t, r)
		s, want := random(t, r, r.IntN(300))
		opened, err := Open(t.Context(), &ring, seal(t, s), Want{Cell: "eu-1", Above: s.Generation - 1, Now: s.Taken})
		if err != nil {
			t.Fatal(err)
		}
		ordered := s.sorted()
		if diff := cmp.Diff(&ordered, opened, cmpopts.IgnoreFields(Snapshot{}, "Entries", "Keys")); diff != "" {
			t.Fatalf("(-sealed +opened):\n%s", diff)
		}
		for version, key := range s.Keys {
			if !bytes.Equal(opened.Keys[version], key) {
				t.Fatalf("key %s is another one", version)
			}
		}
		if len(opened.Keys) != len(s.Keys) || opened.Entries.Len() != len(want) {
			t.Fatalf("%d keys, %d entries; want %d, %d", len(opened.Keys), opened.Entries.Len(), len(s.Keys), len(want))
		}
		for tenant, e := range want {
			got, ok := opened.Entries.Lookup(tenant)
			if diff := cmp.Diff(e, got, cmpopts.EquateEmpty()); !ok || diff != "" {
				t.Fatalf("tenant %q (%t) (-want +got):\n%s", tenant, ok, diff)
			}
			if _, there := opened.Entries.Lookup(tenant + "!"); there && want[tenant+"!"].Tenant == "" {
				t.Fatalf("tenant %q! is there", tenant)
			}
		}
		last := ""
		for e := range opened.Entries.All() {
			if last >= e.Tenant {
				t.Fatalf("tenant %q comes after %q", e.Tenant, last)
			}
			last = e.Tenant
			if diff := cmp.Diff(want[e.Tenant], e, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("tenant %q (-want +listed):\n%s", e.Tenant, diff)
			}
		}
	}
}

func TestOneEncoding(t *testing.T) {
	r := seeded(t)
	s, want := random(t, r, 200)
	s.Generation = 1 // one byte, the seventh
	first, err := Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	// The same in another order.
	list := []directory.Entry{}
	for _, e := range want {
		list = append(list, e)
	}
	other := *s
	if other.Entries, err = Pack("eu-1", list); err != nil {
		t.Fatal(err)
	}
	other.Topologies = slices.Clone(s.Topologies)
	slices.Reverse(other.Topologies)
	other.Health = slices.Clone(s.Health)
	slices.Reverse(other.Health)
	other.Suspects = slices.Clone(s.Suspects)
	slices.Reverse(other.Suspects)
	second, err := Encode(&other)
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("two encodings of one snapshot, %v", err)
	}
	back, err := Decode(bytes.Clone(first))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Encode(back); err != nil || !bytes.Equal(again, first) {
		t.Errorf("decoded and encoded again it differs, %v", err)
	}
	// Other spellings of the same are none.
	for what, change := range map[string]func([]byte) []byte{
		"blank in JSON":   func(b []byte) []byte { return bytes.Replace(b, []byte(`{"topologies"`), []byte(`{ "topologies"`), 1) },
		"a name's case":   func(b []byte) []byte { return bytes.Replace(b, []byte(`"Drained"`), []byte(`"drained"`), 1) },
		"a tail":          func(b []byte) []byte { return append(b, 0) },
		"a longer varint": func(b []byte) []byte { return slices.Replace(b, 6, 7, 0x81, 0x00) },
	} {
		changed := change(bytes.Clone(first))
		if bytes.Equal(changed, first) {
			t.Errorf("%s: nothing was changed", what)
		}
		if _, err := Decode(changed); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestFormat holds the encoding: a router must read what a keeper of the same format wrote.
func TestFormat(t *testing.T) {
	s := plainSnapshot(t, "eu-1", 7, epoch0)
	e, err := Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	want := "\x01\x04eu-1\a\x80\x80\x92\xd3\xd3\x9b\xb4\xf6\x18\x80\x80\x92\xd3\xd3\x9b\xb4\xf6\x18\x00\x00\x00\x00\x00\x00\x00\x00" +
		`]{"topologies":null,"keys":{"1":"a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="},"health":null}` + "\x01\x04acme\x01\a\x01"
	if string(e) != want {
		t.Errorf("encoded as\n%q, want\n%q", e, want)
	}
	s.Health = []Report{{Shard: "s01", Healthy: 1, Targets: 2, Throttled: 1.5, QueueAge: time.Second, Drained: true}}
	if e, err = Encode(s); err != nil || !strings.Contains(string(e), `[{"Shard":"s01","Healthy":1,"Targets":2,"Throttled":1.5,"QueueAge":1000000000,"Drained":true}]`) {
		t.Errorf("%q, %v", e, err)
	}
}

func TestOnlyTheCells(t *testing.T) {
	checkOnlyTheFleets(t)
	if _, err := Pack("eu-1", []directory.Entry{{Tenant: "acme", Cell: "eu-2", State: directory.Active, Epoch: 1}}); !errors.Is(err, ErrInvalid) {
		t.Errorf("another cell's entry: %v", err)
	}
	s := plainSnapshot(t, "eu-1", 1, epoch0)
	s.Topologies = []directory.Topology{{Cell: "eu-2", Version: 1}}
	if _, err := Encode(s); !errors.Is(err, ErrInvalid) {
		t.Errorf("another cell's topology: %v", err)
	}
	s = plainSnapshot(t, "eu-1", 1, epoch0)
	s.Entries = plainSnapshot(t, "eu-2", 1, epoch0).Entries
	if _, err := Encode(s); !errors.Is(err, ErrInvalid) {
		t.Errorf("another cell's entries: %v", err)
	}
	if err := NewHolder("eu-1").Take(plainSnapshot(t, "eu-2", 1, epoch0)); !errors.Is(err, ErrCell) {
		t.Errorf("another cell's snapshot: %v", err)
	}
}

func TestRefuses(t *testing.T) {
	now := epoch0
	good := seal(t, plainSnapshot(t, "eu-1", 7, now))
	other := seal(t, plainSnapshot(t, "eu-1", 8, now))
	want := Want{Cell: "eu-1", Above: 6, Now: now}
	with := func(change func(*Want)) Want {
		w := want
		change(&w)
		return w
	}
	parted := func(b []byte) parts {
		p, err := split(bytes.Clone(b))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	g, o := parted(good), parted(other)
	forged, err := Seal(t.Context(), &keyring{key: 1, mac: 9}, plainSnapshot(t, "eu-1", 7, now))
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := Seal(t.Context(), &keyring{key: 9, mac: 2}, plainSnapshot(t, "eu-1", 7, now))
	if err != nil {
		t.Fatal(err)
	}
	resigned := func(b []byte) []byte {
		mac, _ := ring.Sign(t.Context(), message(b))
		return append(b, mac...)
	}
	flipped := bytes.Clone(good)
	flipped[len(flipped)-40] ^= 1
	renamed := bytes.Replace(good, []byte(`"cell":"eu-1"`), []byte(`"cell":"eu-2"`), 1)
	raised := bytes.Replace(good, []byte(`"generation":7`), []byte(`"generation":9`), 1)
	for name, c := range map[string]struct {
		sealed []byte
		want   Want
		is     error
	}{
		"another cell's":          {good, with(func(w *Want) { w.Cell = "eu-2" }), ErrCell},
		"renamed to this cell":    {renamed, with(func(w *Want) { w.Cell = "eu-2" }), ErrForged},
		"older":                   {good, with(func(w *Want) { w.Above = 8 }), ErrOlder},
		"the same":                {good, with(func(w *Want) { w.Above = 7 }), ErrOlder},
		"with a raised number":    {raised, with(func(w *Want) { w.Above = 8 }), ErrForged},
		"raised and signed again": {resigned(parted(raised).signed), with(func(w *Want) { w.Above = 8 }), ErrForged},
		"unsigned":                {g.signed, want, ErrMalformed},
		"signed by another":       {forged, want, ErrForged},
		"sealed by another":       {foreign, want, ErrForged},
		"a changed bit":           {flipped, want, ErrForged},
		"another's MAC":           {slices.Concat(g.signed, o.mac), want, ErrForged},
		"another's ciphertext":    {slices.Concat(g.front, o.ciphertext, g.mac), want, ErrForged},
		"another's header":        {slices.Concat(o.front, g.ciphertext, g.mac), want, ErrForged},
		"swapped, signed again":   {resigned(slices.Concat(g.front, o.ciphertext)), want, ErrForged},
		"a longer MAC":            {slices.Concat(good, []byte{0}), want, ErrForged},
		"empty":                   {nil, want, ErrMalformed},
		"something else":          {[]byte("<Error>NoSuchKey</Error>"), want, ErrMalformed},
		"from the future":         {good, with(func(w *Want) { w.Now = now.Add(-MaxSkew - time.Nanosecond) }), ErrFuture},
		"too old":                 {good, with(func(w *Want) { w.Now, w.Age = now.Add(MaxAge+1), MaxAge }), ErrTooOld},
	} {
		if s, err := Open(t.Context(), &ring, bytes.Clone(c.sealed), c.want); !errors.Is(err, c.is) || s != nil || !Refused(err) {
			t.Errorf("%s: %v, %v; want %v", name, s, err, c.is)
		}
	}
	for i := range good { // cut anywhere
		if _, err := Open(t.Context(), &ring, bytes.Clone(good[:i]), want); !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrForged) {
			t.Fatalf("cut after %d bytes: %v", i, err)
		}
	}
	for name, w := range map[string]Want{
		"just so new":         with(func(w *Want) { w.Now = now.Add(-MaxSkew) }),
		"just so old":         with(func(w *Want) { w.Now, w.Age = now.Add(MaxAge), MaxAge }),
		"years old, but held": with(func(w *Want) { w.Now = now.Add(10 * MaxAge) }),
	} {
		if _, err := Open(t.Context(), &ring, bytes.Clone(good), w); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A key service that is down refuses nothing, and nothing is decrypted before the signature is known.
	down := keyring{key: 1, mac: 2, down: errDown}
	if _, err := Open(t.Context(), &down, bytes.Clone(good), want); !errors.Is(err, errDown) || Refused(err) || down.unwraps != 0 {
		t.Errorf("key service down: %v, %d keys unwrapped", err, down.unwraps)
	}
	before := keyring{key: 1, mac: 9}
	if _, err := Open(t.Context(), &before, bytes.Clone(good), want); !errors.Is(err, ErrForged) || before.unwraps != 0 {
		t.Errorf("wrong signature: %v, %d keys unwrapped", err, before.unwraps)
	}
}

func TestNeverBack(t *testing.T) {
	r := seeded(t)
	h := NewHolder("eu-1")
	if _, _, ok := h.Entry("acme"); ok || h.Generation() != 0 {
		t.Error("an empty holder knows a tenant")
	}
	highest := uint64(0)
	for range 200 {
		n := 1 + r.Uint64N(100)
		err := h.Take(plainSnapshot(t, "eu-1", n, epoch0))
		if (err == nil) != (n > highest) || err != nil && !errors.Is(err, ErrOlder) {
			t.Fatalf("snapshot %d after %d: %v", n, highest, err)
		}
		highest = max(highest, n)
		if e, _, ok := h.Entry("acme"); !ok || e.Epoch != highest || h.Generation() != highest {
			t.Fatalf("the holder has epoch %d, generation %d; want %d", e.Epoch, h.Generation(), highest)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	r := seeded(t)
	s, want := random(t, r, 1000)
	h := NewHolder("eu-1")
	if err := h.Take(s); err != nil {
		t.Fatal(err)
	}
	tenants := []string{"nobody"}
	for tenant := range want {
		tenants = append(tenants, tenant)
	}
	found := 0
	if n := testing.AllocsPerRun(10, func() {
		for _, tenant := range tenants {
			if _, _, ok := h.Entry(tenant); ok {
				found++
			}
		}
	}); n != 0 || found == 0 {
		t.Errorf("%v allocations for %d look-ups, %d found", n, len(tenants), found)
	}
	s, want = randomFleet(t, r, 1000)
	if h = NewHolder(Fleet); h.Take(s) != nil {
		t.Fatal("not taken")
	}
	if n := testing.AllocsPerRun(10, func() {
		for tenant := range want {
			h.Entry(tenant)
		}
	}); n != 0 {
		t.Errorf("%v allocations for %d look-ups of a front door", n, len(want))
	}
}

func TestSilent(t *testing.T) {
	key := Secret("the-secret-bytes-of-a-placementk")
	s := plainSnapshot(t, "eu-1", 1, epoch0)
	s.Keys = map[string]Secret{"1": key}
	said := &bytes.Buffer{}
	log := slog.New(slog.NewJSONHandler(said, nil))
	text := slog.New(slog.NewTextHandler(said, nil))
	log.Info("x", "key", key, "keys", s.Keys, "snapshot", s)
	text.Info("x", "key", key, "keys", s.Keys, "snapshot", s)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%X", "%q", "%d"} {
		fmt.Fprintf(said, verb+" "+verb+" "+verb+"\n", key, s, s.Keys)
	}
	if err := json.NewEncoder(said).Encode(s); err != nil {
		t.Fatal(err)
	}
	encoded, err := Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range encoded { // every decoding error there is
		damaged := bytes.Clone(encoded)
		damaged[i] ^= 0x20
		_, err := Decode(damaged)
		fmt.Fprintln(said, err)
	}
	for _, form := range []string{string(key), fmt.Sprintf("%x", []byte(key)), fmt.Sprint([]byte(key)), "dGhlLXNlY3JldC1ieXRlc"} {
		if strings.Contains(strings.ToLower(said.String()), strings.ToLower(form)) {
			t.Errorf("a key is shown as %s:\n%s", form, said)
		}
	}
}
