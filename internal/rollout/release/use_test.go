package release

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSweptCopies: what a killed process left is taken away by the next, and what is in use, young or no such folder is not.
func TestSweptCopies(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	made := func() *deployable {
		d, err := newDeployable()
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(d.copy(), "manifest.json"), "{}")
		return d
	}
	killed, used, young, foreign := made(), made(), made(), filepath.Join(tmp, copies+"notes")
	for _, d := range []*deployable{killed, young} {
		if err := d.lock.Close(); err != nil { // as the system does
			t.Fatal(err)
		}
	}
	put(t, foreign, "a file")
	long := time.Now().Add(-time.Hour)
	for _, name := range []string{killed.dir, used.dir, foreign} {
		if err := os.Chtimes(name, long, long); err != nil {
			t.Fatal(err)
		}
	}
	if err := newUse(nil).close(); err != nil {
		t.Error(err)
	}
	for name, there := range map[string]bool{killed.dir: false, filepath.Join(used.copy(), "manifest.json"): true, young.copy(): true, foreign: true} {
		if _, err := os.Stat(name); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := used.remove(); err != nil {
		t.Error(err)
	}
}
