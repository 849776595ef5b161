package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
)

func TestTenantImport(t *testing.T) {
	o := openOffice(t)
	o.write("t.csv", "\ufefftenant,size,load,pins,state\r\nacme,,2.5,,\r\n\"a,b\",whale,0,,suspended\r\n\r\npinned,,1,s02 s01,active\r\n")
	o.refused(ExitUsage, `t.csv:2: not valid in the directory: cell ""`, "tenant", "import", "t.csv")
	if out := o.must("tenant", "import", "t.csv", "--cell", "eu-1", "--because", "from the old system"); out != "3 tenants: 3 added, 0 there before, 0 there otherwise\n" {
		t.Errorf("stdout %q", out)
	}
	if s := o.show("acme"); s.Entry.State != directory.Active || s.Entry.Load != 2500 || s.Entry.Topology != 1 || len(s.Held) != 2 || s.History[0].Why != "from the old system" {
		t.Errorf("acme: %+v", s)
	}
	if s := o.show("a,b"); s.Entry.State != directory.Suspended || s.Entry.Size != "whale" || len(s.Held) != 3 {
		t.Errorf("a,b: %+v", s)
	}
	if s := o.show("pinned"); !slices.Equal(s.Entry.Pins, []string{"s02", "s01"}) || s.Subset[0].Shard != "s02" || !*s.Subset[0].Holds {
		t.Errorf("pinned: %+v", s)
	}
	if got := lines[cellReport](o, o.must("cell", "headroom", "--json"))[0]; got.Reserved != 3500 || got.Tenants != 3 {
		t.Errorf("reserved %+v", got)
	}
	if out := o.must("tenant", "import", "t.csv", "--cell", "eu-1", "--json"); out != `{"tenants":3,"created":0,"present":3,"differ":0}`+"\n" {
		t.Errorf("the same again: %q", out)
	}
	o.write("t.csv", "tenant,cell,load\nacme,eu-1,7\nnew,eu-1,1\n")
	code, out, errs := o.run("tenant", "import", "t.csv")
	if code != ExitFound || !strings.Contains(out, "1 added, 0 there before, 1 there otherwise") || !strings.Contains(errs, "tenant acme is there already, otherwise") {
		t.Errorf("status %d, stdout %q, stderr %q", code, out, errs)
	}
	if e := o.entry("acme"); e.Load != 2500 || e.Epoch != 1 {
		t.Errorf("acme was changed: %+v", e)
	}
	left, err := filepath.Glob("*checkpoint*")
	if err != nil || len(left) > 0 {
		t.Errorf("checkpoints are left: %v, %v", left, err)
	}
}

// TestTenantImportNotesWhomNoTokenNames: they may be there for other ends, but whoever imports them is told.
func TestTenantImportNotesWhomNoTokenNames(t *testing.T) {
	o := openOffice(t)
	o.write("t.csv", "tenant,cell\nacme,eu-1\n[acme],eu-1\na\ufffd,eu-1\n")
	code, _, errs := o.run("tenant", "import", "t.csv")
	if code != ExitDone || strings.Count(errs, "note: 2 tenants in t.csv cannot be named by any token") != 1 || !strings.Contains(errs, `the first is "[acme]": an id in brackets`) {
		t.Errorf("status %d, stderr %q", code, errs)
	}
}

