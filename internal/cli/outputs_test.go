package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

// No command writes over what it reads, whatever that is called.
func TestExportOverwritesNothingThatIsNeeded(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme")
	o.write("t.csv", "tenant,cell\nnew,eu-1\n")
	for name, of := range map[string]string{"hard.csv": "d.db", "also.csv.part": "d.db" + holdsSuffix, "more.csv.checkpoint": "key"} {
		if err := os.Link(of, name); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"soft.csv": "d.db", "other.csv.part": "d.db"} {
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("sub", 0o700); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string][]byte{}
	for _, name := range []string{"key", "fleet.yaml", "t.csv"} {
		if kept[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{
		"d.db", "d.db" + holdsSuffix, "key", "fleet.yaml", "./d.db", filepath.Join(here, "d.db"), "sub/../key",
		"hard.csv", "also.csv", "more.csv", "soft.csv", "other.csv",
	} {
		o.refused(ExitUsage, "it would be overwritten", "tenant", "export", file, "--format", "csv")
	}
	for _, file := range []string{"d.db", "d.db" + holdsSuffix, "key", "fleet.yaml", "t.csv", "hard.csv"} {
		o.refused(ExitUsage, "it would be overwritten", "tenant", "import", "t.csv", "--checkpoint", file)
	}
	for _, file := range []string{"sub", "/dev/null"} {
		o.refused(ExitUsage, "is there and no file", "tenant", "export", file, "--format", "csv")
		o.refused(ExitUsage, "is there and no file", "tenant", "import", file, "--format", "csv")
	}
	for name, text := range kept {
		if now, err := os.ReadFile(name); err != nil || !bytes.Equal(now, text) {
			t.Errorf("%s was changed, %v", name, err)
		}
	}
	for _, left := range []string{"*.part", "*.checkpoint", "sub*", "/dev/null?*"} {
		found, err := filepath.Glob(left)
		for _, name := range found {
			if name != "also.csv.part" && name != "other.csv.part" && name != "more.csv.checkpoint" && name != "sub" || err != nil {
				t.Errorf("%s is left, %v", name, err)
			}
		}
	}
	o.must("tenant", "show", "acme")
}

// fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A command that reads does not speak of a change when what it prints goes nowhere.
func TestReadsThatCannotPrint(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme")
	o.must("tenant", "pin", "acme", "s02")
	o.must("topology", "publish", "eu-1", "--drain", "s01")
	o.must("shard", "drain", "eu-1/s02")
	before := o.everything()
	for _, args := range []string{
		"tenant show acme", "tenant list", "tenant list --json", "tenant history acme", "tenant history acme --json", "tenant history --operator ann",
		"tenant export", "tenant export --format jsonl", "cell headroom", "cell headroom --json", "topology show eu-1", "topology show eu-1 1",
		"topology diff eu-1 --from 1", "topology diff eu-1 --from 1 --json", "shard tenants eu-1/s02", "shard tenants eu-1/s02 --json",
		"shard drains", "shard drains --json",
	} {
		var errs bytes.Buffer
		code := Run(t.Context(), append(strings.Fields(args), fileArg, keyArg, "--by=ann"), strings.NewReader(""), fullDisk{}, &errs)
		if code != ExitFailed || !strings.Contains(errs.String(), "no space left") || strings.Contains(errs.String(), "--operation") {
			t.Errorf("%s: status %d, stderr %q", args, code, errs.String())
		}
	}
	if after := o.everything(); after != before {
		t.Errorf("something changed:\n%s\nwas\n%s", after, before)
	}
}

// What is said of going on is so.
func TestExportsAndImportsThatCannotBegin(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "two\nlines")
	o.write("t.csv", "tenant,cell\nnew,eu-1\n")
	for _, args := range [][]string{{"tenant", "export", "all.csv"}, {"tenant", "export"}} {
		code, _, errs := o.run(args...)
		if code != ExitFound || !strings.Contains(errs, "line break") || !strings.Contains(errs, "--format jsonl") || strings.Contains(errs, "goes on") {
			t.Errorf("%v: status %d, stderr %q", args, code, errs)
		}
	}
	o.must("tenant", "export", "all.jsonl")
	o.refused(ExitUsage, "yours to write to", "tenant", "export", "none/all.csv")
	o.refused(ExitUsage, "nothing was imported", "tenant", "import", "t.csv", "--checkpoint", "none/c")
	if left, err := filepath.Glob("*.[cp]*.[cp]*"); err != nil || len(left) > 0 {
		t.Errorf("%q is left, %v", left, err)
	}
}

// An import that is interrupted says so, with the status of the signal, and how to go on.
func TestInterruptedImportAndExport(t *testing.T) {
	o := newOffice(t)
	o.must("cell", "open", "eu-1", "--capacity", "100")
	// An import has 500 tenants enrolled at a time, and 16 times that while the first are told: more than 9,000 are not
	// all under way when that is interrupted.
	const tenants = 10_000
	o.writeTenants("t.csv", tenants)
	ctx, cancel := context.WithCancelCause(t.Context())
	a := &app{fleetFile: "fleet.yaml", err: writerFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "tenants are there") || strings.Contains(string(p), "tenants written") {
			cancel(Interrupted(2))
		}
		return len(p), nil
	})}
	fleet, err := a.loadFleet()
	if err != nil {
		t.Fatal(err)
	}
	flags := &directoryFlags{app: a, directory: "d.db", keyFile: "key", by: "ann"}
	in := &importing{app: a, file: "t.csv", checkpoint: "t.csv.checkpoint", format: directory.CSV, fleet: fleet}
	err = flags.read(ctx, func(d *desk) error { _, err := in.run(ctx, d); return err })
	exit, ok := errors.AsType[*exitError](err)
	if statusOf(err) != ExitSignal+2 || !ok || !strings.Contains(exit.hint, "the same command goes on") {
		t.Fatalf("import: %v", err)
	}
	if r := lines[importReport](o, o.must("tenant", "import", "t.csv", "--json"))[0]; r.Created+r.Present != tenants || r.Differ > 0 || r.Present == 0 {
		t.Errorf("after that: %+v", r)
	}

	ctx, cancel = context.WithCancelCause(t.Context())
	err = flags.read(ctx, func(d *desk) error {
		_, err := flags.exportFile(ctx, d, "all.csv", directory.CSV, func(int) { cancel(Interrupted(15)) })
		return err
	})
	exit, ok = errors.AsType[*exitError](err)
	if statusOf(err) != ExitSignal+15 || !ok || !strings.Contains(exit.hint, "the same command goes on after 1000 tenants") {
		t.Fatalf("export: %v", err)
	}
	code, _, errs := o.run("tenant", "export", "all.csv")
	if code != ExitDone || !strings.Contains(errs, "going on after 1000 tenants") {
		t.Errorf("after that: status %d, stderr %q", code, errs)
	}
	text, err := os.ReadFile("all.csv")
	if want := o.must("tenant", "export"); err != nil || string(text) != want {
		t.Errorf("the file differs, %v", err)
	}
}

