package boltdir

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"testing"

	"cellwall.dev/cellwall/internal/boltfile"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
)

func shared(t testing.TB, path string) *Shared {
	t.Helper()
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Share(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSharedContract(t *testing.T) {
	directorytest.Records(t, func(t *testing.T) directory.Home { return shared(t, file(t)) })
}

// Two that share a file write the same counter, as two processes would.
func TestSharedByTwo(t *testing.T) {
	path := file(t)
	one := shared(t, path)
	two, err := Share(path)
	if err != nil {
		t.Fatal(err)
	}
	k := directory.Key{Part: "p", Sort: "N"}
	if err := one.Write(t.Context(), directory.Batch{Operation: "op", Ops: []directory.Op{directory.Put(k, 0, []byte(`1`))}}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, s := range []*Shared{one, two} {
		wg.Go(func() {
			for range 20 {
				add := directory.Require(k, 1, directory.Delta{Counter: "n", By: 1, Max: 100})
				for err := directory.ErrBusy; errors.Is(err, directory.ErrBusy); {
					if err = s.Write(t.Context(), directory.Batch{Operation: "op", Ops: []directory.Op{add}}); err != nil && !errors.Is(err, directory.ErrBusy) {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	got, err := one.Read(t.Context(), directory.Strong, k)
	if err != nil || got[0].Counters["n"] != 40 {
		t.Errorf("%+v, %v; want n = 40", got, err)
	}
}

func TestSharedWhileAnotherHasIt(t *testing.T) {
	path := file(t)
	s := shared(t, path)
	d := open(t, path)
	k := directory.Key{Part: "p", Sort: "N"}
	_, err := s.Read(t.Context(), directory.Strong, k)
	if !errors.Is(err, directory.ErrBusy) || !errors.Is(err, boltfile.ErrLocked) {
		t.Errorf("%v, want %v and %v", err, directory.ErrBusy, boltfile.ErrLocked)
	}
	if _, err := Share(path); !errors.Is(err, boltfile.ErrLocked) {
		t.Errorf("%v, want %v", err, boltfile.ErrLocked)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(t.Context(), directory.Strong, k); err != nil {
		t.Error(err)
	}
	if _, err := Share(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want %v", err, fs.ErrNotExist)
	}
	s.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Read(ctx, directory.Strong, k); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}
