package boltdir

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
)

func open(t testing.TB, path string) *Dir {
	t.Helper()
	d, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func file(t testing.TB) string { return filepath.Join(t.TempDir(), "directory.db") }

func TestContract(t *testing.T) {
	directorytest.Home(t, func(t *testing.T) directory.Home { return open(t, file(t)) })
}

func batch(part string) directory.Batch {
	return directory.Batch{Operation: "op", Ops: []directory.Op{directory.Put(directory.Key{Part: part, Sort: "ENTRY"}, 0, []byte(`{}`), "i")}}
}

func TestSurvivesReopening(t *testing.T) {
	path := file(t)
	d := open(t, path)
	if err := d.Write(t.Context(), batch("acme")); err != nil {
		t.Fatal(err)
	}
	k := directory.Key{Part: "acme", Sort: "ENTRY"}
	want, err := d.Read(t.Context(), directory.Strong, k)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Write(t.Context(), batch("late")); !errors.Is(err, errClosed) {
		t.Errorf("write after close: %v, want %q", err, errClosed)
	}
	got, err := open(t, path).Read(t.Context(), directory.Strong, k)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" || got[0].Version != 1 {
		t.Errorf("after reopening (-want +got):\n%s", diff)
	}
}

func TestFileIsItsOwnersOnly(t *testing.T) {
	path := file(t)
	open(t, path)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode %o, want 600", got)
	}
}

func TestSecondOpenIsRefused(t *testing.T) {
	path := file(t)
	open(t, path)
	if d, err := Create(path); err == nil {
		d.Close()
		t.Error("two have the file open")
	}
}

func TestOpenRefusesAnotherFile(t *testing.T) {
	path := file(t)
	if err := os.WriteFile(path, []byte("tenant,load\nacme,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if d, err := Create(path); err == nil {
		d.Close()
		t.Error("a CSV file was opened as a directory")
	}
}

// Versioned: a file of another layout is refused and not written to.
func TestVersioned(t *testing.T) {
	for name, c := range map[string]struct {
		fill func(*bbolt.Tx) error
		want string
	}{
		"newer":   {meta("3"), "newer version"},
		"older":   {meta("1"), "no longer read"},
		"damaged": {meta("two"), "damaged"},
		"first": {func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucket(oldBucket)
			return err
		}, "no longer read"},
	} {
		path := file(t)
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Update(c.fill), db.Close()); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Create(path)
		if err == nil {
			d.Close()
			t.Errorf("%s: opened", name)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || errors.Is(err, directory.ErrNewer) != (name == "newer") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: the file was written to, %v", name, err)
		}
	}
}

func meta(layout string) func(*bbolt.Tx) error {
	return func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket(metaBucket)
		if err != nil {
			return err
		}
		return b.Put(layoutKey, []byte(layout))
	}
}

// Shared: batches that wait together are written by one transaction, each decided by itself.
func TestShared(t *testing.T) {
	d := open(t, file(t))
	all := []*pending{}
	for _, part := range []string{"a", "b", "a", "c"} {
		all = append(all, &pending{ctx: t.Context(), batch: batch(part), done: make(chan struct{})})
	}
	txs := func() (n int) {
		_ = d.db.View(func(tx *bbolt.Tx) error { n = tx.ID(); return nil })
		return n
	}
	first := txs()
	d.writer.commit(all)
	if got := txs() - first; got != 1 {
		t.Errorf("%d transactions, want 1", got)
	}
	for i, p := range all {
		conflict := (*directory.Conflict)(nil)
		if lost := errors.As(p.err, &conflict); lost != (i == 2) {
			t.Errorf("batch %d: %v", i, p.err)
		}
	}
	// A transaction of conflicts alone costs no write.
	first = txs()
	again := &pending{ctx: t.Context(), batch: batch("a"), done: make(chan struct{})}
	d.writer.commit([]*pending{again})
	if got := txs() - first; got != 0 {
		t.Errorf("a conflict took %d transactions, want 0", got)
	}
}

