package cli

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode"

	"cellwall.dev/cellwall/internal/directory"
)

// TestBadInput is refused with its reason, the next step and its status, and changes nothing.
func TestBadInput(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme")
	o.must("tenant", "add", "gone")
	o.must("tenant", "suspend", "gone")
	withDirectory(t, func(ctx context.Context, d *directory.Directory) error {
		change := directory.Change{Operation: "half", By: "ann"}
		if _, err := d.Place(ctx, directory.SignUp{Tenant: "half"}, change); err != nil {
			return err
		}
		acme, err := d.Get(ctx, "acme")
		if err != nil {
			return err
		}
		moving := acme.Clone()
		moving.Tenant, moving.State = "moving", directory.Active
		before, err := d.Create(ctx, moving, directory.Change{Operation: "come", By: "ann"})
		if err != nil {
			return err
		}
		after := before.Clone()
		after.State = directory.Moving
		_, err = d.Replace(ctx, before, after, directory.Change{Operation: "move", By: "ann"})
		return err
	})
	o.write("slip.json", `{"scheme":"rendezvous/v1","kbysize":{"":2},"keyVersion":"1","shard":[]}`)
	o.write("two.json", strings.Repeat(o.must("topology", "show", "eu-1", "1", "--json"), 2))
	for _, c := range []struct {
		code        int
		words, next string
		args        string
	}{
		// unknown cells
		{2, "does not know this cell", "cell headroom lists", "cell close eu-9"},
		{2, "does not know this cell", "cell headroom lists", "cell headroom eu-9"},
		{2, "does not know this cell", "cell headroom lists", "tenant list --cell eu-9"},
		{2, "does not know this cell", "cell headroom lists", "topology show eu-9"},
		{2, "does not know this cell", "cell headroom lists", "topology diff eu-9"},
		{2, "does not know this cell", "cell headroom lists", "topology migrate eu-9"},
		{2, "does not know this cell", "cell headroom lists", "topology retire eu-9 1"},
		{2, "does not know this cell", "cell headroom lists", "shard tenants eu-9/s01"},
		{2, "is not in the fleet", `which has ["eu-canary"`, "cell open eu-9 --capacity 1"},
		{2, "is not in the fleet", `which has ["eu-canary"`, "topology publish eu-9"},
		// epochs
		{3, "expected epoch 1, found 2", "look at what stands", "tenant suspend acme --epoch 1"},
		{3, "expected epoch 3, found 2", "look at what stands", "tenant pin acme s01 --epoch 3"},
		{3, "expected epoch 2, found 3", "look at what stands", "tenant resume gone --epoch 2"},
		{2, "a whole number from 1", "--help", "tenant suspend acme --epoch 0"},
		{2, "a whole number from 1", "--help", "tenant suspend acme --epoch 02"},
		{2, "a whole number from 1", "--help", "tenant suspend acme --epoch 0x2"},
		{2, "out of range", "--help", "tenant suspend acme --epoch 18446744073709551616"},
		// states
		{3, "it is active, not suspended", "tenant show", "tenant resume acme"},
		{3, "suspended already", "tenant show", "tenant suspend gone"},
		{3, "placing and cannot become suspended", "tenant add", "tenant suspend half"},
		{3, "it is placing, not suspended", "tenant add", "tenant resume half"},
		{3, "placing and cannot become placing", "tenant add", "tenant pin half s01"},
		{3, "moving and cannot become suspended", "by the move", "tenant suspend moving"},
		{3, "moving and cannot become moving", "by the move", "tenant pin moving s01"},
		{3, "it is not pinned", "tenant show", "tenant unpin acme"},
		{3, "used for another change", "leave --operation out", "tenant suspend half --operation half"},
		{3, "used for another change", "leave --operation out", "tenant suspend moving --operation move"},
		{3, "already", "--operation half finishes it", "tenant add half"},
		{3, "already", "tenant show", "tenant add acme"},
		// pins
		{2, `no shard "s99"`, "topology show", "tenant pin acme s01 s99"},
		{2, "stands twice", "topology show", "tenant pin acme s01 s01"},
		{2, "pinned to no shard", "tenant unpin", "tenant pin acme"},
		// sizes
		{2, `"huge" is not declared`, "declare it", "tenant add new --size huge"},
		{2, "it is empty", "leave the flag out", "tenant add new --size="},
		// numbers, and variables of scripts that are not set
		{2, "decimal digits", "--help", "tenant add new --load 1e3"},
		{2, "decimal digits", "--help", "cell open eu-1 --capacity 0x10"},
		{2, "decimal digits", "--help", "cell open eu-1 --capacity 10 --keep-free 010"},
		{2, "it is empty", "leave the flag out", "tenant list --cell="},
		{2, "it is empty", "leave the flag out", "tenant list --state="},
		{2, "it is empty", "leave the flag out", "tenant history --operator="},
		{2, "it is empty", "leave the flag out", "topology publish eu-1 --file="},
		{2, "it is empty", "leave the flag out", "tenant suspend acme --operation="},
		// nobody, and no version
		{2, "not in the directory", "tenant list", "tenant suspend nobody"},
		{2, "not in the directory", "tenant list", "tenant show nobody"},
		{2, "no topology of this version", "topology show CELL", "topology show eu-1 9"},
		{2, "no topology of this version", "topology show CELL", "topology migrate eu-1 --to 9"},
		{2, "no topology of this version", "topology show CELL", "topology retire eu-1 9"},
		{2, "want a whole number from 1", "", "topology show eu-1 01"},
		{2, "want a whole number from 1", "", "topology migrate eu-1 --to 0"},
		// topologies
		{2, `unknown field "shard"`, "", "topology publish eu-1 --file slip.json"},
		{2, "something follows", "want one alone", "topology publish eu-1 --file two.json"},
		{2, "--role-name ops", "only --directory aws", "tenant list --role-name ops"},
	} {
		before := o.everything()
		code, out, errs := o.run(strings.Fields(c.args)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.words) || !strings.Contains(errs, c.next) {
			t.Errorf("%s: status %d, stdout %q, stderr %q; want %d, %q and %q", c.args, code, out, errs, c.code, c.words, c.next)
		}
		if after := o.everything(); after != before {
			t.Errorf("%s changed something:\n%s\nwas\n%s", c.args, after, before)
		}
	}
}

