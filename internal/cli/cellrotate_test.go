package cli

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// drawer is a vault of one cell's keys, by generation.
type drawer map[int]map[string][]byte

func (v drawer) addKeys(_ context.Context, c fleet.Cell, missing func([]string) (map[string][]byte, error)) ([]string, error) {
	more, err := missing(slices.Sorted(maps.Keys(v[c.Generation])))
	if err != nil {
		return nil, err
	}
	maps.Copy(v[c.Generation], more)
	return slices.Sorted(maps.Keys(more)), nil
}

func (v drawer) keysOf(_ context.Context, _ fleet.Cell, generation int) (map[string][]byte, error) {
	if keys, ok := v[generation]; ok {
		return keys, nil
	}
	return nil, errors.New("no such secret")
}

// at opens the office's directory with a vault for its keys.
func (o *office) at(v vault, do func(*directoryFlags, *desk) error) {
	o.Helper()
	var out, errs bytes.Buffer
	f := &directoryFlags{app: &app{out: &out, err: &errs, fleetFile: "fleet.yaml"}, directory: "d.db", by: "ann"}
	if err := f.with(o.Context(), func(d *desk) error {
		d.vault = v
		return do(f, d)
	}); err != nil {
		o.Fatal(err)
	}
}

// TestRotateKey: a version that no topology has named is the next, however often the command is given; the commands
// that it prints make the topology of before with another key.
func TestRotateKey(t *testing.T) {
	o := newOffice(t)
	v := drawer{0: {"1": []byte("first")}}
	rotate := func(d *desk, f *directoryFlags) keyReport {
		t.Helper()
		fl, err := f.loadFleet()
		if err != nil {
			t.Fatal(err)
		}
		c, err := fleetCell(fl, "eu-1")
		if err != nil {
			t.Fatal(err)
		}
		r, err := d.rotateKey(t.Context(), fl, c, " --directory d.db")
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	o.must("cell", "open", "eu-1", "--capacity", "100")
	o.at(v, func(f *directoryFlags, d *desk) error {
		fl, err := f.loadFleet()
		if err != nil {
			return err
		}
		c, _ := fleetCell(fl, "eu-1")
		if r, err := d.rotateKey(t.Context(), fl, c, ""); statusOf(err) != ExitFound || len(v[0]) != 1 {
			t.Errorf("without a topology: %+v, %v", r, err)
		}
		return nil
	})
	o.must("topology", "publish", "eu-1", "--drain", "s02", "--without", "s05,s06")
	for _, added := range []string{"2", ""} {
		o.at(v, func(f *directoryFlags, d *desk) error {
			r := rotate(d, f)
			if r.Version != "2" || strings.Join(r.Added, " ") != added || len(v[0]["2"]) != keyBytes || len(v[0]) != 2 {
				t.Errorf("%+v, and there are %q", r, slices.Sorted(maps.Keys(v[0])))
			}
			want := []string{
				"cellwall topology diff eu-1 --key-version 2 --drain s02 --without s05,s06 --sum --directory d.db",
				"cellwall topology publish eu-1 --key-version 2 --drain s02 --without s05,s06 --accept-remap --directory d.db",
				"cellwall topology migrate eu-1 --accept-remap --directory d.db",
				"cellwall topology retire eu-1 1 --directory d.db",
			}
			if !slices.Equal(r.Next, want) {
				t.Errorf("what follows is\n%s", strings.Join(r.Next, "\n"))
			}
			return nil
		})
	}
	if string(v[0]["1"]) != "first" {
		t.Error("the first version changed")
	}
	o.must("topology", "publish", "eu-1", "--key-version", "2", "--drain", "s02", "--without", "s05,s06")
	o.must("topology", "retire", "eu-1", "1")
	delete(v[0], "2") // a version that went does not come back as another key
	o.at(v, func(f *directoryFlags, d *desk) error {
		if r := rotate(d, f); r.Version != "3" || len(r.Added) != 1 {
			t.Errorf("%+v", r)
		}
		return nil
	})

	// With state on the shards, tenants need moves; and a generation has versions of its own.
	o.inFleet("lambda: {asset: dist/worker, reservedConcurrency: 20}", "lambda: {asset: dist/worker, reservedConcurrency: 20}\n  table: {}\n  state: {mode: home}")
	o.at(v, func(f *directoryFlags, d *desk) error {
		if r := rotate(d, f); len(r.Next) != 2 {
			t.Errorf("what follows with state.mode home: %q", r.Next)
		}
		return nil
	})
	o.inFleet("zones: [a, b], shards: 6}", "zones: [a, b], shards: 6, generation: 7}")
	v[7] = map[string][]byte{"g7-1": []byte("stamped")}
	o.at(v, func(f *directoryFlags, d *desk) error {
		if r := rotate(d, f); r.Version != "g7-1" || len(r.Added) != 0 {
			t.Errorf("%+v", r)
		}
		fl, err := f.loadFleet()
		if err != nil {
			return err
		}
		c, _ := fleetCell(fl, "eu-1")
		for _, want := range []string{"1 3", ""} {
			if r, err := d.adoptKeys(t.Context(), c, 0); err != nil || strings.Join(r.Added, " ") != want || string(v[7]["g7-1"]) != "stamped" {
				t.Errorf("adopted %+v, %v", r, err)
			}
		}
		return nil
	})
}

func TestRotateKeyRefuses(t *testing.T) {
	o := openOffice(t)
	o.refused(ExitUsage, "leave --key-file out", "cell", "rotate-key", "eu-1")
	for words, args := range map[string][]string{
		"not in the fleet":   {"cell", "rotate-key", "nowhere", fileArg},
		"--key-version":      {"cell", "rotate-key", "eu-1", fileArg},
		"another generation": {"cell", "rotate-key", "eu-1", fileArg, "--adopt", "0"},
		"0 to 999":           {"cell", "rotate-key", "eu-1", fileArg, "--adopt=-1"},
	} {
		if code, out, errs := o.bare(args...); code != ExitUsage || out != "" || !strings.Contains(errs, words) {
			t.Errorf("%v: status %d, %s%s", args, code, out, errs)
		}
	}
}

func TestNextKey(t *testing.T) {
	for _, c := range []struct {
		generation  int
		named, have string
		version     string
		there       bool
	}{
		{0, "1", "1", "2", false},
		{0, "1", "1 2", "2", true},
		{0, "1", "1 2 5", "5", true},
		{0, "1 2", "1 2", "3", false},
		{0, "2 10 9", "10 9", "11", false},
		{0, "mine", "mine", "1", false}, // a name of somebody's own is no number
		{0, "g1-4", "g1-4 1", "1", true},
		{2, "1 g1-3", "g2-1", "g2-1", true},
		{2, "g2-1", "1 g2-1", "g2-2", false},
	} {
		named := map[string]bool{}
		for _, v := range strings.Fields(c.named) {
			named[v] = true
		}
		version, there := nextKey(names.ForFleet("orders").Cell("eu-1").Generation(c.generation), c.generation, named, strings.Fields(c.have))
		if version != c.version || there != c.there {
			t.Errorf("generation %d, named %s, have %s: %s, %t", c.generation, c.named, c.have, version, there)
		}
	}
}