// TestTenantImportReportsEveryBadLine checks that one bad line is enough for nothing to be written.
func TestTenantImportReportsEveryBadLine(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "list")
	bad := []string{ // from line 2
		"good,eu-1,,,,", "badcell,eu-9,,,,", "badsize,eu-1,huge,,,", "badpin,eu-1,,s99,,", "badstate,eu-1,,,,moving", "badload,eu-1,,,-1,",
		"short,eu-1", `"open,eu-1,,,,`, "good,eu-1,,,,", strings.Repeat("x", 129) + ",eu-1,,,,", "better,eu-1,,,,",
	}
	o.write("t.csv", "tenant,cell,size,pins,load,state\n"+strings.Join(bad, "\n")+"\n")
	code, out, errs := o.run("tenant", "import", "t.csv")
	if code != ExitUsage || out != "" || !strings.Contains(errs, "9 bad lines: nothing was imported") {
		t.Errorf("status %d, stdout %q, stderr %s", code, out, errs)
	}
	for line, words := range map[int]string{
		3: "does not know this cell", 4: `"huge" is not declared`, 5: `no shard "s99"`, 6: "moving", 7: "load", 8: "2 fields",
		9: "quote", 10: `tenant "good" stands on line 2`, 11: "129 bytes",
	} {
		found := false
		for text := range strings.Lines(errs) {
			found = found || strings.HasPrefix(text, fmt.Sprintf("t.csv:%d: ", line)) && strings.Contains(text, words)
		}
		if !found {
			t.Errorf("line %d is not reported with %q in\n%s", line, words, errs)
		}
	}
	for _, line := range []int{2, 12} {
		if strings.Contains(errs, fmt.Sprintf("t.csv:%d:", line)) {
			t.Errorf("line %d is reported", line)
		}
	}
	if out := o.must("tenant", "list", "--json"); out != "" {
		t.Errorf("imported %s", out)
	}
	o.write("t.jsonl", `{"tenant":"a","cell":"eu-1"}`+"\n"+`{"tenant":"b","cell":"eu-1","sise":"x"}`+"\n{\n")
	o.refused(ExitUsage, "2 bad lines", "tenant", "import", "t.jsonl")
	o.write("t.csv", "tenant,cell\na,eu-1\n"+strings.Repeat("x", 10<<20)+",eu-1\nb,eu-9\n")
	o.refused(ExitUsage, "t.csv:3: it has more than 65536 bytes", "tenant", "import", "t.csv")
	o.refused(ExitUsage, "2 bad lines", "tenant", "import", "t.csv")
	for words, args := range map[string][]string{
		"say with --format": {"t.db"}, "--format xml": {"t.csv", "--format", "xml"}, "none.csv": {"none.csv"}, "column": {"fleet.yaml", "--format", "csv"},
	} {
		o.refused(ExitUsage, words, append([]string{"tenant", "import"}, args...)...)
	}
}

// writeTenants writes a file of n tenants, the same each time, of cell eu-1 with a load of 1.
func (o *office) writeTenants(name string, n int) string {
	o.Helper()
	var file strings.Builder
	file.WriteString("tenant,cell,load\n")
	for i := range n {
		fmt.Fprintf(&file, "t%05d,eu-1,1\n", i*7919%n)
	}
	o.write(name, file.String())
	return file.String()
}

// importing imports t.csv, and has said called with whatever goes to standard error.
func (o *office) importing(ctx context.Context, said func(string)) error {
	o.Helper()
	a := &app{fleetFile: "fleet.yaml", err: writerFunc(func(p []byte) (int, error) { said(string(p)); return len(p), nil })}
	f, err := a.loadFleet()
	if err != nil {
		o.Fatal(err)
	}
	flags := &directoryFlags{app: a, directory: "d.db", keyFile: "key", by: "ann"}
	in := &importing{app: a, file: "t.csv", checkpoint: "t.csv.checkpoint", format: directory.CSV, fleet: f}
	return flags.with(ctx, func(d *desk) error {
		_, err := in.run(ctx, d)
		return err
	})
}

