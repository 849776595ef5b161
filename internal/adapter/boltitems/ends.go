package boltitems

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	"cellwall.dev/cellwall/internal/boltfile"
	"cellwall.dev/cellwall/internal/boltpages"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// Items that expire stand in two more buckets, so that those that do not cost nothing.
var (
	endBucket   = []byte("ends")  // tenant, key → Unix seconds, 8 bytes
	sweepBucket = []byte("sweep") // Unix seconds, tenant, key → nothing: the same in the order of time
)

// A group of n writes deletes at most sweepBase + sweepEach·n items that have expired: more than it brings.
const (
	sweepBase = 16
	sweepEach = 2
)

// over says whether the item under the key has expired.
func over(tx *bbolt.Tx, k []byte, now int64) (bool, error) {
	at, err := endOf(tx, k)
	return at > 0 && at <= now, err
}

// endOf is when the item under the key expires, 0 for never.
func endOf(tx *bbolt.Tx, k []byte) (int64, error) {
	v := tx.Bucket(endBucket).Get(k)
	switch {
	case v == nil:
		return 0, nil
	case len(v) != 8:
		return 0, fmt.Errorf("%w: the end of an item has %d bytes, not 8", boltfile.ErrDamaged, len(v))
	}
	return int64(binary.BigEndian.Uint64(v)), nil
}

// setEnd has the item under the key expire at a time, or never when at is 0.
func setEnd(tx *bbolt.Tx, k []byte, at int64) error {
	before, err := endOf(tx, k)
	if err != nil || before == at {
		return err
	}
	if before > 0 {
		if err := tx.Bucket(sweepBucket).Delete(sweepKey(before, k)); err != nil {
			return err
		}
	}
	if at == 0 {
		return tx.Bucket(endBucket).Delete(k)
	}
	if err := tx.Bucket(sweepBucket).Put(sweepKey(at, k), nil); err != nil {
		return err
	}
	return tx.Bucket(endBucket).Put(k, binary.BigEndian.AppendUint64(nil, uint64(at)))
}

func sweepKey(at int64, k []byte) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(k)), uint64(at)), k...)
}

// sweep deletes items that have expired, those that did so first, up to a number.
func (s *Items) sweep(tx *bbolt.Tx, now int64, most int) error {
	b := tx.Bucket(sweepBucket)
	for ; most > 0 && !boltpages.Full(tx); most-- {
		first, _ := b.Cursor().First()
		if first == nil || len(first) > 8 && int64(binary.BigEndian.Uint64(first)) > now {
			return nil
		}
		first = bytes.Clone(first)
		if err := b.Delete(first); err != nil {
			return err
		}
		if len(first) <= 8 { // of a damaged page
			continue
		}
		k := first[8:]
		// Where the two buckets differ, which only damage does, the item's own word counts.
		if gone, err := over(tx, k, now); err != nil || !gone {
			continue
		}
		if err := tx.Bucket(endBucket).Delete(k); err != nil {
			return err
		}
		if err := tx.Bucket(itemBucket).Delete(k); err != nil {
			return err
		}
		s.pages.Touched(tx, 1)
	}
	return nil
}

// is says whether under the key is what the write wants there. Damage is found here, before anything is
// written, so that it stops nobody else in the group.
func is(tx *bbolt.Tx, k []byte, w shardkit.Write, now int64) (bool, error) {
	gone, err := over(tx, k, now)
	if err != nil {
		return false, err
	}
	v := tx.Bucket(itemBucket).Get(k)
	there := v != nil && !gone
	return !(w.Absent && there) && (w.Was == nil || there && bytes.Equal(v, w.Was)), nil
}
