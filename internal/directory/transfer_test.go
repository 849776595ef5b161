package directory_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
)

var at = time.Date(2026, 11, 30, 10, 20, 30, 123456789, time.UTC)

func change(operation string) directory.Change {
	return directory.Change{Operation: operation, By: "ann", At: at}
}

func read(t testing.TB, text string, f directory.FileFormat) (lines []directory.Line, err error) {
	t.Helper()
	for line, e := range directory.ReadEntries(strings.NewReader(text), f) {
		if e != nil {
			return lines, e
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// What is exported reads back as it was, in both formats, whatever the ids.
func TestExportRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := directorytest.Fill(t, directory.NewMemory())
		format := rapid.SampledFrom([]directory.FileFormat{directory.CSV, directory.JSONLines}).Draw(rt, "format")
		alphabet := []rune{'a', ',', '"', ' ', '\'', '=', 0, 'ä', '\U0001F512', '\ufeff', '\u2028', '<'}
		if format == directory.JSONLines {
			alphabet = append(alphabet, '\n', '\r')
		}
		ids := rapid.SliceOfNDistinct(rapid.StringOfN(rapid.RuneFrom(alphabet), 1, 8, 128), 1, 8, rapid.ID).Draw(rt, "ids")
		want := map[string]directory.Entry{}
		for _, id := range ids {
			e, err := d.Create(t.Context(), directory.Entry{
				Tenant: id, Cell: rapid.SampledFrom([]string{"eu-1", "us-1"}).Draw(rt, "cell"),
				State: rapid.SampledFrom([]directory.State{directory.Active, directory.Suspended}).Draw(rt, "state"),
				Size:  rapid.SampledFrom([]string{"", "whale"}).Draw(rt, "size"), Topology: rapid.Uint64Max(3).Draw(rt, "topology"),
				Pins: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"s01", "s02", "s03"}), 0, 3, rapid.ID).Draw(rt, "pins"),
				Load: directory.Rate(rapid.Int64Range(0, int64(directory.MaxRate)).Draw(rt, "load")), Internal: rapid.Bool().Draw(rt, "internal"),
			}, change("op"))
			if err != nil {
				rt.Fatal(err)
			}
			want[id] = e
		}
		var file bytes.Buffer
		n, err := d.Export(t.Context(), &file, format, "", func(int, string) {})
		if err != nil || n != len(ids) {
			rt.Fatalf("%d exported, %v; want %d", n, err, len(ids))
		}
		got := map[string]directory.Entry{}
		lines, err := read(t, file.String(), format)
		if err != nil {
			rt.Fatal(err)
		}
		for _, line := range lines {
			if line.Fault != nil {
				rt.Fatalf("line %d: %v", line.Number, line.Fault)
			}
			got[line.Entry.Tenant] = line.Entry
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			rt.Errorf("read back (-want +got):\n%s", diff)
		}
	})
}