// TestTenantImportGoesOn ends an import after some lines have been written, and repeats it.
func TestTenantImportGoesOn(t *testing.T) {
	o := newOffice(t)
	o.must("cell", "open", "eu-1", "--capacity", "100") // without a topology: no shard need hold so many
	const tenants, first = 56_000, 50_000               // those that are put in order at a time
	file := o.writeTenants("t.csv", tenants)
	// The progress of the writing ends it.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	checked := 0
	err := o.importing(ctx, func(text string) {
		var n int
		if _, err := fmt.Sscanf(text, "checked %d lines", &n); err == nil {
			checked = n
		}
		if _, err := fmt.Sscanf(text, "%d of 56000 tenants are there", &n); err == nil && n >= first {
			cancel()
		}
	})
	if exit := (*exitError)(nil); !errors.As(err, &exit) || exit.code != ExitFailed || !strings.Contains(exit.hint, "the same command goes on") {
		t.Fatalf("interrupted: %v", err)
	}
	if checked != tenants+1 {
		t.Errorf("it was said that %d lines were checked, want %d", checked, tenants+1)
	}
	var at importedTo
	if found, err := readCheckpoint("t.csv.checkpoint", &at); err != nil || !found || at.Line != first+1 {
		t.Fatalf("checkpoint %+v, %t, %v", at, found, err)
	}
	o.write("t.csv", strings.Replace(file, "t00000,", "t0000x,", 1))
	if code, _, errs := o.run("tenant", "import", "t.csv"); code != ExitFound || !strings.Contains(errs, "of another file") {
		t.Errorf("another file: status %d, stderr %q", code, errs)
	}
	o.write("t.csv", file)
	code, out, after := o.run("tenant", "import", "t.csv", "--json")
	if code != ExitDone || !strings.Contains(after, fmt.Sprintf("going on after line %d", at.Line)) {
		t.Fatalf("status %d, stdout %q, stderr %q", code, out, after)
	}
	if r := lines[importReport](o, out)[0]; r.Tenants != tenants || r.Created+r.Present != tenants || r.Present < first {
		t.Errorf("going on after line %d: %+v", at.Line, r)
	}
	got := lines[cellReport](o, o.must("cell", "headroom", "--json"))[0]
	if got.Tenants != tenants || got.Reserved != tenants*1000 {
		t.Errorf("after both: %+v", got)
	}
}

// TestTenantImportIntoAnotherDirectoryOfTheName has a checkpoint of a directory that is gone: going on would
// leave out all tenants whom it says to be there.
func TestTenantImportIntoAnotherDirectoryOfTheName(t *testing.T) {
	o := openOffice(t)
	o.writeTenants("t.csv", 10)
	text, err := os.ReadFile("t.csv")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	at := importedTo{Line: 6, Operation: "cli-x", SHA256: hex.EncodeToString(sum[:]), Directory: "d.db"}
	if err := writeCheckpoint("t.csv.checkpoint", at); err != nil {
		t.Fatal(err)
	}
	o.refused(ExitFound, "the directory is another one", "tenant", "import", "t.csv")
	if err := os.Remove("t.csv.checkpoint"); err != nil {
		t.Fatal(err)
	}
	if out := o.must("tenant", "import", "t.csv"); !strings.HasPrefix(out, "10 tenants: 10 added") {
		t.Errorf("stdout %q", out)
	}
	o.write("t.csv.checkpoint", "{half")
	o.refused(ExitUsage, "checkpoint", "tenant", "import", "t.csv")
}

