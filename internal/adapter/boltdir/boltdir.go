// Package boltdir keeps the tenant directory in one bbolt file: the home of the directory on a machine
// without AWS. Every change is on disk (fsync) before it is reported.
package boltdir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"cellwall.dev/cellwall/internal/directory"
)

// lockWait is how long Open waits for another process to let go of the file.
const lockWait = 2 * time.Second

// importBatch is how many entries Import writes in one transaction: enough to share the fsync, few
// enough to keep other writers waiting for milliseconds only.
const importBatch = 1000

// bucket holds one key a tenant, its id, with the entry as JSON. bbolt orders keys by bytes, which is
// the order that List promises.
var bucket = []byte("tenants")

// Dir is a directory.Store on a bbolt file.
type Dir struct{ db *bbolt.DB }

var _ directory.Store = (*Dir)(nil)

// Open opens the directory at path and creates it, readable by its owner only, when there is none. One
// process has the file open at a time.
func Open(path string) (*Dir, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockWait})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("open the directory %s: another process has it open; stop that process first", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open the directory %s: %w", path, err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucket)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the directory %s: %w", path, err), db.Close())
	}
	return &Dir{db}, nil
}

// Close lets go of the file, after running transactions have ended.
func (d *Dir) Close() error { return d.db.Close() }

// Get implements directory.Store.
func (d *Dir) Get(ctx context.Context, tenant string) (directory.Entry, error) {
	if err := ctx.Err(); err != nil {
		return directory.Entry{}, err
	}
	var entry *directory.Entry
	err := d.db.View(func(tx *bbolt.Tx) (err error) {
		entry, err = read(tx, tenant)
		return err
	})
	switch {
	case err != nil:
		return directory.Entry{}, err
	case entry == nil:
		return directory.Entry{}, fmt.Errorf("tenant %q: %w", tenant, directory.ErrNotFound)
	}
	return *entry, nil
}

// Create implements directory.Store.
func (d *Dir) Create(ctx context.Context, e directory.Entry) (directory.Entry, error) {
	return d.change(ctx, e.Tenant, func(current *directory.Entry) (directory.Entry, bool, error) {
		return directory.Created(current, e)
	})
}

// CompareAndSet implements directory.Store.
func (d *Dir) CompareAndSet(ctx context.Context, expect uint64, e directory.Entry) (directory.Entry, error) {
	return d.change(ctx, e.Tenant, func(current *directory.Entry) (directory.Entry, bool, error) {
		return directory.Replaced(current, expect, e)
	})
}

// List implements directory.Store.
func (d *Dir) List(ctx context.Context, after string, limit int) ([]directory.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if limit < 1 {
		return nil, fmt.Errorf("list the directory: limit %d: want at least 1", limit)
	}
	entries := []directory.Entry{}
	err := d.db.View(func(tx *bbolt.Tx) error {
		cursor := tx.Bucket(bucket).Cursor()
		key, value := cursor.Seek([]byte(after))
		if string(key) == after {
			key, value = cursor.Next()
		}
		for ; key != nil && len(entries) < limit; key, value = cursor.Next() {
			e, err := decode(key, value)
			if err != nil {
				return err
			}
			entries = append(entries, *e)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// Import creates the entries whose tenants are not in the directory yet and leaves all others as they
// are. Created is the number of new ones; with an error, the number that stands already on disk.
// Repeating an Import that failed half-way is safe.
func (d *Dir) Import(ctx context.Context, entries []directory.Entry) (created int, err error) {
	for _, e := range entries {
		if err := directory.Check(e); err != nil {
			return 0, fmt.Errorf("import tenant %q: %w", e.Tenant, err)
		}
	}
	for len(entries) > 0 {
		if err := ctx.Err(); err != nil {
			return created, err
		}
		batch := entries[:min(importBatch, len(entries))]
		entries = entries[len(batch):]
		news := 0
		err := d.db.Update(func(tx *bbolt.Tx) error {
			news = 0
			for _, e := range batch {
				after, write, err := directory.Created(nil, e)
				if err != nil {
					return err
				}
				if !write || tx.Bucket(bucket).Get([]byte(e.Tenant)) != nil {
					continue
				}
				if err := put(tx, after); err != nil {
					return err
				}
				news++
			}
			return nil
		})
		if err != nil {
			return created, fmt.Errorf("import into the directory: %w", err)
		}
		created += news
	}
	return created, nil
}

func (d *Dir) change(ctx context.Context, tenant string,
	decide func(*directory.Entry) (directory.Entry, bool, error),
) (directory.Entry, error) {
	if err := ctx.Err(); err != nil {
		return directory.Entry{}, err
	}
	var after directory.Entry
	err := d.db.Update(func(tx *bbolt.Tx) error {
		current, err := read(tx, tenant)
		if err != nil {
			return err
		}
		var write bool
		if after, write, err = decide(current); err != nil || !write {
			return err
		}
		return put(tx, after)
	})
	if err != nil {
		return directory.Entry{}, err
	}
	return after, nil
}

// read returns the tenant's entry, nil when there is none.
func read(tx *bbolt.Tx, tenant string) (*directory.Entry, error) {
	key := []byte(tenant)
	value := tx.Bucket(bucket).Get(key)
	if value == nil {
		return nil, nil
	}
	return decode(key, value)
}

func decode(key, value []byte) (*directory.Entry, error) {
	var e directory.Entry
	if err := json.Unmarshal(value, &e); err != nil {
		return nil, fmt.Errorf("the directory's entry of tenant %q does not decode: %w", key, err)
	}
	return &e, nil
}

func put(tx *bbolt.Tx, e directory.Entry) error {
	value, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode the entry of tenant %q: %w", e.Tenant, err)
	}
	return tx.Bucket(bucket).Put([]byte(e.Tenant), value)
}