// An import puts nobody where a sign-up could not.
func TestImportRespectsWhomACellIsFor(t *testing.T) {
	o := openOffice(t)
	o.must("cell", "open", "eu-canary", "--capacity", "10")
	o.must("topology", "publish", "eu-canary")
	later := time.Now().Add(48 * time.Hour).UTC().Format(time.RFC3339)
	o.write("t.csv", fmt.Sprintf("tenant,cell,internal,created\na,eu-1,true,\nb,eu-canary,false,\nc,eu-canary,,\nd,eu-1,,%s\ne,eu-1,,9999-12-31T00:00:00Z\n", later))
	code, _, errs := o.run("tenant", "import", "t.csv")
	for _, words := range []string{
		`t.csv:2: the tenant is internal, and cell "eu-1" is not`, `t.csv:3: cell "eu-canary" is for internal tenants`, "t.csv:4: cell", "t.csv:5: it was created at " + later, "t.csv:6: it was created at 9999",
		"5 bad lines: nothing was imported",
	} {
		if code != ExitUsage || !strings.Contains(errs, words) {
			t.Errorf("status %d, %q is not in %s", code, words, errs)
		}
	}
	o.write("t.csv", "tenant,cell,internal,created\na,eu-canary,true,2020-01-01T00:00:00Z\nb,eu-1,false,\n")
	o.must("tenant", "import", "t.csv")
}
