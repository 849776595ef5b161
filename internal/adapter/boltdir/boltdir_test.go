package boltdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
)

func open(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestContract(t *testing.T) {
	directorytest.Run(t, func(t *testing.T) directory.Store {
		return open(t, filepath.Join(t.TempDir(), "directory.db"))
	})
}

func entry(tenant string) directory.Entry {
	return directory.Entry{
		Tenant: tenant, Cell: "eu-1", State: directory.Active, Topology: 1,
		Updated: time.Date(2026, 11, 30, 0, 0, 0, 1, time.UTC), Operation: "op",
	}
}

func TestSurvivesReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "directory.db")
	d := open(t, path)
	want, err := d.Create(t.Context(), entry("acme"))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := open(t, path).Get(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after reopening (-want +got):\n%s", diff)
	}
}

func TestFileIsItsOwnersOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "directory.db")
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
	path := filepath.Join(t.TempDir(), "directory.db")
	open(t, path)
	if d, err := Open(path); err == nil {
		d.Close()
		t.Error("two have the file open")
	}
}

func TestOpenRefusesAnotherFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "directory.db")
	if err := os.WriteFile(path, []byte("tenant,load\nacme,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if d, err := Open(path); err == nil {
		d.Close()
		t.Error("a CSV file was opened as a directory")
	}
}

func TestImport(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "directory.db"))
	first := entry("t-00500")
	first.State = directory.Suspended
	first, err := d.Create(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	var entries []directory.Entry
	for i := range 2*importBatch + 1 {
		entries = append(entries, entry(fmt.Sprintf("t-%05d", i)))
	}
	created, err := d.Import(t.Context(), entries)
	if err != nil || created != len(entries)-1 {
		t.Fatalf("created %d, %v; want %d", created, err, len(entries)-1)
	}
	got, err := d.Get(t.Context(), first.Tenant)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, got); diff != "" {
		t.Errorf("an entry that stood (-want +got):\n%s", diff)
	}
	if got, err := d.Get(t.Context(), "t-02000"); err != nil || got.Epoch != 1 {
		t.Errorf("an imported entry: epoch %d, %v; want 1", got.Epoch, err)
	}
	if created, err = d.Import(t.Context(), entries); err != nil || created != 0 {
		t.Errorf("repeated: created %d, %v; want 0", created, err)
	}
}

func TestImportOfAnInvalidEntryChangesNothing(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "directory.db"))
	_, err := d.Import(t.Context(), []directory.Entry{entry("good"), entry("")})
	if !errors.Is(err, directory.ErrInvalid) {
		t.Errorf("error %v, want %q", err, directory.ErrInvalid)
	}
	if all, err := d.List(t.Context(), "", 10); err != nil || len(all) != 0 {
		t.Errorf("the directory has %d entries, %v; want none", len(all), err)
	}
}

func TestDamagedEntryIsAnError(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "directory.db"))
	err := d.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucket).Put([]byte("acme"), []byte("{")) })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get(t.Context(), "acme"); err == nil || errors.Is(err, directory.ErrNotFound) {
		t.Errorf("get: %v, want a decoding error", err)
	}
	if _, err := d.Create(t.Context(), entry("acme")); err == nil {
		t.Error("create wrote over a damaged entry")
	}
	if _, err := d.List(t.Context(), "", 10); err == nil {
		t.Error("list left a damaged entry out")
	}
}
