// Package boltfiletest tries whatever opens a bbolt file with files that were cut off.
package boltfiletest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"
)

// Used gives the database free pages at its end, closes it, and returns the file up to the last page that
// was handed out. With a free page gone, only the size of the file tells.
func Used(t *testing.T, db *bbolt.DB) []byte {
	t.Helper()
	spare := []byte("spare")
	for _, change := range []func(*bbolt.Tx) error{
		func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucket(spare)
			if err != nil {
				return err
			}
			return b.Put([]byte("k"), make([]byte, 100<<10))
		},
		func(tx *bbolt.Tx) error { return tx.DeleteBucket(spare) },
		func(*bbolt.Tx) error { return nil }, // the list of free pages itself moves down
	} {
		if err := db.Update(change); err != nil {
			t.Fatal(err)
		}
	}
	var used int64
	if err := db.View(func(tx *bbolt.Tx) error { used = tx.Size(); return nil }); err != nil {
		t.Fatal(err)
	}
	path := db.Path()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return whole[:used]
}

// Cut opens files that end after each page of whole but the last, and within each page. Each is to be refused
// with want, and the whole one is not.
func Cut(t *testing.T, whole []byte, want error, open func(path string) error) {
	t.Helper()
	try := func(n int) error {
		// A file of its own each: one that could not be read stays locked for as long as this process lives.
		path := filepath.Join(t.TempDir(), "cut.db")
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		err := open(path)
		if info, statErr := os.Stat(path); err != nil && (statErr != nil || info.Size() != int64(n)) {
			t.Errorf("refused after %d bytes, and then changed to %v, %v", n, info.Size(), statErr)
		}
		return err
	}
	page := os.Getpagesize()
	for at := 0; at < len(whole); at += page {
		for _, n := range []int{at, at + 1, at + page/2, at + page - 1} {
			if n == 0 {
				continue // as good as none
			}
			if err := try(n); !errors.Is(err, want) {
				t.Errorf("cut off after %d of %d bytes: %v, want %v", n, len(whole), err, want)
			}
		}
	}
	if err := try(len(whole)); err != nil {
		t.Errorf("the whole file: %v", err)
	}
}
