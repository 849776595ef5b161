package boltitems

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
	"cellwall.dev/cellwall/lambda/shardkit"
)

func open(t *testing.T, path string) *Items {
	t.Helper()
	s, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func opened(t *testing.T) *Items {
	t.Helper()
	s := open(t, filepath.Join(t.TempDir(), "store.db"))
	t.Cleanup(func() { s.Close() })
	return s
}

// put writes an item of a tenant whom the shard then holds.
func put(t *testing.T, s *Items, tenant, sk, value string) {
	t.Helper()
	if err := s.Holds().Hold(t.Context(), "eu-1", "s01", directory.Holding{Tenant: tenant, Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	if err := s.put(t.Context(), tenant, sk, value); err != nil {
		t.Fatalf("put %q, %q: %v", tenant, sk, err)
	}
}

func (s *Items) put(ctx context.Context, tenant, sk, value string) error {
	return s.Write(ctx, "eu-1", "s01", directory.Holding{Tenant: tenant, Epoch: 1}, shardkit.Write{Key: sk, Value: []byte(value)})
}

// TestAShardHoldsForItself: what one shard holds, another does not, nor one of that name in another cell.
func TestAShardHoldsForItself(t *testing.T) {
	s := opened(t)
	put(t, s, "acme", "1", "a")
	for _, at := range [][2]string{{"eu-1", "s02"}, {"eu-2", "s01"}, {"eu-1s", "01"}, {"eu", "-1s01"}} {
		err := s.Write(t.Context(), at[0], at[1], directory.Holding{Tenant: "acme", Epoch: 9}, shardkit.Write{Key: "1", Delete: true})
		if !errors.Is(err, shardkit.ErrNotHeld) {
			t.Errorf("shard %s/%s writes: %v", at[0], at[1], err)
		}
	}
	if _, found, err := s.Get(t.Context(), "acme", "1"); !found || err != nil {
		t.Errorf("found %t, %v", found, err)
	}
}

func TestListIsOfOneOwnerInOrderAndInPages(t *testing.T) {
	s := opened(t)
	var wg sync.WaitGroup
	var want []string
	for i := range MaxList + 5 {
		sk := fmt.Sprintf("%05d", i)
		want = append(want, sk)
		wg.Go(func() { put(t, s, "acme", sk, "v") })
	}
	wg.Wait()
	put(t, s, "acmf", "1", "of the next owner")
	put(t, s, "acm", "e", "of the owner before")

	var got []string
	for after := ""; ; after = got[len(got)-1] {
		page, err := s.List(t.Context(), "acme", "", after)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > MaxList {
			t.Fatalf("a page of %d", len(page))
		}
		if len(page) == 0 {
			break
		}
		got = append(got, page...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
	if page, err := s.List(t.Context(), "nobody", "", ""); err != nil || len(page) != 0 || page == nil {
		t.Errorf("list of nobody: %#v, %v", page, err)
	}
}

func TestAcknowledgedWritesSurviveReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path)
	const writers, each = 32, 20
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				put(t, s, fmt.Sprint("t", w), fmt.Sprint(i), fmt.Sprint(w, "/", i))
			}
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	defer s.Close()
	for w := range writers {
		for i := range each {
			got, _, err := s.Get(t.Context(), fmt.Sprint("t", w), fmt.Sprint(i))
			if want := fmt.Sprint(w, "/", i); err != nil || string(got) != want {
				t.Fatalf("item %d of %d: %q, %v; want %q", i, w, got, err, want)
			}
		}
	}
}

func TestWhatIsNotValid(t *testing.T) {
	s := opened(t)
	long := strings.Repeat("x", 129)
	for name, err := range map[string]error{
		"no tenant":   s.put(t.Context(), "", "1", ""),
		"long tenant": s.put(t.Context(), long, "1", ""),
		"no cell":     s.Write(t.Context(), "", "s01", directory.Holding{Tenant: "a"}, shardkit.Write{Key: "1"}),
		"no shard":    s.Write(t.Context(), "eu-1", "", directory.Holding{Tenant: "a"}, shardkit.Write{Key: "1"}),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want %q", name, err, ErrInvalid)
		}
	}
	if _, err := s.List(t.Context(), "", "", ""); !errors.Is(err, ErrInvalid) {
		t.Errorf("list without an owner: %v", err)
	}
	if _, _, err := s.Get(t.Context(), long, "1"); !errors.Is(err, ErrInvalid) {
		t.Errorf("get of a tenant that cannot be: %v", err)
	}
}

// TestADamagedHoldingStopsNobodyElse: the others of its group are written.
func TestADamagedHoldingStopsNobodyElse(t *testing.T) {
	s := opened(t)
	put(t, s, "acme", "1", "a")
	put(t, s, "beta", "1", "a")
	err := s.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(holdsBucket).Put(holdKey("eu-1", "s01", "acme"), []byte("short"))
	})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if err := s.put(t.Context(), "acme", fmt.Sprint(i), "b"); err == nil || errors.Is(err, shardkit.ErrNotHeld) {
				t.Errorf("damaged: %v", err)
			}
		})
		wg.Go(func() {
			if err := s.put(t.Context(), "beta", fmt.Sprint(i), "b"); err != nil {
				t.Errorf("sound: %v", err)
			}
		})
	}
	wg.Wait()
}

