package localcell

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fill writes files into a directory, each with its own name as its text, and returns it.
func fill(t *testing.T, mode fs.FileMode, names ...string) Dir {
	t.Helper()
	d := Dir{filepath.Join(t.TempDir(), "d")}
	if err := os.Mkdir(d.path, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.MkdirAll(filepath.Dir(d.file(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(d.file(name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(d.path, mode); err != nil {
		t.Fatal(err)
	}
	return d
}

// contents is every file below the directory with its text.
func contents(t *testing.T, d Dir) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(d.path), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(d.file(path))
		all[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestADirectoryOfTheUsersIsLeftAlone is about files that have the names of a cell's own.
func TestADirectoryOfTheUsersIsLeftAlone(t *testing.T) {
	everything := []string{
		"plan.json", "running.json", "lock", "topology.json", "placement-key", "issuer-key.pem", "store.json", "router.json",
		"directory.db", "items.db", "logs/app.log", "logs/router.log",
	}
	for name, d := range map[string]Dir{
		"full":             fill(t, 0o700, everything...),
		"a note":           fill(t, 0o700, "notes.txt"),
		"a log":            fill(t, 0o700, "logs/supervisor.log"),
		"a mark in name":   fill(t, 0o700, fileMark+"/x"),
		"others may write": fill(t, 0o777, fileMark),
		"group may write":  fill(t, 0o770),
	} {
		before := contents(t, d)
		plan := testPlan(t)
		if _, _, err := d.Up(t.Context(), plan.Alone(), testTenants, []string{plan.Worker}); !errors.Is(err, ErrNotState) {
			t.Errorf("%s: up: %v, want %q", name, err, ErrNotState)
		}
		for _, purge := range []bool{false, true} {
			if err := d.Down(t.Context(), purge); !errors.Is(err, ErrNotState) {
				t.Errorf("%s: down, purge %t: %v, want %q", name, purge, err, ErrNotState)
			}
		}
		if _, err := d.Find(); !errors.Is(err, ErrNotState) {
			t.Errorf("%s: find: %v, want %q", name, err, ErrNotState)
		}
		if diff := cmp.Diff(before, contents(t, d)); diff != "" {
			t.Errorf("%s: files changed (-before +after):\n%s", name, diff)
		}
	}
}

func TestAStateDirectoryThatIsAFile(t *testing.T) {
	d := fill(t, 0o700, "file")
	for _, path := range []string{d.file("file"), d.file("file/below")} {
		if _, err := (Dir{path}).create(); !errors.Is(err, ErrNotState) {
			t.Errorf("%s: %v, want %q", path, err, ErrNotState)
		}
		if err := (Dir{path}).Down(t.Context(), true); !errors.Is(err, ErrNotState) {
			t.Errorf("%s: down: %v, want %q", path, err, ErrNotState)
		}
	}
}

// TestNewDirectories are those that a cell takes: absent, empty, its own, and one with another cell below.
func TestNewDirectories(t *testing.T) {
	for name, c := range map[string]struct {
		d     Dir
		fresh bool
	}{
		"absent":             {Dir{filepath.Join(t.TempDir(), "a/b")}, true},
		"empty":              {fill(t, 0o700), true},
		"its own":            {fill(t, 0o755, fileMark, "plan.json"), false},
		"another cell below": {fill(t, 0o700, "run/"+fileMark, "run/plan.json"), true},
	} {
		if fresh, err := c.d.create(); err != nil || fresh != c.fresh {
			t.Errorf("%s: fresh %t, %v", name, fresh, err)
		}
		if fresh, err := c.d.create(); err != nil || fresh {
			t.Errorf("%s, again: fresh %t, %v", name, fresh, err)
		}
	}
}

// TestPurgeRemovesByName has the user's own files beside a cell's.
func TestPurgeRemovesByName(t *testing.T) {
	d := Dir{filepath.Join(t.TempDir(), "state")}
	c := upIn(t, d, testPlan(t))
	others := map[string]string{"notes.txt": "n", "plan.json.bak": "b", ".notes-1": "t", "logs/app.log": "l", "logs/s04.log": "s"}
	for name, text := range others {
		if err := os.WriteFile(d.file(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(d.file(".plan.json-12345"), []byte("half"), 0o600); err != nil { // of a write that was killed
		t.Fatal(err)
	}
	if err := c.dir.Down(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(others, contents(t, d)); diff != "" {
		t.Errorf("left after purge (-want +got):\n%s", diff)
	}
}

// TestDamagedFiles cuts each file of a cell off at several places: the next start says so, and a purge
// clears the way.
func TestDamagedFiles(t *testing.T) {
	c := up(t)
	if err := c.dir.Down(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	replace := func(name string, text []byte) {
		t.Helper()
		// As another file: a database that could not be read stays locked for as long as this process lives.
		if err := errors.Join(os.Remove(c.dir.file(name)), os.WriteFile(c.dir.file(name), text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{filePlacementKey, fileIssuerKey, fileDirectory, fileItems} {
		whole, err := os.ReadFile(c.dir.file(name))
		if err != nil {
			t.Fatal(err)
		}
		page := os.Getpagesize()
		cuts := []int{0, 10, page, 2 * page, 2*page + 100, 4 * page}
		if name != fileDirectory && name != fileItems { // whose second half may be room that it has not used yet
			cuts = append(cuts, len(whole)/2)
		}
		for _, n := range cuts {
			if n >= len(whole) {
				continue
			}
			replace(name, whole[:n])
			plan := testPlan(t)
			if _, err := c.dir.prepare(t.Context(), plan.Alone(), testTenants); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s cut off after %d of %d bytes: %v, want %q", name, n, len(whole), err, ErrDamaged)
			}
		}
		replace(name, bytes.Repeat([]byte{0xff}, len(whole)))
		if _, err := c.dir.prepare(t.Context(), testPlan(t).Alone(), testTenants); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s overwritten: %v, want %q", name, err, ErrDamaged)
		}
		replace(name, whole)
	}
	if _, err := c.dir.prepare(t.Context(), testPlan(t).Alone(), testTenants); err != nil {
		t.Errorf("whole again: %v", err)
	}
	if err := os.WriteFile(c.dir.file(fileRunning), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.dir.Down(t.Context(), true); !errors.Is(err, ErrNotRunning) {
		t.Errorf("purge: %v", err)
	}
	if _, err := os.Stat(c.dir.String()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after purge: %v", err)
	}
}
