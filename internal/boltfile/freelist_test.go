package boltfile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// listOf is the list of free pages of an open file.
func listOf(t *testing.T, db *DB) freelist {
	t.Helper()
	var l freelist
	err := db.View(func(tx *bbolt.Tx) (err error) {
		l, err = readFreelist(db.file, db.bolt.Info().PageSize, uint64(tx.ID()))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A list that was damaged is met before bbolt goes by it, whichever part of it and whenever.
func TestADamagedListOfFreePagesIsRefused(t *testing.T) {
	whole := filled(t)
	page := int64(os.Getpagesize())
	put := func(db *DB) error {
		return db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucket).Put([]byte("k"), []byte("v")) })
	}
	// fresh is an open file, and the same to be damaged.
	fresh := func() (*DB, *os.File) {
		path := filepath.Join(t.TempDir(), "f.db")
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := Open(path, look)
		if err != nil {
			t.Fatal(err)
		}
		if l := listOf(t, db); l.count < 3 {
			t.Fatalf("the list has %d pages", l.count)
		}
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		return db, file
	}
	// open damages a file while it is open, and another one before it is opened.
	open := func(damage func(file *os.File, l freelist) error) (opened, reopened error) {
		db, file := fresh()
		if err := damage(file, listOf(t, db)); err != nil {
			t.Fatal(err)
		}
		opened = put(db)
		if again := put(db); (again == nil) != (opened == nil) {
			t.Errorf("first %v, and then %v", opened, again)
		}
		_ = db.Close() // it may tell of the damage, too

		db, file = fresh()
		l := listOf(t, db)
		if err := errors.Join(db.Close(), damage(file, l)); err != nil {
			t.Fatal(err)
		}
		if db, reopened = Open(file.Name(), look); reopened == nil {
			reopened = errors.Join(put(db), db.Close())
		}
		return opened, reopened
	}
	word := func(file *os.File, at int64, b []byte) error { _, err := file.WriteAt(b, at); return err }
	for name, damage := range map[string]func(*os.File, freelist) error{
		"four billion pages": func(f *os.File, l freelist) error {
			return word(f, int64(l.page)*page+atOverflow, order.AppendUint32(nil, 0xFFFF_FFF0))
		},
		"one page more": func(f *os.File, l freelist) error {
			return word(f, int64(l.page)*page+atOverflow, order.AppendUint32(nil, 1))
		},
		"another number": func(f *os.File, l freelist) error {
			return word(f, int64(l.page)*page, order.AppendUint64(nil, 3))
		},
		"another type": func(f *os.File, l freelist) error {
			return word(f, int64(l.page)*page+atKind, order.AppendUint16(nil, 2))
		},
		"a count of 2^60": func(f *os.File, l freelist) error {
			return word(f, int64(l.page)*page+atCount, append(order.AppendUint16(nil, manyIDs), order.AppendUint64(order.AppendUint32(nil, 0), 1<<60)...))
		},
	} {
		opened, reopened := open(damage)
		if !errors.Is(opened, ErrDamaged) || !errors.Is(reopened, ErrDamaged) {
			t.Errorf("%s: %v, and opened with it %v; want %v", name, opened, reopened, ErrDamaged)
		}
	}
	for name, id := range map[string]func(l freelist) uint64{
		"a head":          func(freelist) uint64 { return 1 },
		"itself":          func(l freelist) uint64 { return l.page },
		"behind the last": func(l freelist) uint64 { return l.pages },
	} {
		_, reopened := open(func(f *os.File, l freelist) error {
			return word(f, int64(l.page)*page+pageHeader+idSize, order.AppendUint64(nil, id(l)))
		})
		if !errors.Is(reopened, ErrDamaged) {
			t.Errorf("%s is to be free: %v, want %v", name, reopened, ErrDamaged)
		}
	}
	if opened, reopened := open(func(*os.File, freelist) error { return nil }); opened != nil || reopened != nil {
		t.Errorf("not damaged: %v, %v", opened, reopened)
	}
}

// Whatever bbolt writes as a list of free pages is taken, short and long ones, also one whose count has no room
// in its page's head.
func TestEveryListOfFreePagesIsTaken(t *testing.T) {
	const pageSize = 1024 // so that 65,535 pages are few bytes
	path := filepath.Join(t.TempDir(), "f.db")
	bolt, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: pageSize})
	if err != nil {
		t.Fatal(err)
	}
	err = bolt.Update(func(tx *bbolt.Tx) error { // longer than two pages of this machine's
		b, err := tx.CreateBucket(bucket)
		if err != nil {
			return err
		}
		return b.Put([]byte("first"), make([]byte, 64<<10))
	})
	if err = errors.Join(err, bolt.Close()); err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	most := uint64(0)
	for _, big := range []int{0, 100, 600 << 10, 66 << 20, 70 << 20} {
		db, err := Open(path, look)
		if err != nil {
			t.Fatalf("before values of %d bytes: %v", big, err)
		}
		change := func(do func(*bbolt.Bucket) error) {
			t.Helper()
			if err := db.Update(func(tx *bbolt.Tx) error { return do(tx.Bucket(bucket)) }); err != nil {
				t.Fatalf("values of %d bytes: %v", big, err)
			}
			most = max(most, listOf(t, db).count)
		}
		change(func(b *bbolt.Bucket) error { return b.Put([]byte("big"), make([]byte, big)) })
		change(func(b *bbolt.Bucket) error { return b.Delete([]byte("big")) })
		for range 60 {
			change(func(b *bbolt.Bucket) error {
				k := fmt.Append(nil, rng.IntN(40))
				if rng.IntN(3) == 0 {
					return b.Delete(k)
				}
				return b.Put(k, make([]byte, rng.IntN(40*pageSize)))
			})
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	db, err := Open(path, look)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if most < manyIDs {
		t.Errorf("the longest list had %d pages", most)
	}
}
