package rollout

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// refused: what must not be rolled out is refused with the reason, before anything is changed or journalled.
func (w *world) refused(t *testing.T) {
	before := w.allEvents(t)
	n := w.fleet.NamesOf(w.cell(t, canary))
	good := w.assemblies["v2"]
	for _, c := range []struct {
		name     string
		environ  []string
		assembly string
		fleet    string
		status   int
		texts    []string
	}{
		{name: "no assembly", assembly: t.TempDir(), status: 2, texts: []string{"manifest.json"}},
		{name: "assembly of another service", assembly: w.altered(t, func(name, text string) string {
			return strings.ReplaceAll(text, `"cellwall:service": "orders"`, `"cellwall:service": "parcels"`)
		}), status: 3, texts: []string{"it is not of service orders"}},
		{name: "a shard shares", assembly: w.altered(t, func(name, text string) string {
			if !strings.Contains(name, "shard-s02") && !strings.Contains(name, "shards02") {
				return text
			}
			return strings.ReplaceAll(text, n.Shard("s02").Table(), n.Shard("s01").Table())
		}), status: 3, texts: []string{"s01"}},
		{name: "the fleet has changed", assembly: good, fleet: w.editedFleet(t, "{id: s01, zone: a}, {id: s02, zone: a}]\nrollout", "{id: s01, zone: a}, {id: s02, zone: a}, {id: s03, zone: b}]\nrollout"), status: 3,
			texts: []string{"cell eu-2 is not whole", "fleet"}},
		{name: "waves leave a cell out", assembly: good, fleet: w.editedFleet(t, "    - {percent: 100, bake: 3s}\n", ""), status: 2, texts: []string{"eu-2"}},
		{name: "an unknown cell", assembly: good, fleet: w.editedFleet(t, "cells: [eu-1]", "cells: [eu-1, eu-9]"), status: 2, texts: []string{"eu-9"}},
		{name: "credentials of another account", environ: append(w.environ, w.aws.Environ(t, "333333333333", region)...), assembly: good, status: 2, texts: []string{"333333333333", home}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := []string{"start", "--app", c.assembly}
			if c.fleet != "" {
				args = append(args, "--fleet", c.fleet)
			}
			environ := w.environ
			if c.environ != nil {
				environ = c.environ
				defer func(role string) { w.role = role }(w.role)
				w.role = ""
			}
			w.beginIn(t, environ, args...).ends(t, c.status, c.texts...)
		})
	}
	if s := w.state(t); s.Spec.ID != "" {
		t.Errorf("rollout %s is in the journal", s.Spec.ID)
	}
	if diff := cmp.Diff(before, w.allEvents(t)); diff != "" {
		t.Errorf("stacks had events (-before +after):\n%s", diff)
	}
}

// altered is a copy of the assembly of v2, with texts that are not its.
func (w *world) altered(t *testing.T, alter func(name, text string) string) string {
	t.Helper()
	to, changed := t.TempDir(), false
	if err := os.CopyFS(to, os.DirFS(w.assemblies["v2"])); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".json") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(to, path)
		if after := alter(name, string(text)); after != string(text) {
			changed = true
			return os.WriteFile(path, []byte(after), 0o666)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !changed {
		t.Error("nothing is altered: write this case otherwise")
	}
	return to
}

// editedFleet is the fleet with a text replaced, wherever it stands.
func (w *world) editedFleet(t *testing.T, old, new string) string {
	t.Helper()
	text, err := os.ReadFile(w.fleetFile("v1"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("the fleet has no %q: write this edit otherwise", old)
	}
	path := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), old, new)), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}
