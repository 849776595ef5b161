package boltdir

import (
	"errors"
	"fmt"
	"testing"

	"cellwall.dev/cellwall/internal/boltfile"
	"cellwall.dev/cellwall/internal/boltfile/boltfiletest"
	"cellwall.dev/cellwall/internal/directory"
)

// Calm: whatever a file's pages say, every operation ends, and with an error that tells of the damage or
// with none.
func TestCalm(t *testing.T) {
	d := open(t, file(t))
	const parts = 300
	key := func(i int) directory.Key { return directory.Key{Part: fmt.Sprint("TENANT#", i), Sort: "ENTRY"} }
	put := func(d *Dir, i int, version uint64) error {
		op := directory.Put(key(i), version, make([]byte, 600), fmt.Sprint("CELL#", i%3), "STATE#active")
		return d.Write(t.Context(), directory.Batch{Operation: fmt.Sprint(i, version), Ops: []directory.Op{op}})
	}
	for i := range parts {
		if err := put(d, i, 0); err != nil {
			t.Fatal(err)
		}
	}
	d.writer.stop()
	whole := boltfiletest.Used(t, d.db.Bolt())
	met := boltfiletest.Damage(t, whole, 150, boltfile.ErrDamaged, func(path string, damage func()) (errs []error) {
		d, err := Open(path)
		if err != nil {
			return []error{err}
		}
		damage()
		note := func(err error) {
			// A record that was spoilt within may have any version.
			if err != nil && !errors.As(err, new(*directory.Conflict)) {
				errs = append(errs, err)
			}
		}
		for i := range parts {
			_, err := d.Read(t.Context(), directory.Strong, key(i))
			note(err)
		}
		for _, r := range []directory.Range{
			{Family: "ENTRY"}, {Family: "ENTRY", Index: directory.First, Value: "CELL#1"}, {Family: "ENTRY", Index: directory.Second, Value: "STATE#active"},
		} {
			_, err := d.List(t.Context(), r, directory.Key{}, 2*parts)
			note(err)
		}
		_, _, err = d.Changes(t.Context(), "0", 2*parts)
		if !errors.Is(err, directory.ErrCursor) { // the number of the newest change was spoilt
			note(err)
		}
		for i := 0; i < parts; i += 7 {
			note(put(d, i, 1))
			note(put(d, parts+i, 0))
		}
		note(d.Close())
		return errs
	})
	if met < 50 {
		t.Errorf("damage was met in %d trials of 150", met)
	}
}

// A write that cannot begin is answered.
func TestWritesToAClosedFileAreAnswered(t *testing.T) {
	d := open(t, file(t))
	if err := d.db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Write(t.Context(), batch("acme")); err == nil {
		t.Error("written")
	}
}
