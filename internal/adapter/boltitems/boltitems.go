// Package boltitems is the cell's own store on one bbolt file: the local stand-in for the DynamoDB tables
// of a cell and of its shards. It keeps the tenants' state and whom each shard holds, so that a write can
// be conditioned on the latter in one transaction.
//
// Writes are committed in groups: while one group is being forced to disk, the next one gathers. A write
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

	"cellwall.dev/cellwall/internal/boltfile"
	"cellwall.dev/cellwall/internal/boltpages"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// MaxList is the most keys in one List.
const MaxList = 1000

// maxValue is more than any value has, in bytes. What a damaged page says to be longer is not copied.
const maxValue = 2 * shardkit.MaxValue

// maxGroup is the most writes in one transaction, which is full earlier when they lie scattered: see
// boltpages.Full.
const maxGroup = 1024

// ErrInvalid means that a tenant, shard or key cannot be one. It comes wrapped.
var (
	ErrInvalid = errors.New("not valid in the store")
	errClosed  = errors.New("the store is closed")
)

// itemBucket has the tenants' state: tenant, key → value.
var itemBucket = []byte("items")

// Items is the store. It is safe for concurrent use.
type Items struct {
	db     *boltfile.DB
	pages  boltpages.Window // what writes and listings of holdings have touched
	writes chan write
	stop   chan struct{} // closed by Close
	ended  chan struct{} // closed when the committer has returned
}

// write is a change that is made in a transaction with others.
type write struct {
	ctx context.Context // of whoever waits for it
	// apply makes the change, or leaves all as it is and says why it is refused. err ends the transaction.
	apply func(*bbolt.Tx) (refused, err error)
	done  chan error // has room for one
}

// Open opens the store at path, which is there. One process has the file open at a time. fs.ErrNotExist, and
// the errors of boltfile.
func Open(path string) (*Items, error) {
	db, err := boltfile.Open(path, func(db *boltfile.DB) error {
		if err := known(db); err != nil {
			return err
		}
		return prepare(db) // what came with later versions
	})
	return start(path, db, err)
}

// Create is Open, but makes an empty store, readable by its owner only, where there is no file, and of a file
// that was left without anything when it was made.
func Create(path string) (*Items, error) {
	db, err := boltfile.Create(path, func(db *boltfile.DB) error {
		if err := known(db); err != nil && !errors.Is(err, errNone) {
			return err
		}
		return prepare(db)
	})
	return start(path, db, err)
}

func start(path string, db *boltfile.DB, err error) (*Items, error) {
	if err != nil {
		return nil, fmt.Errorf("open the store %s: %w", path, err)
	}
	s := &Items{db: db, writes: make(chan write), stop: make(chan struct{}), ended: make(chan struct{})}
	go s.commit()
	return s, nil
}

// errNone is the error of a file that has nothing in it.
var errNone = fmt.Errorf("%w: it holds no store", boltfile.ErrDamaged)

// known refuses a file that is no store, and writes nothing.
func known(db *boltfile.DB) error {
	return db.View(func(tx *bbolt.Tx) error {
		if tx.Bucket(itemBucket) != nil && tx.Bucket(holdsBucket) != nil {
			return nil
		}
		if first, _ := tx.Cursor().First(); first != nil {
			return fmt.Errorf("%w, or it is another's: it has %q and no store", boltfile.ErrDamaged, first)
		}
		return errNone
	})
}

// prepare makes the buckets that are not there.
func prepare(db *boltfile.DB) error {
	return db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{itemBucket, holdsBucket, leftBucket, endBucket, sweepBucket} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
}

// Close refuses further writes, waits for the group on its way to disk and lets go of the file. It is
// called once.
func (s *Items) Close() error {
	close(s.stop)
	<-s.ended
	return s.db.Close()
}

// Write does all of the writes in one transaction, provided that in it the shard holds the tenant at an
// epoch that is not above h.Epoch and each finds what it wants, and returns when they are on disk; otherwise
// none of them and shardkit.ErrNotHeld or shardkit.ErrChanged. After another error they may be done or not, unless the error is ErrInvalid or
// shardkit.ErrInvalid. None is done when ctx is over before their turn in the transaction of a group comes. It is not
// looked at again when the group is forced to disk: who waits no longer does not know, then.
func (s *Items) Write(ctx context.Context, cell, shard string, h directory.Holding, writes ...shardkit.Write) error {
	if err := shardkit.Check(writes...); err != nil {
		return err
	}
	if err := checkHold(cell, shard, h.Tenant); err != nil {
		return err
	}
	at := holdKey(cell, shard, h.Tenant)
	own := make([]shardkit.Write, len(writes)) // the caller may go on while the group waits
	for i, w := range writes {
		own[i] = w
		own[i].Value, own[i].Was = bytes.Clone(w.Value), bytes.Clone(w.Was)
	}
	return s.do(ctx, func(tx *bbolt.Tx) (refused, err error) {
		since, held, err := heldIn(tx, at)
		switch {
		case err != nil:
			return err, nil // of this tenant alone
		case !held || since > h.Epoch:
			return fmt.Errorf("write to the store: %w", shardkit.ErrNotHeld), nil
		}
		now := time.Now().Unix()
		for _, w := range own {
			switch as, err := is(tx, key(h.Tenant, w.Key), w, now); {
			case err != nil:
				return err, nil
			case !as:
				return fmt.Errorf("write to the store: %w", shardkit.ErrChanged), nil
			}
		}
		b := tx.Bucket(itemBucket)
		for _, w := range own {
			k := key(h.Tenant, w.Key)
			if w.Delete {
				err = b.Delete(k)
			} else {
				err = b.Put(k, w.Value)
			}
			if err == nil {
				err = setEnd(tx, k, w.Expires)
			}
			if err != nil {
				return nil, err
			}
			s.pages.Touched(tx, 1)
		}
		return nil, nil
	})
}

