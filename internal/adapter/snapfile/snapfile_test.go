package snapfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/keeper"
	"cellwall.dev/cellwall/internal/snapshot"
)

var _ keeper.Store = File{}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot")
	f := New(path)
	if _, _, err := f.Get(t.Context(), ""); !errors.Is(err, snapshot.ErrNone) {
		t.Errorf("no file: %v", err)
	}
	if err := f.Put(t.Context(), []byte("one"), "x"); !errors.Is(err, snapshot.ErrChanged) {
		t.Errorf("over one that is not there: %v", err)
	}
	if err := f.Put(t.Context(), []byte("one"), ""); err != nil {
		t.Fatal(err)
	}
	data, tag, err := f.Get(t.Context(), "")
	if err != nil || string(data) != "one" || tag == "" {
		t.Fatalf("%q %q %v", data, tag, err)
	}
	if _, _, err := f.Get(t.Context(), tag); !errors.Is(err, snapshot.ErrSame) {
		t.Errorf("the same: %v", err)
	}
	if err := f.Put(t.Context(), []byte("two"), ""); !errors.Is(err, snapshot.ErrChanged) {
		t.Errorf("as if none were there: %v", err)
	}
	if err := f.Put(t.Context(), []byte("two"), tag); err != nil {
		t.Fatal(err)
	}
	if err := f.Put(t.Context(), []byte("three"), tag); !errors.Is(err, snapshot.ErrChanged) {
		t.Errorf("over one that is gone: %v", err)
	}
	if data, second, err := f.Get(t.Context(), tag); err != nil || string(data) != "two" || second == tag {
		t.Errorf("%q %q %v", data, second, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(path + ".next-*"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	large, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer large.Close()
	if err := large.Truncate(snapshot.MaxBytes + 1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Get(t.Context(), ""); !errors.Is(err, snapshot.ErrMalformed) {
		t.Errorf("a file above the bound: %v", err)
	}
}

// Of writers at once one is first, and nobody writes over what he has not read.
func TestWritersAtOnce(t *testing.T) {
	f := New(filepath.Join(t.TempDir(), "snapshot"))
	var mu sync.Mutex
	var wg sync.WaitGroup
	written := 0
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				data, tag, err := f.Get(t.Context(), "")
				if err != nil && !errors.Is(err, snapshot.ErrNone) {
					t.Error(err)
				}
				next := append(data, byte('a'+i))
				switch err := f.Put(t.Context(), next, tag); {
				case err == nil:
					mu.Lock()
					written++
					mu.Unlock()
				case !errors.Is(err, snapshot.ErrChanged):
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if data, _, err := f.Get(t.Context(), ""); err != nil || len(data) != written || written == 0 {
		t.Errorf("%d letters of %d writes, %v", len(data), written, err)
	}
}

func TestKeys(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "keys")
	var made [8]*Keys
	var wg sync.WaitGroup
	for i := range made { // processes that start at once
		wg.Go(func() {
			var err error
			if made[i], err = MakeKeys(path, "eu-1"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, k := range made {
		mac, err := made[0].Sign(t.Context(), []byte("m"))
		if err != nil || k.Verify(t.Context(), []byte("m"), mac) != nil {
			t.Fatalf("two processes have different keys: %v", err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	decimal := strings.Trim(fmt.Sprint([]byte(made[0].mac)[:8]), "[]")
	for _, shown := range []string{fmt.Sprint(made[0]), fmt.Sprintf("%+v %#v %x", made[0], made[0], made[0]), fmt.Sprintf("%+v", *made[0])} {
		if strings.Contains(shown, decimal) || strings.Contains(shown, string(text[64:80])) || strings.Contains(shown, string(text[:16])) {
			t.Errorf("keys are shown: %s", shown)
		}
	}
	for name, content := range map[string]string{"empty": "", "short": "5a5a", "no digits": strings.Repeat("x", 128)} {
		bad := filepath.Join(dir, name)
		if err := os.WriteFile(bad, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := MakeKeys(bad, "eu-1"); err == nil || !strings.Contains(err.Error(), "want 128") || content != "" && strings.Contains(err.Error(), content) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenKeys(filepath.Join(dir, "none"), "eu-1"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// A snapshot of one cell is none of another's, though both cells' keys are in one file.
func TestKeysAreOfTheirCell(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	here, err := MakeKeys(path, "eu-1")
	if err != nil {
		t.Fatal(err)
	}
	there, err := OpenKeys(path, "eu-2")
	if err != nil {
		t.Fatal(err)
	}
	other, err := MakeKeys(path+"2", "eu-1")
	if err != nil {
		t.Fatal(err)
	}
	key, wrapped, err := here.DataKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := here.Unwrap(t.Context(), wrapped); err != nil || !bytes.Equal(got, key) {
		t.Errorf("%v", err)
	}
	for name, k := range map[string]*Keys{"another cell": there, "another file": other} {
		if _, err := k.Unwrap(t.Context(), wrapped); !errors.Is(err, snapshot.ErrForged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := here.Unwrap(t.Context(), wrapped[:5]); !errors.Is(err, snapshot.ErrForged) {
		t.Errorf("cut short: %v", err)
	}
	if err := here.Verify(t.Context(), []byte("m"), []byte("x")); !errors.Is(err, snapshot.ErrForged) {
		t.Errorf("another code: %v", err)
	}
	entries, err := snapshot.Pack("eu-1", []directory.Entry{{Tenant: "acme", Cell: "eu-1", State: directory.Active, Epoch: 1}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	sealed, err := snapshot.Seal(t.Context(), here, &snapshot.Snapshot{Cell: "eu-1", Generation: 1, Taken: now, Entries: entries})
	if err != nil {
		t.Fatal(err)
	}
	want := snapshot.Want{Cell: "eu-1", Now: now}
	if _, err := snapshot.Open(t.Context(), other, bytes.Clone(sealed), want); !errors.Is(err, snapshot.ErrForged) {
		t.Errorf("by another file: %v", err)
	}
	if s, err := snapshot.Open(t.Context(), here, sealed, want); err != nil || s.Entries.Len() != 1 {
		t.Errorf("%v", err)
	}
}
