package boltitems

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"cellwall.dev/cellwall/internal/boltfile"
	"cellwall.dev/cellwall/internal/directory"
)

// holdsBucket has an item for each tenant that a shard holds: cell, shard, tenant → epoch, 8 bytes.
var holdsBucket = []byte("holds")

// leftBucket has an item for each tenant that a shard let go: cell, shard, tenant → epoch up to which, 8 bytes.
// It lies apart, so that listings of whom a shard holds do not come past it.
var leftBucket = []byte("left")

// Holds is which shards hold which tenants, in the same file as the items. It is a
// directory.ManyHolder, and takes many holdings in one transaction.
type Holds struct{ items *Items }

var (
	_ directory.ManyHolder = (*Holds)(nil)
	_ directory.Forgetter  = (*Holds)(nil)
)

// Holds returns the holdings that lie beside the items. They are of use until Close.
func (s *Items) Holds() *Holds { return &Holds{s} }

// maxHold is how many holdings are one change: together they are on that many pages at most, or about.
const maxHold = 256

// shardKey begins the keys of one shard. No two pairs of cell and shard have one.
func shardKey(cell, shard string) []byte {
	k := binary.AppendUvarint(nil, uint64(len(cell)))
	k = binary.AppendUvarint(append(k, cell...), uint64(len(shard)))
	return append(k, shard...)
}

func holdKey(cell, shard, tenant string) []byte { return append(shardKey(cell, shard), tenant...) }

// Hold implements directory.Holder.
func (h *Holds) Hold(ctx context.Context, cell, shard string, one directory.Holding) error {
	return h.HoldMany(ctx, cell, shard, []directory.Holding{one})
}

