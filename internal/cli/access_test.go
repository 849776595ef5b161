package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestWhoLookedIsKept runs every command over the directory, as eve. Whoever reads or changes tenants by hand
// is in the record; a command that is not in the table fails the test.
func TestWhoLookedIsKept(t *testing.T) {
	const tenant = "acme-the-only"
	o := openOffice(t)
	o.must("tenant", "add", tenant)
	o.must("tenant", "pin", tenant, "s01", "s02")
	o.write("t.csv", "tenant,cell\n"+tenant+",eu-1\n")
	o.write("people.csv", "tenant\np1\n")
	o.write("new.csv", "tenant,cell\nimported,eu-1\n")
	assemblyOf(t, "whole", "eu-1", "s01", "s02", "s03", "s04", "s05", "s06")

	seen := map[string]bool{}
	const changes, nothing = "changes", "nothing" // in place of what is kept of a reading
	for _, c := range []struct {
		args string
		kept string // "looked: ..." of a reading, changes, or nothing
	}{
		{"tenant show " + tenant, "looked: tenant show"},
		{"tenant list", "looked: tenant list"},
		{"tenant list --cell eu-1 --state active --json", "looked: tenant list --cell eu-1 --state active"},
		{"tenant history " + tenant, "looked: tenant history"},
		{"tenant history --operator ann", "looked: tenant history --operator ann"},
		{"tenant export", "looked: tenant export"},
		{"tenant import t.csv", "looked: tenant import t.csv"}, // there already, otherwise
		{"tenant import new.csv", "looked: tenant import new.csv"},
		{"shard tenants eu-1/s01", "looked: shard tenants eu-1/s01"},
		{"topology diff eu-1 --from 1 --to 1", "looked: topology diff eu-1 --from 1 --to 1"},
		{"topology diff eu-1 --without s06 --sum", "looked: topology diff eu-1 --from 1 --to 2"},
		{"topology diff eu-1 --without s06 --population people.csv", nothing}, // no tenant of the directory
		{"plan --cell eu-1", "looked: plan"},
		{"rollout plan", "looked: rollout plan"},
		{"tenant add new", changes},
		{"tenant pin " + tenant + " s03", changes},
		{"tenant unpin " + tenant, changes},
		{"tenant suspend " + tenant, changes},
		{"tenant resume " + tenant, changes},
		{"cell open eu-1 --capacity 90", changes},
		{"cell close eu-1", changes},
		{"shard drain eu-1/s02", changes},
		{"shard undrain eu-1/2", changes},
		{"shard drains", nothing}, // shards
		{"topology publish eu-1 --without s06", changes},
		{"topology migrate eu-1", "looked: topology migrate eu-1 --to 2"},
		{"topology retire eu-1 1", changes},
		{"cell reconcile eu-1", "looked: cell reconcile eu-1"},
		{"cell headroom --json", nothing}, // sums by cell and shard
		{"cell rotate-key eu-1", nothing}, // keys; beside --key-file it is refused
		{"topology show eu-1", nothing},   // numbers of tenants
		{"topology show eu-1 1", nothing}, // the same
		{"fleet validate", nothing},       // shards
		{"fleet diff whole whole", nothing},
	} {
		before := len(o.doneBy("eve"))
		code, out, errs := o.bare(append(strings.Fields(c.args), fileArg, keyArg, "--by=eve", "--because=call 8")...)
		if code != ExitDone && c.args != "tenant import t.csv" && c.args != "cell rotate-key eu-1" {
			t.Errorf("%s: status %d, stderr %s", c.args, code, errs)
		}
		var looked []string
		changed := false
		for _, e := range o.doneBy("eve")[before:] {
			if e.By != "eve" || e.Why != "call 8" {
				t.Errorf("%s: kept %+v", c.args, e)
			}
			if strings.HasPrefix(e.What, "looked: ") {
				looked = append(looked, e.What)
			} else {
				changed = true
			}
		}
		want := []string{c.kept}
		switch c.kept {
		case changes:
			want = nil
			if !changed {
				t.Errorf("%s left no change in the record", c.args)
			}
		case nothing:
			want = nil
			if changed || strings.Contains(out+errs, tenant) {
				t.Errorf("%s is of a tenant or changes something:\n%s%s", c.args, out, errs)
			}
		}
		if !slices.Equal(looked, want) {
			t.Errorf("%s: kept %q, want %q", c.args, looked, want)
		}
		words := strings.Fields(c.args)[:2]
		seen[strings.TrimSpace(strings.Join(slices.DeleteFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") }), " "))] = true
	}
	all := overDirectory((&app{}).root())
	if len(all) < len(seen) {
		t.Errorf("found %d commands over the directory, and ran %d", len(all), len(seen))
	}
	for _, cmd := range all {
		words := strings.TrimPrefix(cmd.CommandPath(), "cellwall ")
		if strings.HasPrefix(words, "rollout ") && words != "rollout plan" {
			continue // of cells, in a journal of their own: none shows a tenant, and start counts them by cell
		}
		if !seen[words] {
			t.Errorf("%s is not in the table: what does it keep of who looks?", words)
		}
	}
}

// doneBy is what is kept of an operator, oldest first.
func (o *office) doneBy(operator string) []event {
	o.Helper()
	return lines[event](o, o.must("tenant", "history", "--operator", operator, "--json"))
}

// overDirectory is the commands below cmd that take --directory.
func overDirectory(cmd *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	if cmd.Flag("directory") != nil && !cmd.HasSubCommands() {
		all = append(all, cmd)
	}
	for _, c := range cmd.Commands() {
		all = append(all, overDirectory(c)...)
	}
	return all
}