func TestCloseDuringWrites(t *testing.T) {
	path := file(t)
	d := open(t, path)
	var mu sync.Mutex
	var acknowledged []string
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := 0; ; i++ {
				part := fmt.Sprintf("%d-%d", w, i)
				if err := d.Write(t.Context(), batch(part)); err != nil {
					if !errors.Is(err, errClosed) {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				acknowledged = append(acknowledged, part)
				mu.Unlock()
			}
		})
	}
	for more := true; more; {
		mu.Lock()
		more = len(acknowledged) < 100
		mu.Unlock()
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	d = open(t, path)
	for _, part := range acknowledged {
		records, err := d.Read(t.Context(), directory.Strong, directory.Key{Part: part, Sort: "ENTRY"})
		if err != nil || records[0].Version != 1 {
			t.Fatalf("%s was acknowledged and is lost, %v", part, err)
		}
	}
}

func TestDamagedRecordIsAnError(t *testing.T) {
	d := open(t, file(t))
	if err := d.Write(t.Context(), batch("acme")); err != nil {
		t.Fatal(err)
	}
	k := directory.Key{Part: "acme", Sort: "ENTRY"}
	for _, damaged := range [][]byte{{}, {0}, {1}, {1, 9, 'o'}, {1, 1, 'o', 0, 0, 200}, {0xff}} {
		err := d.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(recordsBucket("ENTRY")).Put(key(k), damaged) })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Read(t.Context(), directory.Strong, k); err == nil {
			t.Errorf("% x: read", damaged)
		}
		if err := d.Write(t.Context(), batch("acme")); err == nil || errors.As(err, new(*directory.Conflict)) {
			t.Errorf("% x: write: %v", damaged, err)
		}
		if _, err := d.List(t.Context(), directory.Range{Family: "ENTRY"}, directory.Key{}, 1); err == nil {
			t.Errorf("% x: left out of a listing", damaged)
		}
	}
}

// The order of keys is that of parts, then of what follows the family, and a key reads back as it was.
func TestKeys(t *testing.T) {
	text := rapid.StringOfN(rapid.RuneFrom([]rune{0, 1, 'a', 'b', 0xff, '\uffff'}), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) directory.Key {
			return directory.Key{Part: text.Draw(t, label+" part"), Sort: "LOG#" + text.Draw(t, label+" sort")}
		}
		a, b := draw("a"), draw("b")
		want := slices.Compare([]string{a.Part, a.Sort}, []string{b.Part, b.Sort})
		if got := bytes.Compare(key(a), key(b)); got != want {
			t.Errorf("keys compare %d, want %d", got, want)
		}
		if got, err := unkey("LOG", key(a)); err != nil || got != a {
			t.Errorf("read back %v, %v", got, err)
		}
	})
}

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := directory.Record{
			Key: directory.Key{Part: "p", Sort: "s"}, Version: rapid.Uint64Min(1).Draw(t, "version"),
			Operation: rapid.String().Draw(t, "operation"), Body: rapid.SliceOf(rapid.Byte()).Draw(t, "body"),
			Index:    [2]string{rapid.String().Draw(t, "first"), rapid.String().Draw(t, "second")},
			Counters: rapid.MapOf(rapid.String(), rapid.Int64()).Draw(t, "counters"),
		}
		got, err := decode(want.Key, encode(want))
		if len(want.Counters) == 0 {
			want.Counters = nil
		}
		if err != nil || !bytes.Equal(want.Body, got.Body) {
			t.Fatalf("body %q, %v", got.Body, err)
		}
		want.Body, got.Body = nil, nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(directory.Record{Version: 3, Operation: "op", Counters: map[string]int64{"n": 7}, Body: []byte(`{}`)}))
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := decode(directory.Key{Part: "p", Sort: "s"}, value)
		if err == nil && r.Version == 0 {
			t.Error("a record of version 0")
		}
	})
}

func TestFeedIsTrimmed(t *testing.T) {
	d := open(t, file(t))
	k := directory.Key{Part: "acme", Sort: "ENTRY"}
	if err := d.Write(t.Context(), batch("acme")); err != nil {
		t.Fatal(err)
	}
	const changes = feedLength + 2*feedTrim
	err := d.db.Update(func(tx *bbolt.Tx) error {
		for range changes {
			if err := announce(tx, k); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Changes(t.Context(), "1", 10); !errors.Is(err, directory.ErrCursor) {
		t.Errorf("an old cursor: %v, want %q", err, directory.ErrCursor)
	}
	records, _, err := d.Changes(t.Context(), cursorOf(changes+1-feedLength), changes)
	if err != nil || len(records) != feedLength {
		t.Errorf("%d changes are kept, %v; want %d", len(records), err, feedLength)
	}
}