// do has a change made with the next group.
func (s *Items) do(ctx context.Context, apply func(*bbolt.Tx) (refused, err error)) error {
	w := write{ctx, apply, make(chan error, 1)}
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

// Get returns an item's value; found is false when there is none.
func (s *Items) Get(ctx context.Context, tenant, sk string) (value []byte, found bool, err error) {
	if err := checkTenant(tenant); err != nil {
		return nil, false, err
	}
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	err = s.db.View(func(tx *bbolt.Tx) error {
		k := key(tenant, sk)
		if v := tx.Bucket(itemBucket).Get(k); v != nil {
			if gone, err := over(tx, k, time.Now().Unix()); err != nil || gone {
				return err
			}
			if len(v) > maxValue {
				return fmt.Errorf("%w: an item has %d bytes", boltfile.ErrDamaged, len(v))
			}
			value, found = append([]byte{}, v...), true
		}
		return nil
	})
	return value, found, err
}

// List returns up to MaxList of the tenant's keys that begin with the prefix and come after the given
// one, in byte order.
func (s *Items) List(ctx context.Context, tenant, prefix, after string) ([]string, error) {
	if err := checkTenant(tenant); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	keys := []string{}
	owner, first, last := key(tenant, ""), key(tenant, prefix), key(tenant, max(prefix, after))
	now := time.Now().Unix()
	err := s.db.View(func(tx *bbolt.Tx) error {
		cursor := tx.Bucket(itemBucket).Cursor()
		for k, _ := cursor.Seek(last); bytes.HasPrefix(k, first) && len(keys) < MaxList; k, _ = cursor.Next() {
			gone, err := over(tx, k, now)
			if err != nil {
				return err
			}
			if sk := string(k[len(owner):]); sk > after && !gone {
				keys = append(keys, sk)
			}
		}
		return nil
	})
	return keys, err
}

func checkTenant(tenant string) error {
	if !directory.ValidTenant(tenant) {
		return fmt.Errorf("%w: a tenant id of %d bytes: want 1 to 128 of UTF-8", ErrInvalid, len(tenant))
	}
	return nil
}

// key is the length of owner, owner and rest: no two pairs have one key, and what is of one owner lies
// together, in the order of the rest.
func key(owner, rest string) []byte {
	k := binary.AppendUvarint(make([]byte, 0, len(owner)+len(rest)+2), uint64(len(owner)))
	return append(append(k, owner...), rest...)
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

// commitGroup writes a group by as few transactions as hold it.
func (s *Items) commitGroup(group []write) {
	for len(group) > 0 {
		group = group[s.commitSome(group):]
	}
}

// commitSome makes the first changes of a group, as many as one transaction holds, and returns their number.
func (s *Items) commitSome(group []write) (made int) {
	refused := make([]error, len(group))
	err := s.db.Update(func(tx *bbolt.Tx) error {
		for i, w := range group {
			if boltpages.Full(tx) {
				break
			}
			made++
			// Nobody waits any more, and another write may have been acknowledged since.
			if refused[i] = w.ctx.Err(); refused[i] != nil {
				continue
			}
			var err error
			if refused[i], err = w.apply(tx); err != nil {
				return err
			}
		}
		return s.sweep(tx, time.Now().Unix(), sweepBase+sweepEach*made)
	})
	if err != nil && made == 0 { // no transaction began, and none will for those that wait
		made = len(group)
	}
	for i, w := range group[:made] {
		if err != nil && refused[i] == nil {
			refused[i] = fmt.Errorf("write to the store: %w", err)
		}
		w.done <- refused[i]
	}
	return made
}

// HoldsAny says whether any shard holds anybody.
func (s *Items) HoldsAny(ctx context.Context) (any bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	err = s.db.View(func(tx *bbolt.Tx) error {
		first, _ := tx.Bucket(holdsBucket).Cursor().First()
		any = first != nil
		return nil
	})
	return any, err
}

// Held says whether the shard holds the tenant, as Holds does.
func (s *Items) Held(ctx context.Context, cell, shard, tenant string) (directory.Holding, bool, error) {
	return s.Holds().Held(ctx, cell, shard, tenant)
}
