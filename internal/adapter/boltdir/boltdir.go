// Package boltdir keeps the tenant directory in one bbolt file: its home on a machine without AWS.
//
// # Guarantees
//
//  1. Durable: a batch is on disk (fsync) before it is acknowledged. What was acknowledged survives the
//     process, killed at any instant.
//  2. Whole: after a crash a batch is there with all of its records, indexes and news, or not at all.
//  3. Shared: batches that come while the disk is busy are written by one transaction and share its fsync.
//     Each is decided by itself, in the order of arrival.
//  4. Versioned: a file of a layout that this version does not know is refused and left as it is.
//  5. Calm: what is damaged in the file, found in whichever operation, is an error that is
//     boltfile.ErrDamaged, and not the end of the process.
package boltdir

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"go.etcd.io/bbolt"

	"cellwall.dev/cellwall/internal/boltfile"
	"cellwall.dev/cellwall/internal/boltpages"
	"cellwall.dev/cellwall/internal/directory"
)

// layout is the number of the layout of buckets and keys, which stands in bucket meta:
//
//	meta             "layout" → decimal number
//	records/<family> part, sort after the family → record
//	index/1, index/2 value, family, part, sort after the family → nothing
//	feed             number of the change, 8 bytes → family, part, sort after the family
//
// Strings but the last of a key are escaped, so that the order of bytes is that of the strings.
const layout = 2

var (
	metaBucket    = []byte("meta")
	layoutKey     = []byte("layout")
	feedBucket    = []byte("feed")
	indexBuckets  = [2][]byte{[]byte("index/1"), []byte("index/2")}
	oldBucket     = []byte("tenants") // of layout 1
	recordsPrefix = "records/"
)

func recordsBucket(family string) []byte { return []byte(recordsPrefix + family) }

// Dir is a directory.Home on a bbolt file.
type Dir struct {
	db     *boltfile.DB
	writer *writer
	pages  *boltpages.Window // what imports and listings have touched
}

var _ directory.Home = (*Dir)(nil)

// Open opens the directory at path, which is there. One process has the file open at a time.
// directory.ErrNewer when a newer version of cellwall wrote it, fs.ErrNotExist, and the errors of boltfile.
func Open(path string) (*Dir, error) {
	db, err := boltfile.Open(path, known)
	return start(path, db, err)
}

// Create is Open, but makes an empty directory, readable by its owner only, where there is no file, and of a
// file that was left without anything when it was made.
func Create(path string) (*Dir, error) {
	db, err := boltfile.Create(path, func(db *boltfile.DB) error {
		if err := known(db); !errors.Is(err, errNone) {
			return err
		}
		return mark(db)
	})
	return start(path, db, err)
}

func start(path string, db *boltfile.DB, err error) (*Dir, error) {
	if err != nil {
		return nil, fmt.Errorf("open the directory %s: %w", path, err)
	}
	pages := &boltpages.Window{}
	return &Dir{db, startWriter(db, pages), pages}, nil
}

// errNone is the error of a file that has nothing in it.
var errNone = fmt.Errorf("%w: it holds no directory", boltfile.ErrDamaged)

