package directorytest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
)

// Of all who write a note in the place of one version, one succeeds, and may say it again.
func notes(t *testing.T, r rules) {
	none, err := r.ReadNote(t.Context(), "eu-1", "todo")
	if err != nil || none.Version != 0 || none.Body != nil {
		t.Fatalf("%+v, %v", none, err)
	}
	var wait sync.WaitGroup
	var mu sync.Mutex
	var won []string
	for i := range 8 {
		wait.Go(func() {
			body := fmt.Sprintf(`{"writer":%d}`, i)
			for range 2 { // the second time, it is found done
				got, err := r.WriteNote(t.Context(), "eu-1", "todo", none, []byte(body), fmt.Sprint("note ", i))
				switch {
				case err == nil && got.Version == 1 && string(got.Body) == body:
					mu.Lock()
					won = append(won, body)
					mu.Unlock()
				case !errors.Is(err, directory.ErrStale):
					t.Errorf("%+v, %v", got, err)
				}
			}
		})
	}
	wait.Wait()
	if len(won) != 2 || won[0] != won[1] {
		t.Fatalf("written were %q", won)
	}
	first, err := r.ReadNote(t.Context(), "eu-1", "todo")
	if err != nil || first.Version != 1 || string(first.Body) != won[0] {
		t.Errorf("%+v, %v", first, err)
	}
	if second, err := r.WriteNote(t.Context(), "eu-1", "todo", first, []byte(`{}`), "another"); err != nil || second.Version != 2 {
		t.Errorf("%+v, %v", second, err)
	}
	for _, other := range [][2]string{{"us-1", "todo"}, {"eu-1", "other"}} {
		if n, err := r.ReadNote(t.Context(), other[0], other[1]); err != nil || n.Version != 0 {
			t.Errorf("note %v: %+v, %v", other, n, err)
		}
	}
	for _, bad := range [][2]string{{"", "todo"}, {"eu-1", ""}, {"eu-1", "seventeen letters"}} {
		if _, err := r.WriteNote(t.Context(), bad[0], bad[1], directory.Note{}, []byte(`{}`), "bad"); !errors.Is(err, directory.ErrInvalid) {
			t.Errorf("note %q: %v", bad, err)
		}
	}
}

// LetGo ends what a change had held that was given up, and nothing that the entry needs or that may be on its way.
func letGo(t *testing.T, r rules) {
	h := directory.NewMemoryHolder()
	res := directory.NewResidence(r.Directory, h, keys)
	e := entry("acme", directory.Active)
	e.Pins = []string{"s01", "s02"}
	if _, err := res.Enrol(t.Context(), []directory.Entry{e}, change("import")); err != nil {
		t.Fatal(err)
	}
	held := func(want string) {
		t.Helper()
		got := ""
		for i := range 8 {
			shard := fmt.Sprintf("s%02d", i+1)
			if _, ok, err := h.Held(t.Context(), "eu-1", shard, "acme"); err != nil {
				t.Fatal(err)
			} else if ok {
				got += " " + shard
			}
		}
		if got != want {
			t.Errorf("held by%s, want%s", got, want)
		}
	}
	for _, shard := range []string{"s07", "s08"} { // a change to epoch 2, which ends there
		if err := h.Hold(t.Context(), "eu-1", shard, directory.Holding{Tenant: "acme", Epoch: 2}); err != nil {
			t.Fatal(err)
		}
	}
	if err := res.LetGo(t.Context(), "acme", "eu-1", []string{"s07", "s08"}, 1); !errors.Is(err, directory.ErrStale) {
		t.Errorf("while others may be about to succeed: %v", err)
	}
	held(" s01 s02 s07 s08")
	if _, err := res.Pin(t.Context(), "acme", []string{"s02", "s08"}, 0, change("pin")); err != nil {
		t.Fatal(err)
	}
	if err := res.LetGo(t.Context(), "acme", "eu-1", []string{"s07", "s08"}, 1); err != nil {
		t.Error(err)
	}
	held(" s02 s08")
	if err := res.LetGo(t.Context(), "nobody", "eu-1", []string{"s07"}, 1); !errors.Is(err, directory.ErrNotFound) {
		t.Errorf("of nobody: %v", err)
	}
}