func TestWriteAfterCloseAndWithCancelledContext(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "store.db"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.Get(ctx, "a", "1"); !errors.Is(err, context.Canceled) {
		t.Errorf("get: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.put(t.Context(), "a", "1", ""); !errors.Is(err, errClosed) {
		t.Errorf("put after close: %v", err)
	}
}

func TestGroupsShareACommit(t *testing.T) {
	s := opened(t)
	put(t, s, "acme", "first", "v") // and have it held
	pages := func() int64 {
		stats := s.db.Bolt().Stats()
		return stats.TxStats.GetWrite()
	}
	before := pages()
	const writers = 200
	var wg sync.WaitGroup
	start := make(chan struct{})
	for w := range writers {
		wg.Go(func() {
			<-start
			if err := s.put(t.Context(), "acme", fmt.Sprint(w), "v"); err != nil {
				t.Error(err)
			}
		})
	}
	close(start)
	wg.Wait()
	// One commit writes its pages and then the meta page: without groups, at least 2 × writers.
	if wrote := pages() - before; wrote >= 2*writers {
		t.Errorf("%d page writes for %d items: every item was committed alone", wrote, writers)
	}
}

func BenchmarkPut(b *testing.B) {
	s, err := Create(filepath.Join(b.TempDir(), "store.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	value := strings.Repeat("v", 256)
	if err := s.Holds().Hold(b.Context(), "eu-1", "s01", directory.Holding{Tenant: "acme", Epoch: 1}); err != nil {
		b.Fatal(err)
	}
	for _, writers := range []int{1, 32} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			b.SetParallelism(writers)
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if err := s.put(b.Context(), "acme", fmt.Sprint(i), value); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// TestAWriteThatNobodyWaitsForIsLeftOut: between its hand-over and the transaction its time may end. The
// others of its group are written.
func TestAWriteThatNobodyWaitsForIsLeftOut(t *testing.T) {
	s := opened(t)
	put(t, s, "acme", "1", "new")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	set := func(ctx context.Context, sk, value string) write {
		return write{ctx, func(tx *bbolt.Tx) (refused, err error) {
			return nil, tx.Bucket(itemBucket).Put(key("acme", sk), []byte(value))
		}, make(chan error, 1)}
	}
	late, other := set(over, "1", "late"), set(t.Context(), "2", "other")
	s.commitGroup([]write{late, other})
	if err := <-late.done; !errors.Is(err, context.Canceled) {
		t.Errorf("the late write is reported as %v", err)
	}
	if err := <-other.done; err != nil {
		t.Errorf("the other write: %v", err)
	}
	for sk, want := range map[string]string{"1": "new", "2": "other"} {
		if got, _, err := s.Get(t.Context(), "acme", sk); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v; want %q", sk, got, err, want)
		}
	}
}

func TestHolderContract(t *testing.T) {
	directorytest.Holder(t, func(t *testing.T) directory.Holder {
		s, err := Create(filepath.Join(t.TempDir(), "items.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s.Holds()
	})
}

// TestHoldManySkipsNone gives holdings of which some are there already, higher.
func TestHoldManySkipsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "items.db")
	s, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	all := []directory.Holding{{Tenant: "a", Epoch: 1}, {Tenant: "b", Epoch: 1}, {Tenant: "c", Epoch: 1}}
	if err := s.Holds().Hold(t.Context(), "eu-1", "s01", directory.Holding{Tenant: "a", Epoch: 9}); err != nil {
		t.Fatal(err)
	}
	if err := s.Holds().HoldMany(t.Context(), "eu-1", "s01", all); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(path); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all[0].Epoch = 9
	got, err := s.Holds().Holdings(t.Context(), "eu-1", "s01", "", 10)
	if err != nil || !slices.Equal(got, all) {
		t.Errorf("after reopening: %v, %v; want %v", got, err, all)
	}
}
