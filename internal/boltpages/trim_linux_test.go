package boltpages

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"go.etcd.io/bbolt"

	"cellwall.dev/cellwall/internal/boltpages/boltpagestest"
)

var bucket = []byte("b")

// filled is a file with 4,000 records of 4 KiB.
func filled(t *testing.T) (db *bbolt.DB, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "f.db")
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket(bucket)
		for i := uint32(0); err == nil && i < 4000; i++ {
			err = b.Put(binary.BigEndian.AppendUint32(nil, i), value(i))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return db, path
}

func value(i uint32) []byte { return bytes.Repeat(binary.BigEndian.AppendUint32(nil, i), 1024) }

// walk reads all records, and tells the window of each.
func walk(db *bbolt.DB, w *Window) error {
	return db.View(func(tx *bbolt.Tx) error {
		i := uint32(0)
		for c, k, v := tx.Bucket(bucket).Cursor(), []byte(nil), []byte(nil); ; i++ {
			if i == 0 {
				k, v = c.First()
			} else {
				k, v = c.Next()
			}
			if k == nil {
				break
			}
			if !bytes.Equal(v, value(i)) {
				return fmt.Errorf("record %d is not what was written", i)
			}
			if w != nil {
				w.Touched(tx, 1)
			}
		}
		if i != 4000 {
			return fmt.Errorf("%d records", i)
		}
		return nil
	})
}

func TestWindowIsSmall(t *testing.T) {
	db, path := filled(t)
	if err := walk(db, nil); err != nil {
		t.Fatal(err)
	}
	if got := boltpagestest.Resident(t, path); got < 16<<20 {
		t.Skipf("reading 16 MiB left %d bytes in memory: the system took pages back by itself, and nothing can be told", got)
	}
	var w Window
	if err := walk(db, &w); err != nil {
		t.Fatal(err)
	}
	if got := boltpagestest.Resident(t, path); got > 8<<20 {
		t.Errorf("%d bytes of the file in memory after the walk, want those since the last trim", got)
	}
}

// Readers and a writer that moves the mapping go on while pages are given back.
func TestTrimsBesideOthers(t *testing.T) {
	db, _ := filled(t)
	var w Window
	var g sync.WaitGroup
	for range 4 {
		g.Go(func() {
			for range 2 {
				if err := walk(db, &w); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range uint32(10) { // 20 MB more, so that the file is mapped anew
		err := db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("more"))
			for j := uint32(0); err == nil && j < 500; j++ {
				err = b.Put(binary.BigEndian.AppendUint32(nil, i*500+j), value(j))
				w.Touched(tx, 1)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	g.Wait()
	if err := db.View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			return err
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
