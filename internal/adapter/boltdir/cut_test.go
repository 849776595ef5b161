package boltdir

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"cellwall.dev/cellwall/internal/directory"
)

// TestOpenRefusesAFileThatWasCutOff cuts off the last pages in use, which bbolt itself misses late or not at all.
func TestOpenRefusesAFileThatWasCutOff(t *testing.T) {
	path := file(t)
	d := open(t, path)
	for i := range 200 {
		op := directory.Put(directory.Key{Part: fmt.Sprint("TENANT#", i), Sort: "ENTRY"}, 0, make([]byte, 2000))
		if err := d.Write(t.Context(), directory.Batch{Operation: fmt.Sprint(i), Ops: []directory.Op{op}}); err != nil {
			t.Fatal(err)
		}
	}
	// Pages at the end that are free again: with one of them gone, only the size of the file tells.
	for _, change := range []func(*bbolt.Tx) error{
		func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucket([]byte("spare"))
			if err != nil {
				return err
			}
			return b.Put([]byte("k"), make([]byte, 1<<20))
		},
		func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("spare")) },
		func(*bbolt.Tx) error { return nil }, // the list of free pages itself moves down
	} {
		if err := d.db.Update(change); err != nil {
			t.Fatal(err)
		}
	}
	var used int64
	if err := d.db.View(func(tx *bbolt.Tx) error { used = tx.Size(); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for pages := int64(1); pages <= 8; pages++ {
		// A file of its own each: one that could not be read stays locked for as long as this process lives.
		short := file(t)
		if err := os.WriteFile(short, whole[:used-pages*int64(os.Getpagesize())], 0o600); err != nil {
			t.Fatal(err)
		}
		if d, err := Open(short); !errors.Is(err, bolterrors.ErrInvalid) {
			if err == nil {
				d.Close()
			}
			t.Errorf("%d pages short: opened with %v, want %v", pages, err, bolterrors.ErrInvalid)
		}
	}
}