// HoldMany is Hold for each of many, by few transactions.
func (h *Holds) HoldMany(ctx context.Context, cell, shard string, many []directory.Holding) error {
	for _, one := range many {
		if err := checkHold(cell, shard, one.Tenant); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(slices.Clone(many), maxHold) { // the caller may go on while the group waits
		if err := h.write(ctx, func(b *bbolt.Bucket) error { return h.raise(b, cell, shard, some) }); err != nil {
			return err
		}
	}
	return nil
}

func (h *Holds) raise(b *bbolt.Bucket, cell, shard string, some []directory.Holding) error {
	for _, one := range some {
		k := holdKey(cell, shard, one.Tenant)
		epoch, held, err := heldIn(b.Tx(), k)
		if err != nil {
			return err
		}
		if held && epoch >= one.Epoch {
			continue
		}
		if !held {
			// A stay that is over does not begin again, however late the word of its beginning comes.
			left, gone, err := epochIn(b.Tx().Bucket(leftBucket), k)
			if err != nil {
				return err
			}
			if gone && left >= one.Epoch {
				continue
			}
			if err := b.Tx().Bucket(leftBucket).Delete(k); err != nil {
				return err
			}
		}
		if err := b.Put(k, binary.BigEndian.AppendUint64(nil, one.Epoch)); err != nil {
			return err
		}
		h.items.pages.Touched(b.Tx(), 1)
	}
	return nil
}

// Release implements directory.Holder.
func (h *Holds) Release(ctx context.Context, cell, shard string, one directory.Holding) error {
	return h.end(ctx, cell, shard, one, func(left *bbolt.Bucket, k []byte) error {
		epoch, gone, err := epochIn(left, k)
		if err != nil || gone && epoch >= one.Epoch {
			return err
		}
		h.items.pages.Touched(left.Tx(), 1)
		return left.Put(k, binary.BigEndian.AppendUint64(nil, one.Epoch))
	})
}

// Forget implements directory.Forgetter.
func (h *Holds) Forget(ctx context.Context, cell, shard string, one directory.Holding) error {
	return h.end(ctx, cell, shard, one, func(left *bbolt.Bucket, k []byte) error {
		epoch, _, err := epochIn(left, k)
		if err != nil || epoch > one.Epoch {
			return err
		}
		return left.Delete(k)
	})
}

// end ends a stay, unless it began later, and does something about what is left of it in the same
// transaction.
func (h *Holds) end(ctx context.Context, cell, shard string, one directory.Holding, leave func(left *bbolt.Bucket, k []byte) error) error {
	if err := checkHold(cell, shard, one.Tenant); err != nil {
		return err
	}
	return h.write(ctx, func(b *bbolt.Bucket) error {
		k := holdKey(cell, shard, one.Tenant)
		epoch, held, err := heldIn(b.Tx(), k)
		if err != nil || held && epoch > one.Epoch {
			return err
		}
		if err := b.Delete(k); err != nil {
			return err
		}
		return leave(b.Tx().Bucket(leftBucket), k)
	})
}

// write shares its transaction, and so its fsync, with writes at the same time. An error of the change is
// that of this one alone: what it did before is written, and may be, of holdings.
func (h *Holds) write(ctx context.Context, change func(*bbolt.Bucket) error) error {
	err := h.items.do(ctx, func(tx *bbolt.Tx) (refused, err error) { return change(tx.Bucket(holdsBucket)), nil })
	if err != nil {
		return fmt.Errorf("write who holds a tenant: %w", err)
	}
	return nil
}

// Held implements directory.Holder.
func (h *Holds) Held(ctx context.Context, cell, shard, tenant string) (one directory.Holding, ok bool, err error) {
	if err := errors.Join(ctx.Err(), checkHold(cell, shard, tenant)); err != nil {
		return directory.Holding{}, false, err
	}
	one.Tenant = tenant
	err = h.items.db.View(func(tx *bbolt.Tx) (err error) {
		one.Epoch, ok, err = heldIn(tx, holdKey(cell, shard, tenant))
		return err
	})
	return one, ok, err
}

// Holdings implements directory.Holder. Its order is that of the tenants' bytes.
func (h *Holds) Holdings(ctx context.Context, cell, shard, after string, limit int) ([]directory.Holding, error) {
	if limit < 1 {
		return nil, fmt.Errorf("list the tenants of shard %s/%s: limit %d: want at least 1", cell, shard, limit)
	}
	if err := errors.Join(ctx.Err(), checkHold(cell, shard, "-")); err != nil {
		return nil, err
	}
	all := []directory.Holding{}
	prefix, last := string(shardKey(cell, shard)), string(holdKey(cell, shard, after))
	err := h.items.db.View(func(tx *bbolt.Tx) error {
		cursor := tx.Bucket(holdsBucket).Cursor()
		key, value := cursor.Seek([]byte(last))
		if string(key) == last {
			key, value = cursor.Next()
		}
		for ; len(key) > len(prefix) && string(key[:len(prefix)]) == prefix && len(all) < limit; key, value = cursor.Next() {
			epoch, err := decodeEpoch(value)
			if err != nil {
				return err
			}
			all = append(all, directory.Holding{Tenant: string(key[len(prefix):]), Epoch: epoch})
			h.items.pages.Touched(tx, 1)
		}
		return nil
	})
	return all, err
}

func checkHold(cell, shard, tenant string) error {
	if cell == "" || shard == "" || !directory.ValidTenant(tenant) {
		return fmt.Errorf("%w: cell %q, shard %q, a tenant of %d bytes: want a cell, a shard and 1 to 128 bytes of UTF-8", ErrInvalid, cell, shard, len(tenant))
	}
	return nil
}

// heldIn is the holding under the key, in a transaction.
func heldIn(tx *bbolt.Tx, at []byte) (epoch uint64, held bool, err error) {
	return epochIn(tx.Bucket(holdsBucket), at)
}

func epochIn(b *bbolt.Bucket, at []byte) (epoch uint64, found bool, err error) {
	value := b.Get(at)
	if value == nil {
		return 0, false, nil
	}
	epoch, err = decodeEpoch(value)
	return epoch, err == nil, err
}

func decodeEpoch(value []byte) (uint64, error) {
	if len(value) != 8 {
		return 0, fmt.Errorf("%w: a holding has %d bytes, not 8", boltfile.ErrDamaged, len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}
