package boltitems

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"cellwall.dev/cellwall/internal/boltfile"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/lambda/shardkit"
	"cellwall.dev/cellwall/lambda/shardkit/shardkittest"
)

// ofShard is the store as shard s01 of eu-1 sees it.
type ofShard struct{ *Items }

func (s ofShard) Held(ctx context.Context, tenant string) (uint64, bool, error) {
	h, held, err := s.Items.Held(ctx, "eu-1", "s01", tenant)
	return h.Epoch, held, err
}

func (s ofShard) List(ctx context.Context, tenant, prefix string) (all []string, err error) {
	for after := ""; ; after = all[len(all)-1] {
		page, err := s.Items.List(ctx, tenant, prefix, after)
		if err != nil || len(page) == 0 {
			return all, err
		}
		all = append(all, page...)
	}
}

func (s ofShard) Write(ctx context.Context, tenant string, epoch uint64, writes ...shardkit.Write) error {
	return s.Items.Write(ctx, "eu-1", "s01", directory.Holding{Tenant: tenant, Epoch: epoch}, writes...)
}

func TestContract(t *testing.T) {
	shardkittest.Run(t, func(t *testing.T) shardkittest.Shard {
		s := opened(t)
		return shardkittest.Shard{
			Items: ofShard{s},
			Hold: func(tenant string, epoch uint64) error {
				return s.Holds().Hold(t.Context(), "eu-1", "s01", directory.Holding{Tenant: tenant, Epoch: epoch})
			},
			Release: func(tenant string, epoch uint64) error {
				return s.Holds().Release(t.Context(), "eu-1", "s01", directory.Holding{Tenant: tenant, Epoch: epoch})
			},
		}
	})
}

// count is how many entries a bucket has.
func (s *Items) count(t *testing.T, bucket []byte) (n int) {
	t.Helper()
	if err := s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucket).ForEach(func(_, _ []byte) error { n++; return nil })
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestWhatIsOverIsSwept: each group of writes deletes more than it brings, and nothing else.
func TestWhatIsOverIsSwept(t *testing.T) {
	s := opened(t)
	put(t, s, "acme", "stays", "x")
	write := func(key string, ends int64) {
		t.Helper()
		if err := (ofShard{s}).Write(t.Context(), "acme", 1, shardkit.Write{Key: key, Expires: ends}); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now().Unix()
	for i := range 100 {
		write(fmt.Sprint("later", i), now+3600)
		write(fmt.Sprint("over", i), now-1)
	}
	put(t, s, "acme", "stays", "y")
	if items, ends, order := s.count(t, itemBucket), s.count(t, endBucket), s.count(t, sweepBucket); items != 101 || ends != 100 || order != 100 {
		t.Errorf("%d items, of which %d expire, %d in order: want 101, 100, 100", items, ends, order)
	}
}

// TestEndsAreConsistent: after whatever writes, the two buckets of ends say the same of the items that are there.
func TestEndsAreConsistent(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := opened(t)
	put(t, s, "acme", "first", "x")
	for range 300 {
		w := shardkit.Write{Key: fmt.Sprint(random.IntN(20))}
		switch random.IntN(4) {
		case 0:
			w.Delete = true
		case 1:
			w.Expires = time.Now().Unix() + 100 + random.Int64N(5)
		case 2:
			w.Expires = 1 + random.Int64N(5)
		}
		if err := (ofShard{s}).Write(t.Context(), "acme", 1, w); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.db.View(func(tx *bbolt.Tx) error {
		n := 0
		err := tx.Bucket(endBucket).ForEach(func(k, _ []byte) error {
			n++
			at, err := endOf(tx, k)
			if err != nil || tx.Bucket(itemBucket).Get(k) == nil || tx.Bucket(sweepBucket).Get(sweepKey(at, k)) == nil {
				t.Errorf("%q ends at %d, %v; there is no such item, or it is in no order", k, at, err)
			}
			return nil
		})
		if order := tx.Bucket(sweepBucket).Stats().KeyN; order != n {
			t.Errorf("%d items expire, %d stand in order", n, order)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestExpiryOutlivesReopening, also in a file of before there was any.
func TestExpiryOutlivesReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path)
	put(t, s, "acme", "stays", "x")
	if err := s.db.Update(func(tx *bbolt.Tx) error {
		return errors.Join(tx.DeleteBucket(endBucket), tx.DeleteBucket(sweepBucket))
	}); err != nil {
		t.Fatal(err)
	}
	reopen := func() {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		var err error
		if s, err = Open(path); err != nil {
			t.Fatal(err)
		}
	}
	reopen()
	for key, ends := range map[string]int64{"over": 1, "later": time.Now().Unix() + 3600} {
		if err := (ofShard{s}).Write(t.Context(), "acme", 1, shardkit.Write{Key: key, Expires: ends}); err != nil {
			t.Fatal(err)
		}
	}
	reopen()
	defer s.Close()
	for key, want := range map[string]bool{"stays": true, "later": true, "over": false} {
		if _, found, err := s.Get(t.Context(), "acme", key); err != nil || found != want {
			t.Errorf("%s: found %t, %v", key, found, err)
		}
	}
}

// TestADamagedEndStopsNobodyElse in the same group, or later.
func TestADamagedEndStopsNobodyElse(t *testing.T) {
	s := opened(t)
	put(t, s, "acme", "a", "x")
	put(t, s, "beta", "a", "x")
	if err := s.db.Update(func(tx *bbolt.Tx) error {
		return errors.Join(tx.Bucket(endBucket).Put(key("acme", "a"), []byte("x")), tx.Bucket(sweepBucket).Put([]byte("x"), nil),
			tx.Bucket(sweepBucket).Put(sweepKey(1, key("beta", "a")), nil)) // which does not expire
	}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Get(t.Context(), "acme", "a"); !errors.Is(err, boltfile.ErrDamaged) {
		t.Errorf("read: %v", err)
	}
	if _, err := s.List(t.Context(), "acme", "", ""); !errors.Is(err, boltfile.ErrDamaged) {
		t.Errorf("listed: %v", err)
	}
	if err := s.put(t.Context(), "acme", "a", "y"); !errors.Is(err, boltfile.ErrDamaged) {
		t.Errorf("written: %v", err)
	}
	if err := s.put(t.Context(), "beta", "b", "y"); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	for key, want := range map[string]string{"a": "x", "b": "y"} {
		if value, _, err := s.Get(t.Context(), "beta", key); err != nil || string(value) != want {
			t.Errorf("another tenant has %q under %s, %v", value, key, err)
		}
	}
}
