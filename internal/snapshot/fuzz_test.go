package snapshot

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
)

// FuzzDecode: whatever decodes is just as Encode writes it, and has entries as the directory would have them.
func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 5} {
		s, _ := random(f, r, n)
		encoded, err := Encode(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
		s, _ = randomFleet(f, r, n)
		if encoded, err = Encode(s); err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Add([]byte{format})
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Decode(bytes.Clone(data))
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("%v", err)
			}
			return
		}
		again, err := Encode(s)
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("encodes to %q, not %q: %v", again, data, err)
		}
		n := 0
		for e := range s.Entries.All() {
			n++
			found, ok := s.Entries.Lookup(e.Tenant)
			if e.Operation = "op"; !ok || found.Epoch != e.Epoch || e.Epoch == 0 || e.Cell != s.Cell && s.Cell != Fleet || directory.Check(e) != nil {
				t.Fatalf("entry %+v: %v", e, directory.Check(e))
			}
		}
		if n != s.Entries.Len() {
			t.Fatalf("%d entries of %d", n, s.Entries.Len())
		}
	})
}

// FuzzOpen: no bytes make Open panic, take more than its input, or open what the keeper did not seal.
func FuzzOpen(f *testing.F) {
	want := plainSnapshot(f, "eu-1", 7, epoch0)
	good := seal(f, want) // another one in each process, all of the same snapshot
	f.Add(good)
	f.Add(good[:40])
	f.Add([]byte(magic + "\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Open(t.Context(), &ring, bytes.Clone(data), Want{Cell: "eu-1", Now: epoch0})
		switch {
		case err != nil && (!Refused(err) || s != nil || bytes.Equal(data, good)):
			t.Fatalf("%v, %v", s, err)
		case err == nil && (s.Generation != want.Generation || !bytes.Equal(s.Entries.data, want.Entries.data)):
			t.Fatalf("opened %v", s)
		}
	})
}
