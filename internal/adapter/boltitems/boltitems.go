// Package boltitems is the cell's own store on one bbolt file: the local stand-in for the DynamoDB table
// that the members of a subset share in state.mode: cell. An item is a value under a partition key and a
// sort key. Holds, in the same file, is the local stand-in for the item in each shard's own table that says
// which tenants the shard holds.
//
// Writes of items are committed in groups: while one group is being forced to disk, the next one gathers. A write
// alone therefore waits for one fsync, and a thousand at once for about two.
package boltitems

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// DynamoDB's own limits, so that what fits here fits there (Developer Guide, "Quotas in Amazon
// DynamoDB": partition key 2,048 bytes, sort key 1,024 bytes, item 400 KB).
const (
	MaxPartitionKey = 2048      // bytes
	MaxSortKey      = 1024      // bytes
	MaxValue        = 400 << 10 // bytes
	MaxList         = 1000      // sort keys in one List
)

const (
	lockWait = 2 * time.Second // for another process to let go of the file
	maxGroup = 1024            // writes in one transaction
)

// Errors come wrapped; test with errors.Is.
var (
	ErrNotFound = errors.New("no such item")
	ErrInvalid  = errors.New("not a valid item")
	errClosed   = errors.New("the store is closed")
)

var bucket = []byte("items")

// Items is the store. It is safe for concurrent use.
type Items struct {
	db     *bbolt.DB
	writes chan write
	stop   chan struct{} // closed by Close
	ended  chan struct{} // closed when the committer has returned
}

type write struct {
	key, value []byte
	done       chan error // has room for one
}

// Open opens the store at path and creates it, readable by its owner only, when there is none.
func Open(path string) (*Items, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout: lockWait,
		// The list of free pages is found again on opening, so that no commit has to write it.
		NoFreelistSync: true, FreelistType: bbolt.FreelistMapType,
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("open the store %s: another process has it open; stop that process first", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open the store %s: %w", path, err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucket, holdsBucket} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the store %s: %w", path, err), db.Close())
	}
	s := &Items{db: db, writes: make(chan write), stop: make(chan struct{}), ended: make(chan struct{})}
	go s.commit()
	return s, nil
}

// Close refuses further writes, waits for the group on its way to disk and lets go of the file. It is
// called once.
func (s *Items) Close() error {
	close(s.stop)
	<-s.ended
	return s.db.Close()
}

// Put writes an item and returns when it is on disk. After an error the item may have been written or
// not, unless the error is ErrInvalid.
func (s *Items) Put(ctx context.Context, pk, sk string, value []byte) error {
	if err := check(pk, sk); err != nil {
		return err
	}
	if len(value) > MaxValue {
		return fmt.Errorf("%w: a value of %d bytes; want at most %d", ErrInvalid, len(value), MaxValue)
	}
	w := write{key(pk, sk), bytes.Clone(value), make(chan error, 1)}
	select {
	case s.writes <- w:
	case <-s.stop:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Get returns an item's value. ErrNotFound when there is none.
func (s *Items) Get(ctx context.Context, pk, sk string) ([]byte, error) {
	if err := check(pk, sk); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var value []byte
	err := s.db.View(func(tx *bbolt.Tx) error {
		found := tx.Bucket(bucket).Get(key(pk, sk))
		if found == nil {
			return fmt.Errorf("%w under %q, %q", ErrNotFound, pk, sk)
		}
		value = append([]byte{}, found...)
		return nil
	})
	return value, err
}

// List returns up to MaxList sort keys under pk that come after the given one, in byte order.
func (s *Items) List(ctx context.Context, pk, after string) ([]string, error) {
	if err := check(pk, "-"); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	keys := []string{}
	prefix, last := key(pk, ""), key(pk, after)
	err := s.db.View(func(tx *bbolt.Tx) error {
		cursor := tx.Bucket(bucket).Cursor()
		for k, _ := cursor.Seek(last); bytes.HasPrefix(k, prefix) && len(keys) < MaxList; k, _ = cursor.Next() {
			if !bytes.Equal(k, last) {
				keys = append(keys, string(k[len(prefix):]))
			}
		}
		return nil
	})
	return keys, err
}

func check(pk, sk string) error {
	switch {
	case pk == "" || len(pk) > MaxPartitionKey:
		return fmt.Errorf("%w: a partition key of %d bytes; want 1 to %d", ErrInvalid, len(pk), MaxPartitionKey)
	case sk == "" || len(sk) > MaxSortKey:
		return fmt.Errorf("%w: a sort key of %d bytes; want 1 to %d", ErrInvalid, len(sk), MaxSortKey)
	}
	return nil
}

// key is the length of pk, pk and sk: no two pairs have one key, and the items of one pk lie together,
// in the order of sk.
func key(pk, sk string) []byte {
	k := binary.AppendUvarint(make([]byte, 0, len(pk)+len(sk)+2), uint64(len(pk)))
	return append(append(k, pk...), sk...)
}

// commit writes group after group until Close.
func (s *Items) commit() {
	defer close(s.ended)
	for {
		select {
		case first := <-s.writes:
			s.commitGroup(s.gather(first))
		case <-s.stop:
			return
		}
	}
}

// gather takes what has come in meanwhile, without waiting for more.
func (s *Items) gather(first write) []write {
	group := []write{first}
	for len(group) < maxGroup {
		select {
		case w := <-s.writes:
			group = append(group, w)
		default:
			return group
		}
	}
	return group
}

func (s *Items) commitGroup(group []write) {
	err := s.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucket)
		for _, w := range group {
			if err := b.Put(w.key, w.value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("write to the store: %w", err)
	}
	for _, w := range group {
		w.done <- err
	}
}