// A topology by a key that the cell does not have would be one by which nobody can be placed.
func TestPublishNeedsTheKey(t *testing.T) {
	d := &desk{keys: func(_ context.Context, _, version string) ([]byte, error) {
		if version != "1" {
			return nil, io.ErrUnexpectedEOF
		}
		return []byte(keyHex), nil
	}}
	newest := directory.Topology{KeyVersion: "1"}
	next := directory.Topology{KeyVersion: "2", Version: 2}
	if err := d.hasKey(t.Context(), &newest, next); statusOf(err) != ExitUsage || !strings.Contains(err.Error(), `version "2" of the placement key`) {
		t.Errorf("%v", err)
	}
	next.KeyVersion = "1"
	if err := d.hasKey(t.Context(), &newest, next); err != nil {
		t.Error(err)
	}
	d.keys = func(context.Context, string, string) ([]byte, error) { return nil, errNoKey }
	next.KeyVersion = "2"
	if err := d.hasKey(t.Context(), &newest, next); err != nil {
		t.Errorf("without a key: %v", err)
	}
}

// Whatever tenants, operators and files are called, no command writes what a terminal obeys, and a table's
// lines stay lines. JSON has every name as it is.
func TestNamesCannotMoveTheCursor(t *testing.T) {
	o := openOffice(t)
	names := []string{"Ünïcode 名前", "esc\x1b[2J", "tab\tstop", "new\nline", "\u202ertl", "\u200bhidden", "\u0085c1", `"quoted"`, "\x00", "\U0001F600"}
	for _, name := range names {
		code, out, errs := o.run("tenant", "add", name, "--because", name+name)
		if code != ExitDone || !tame(out+errs) {
			t.Errorf("%q: status %d, %q, %q", name, code, out, errs)
		}
	}
	const evil = "e\x1b]0;\al"
	o.write("evil.json", strings.NewReplacer(`"keyVersion":"1"`, `"keyVersion":"\u001b[31m"`, `"whale"`, `"w\u001b[1m"`).Replace(o.must("topology", "show", "eu-1", "1", "--json")))
	for _, args := range [][]string{
		{"topology", "publish", "eu-1", "--file", "evil.json"}, {"topology", "show", "eu-1"}, {"topology", "show", "eu-1", "2"},
		{"topology", "diff", "eu-1", "--from", "2", "--to", "1"}, {"topology", "migrate", "eu-1"},
		{"tenant", "list"}, {"tenant", "show", names[1]}, {"tenant", "history", names[3]}, {"tenant", "history", "--operator", "ann"},
		{"tenant", "pin", names[1], "s01"}, {"shard", "tenants", "eu-1/s01"}, {"tenant", "suspend", names[1]}, {"tenant", "resume", names[1]},
		{"tenant", "suspend", evil}, {"tenant", "list", "--state", evil}, {"tenant", "list", "--cell", evil}, {"cell", "close", evil}, {"cell", "open", evil},
		{"tenant", "export", "--format", evil}, {"tenant", "import", evil}, {"shard", "tenants", evil}, {"topology", "show", "eu-1", evil},
		{"topology", "publish", "eu-1", "--drain", evil}, {"topology", "publish", "eu-1", "--without", evil}, {"topology", "publish", "eu-1", "--file", evil},
		{"tenant", "suspend", names[1], "--epoch", evil}, {"tenant", "add", "x", "--size", evil}, {"tenant", evil}, {"tenant", "list", "--" + evil},
		{"tenant", "suspend", names[2], "--operation", evil}, {"tenant", "show", "bad\xffutf"}, {"tenant", "suspend", "\u202e"},
	} {
		if _, out, errs := o.run(args...); !tame(out + errs) {
			t.Errorf("%q writes %q, %q", args, out, errs)
		}
	}
	if out := o.must("tenant", "list"); strings.Count(out, "\n") != len(names)+1 {
		t.Errorf("%d tenants are listed as %s", len(names), out)
	}
	listed := map[string]bool{}
	for _, e := range lines[directory.Entry](o, o.must("tenant", "list", "--json")) {
		listed[e.Tenant] = true
	}
	for _, name := range names {
		if !listed[name] {
			t.Errorf("%q is not in the JSON", name)
		}
		if s := o.show(name); s.Entry.Tenant != name || len(s.History) == 0 || s.History[0].Why != name+name {
			t.Errorf("shown as %+v", s)
		}
	}
}

// tame says whether a terminal only prints the text. A tab parts two columns; one in a name is quoted.
func tame(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) })
}

// Every listing has --json, an object a line.
func TestEveryListingHasJSON(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme")
	o.must("topology", "publish", "eu-1", "--drain", "s06")
	for _, args := range []string{
		"tenant list", "tenant show acme", "tenant history acme", "tenant history --operator ann", "cell headroom", "cell headroom eu-1",
		"topology show eu-1", "topology show eu-1 1", "topology diff eu-1 --from 1", "topology migrate eu-1", "shard tenants eu-1/s01",
		"shard drain eu-1/s01", "shard drains", "shard undrain eu-1/s01",
		"tenant suspend acme", "tenant resume acme", "cell close eu-1", "cell open eu-1 --capacity 100", "topology retire eu-1 1",
	} {
		for _, line := range strings.Split(strings.TrimSuffix(o.must(append(strings.Fields(args), "--json")...), "\n"), "\n") {
			if line != "" && !(json.Valid([]byte(line)) && line[0] == '{') {
				t.Errorf("%s --json prints %q", args, line)
			}
		}
	}
}
