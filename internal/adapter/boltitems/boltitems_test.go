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

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
)

func open(t *testing.T, path string) *Items {
	t.Helper()
	s, err := Open(path)
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

func put(t *testing.T, s *Items, pk, sk, value string) {
	t.Helper()
	if err := s.Put(t.Context(), pk, sk, []byte(value)); err != nil {
		t.Fatalf("put %q, %q: %v", pk, sk, err)
	}
}

func TestPutGet(t *testing.T) {
	s := opened(t)
	// The second and third pair would be one if keys were joined without the length.
	items := [][3]string{{"acme", "1", "a"}, {"acm", "e1", "b"}, {"acme1", "x", ""}, {"a\x00b", "ä", "\x00\xff"}}
	for _, i := range items {
		put(t, s, i[0], i[1], "old")
		put(t, s, i[0], i[1], i[2])
	}
	for _, i := range items {
		got, err := s.Get(t.Context(), i[0], i[1])
		if err != nil || string(got) != i[2] || got == nil {
			t.Errorf("get %q, %q: %q, %v; want %q", i[0], i[1], got, err, i[2])
		}
	}
	if _, err := s.Get(t.Context(), "acme", "2"); !errors.Is(err, ErrNotFound) {
		t.Errorf("an item that is not there: %v", err)
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
		page, err := s.List(t.Context(), "acme", after)
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
	if page, err := s.List(t.Context(), "nobody", ""); err != nil || len(page) != 0 || page == nil {
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
			got, err := s.Get(t.Context(), fmt.Sprint("t", w), fmt.Sprint(i))
			if want := fmt.Sprint(w, "/", i); err != nil || string(got) != want {
				t.Fatalf("item %d of %d: %q, %v; want %q", i, w, got, err, want)
			}
		}
	}
}

func TestLimits(t *testing.T) {
	s := opened(t)
	long := func(n int) string { return strings.Repeat("x", n) }
	put(t, s, long(MaxPartitionKey), long(MaxSortKey), long(MaxValue))
	for name, err := range map[string]error{
		"no partition key":   s.Put(t.Context(), "", "1", nil),
		"no sort key":        s.Put(t.Context(), "a", "", nil),
		"long partition key": s.Put(t.Context(), long(MaxPartitionKey+1), "1", nil),
		"long sort key":      s.Put(t.Context(), "a", long(MaxSortKey+1), nil),
		"long value":         s.Put(t.Context(), "a", "1", make([]byte, MaxValue+1)),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want %q", name, err, ErrInvalid)
		}
	}
	if _, err := s.List(t.Context(), "", ""); !errors.Is(err, ErrInvalid) {
		t.Errorf("list without an owner: %v", err)
	}
}

func TestWriteAfterCloseAndWithCancelledContext(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "store.db"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Get(ctx, "a", "1"); !errors.Is(err, context.Canceled) {
		t.Errorf("get: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "a", "1", nil); !errors.Is(err, errClosed) {
		t.Errorf("put after close: %v", err)
	}
}

func TestGroupsShareACommit(t *testing.T) {
	s := opened(t)
	pages := func() int64 {
		stats := s.db.Stats()
		return stats.TxStats.GetWrite()
	}
	before := pages()
	const writers = 200
	var wg sync.WaitGroup
	start := make(chan struct{})
	for w := range writers {
		wg.Go(func() {
			<-start
			put(t, s, "acme", fmt.Sprint(w), "v")
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
	s, err := Open(filepath.Join(b.TempDir(), "store.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	value := make([]byte, 256)
	for _, writers := range []int{1, 32} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			b.SetParallelism(writers)
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if err := s.Put(b.Context(), "acme", fmt.Sprint(i), value); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

func TestHolderContract(t *testing.T) {
	directorytest.Holder(t, func(t *testing.T) directory.Holder {
		s, err := Open(filepath.Join(t.TempDir(), "items.db"))
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
	s, err := Open(path)
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