// known checks the layout of a file, and writes nothing.
func known(db *boltfile.DB) error {
	var found string
	err := db.View(func(tx *bbolt.Tx) error {
		switch meta := tx.Bucket(metaBucket); {
		case meta != nil:
			found = string(meta.Get(layoutKey))
		case tx.Bucket(oldBucket) != nil:
			found = "1"
		default:
			if first, _ := tx.Cursor().First(); first != nil {
				return fmt.Errorf("%w, or it is another's: it has %q and no directory", boltfile.ErrDamaged, first)
			}
			return errNone
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch n, err := strconv.Atoi(found); {
	case err != nil:
		return fmt.Errorf("%w: its layout is %q, which is no number", boltfile.ErrDamaged, found)
	case n > layout:
		return fmt.Errorf("%w: it has layout %d, this version knows layouts up to %d: install the newer version", directory.ErrNewer, n, layout)
	case n < layout:
		return fmt.Errorf("it has layout %d, of a version before the first release, which is no longer read: move the file away and import the tenants anew", n)
	}
	return nil
}

// mark makes an empty file a directory.
func mark(db *boltfile.DB) error {
	return db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{metaBucket, feedBucket, indexBuckets[0], indexBuckets[1]} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return tx.Bucket(metaBucket).Put(layoutKey, []byte(strconv.Itoa(layout)))
	})
}

// Close lets go of the file, after what was begun has ended. Writes that come later fail.
func (d *Dir) Close() error {
	d.writer.stop()
	return d.db.Close()
}

// Read implements directory.Home. All reads are strong.
func (d *Dir) Read(ctx context.Context, _ directory.Consistency, keys ...directory.Key) ([]directory.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	records := make([]directory.Record, len(keys))
	err := d.db.View(func(tx *bbolt.Tx) (err error) {
		for i, k := range keys {
			if records[i], err = get(tx, k); err != nil {
				return err
			}
			if len(keys) > 1 { // a look-up of one tenant is no way through the file
				d.pages.Touched(tx, 1)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return records, nil
}

// Write implements directory.Home.
func (d *Dir) Write(ctx context.Context, b directory.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.Check(); err != nil {
		return err
	}
	return d.writer.write(ctx, b)
}

// List implements directory.Home. Its order is by bytes of Part, then Sort, and all listings are as of now.
func (d *Dir) List(ctx context.Context, r directory.Range, after directory.Key, limit int) ([]directory.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := directory.CheckRange(r, limit); err != nil {
		return nil, err
	}
	records := []directory.Record{}
	err := d.db.View(func(tx *bbolt.Tx) error {
		name, prefix := recordsBucket(r.Family), []byte(nil)
		if r.Index != directory.NoIndex {
			name = indexBuckets[r.Index-1]
			prefix = escape(escape(nil, r.Value), r.Family)
		}
		bucket := tx.Bucket(name)
		if bucket == nil { // no record of the family yet
			return nil
		}
		start := prefix
		if r.Part != "" {
			prefix = escape(nil, r.Part)
			start = prefix
		}
		last := []byte(nil)
		if after != (directory.Key{}) {
			if last = appendKey(bytes.Clone(start), after, r); bytes.Compare(last, start) > 0 {
				start = last
			}
		}
		cursor := bucket.Cursor()
		key, value := cursor.Seek(start)
		if last != nil && bytes.Equal(key, last) {
			key, value = cursor.Next()
		}
		for ; key != nil && bytes.HasPrefix(key, prefix) && len(records) < limit; key, value = cursor.Next() {
			rec, err := listed(tx, r, prefix, key, value)
			if err != nil {
				return err
			}
			records = append(records, rec)
			d.pages.Touched(tx, 1)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return records, nil
}

// appendKey is where a listing of r continues after k. begin is the index's prefix of the range.
func appendKey(begin []byte, k directory.Key, r directory.Range) []byte {
	if r.Index == directory.NoIndex {
		begin = nil
	}
	begin = escape(begin, k.Part)
	rest := k.Sort
	if len(rest) >= len(r.Family) && rest[:len(r.Family)] == r.Family {
		return append(begin, rest[len(r.Family):]...)
	}
	if rest < r.Family { // before the family, or after it
		return begin
	}
	return append(begin, 0xff)
}

// listed is the record of a line of a listing.
func listed(tx *bbolt.Tx, r directory.Range, prefix, key, value []byte) (directory.Record, error) {
	if r.Index == directory.NoIndex {
		k, err := unkey(r.Family, key)
		if err != nil {
			return directory.Record{}, err
		}
		return decode(k, value)
	}
	k, err := unkey(r.Family, key[len(prefix):])
	if err != nil {
		return directory.Record{}, err
	}
	found, err := get(tx, k)
	if err == nil && found.Version == 0 { // both are written by one transaction
		err = fmt.Errorf("%w: an index names record %v, which is not there", boltfile.ErrDamaged, k)
	}
	return found, err
}

// Changes implements directory.Home. The feed reaches back feedLength changes at least.
func (d *Dir) Changes(ctx context.Context, after directory.Cursor, limit int) ([]directory.Record, directory.Cursor, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	var number uint64
	if after != "" {
		var err error
		if number, err = strconv.ParseUint(string(after), 10, 64); err != nil || limit < 1 {
			return nil, "", fmt.Errorf("changes after %q, at most %d: %w", after, limit, directory.ErrInvalid)
		}
	}
	records := []directory.Record{}
	next := after
	err := d.db.View(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(feedBucket)
		if after == "" {
			next = cursorOf(bucket.Sequence())
			return nil
		}
		cursor := bucket.Cursor()
		first, _ := cursor.First()
		if number > bucket.Sequence() || first != nil && binary.BigEndian.Uint64(first) > number+1 {
			return fmt.Errorf("changes after %q: %w", after, directory.ErrCursor)
		}
		key, value := cursor.Seek(binary.BigEndian.AppendUint64(nil, number+1))
		for ; key != nil && len(records) < limit; key, value = cursor.Next() {
			rec, err := changed(tx, value)
			if err != nil {
				return err
			}
			records = append(records, rec)
			next = cursorOf(binary.BigEndian.Uint64(key))
		}
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return records, next, nil
}

func cursorOf(number uint64) directory.Cursor {
	return directory.Cursor(strconv.FormatUint(number, 10))
}
