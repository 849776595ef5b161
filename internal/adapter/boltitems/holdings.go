package boltitems

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	"cellwall.dev/cellwall/internal/directory"
)

var _ directory.Holder = (*Items)(nil)

// maxName bounds the name of a cell and the id of a shard, in bytes.
const maxName = 64

// Hold implements directory.Holder.
func (s *Items) Hold(ctx context.Context, cell, shard string, h directory.Holding) error {
	at, err := holdingKey(cell, shard, h.Tenant)
	if err != nil {
		return err
	}
	// Most often, when a hold is repeated, it is there, which a read tells without a turn of the disk. It
	// stays true until somebody releases it, and whoever does that comes after.
	if since, held, err := s.held(ctx, at); err != nil || held && since >= h.Epoch {
		return err
	}
	return s.do(ctx, func(tx *bbolt.Tx) (refused, err error) {
		if since, held := heldIn(tx, at); held && since >= h.Epoch {
			return nil, nil
		}
		return nil, tx.Bucket(holdingBucket).Put(at, binary.BigEndian.AppendUint64(nil, h.Epoch))
	})
}

// Release implements directory.Holder.
func (s *Items) Release(ctx context.Context, cell, shard string, h directory.Holding) error {
	at, err := holdingKey(cell, shard, h.Tenant)
	if err != nil {
		return err
	}
	return s.do(ctx, func(tx *bbolt.Tx) (refused, err error) {
		if since, held := heldIn(tx, at); !held || since > h.Epoch {
			return nil, nil
		}
		return nil, tx.Bucket(holdingBucket).Delete(at)
	})
}

// Held implements directory.Holder.
func (s *Items) Held(ctx context.Context, cell, shard, tenant string) (directory.Holding, bool, error) {
	at, err := holdingKey(cell, shard, tenant)
	if err != nil {
		return directory.Holding{}, false, err
	}
	epoch, held, err := s.held(ctx, at)
	if err != nil || !held {
		return directory.Holding{}, false, err
	}
	return directory.Holding{Tenant: tenant, Epoch: epoch}, true, nil
}

func (s *Items) held(ctx context.Context, at []byte) (epoch uint64, held bool, err error) {
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	err = s.db.View(func(tx *bbolt.Tx) error {
		epoch, held = heldIn(tx, at)
		return nil
	})
	return epoch, held, err
}

// Holdings implements directory.Holder.
func (s *Items) Holdings(ctx context.Context, cell, shard, after string, limit int) ([]directory.Holding, error) {
	if limit < 1 {
		return nil, fmt.Errorf("list the tenants of shard %s/%s: limit %d: want at least 1", cell, shard, limit)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	all := []directory.Holding{}
	owner := shardKey(cell, shard)
	last := append(bytes.Clone(owner), after...)
	err := s.db.View(func(tx *bbolt.Tx) error {
		cursor := tx.Bucket(holdingBucket).Cursor()
		for k, v := cursor.Seek(last); bytes.HasPrefix(k, owner) && len(all) < limit; k, v = cursor.Next() {
			if !bytes.Equal(k, last) {
				all = append(all, directory.Holding{Tenant: string(k[len(owner):]), Epoch: binary.BigEndian.Uint64(v)})
			}
		}
		return nil
	})
	return all, err
}

func heldIn(tx *bbolt.Tx, at []byte) (epoch uint64, held bool) {
	v := tx.Bucket(holdingBucket).Get(at)
	if len(v) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(v), true
}

func holdingKey(cell, shard, tenant string) ([]byte, error) {
	if err := checkTenant(tenant); err != nil {
		return nil, err
	}
	if cell == "" || len(cell) > maxName || shard == "" || len(shard) > maxName {
		return nil, fmt.Errorf("%w: shard %q of cell %q: want names of 1 to %d bytes", ErrInvalid, shard, cell, maxName)
	}
	return append(shardKey(cell, shard), tenant...), nil
}

// shardKey begins the keys of a shard's holdings. No shard's is the beginning of another's.
func shardKey(cell, shard string) []byte { return append(key(cell, ""), key(shard, "")...) }