func TestExportRefusesLineBreaksInCSV(t *testing.T) {
	d := directorytest.Fill(t, directory.NewMemory())
	if _, err := d.Create(t.Context(), directory.Entry{Tenant: "a\r\nb", Cell: "eu-1", State: directory.Active}, change("op")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Export(t.Context(), new(bytes.Buffer), directory.CSV, "", func(int, string) {}); err == nil || !strings.Contains(err.Error(), "jsonl") {
		t.Errorf("%v, want advice to use jsonl", err)
	}
}

func TestVetReportsEveryBadLine(t *testing.T) {
	d := directorytest.Fill(t, directory.NewMemory())
	check, err := d.Checker(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const csv = "\ufefftenant,cell,load,pins,state,topology,size\r\n" +
		"good,eu-1,1.5,s01 s02,,3,\r\n" +
		"\r\n" +
		"bad load,eu-1,much,,,3,\r\n" +
		"good,us-1,1,,,3,\r\n" +
		",eu-1,1,,,3,\r\n" +
		"bad pin,eu-1,1,s09,,3,\r\n" +
		"\"open,eu-1,1,,,3,\r\n" +
		"few,eu-1\r\n" +
		"bad cell,nowhere,1,,,3,\r\n" +
		"bad topology,eu-1,1,,,9,\r\n" +
		"bad size,eu-1,1,,,3,shark\r\n" +
		"bad state,eu-1,1,,moving,3,\r\n" +
		"no state,eu-1,1,,asleep,3,\r\n" +
		"negative,eu-1,-1,,,3,\r\n" +
		"also good,eu-1,,,suspended,,whale"
	faults, good, err := directory.Vet(directory.ReadEntries(strings.NewReader(csv), directory.CSV), check)
	if err != nil || good != 2 {
		t.Errorf("%d good, %v; want 2", good, err)
	}
	var got []int
	for _, f := range faults {
		got = append(got, f.Line)
		if f.Error() == "" {
			t.Errorf("line %d: no reason", f.Line)
		}
	}
	if want := []int{4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; !slices.Equal(got, want) {
		t.Errorf("faults on lines %v, want %v: %v", got, want, faults)
	}
	const jsonl = `{"tenant":"a","cell":"eu-1","load":1.5}` + "\n" +
		`{"tenant":"b","cell":"eu-1","colour":"red"}` + "\n" +
		`{"tenant":"c","cell":"eu-1"} {}` + "\n" + `{` + "\n" + "{\"tenant\":\"\xff\",\"cell\":\"eu-1\"}\n" +
		`{"tenant":"a","cell":"eu-1"}` + "\n" + `[]`
	faults, good, err = directory.Vet(directory.ReadEntries(strings.NewReader(jsonl), directory.JSONLines), check)
	if err != nil || good != 1 || len(faults) != 6 {
		t.Errorf("%d good, %d faults, %v; want 1 and 6: %v", good, len(faults), err, faults)
	}
}

func TestFilesThatAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		format directory.FileFormat
	}{
		"empty":             {"", directory.CSV},
		"no tenants":        {"cell,load\n", directory.CSV},
		"an unknown column": {"tenant,colour\n", directory.CSV},
		"a column twice":    {"tenant,cell,tenant\n", directory.CSV},
		"a long line":       {"tenant\n" + strings.Repeat("x", 70_000), directory.CSV},
		"a long JSON line":  {strings.Repeat("x", 70_000), directory.JSONLines},
		"another format":    {"tenant\n", "xml"},
	} {
		if lines, err := read(t, c.text, c.format); err == nil {
			t.Errorf("%s: read %d lines", name, len(lines))
		}
	}
}

func lines(n int) string {
	var b strings.Builder
	b.WriteString("tenant,cell,load\n")
	for i := range n {
		fmt.Fprintf(&b, "t%06d,eu-1,1\n", i)
	}
	return b.String()
}

// An import that was interrupted is taken up where progress says, or from the beginning, and both come
// to the same end.
func TestImportIsTakenUp(t *testing.T) {
	const n = 5_000
	file := lines(n)
	for _, from := range []string{"progress", "beginning"} {
		d := directorytest.Fill(t, directory.NewMemory())
		var mu sync.Mutex
		done, calls := 0, 0
		errStop := errors.New("stop")
		all := func() func(func(directory.Line, error) bool) {
			return directory.ReadEntries(strings.NewReader(file), directory.CSV)
		}
		failing := func(ctx context.Context, e []directory.Entry, c directory.Change) (directory.Enrolled, error) {
			if e[0].Tenant >= "t002500" && calls == 0 {
				return directory.Enrolled{}, errStop
			}
			return d.Enrol(ctx, e, c)
		}
		err := directory.Import(t.Context(), all(), 0, change("import"), failing, func(p directory.Progress) {
			if p.Line <= done {
				t.Errorf("progress went from line %d to %d", done, p.Line)
			}
			done = p.Line
		})
		if !errors.Is(err, errStop) || done > 2501 {
			t.Fatalf("%v at line %d, want it to stop before 2,502", err, done)
		}
		if from == "beginning" {
			done = 0
		}
		calls++
		first, given := done, 0
		if err := directory.Import(t.Context(), all(), done, change("import"), func(ctx context.Context, e []directory.Entry, c directory.Change) (directory.Enrolled, error) {
			mu.Lock()
			given += len(e)
			mu.Unlock()
			return d.Enrol(ctx, e, c)
		}, func(p directory.Progress) { done = p.Line }); err != nil {
			t.Fatal(err)
		}
		if want := n - max(first-1, 0); given != want { // the first line names the columns
			t.Errorf("taken up after line %d, %d tenants were enrolled; want %d", first, given, want)
		}
		if done != n+1 {
			t.Errorf("done up to line %d, want %d", done, n+1)
		}
		if c, err := d.Cell(t.Context(), "eu-1"); err != nil || c.Tenants != n || c.Load != n*1000 {
			t.Errorf("from line %d: the cell has %d tenants with load %v, %v", first, c.Tenants, c.Load, err)
		}
	}
}

func TestImportStopsAtABadLine(t *testing.T) {
	d := directorytest.Fill(t, directory.NewMemory())
	err := directory.Import(t.Context(), directory.ReadEntries(strings.NewReader("tenant,cell\na,eu-1\nb\n"), directory.CSV), 0, change("import"), d.Enrol, func(directory.Progress) {})
	if fault := (directory.Fault{}); !errors.As(err, &fault) || fault.Line != 3 {
		t.Errorf("%v, want a fault on line 3", err)
	}
}

func TestExportIsTakenUp(t *testing.T) {
	d := directorytest.Fill(t, directory.NewMemory())
	const n = 2_500
	if err := directory.Import(t.Context(), directory.ReadEntries(strings.NewReader(lines(n)), directory.CSV), 0, change("import"), d.Enrol, func(directory.Progress) {}); err != nil {
		t.Fatal(err)
	}
	var whole, parts bytes.Buffer
	if got, err := d.Export(t.Context(), &whole, directory.CSV, "", func(int, string) {}); err != nil || got != n {
		t.Fatalf("%d, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	last := ""
	if _, err := d.Export(ctx, &parts, directory.CSV, "", func(_ int, tenant string) { last = tenant; cancel() }); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, want it to stop", err)
	}
	if _, err := d.Export(t.Context(), &parts, directory.CSV, last, func(int, string) {}); err != nil {
		t.Fatal(err)
	}
	if whole.String() != parts.String() {
		t.Error("an export in two parts differs from one")
	}
}

func FuzzReadEntries(f *testing.F) {
	f.Add("tenant,cell\na,b\n", true)
	f.Add(`{"tenant":"a"}`, false)
	f.Fuzz(func(t *testing.T, text string, csv bool) {
		format := directory.JSONLines
		if csv {
			format = directory.CSV
		}
		last := 0
		for line, err := range directory.ReadEntries(strings.NewReader(text), format) {
			if err == nil && (line.Number <= last || line.Number > strings.Count(text, "\n")+1) {
				t.Errorf("line %d after %d", line.Number, last)
			}
			last = line.Number
		}
	})
}

func TestRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := directory.Rate(rapid.Int64Range(0, int64(directory.MaxRate)).Draw(t, "rate"))
		if got, err := directory.PerSecond(want.Float()); err != nil || got != want {
			t.Errorf("%v read back is %v, %v", want, got, err)
		}
	})
	for text, f := range map[string]float64{"0": 0, "0.001": 0.0001, "12.5": 12.5, "1000": 1000} {
		if r, err := directory.PerSecond(f); err != nil || r.String() != text {
			t.Errorf("%v is %v, %v; want %s", f, r, err, text)
		}
	}
	for _, f := range []float64{-0.001, 1e10, 1e300} {
		if r, err := directory.PerSecond(f); err == nil {
			t.Errorf("%v is accepted as %v", f, r)
		}
	}
}
