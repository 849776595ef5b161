package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/adapter/boltdir"
	"cellwall.dev/cellwall/internal/adapter/boltitems"
	"cellwall.dev/cellwall/internal/directory"
)

// directoryFleet has a cell for everybody, another, and one for internal tenants.
const directoryFleet = `service: orders
directory: {account: "111111111111", region: eu-west-1}
auth: {issuer: https://login.example.com/, audience: orders}
placement: {perTenant: 2, sizes: {whale: {perTenant: 3}}}
shard:
  lambda: {asset: dist/worker, reservedConcurrency: 20}
cells:
  - {name: eu-canary, account: "111111111111", region: eu-west-1, zones: [a, b], shards: 4, tenants: internal}
  - {name: eu-1, account: "111111111111", region: eu-west-1, zones: [a, b], shards: 6}
  - {name: us-1, account: "111111111111", region: us-east-1, zones: [a, b], shards: 6}
`

// office runs commands on a directory in a file of a new folder.
type office struct{ *testing.T }

const (
	keyHex  = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	fileArg = "--directory=d.db"
	keyArg  = "--key-file=key"
)

// newOffice is an office over a directory without cells.
func newOffice(t *testing.T) *office {
	t.Helper()
	inFolder(t, directoryFleet)
	if err := os.WriteFile("key", []byte(keyHex+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &office{t}
}

// openOffice is an office in which eu-1 is open, with 100 requests per second and a topology.
func openOffice(t *testing.T) *office {
	t.Helper()
	o := newOffice(t)
	o.must("cell", "open", "eu-1", "--capacity", "100")
	o.must("topology", "publish", "eu-1")
	return o
}

// run runs a command by ann, with the file's directory and the key.
func (o *office) run(args ...string) (code int, out, errs string) {
	o.Helper()
	return o.bare(append(args, fileArg, keyArg, "--by=ann")...)
}

// bare runs a command as it is given.
func (o *office) bare(args ...string) (code int, out, errs string) {
	o.Helper()
	var stdout, stderr bytes.Buffer
	code = Run(o.Context(), args, strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// must runs a command that has to end with status 0, and returns what it printed.
func (o *office) must(args ...string) string {
	o.Helper()
	code, out, errs := o.run(args...)
	if code != ExitDone {
		o.Fatalf("%v: status %d\n%s%s", args, code, out, errs)
	}
	return out
}

// refused runs a command that has to end with the status, say the words, print nothing and change nothing.
func (o *office) refused(code int, words string, args ...string) {
	o.Helper()
	before := o.everything()
	got, out, errs := o.run(args...)
	if got != code || out != "" || !strings.Contains(errs, words) {
		o.Errorf("%v: status %d, stdout %q, stderr %q; want status %d and %q", args, got, out, errs, code, words)
	}
	if after := o.everything(); after != before {
		o.Errorf("%v changed something:\n%s\nwas\n%s", args, after, before)
	}
}

// everything is all that the directory says of tenants, cells and topologies, by commands whose record is
// not in what they say.
func (o *office) everything() string {
	o.Helper()
	if _, err := os.Stat("d.db"); os.IsNotExist(err) {
		return ""
	}
	all := o.must("tenant", "list", "--json") + o.must("cell", "headroom", "--json")
	for _, c := range lines[cellReport](o, o.must("cell", "headroom", "--json")) {
		all += o.must("topology", "show", c.Cell, "--json")
	}
	return all
}

// lines decodes JSON lines.
func lines[T any](o *office, text string) []T {
	o.Helper()
	var all []T
	for d := json.NewDecoder(strings.NewReader(text)); d.More(); {
		var one T
		if err := d.Decode(&one); err != nil {
			o.Fatalf("%v in %s", err, text)
		}
		all = append(all, one)
	}
	return all
}

func (o *office) entry(tenant string) directory.Entry {
	o.Helper()
	return o.show(tenant).Entry
}

func (o *office) show(tenant string) shownTenant {
	o.Helper()
	return lines[shownTenant](o, o.must("tenant", "show", tenant, "--json"))[0]
}

// heldBy is the tenants of a shard, separated by spaces.
func (o *office) heldBy(shard string) string {
	o.Helper()
	var ids []string
	for _, h := range lines[directory.Holding](o, o.must("shard", "tenants", shard, "--json")) {
		ids = append(ids, h.Tenant)
	}
	return strings.Join(ids, " ")
}

func TestWhichDirectory(t *testing.T) {
	o := newOffice(t)
	for _, c := range []struct {
		code  int
		words string
		args  []string
	}{
		{ExitUsage, "which directory? none is named", []string{"tenant", "list"}},
		{ExitFound, "no local cell is running here", []string{"tenant", "list", "--directory", "local"}},
		{ExitUsage, "there is no such file", []string{"tenant", "list", fileArg}},
		{ExitUsage, "there is no such file", []string{"cell", "headroom", fileArg}},
		{ExitUsage, "there is no such file", []string{"cell", "close", "eu-1", fileArg}},
		{ExitUsage, "--state-dir is empty", []string{"cell", "headroom", "--state-dir", ""}},
		{ExitUsage, "unknown command", []string{"tenant", "sideways"}},
		{ExitUsage, "unknown command", []string{"cell", "sideways"}},
		{ExitUsage, "unknown command", []string{"topology", "sideways"}},
		{ExitUsage, "unknown command", []string{"shard", "sideways"}},
	} {
		code, out, errs := o.bare(c.args...)
		if code != c.code || out != "" || !strings.Contains(errs, c.words) {
			t.Errorf("%v: status %d, stdout %q, stderr %q; want %d and %q", c.args, code, out, errs, c.code, c.words)
		}
	}
	if _, err := os.Stat("d.db"); !os.IsNotExist(err) {
		t.Errorf("a directory was made: %v", err)
	}
}

// Either of the two files may be open elsewhere.
func TestALockedFileIsRefused(t *testing.T) {
	o := openOffice(t)
	for name, open := range map[string]func(string) (io.Closer, error){
		"d.db":               func(path string) (io.Closer, error) { return boltdir.Open(path) },
		"d.db" + holdsSuffix: func(path string) (io.Closer, error) { return boltitems.Open(path) },
	} {
		file, err := open(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"tenant", "list"}, {"tenant", "add", "acme"}} {
			code, out, errs := o.run(args...)
			if code != ExitFound || out != "" {
				t.Errorf("%s is locked, %v: status %d, stdout %q, want %d and none", name, args, code, out, ExitFound)
			}
			for _, words := range []string{name + ": another process has it open", "--directory local", "a local cell that runs"} {
				if !strings.Contains(errs, words) {
					t.Errorf("%s is locked, %v: stderr %q, want %q in it", name, args, errs, words)
				}
			}
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if out := o.must("tenant", "list", "--json"); out != "" {
		t.Errorf("added %s", out)
	}
}

// A file that was cut off ends the command with a sentence.
func TestADamagedFileIsSaid(t *testing.T) {
	o := openOffice(t)
	for _, name := range []string{"d.db", "d.db" + holdsSuffix} {
		whole, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{100, 2 * os.Getpagesize(), 3*os.Getpagesize() + 1} {
			// As another file: one that could not be read may stay locked for as long as this process lives.
			if err := errors.Join(os.Remove(name), os.WriteFile(name, whole[:n], 0o600)); err != nil {
				t.Fatal(err)
			}
			if code, out, errs := o.run("tenant", "list"); code != ExitFailed || out != "" || !strings.Contains(errs, name+": the file is damaged") {
				t.Errorf("%s cut off after %d bytes: status %d, stdout %q, stderr %q", name, n, code, out, errs)
			}
		}
		if err := errors.Join(os.Remove(name), os.WriteFile(name, whole, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	o.must("tenant", "list")
}

func TestANewerDirectoryIsRefused(t *testing.T) {
	o := newOffice(t)
	home, err := boltdir.Create("d.db")
	if err != nil {
		t.Fatal(err)
	}
	op := directory.Put(directory.Key{Part: "META", Sort: "FORMAT"}, 0, []byte(`{"format":99}`))
	if err := home.Write(t.Context(), directory.Batch{Operation: "op", Ops: []directory.Op{op}}); err != nil {
		t.Fatal(err)
	}
	if err := home.Close(); err != nil {
		t.Fatal(err)
	}
	o.write("t.csv", "tenant,cell\na,eu-1\n")
	for _, args := range [][]string{{"tenant", "list"}, {"cell", "open", "eu-1", "--capacity", "1"}, {"tenant", "import", "t.csv"}, {"tenant", "export"}} {
		if code, _, errs := o.run(args...); code != ExitFound || !strings.Contains(errs, "newer version") {
			t.Errorf("%v: status %d, stderr %q", args, code, errs)
		}
	}
}

func TestKeyFile(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme")
	for name, c := range map[string]struct {
		text, words string
		mode        os.FileMode
	}{
		"short":    {keyHex[2:], "at least 64 hexadecimal digits", 0o600},
		"no hex":   {strings.Repeat("x", 64), "at least 64 hexadecimal digits", 0o600},
		"empty":    {"", "at least 64 hexadecimal digits", 0o600},
		"readable": {keyHex, "chmod 600", 0o640},
	} {
		if err := os.WriteFile("key", []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod("key", c.mode); err != nil {
			t.Fatal(err)
		}
		code, _, errs := o.run("tenant", "show", "acme")
		if code != ExitUsage || !strings.Contains(errs, c.words) || strings.Contains(errs, "0102") || strings.Contains(errs, "xxx") {
			t.Errorf("%s: status %d, stderr %q", name, code, errs)
		}
	}
	if err := os.Remove("key"); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := o.run("tenant", "show", "acme"); code != ExitUsage || !strings.Contains(errs, "no such file") {
		t.Errorf("missing: status %d, stderr %q", code, errs)
	}
}

// TestWithoutAKey checks that what needs no key works without, and that nothing else begins.
func TestWithoutAKey(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme")
	if err := os.WriteFile("t.csv", []byte("tenant,cell\nnew,eu-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := o.everything()
	for _, args := range [][]string{
		{"tenant", "add", "new"}, {"tenant", "pin", "acme", "s01"}, {"tenant", "import", "t.csv"},
		{"topology", "diff", "eu-1"}, {"topology", "migrate", "eu-1"},
	} {
		if code, _, errs := o.bare(append(args, fileArg)...); code != ExitUsage || !strings.Contains(errs, "--key-file") {
			t.Errorf("%v: status %d, stderr %q", args, code, errs)
		}
	}
	if after := o.everything(); after != before {
		t.Errorf("something changed:\n%s\nwas\n%s", after, before)
	}
	for _, args := range [][]string{
		{"tenant", "list"}, {"tenant", "show", "acme"}, {"tenant", "history", "acme"}, {"tenant", "suspend", "acme"},
		{"tenant", "export"}, {"cell", "headroom"}, {"cell", "close", "eu-1"}, {"topology", "show", "eu-1"}, {"shard", "tenants", "eu-1/s01"},
	} {
		if code, _, errs := o.bare(append(args, fileArg)...); code != ExitDone {
			t.Errorf("%v: status %d, stderr %q", args, code, errs)
		}
	}
	for words, args := range map[string][]string{
		"suspended already":         {"tenant", "suspend", "acme"},
		"expected epoch 1, found 3": {"tenant", "suspend", "acme", "--epoch", "1"},
	} {
		if code, _, errs := o.bare(append(args, fileArg)...); code != ExitFound || !strings.Contains(errs, words) {
			t.Errorf("%v: status %d, stderr %q; want %q", args, code, errs, words)
		}
	}
}