// TestTenantImportOfAFileThatChanges changes the file between its two readings.
func TestTenantImportOfAFileThatChanges(t *testing.T) {
	o := openOffice(t)
	file := o.writeTenants("t.csv", 100)
	for name, text := range map[string]string{
		"other tenants": strings.ReplaceAll(file, "\nt", "\nu"), "fewer": file[:len(file)/2], "a bad line": strings.Replace(file, ",1\n", ",much\n", 1),
	} {
		o.write("t.csv", file)
		err := o.importing(t.Context(), func(said string) {
			if strings.HasPrefix(said, "checked 101 lines") {
				if err := os.Remove("t.csv"); err != nil { // which is read to its end
					t.Error(err)
				}
				o.write("t.csv", text)
			}
		})
		if exit := (*exitError)(nil); !errors.As(err, &exit) || exit.code != ExitFailed || !strings.Contains(err.Error(), "was changed while") || !strings.Contains(exit.hint, "remove t.csv.checkpoint") {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.Remove("t.csv.checkpoint"); err != nil {
			t.Fatal(err)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestTenantExport(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme", "--load", "2")
	o.must("tenant", "add", "a,b", "--size", "whale")
	o.must("tenant", "pin", "a,b", "s01", "s02")
	o.must("tenant", "suspend", "acme")
	for _, name := range []string{"all.csv", "all.jsonl"} {
		if code, out, errs := o.run("tenant", "export", name); code != ExitDone || out != "" || !strings.Contains(errs, "2 tenants written") {
			t.Fatalf("%s: status %d, stdout %q, stderr %q", name, code, out, errs)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if out := o.must("tenant", "export", "--format", strings.TrimPrefix(filepath.Ext(name), ".")); out != string(text) {
			t.Errorf("%s to standard output:\n%s\nto the file:\n%s", name, out, text)
		}
	}
	before := o.must("tenant", "list", "--json")
	for _, name := range []string{"all.csv", "all.jsonl"} {
		if err := errors.Join(os.Remove("d.db"), os.Remove("d.db"+holdsSuffix)); err != nil {
			t.Fatal(err)
		}
		o.must("cell", "open", "eu-1", "--capacity", "100")
		o.must("topology", "publish", "eu-1")
		o.must("tenant", "import", name)
		old, now := lines[directory.Entry](o, before), lines[directory.Entry](o, o.must("tenant", "list", "--json"))
		for i := range old {
			old[i].Epoch, old[i].Updated, old[i].Operation = 1, now[i].Updated, now[i].Operation
			if fmt.Sprint(old[i]) != fmt.Sprint(now[i]) {
				t.Errorf("%s: %+v came back as %+v", name, old[i], now[i])
			}
		}
	}
	o.refused(ExitUsage, "say with --format", "tenant", "export", "all.db")
	o.refused(ExitUsage, "cannot write", "tenant", "export", "none/all.csv")
}

// TestTenantExportGoesOn leaves what an export that was killed leaves.
func TestTenantExportGoesOn(t *testing.T) {
	o := openOffice(t)
	for i := range 5 {
		o.must("tenant", "add", fmt.Sprint("t", i))
	}
	whole := o.must("tenant", "export")
	at := strings.Index(whole, "t3,")
	o.write("all.csv.part", whole[:at]+strings.Repeat("half a line ", 100)) // more than the checkpoint says
	checkpoint := exportedTo{After: "t2", Tenants: 3, Bytes: int64(at), Format: directory.CSV, Directory: "d.db"}
	if err := writeCheckpoint("all.csv.checkpoint", checkpoint); err != nil {
		t.Fatal(err)
	}
	if _, _, errs := o.run("tenant", "export", "all.csv"); !strings.Contains(errs, "going on after 3 tenants") || !strings.Contains(errs, "5 tenants written") {
		t.Errorf("stderr %q", errs)
	}
	if text, err := os.ReadFile("all.csv"); err != nil || string(text) != whole {
		t.Errorf("the file, %v:\n%s\nwant\n%s", err, text, whole)
	}
	// One that has less than its checkpoint says is no beginning, and one of another export is refused.
	for words, c := range map[string]exportedTo{
		"other.db, csv":            {After: "t2", Bytes: int64(at), Format: directory.CSV, Directory: "other.db"},
		"d.db, jsonl":              {After: "t2", Bytes: int64(at), Format: directory.JSONLines, Directory: "d.db"},
		"less than its checkpoint": {After: "t2", Bytes: int64(len(whole) + 1), Format: directory.CSV, Directory: "d.db"},
	} {
		o.write("all.csv", "before")
		o.write("all.csv.part", whole[:at])
		if err := writeCheckpoint("all.csv.checkpoint", c); err != nil {
			t.Fatal(err)
		}
		code, _, errs := o.run("tenant", "export", "all.csv")
		want, text := ExitFound, "before"
		if c.Bytes > int64(len(whole)) {
			want, text = ExitDone, whole
		}
		if code != want || !strings.Contains(errs, words) || want == ExitFound && !strings.Contains(errs, "remove it and all.csv.part") {
			t.Errorf("%+v: status %d, stderr %q", c, code, errs)
		}
		if got, err := os.ReadFile("all.csv"); err != nil || string(got) != text {
			t.Errorf("%+v: the file, %v:\n%s\nwant\n%s", c, err, got, text)
		}
	}
}
