package directory_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
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

// alphabet has what is hard to write in a file of that format.
func alphabet(f directory.FileFormat) []rune {
	all := []rune{'a', ',', '"', ' ', '\'', '\\', '=', 0, '\t', 'ä', '\U0001F512', '\ufeff', '\ufffd', '\u2028', '<'}
	if f == directory.JSONLines {
		all = append(all, '\n', '\r')
	}
	return all
}

// entryOf draws an entry of cells and topologies of directorytest.Fill.
func entryOf(rt *rapid.T, id string) directory.Entry {
	e := directory.Entry{
		Tenant: id, Cell: rapid.SampledFrom([]string{"eu-1", "us-1"}).Draw(rt, "cell"),
		State: rapid.SampledFrom([]directory.State{directory.Active, directory.Suspended}).Draw(rt, "state"),
		Size:  rapid.SampledFrom([]string{"", "whale"}).Draw(rt, "size"), Topology: rapid.Uint64Max(3).Draw(rt, "topology"),
		Pins: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"s01", "s02", "s03"}), 0, 3, rapid.ID).Draw(rt, "pins"),
		Load: directory.Rate(rapid.Int64Range(0, int64(directory.MaxRate)).Draw(rt, "load")), Internal: rapid.Bool().Draw(rt, "internal"),
	}
	if rapid.Bool().Draw(rt, "created before") {
		e.Created = time.Unix(rapid.Int64Range(0, 4e9).Draw(rt, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(rt, "nanoseconds")).UTC()
	}
	return e
}

// What is exported reads back as it was, in both formats, whatever the ids.
func TestExportRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := directorytest.Fill(t, directory.NewMemory())
		format := rapid.SampledFrom([]directory.FileFormat{directory.CSV, directory.JSONLines}).Draw(rt, "format")
		ids := rapid.SliceOfNDistinct(rapid.StringOfN(rapid.RuneFrom(alphabet(format)), 1, 8, 128), 1, 8, rapid.ID).Draw(rt, "ids")
		want := map[string]directory.Entry{}
		for _, id := range ids {
			e, err := d.Create(t.Context(), entryOf(rt, id), change("op"))
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

func TestFilesThatAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		format directory.FileFormat
	}{
		"empty":              {"", directory.CSV},
		"no tenants":         {"cell,load\n", directory.CSV},
		"an unknown column":  {"tenant,colour\n", directory.CSV},
		"a column twice":     {"tenant,cell,tenant\n", directory.CSV},
		"a long first line":  {strings.Repeat("tenant,", 10_000) + "\n", directory.CSV},
		"JSON":               {`{"tenant":"a","cell":"eu-1"}` + "\n", directory.CSV},
		"16 bits a letter":   {"\xff\xfet\x00e\x00n\x00a\x00n\x00t\x00\n\x00", directory.CSV},
		"ends of an old Mac": {"tenant,cell\ra,eu-1\r", directory.CSV},
		"another format":     {"tenant\n", "xml"},
	} {
		if lines, err := read(t, c.text, c.format); err == nil || len(lines) > 0 {
			t.Errorf("%s: read %d lines, %v", name, len(lines), err)
		}
	}
	broken := io.MultiReader(strings.NewReader("tenant,cell\na,eu-1\nb,eu"), iotest.ErrReader(io.ErrUnexpectedEOF))
	n := 0
	var last error
	for _, last = range directory.ReadEntries(broken, directory.CSV) {
		n++
	}
	if n != 2 || !errors.Is(last, io.ErrUnexpectedEOF) {
		t.Errorf("a disk that fails after one line: %d lines, the last with %v", n, last)
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
