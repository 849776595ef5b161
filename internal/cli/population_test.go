package cli

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestReadPopulation(t *testing.T) {
	long := strings.Repeat("x", 128)
	for _, c := range []struct {
		name, text string
		tenants    []string
		loads      []float64
	}{
		{"list", "acme\nbeta\n", []string{"acme", "beta"}, nil},
		{"no end of the last line", "acme\nbeta", []string{"acme", "beta"}, nil},
		{"CRLF", "acme\r\nbeta\r\n", []string{"acme", "beta"}, nil},
		{"byte order mark", "\ufeffacme\n", []string{"acme"}, nil},
		{"an id is its bytes", " acme \nacme\n\"a\"\na,b\ntenant\n", []string{" acme ", "acme", `"a"`, "a,b", "tenant"}, nil},
		{"the longest id", long + "\n", []string{long}, nil},
		{"CSV", "tenant,load\nacme,24861\nbeta,0\n", []string{"acme", "beta"}, []float64{24861, 0}},
		{"CSV with CRLF and mark", "\ufefftenant,load\r\nacme,1e3\r\n", []string{"acme"}, []float64{1000}},
		{"CSV with quotes", "tenant,load\n\"a,b\",0.5\n\"say \"\"hi\"\"\",\"7\"\n\"tenant\",1", []string{"a,b", `say "hi"`, "tenant"}, []float64{.5, 7, 1}},
		{"spaces in an id", "tenant,load\n a b ,1\n", []string{" a b "}, []float64{1}},
	} {
		p, err := readPopulation(iotest.OneByteReader(strings.NewReader(c.text)), "f", directoryID)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if !slices.Equal(p.tenants, c.tenants) || !slices.Equal(p.loads, c.loads) || (p.loads == nil) != (c.loads == nil) {
			t.Errorf("%s: %q, %v; want %q, %v", c.name, p.tenants, p.loads, c.tenants, c.loads)
		}
	}
}

func TestReadPopulationRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "f has no tenants: write one a line, or CSV with the header tenant,load"},
		{"a header alone", "tenant,load\n", "f has no tenants"},
		{"an empty line", "acme\n\nbeta\n", "f:2: the tenant's id is empty"},
		{"an empty line first", "\nacme\n", "f:1: the tenant's id is empty"},
		{"a mark alone", "\ufeff\n", "f:1: the tenant's id is empty"},
		{"an id too long", "acme\n" + strings.Repeat("x", 129), "f:2: the tenant's id is 129 bytes long"},
		{"a line without end", "acme\n" + strings.Repeat("x", 2000), "f:2: the line is longer than 1024 bytes"},
		{"no text", "acme\n\xff\xfe\n", `f:2: the tenant's id is "\xff\xfe", not valid UTF-8`},
		{"an id twice", "acme\nbeta\nacme\n", `f:3: tenant "acme" was named before, at 1`},
		{"another header", "tenant;load\nacme;1\n", `f:1: the header is "tenant;load": write "tenant,load"`},
		{"a header in capitals", "Tenant,Load\n", "f:1: the header is"},
		{"a header with a space", "tenant, load\n", "f:1: the header is"},
		{"a header the wrong way round", "load,tenant\n", "f:1: the header is"},
		{"a third column", "tenant,load,cell\n", "f:1: the header is"},
		{"CSV: an empty line", "tenant,load\nacme,1\n\n", "f:3: the load is missing"},
		{"CSV: no id", "tenant,load\n,1\n", "f:2: the tenant's id is empty"},
		{"CSV: no id in quotes", "tenant,load\n\"\",1\n", "f:2: the tenant's id is empty"},
		{"CSV: no comma", "tenant,load\nacme\n", "f:2: the load is missing"},
		{"CSV: no load", "tenant,load\nacme,\n", "f:2: the load is missing"},
		{"CSV: no load in quotes", "tenant,load\nacme,\"\"\n", "f:2: the load is missing"},
		{"CSV: no comma after quotes", "tenant,load\n\"acme\"5\n", "f:2: the load is missing after the quoted id"},
		{"CSV: three fields", "tenant,load\nacme,1,2\n", `f:2: the load "1,2" is not a number`},
		{"CSV: a quote inside", "tenant,load\na\"b,1\n", `f:2: quote inside a"b`},
		{"CSV: an open quote", "tenant,load\n\"acme,1\n", "f:2: the quote before the id is not closed"},
		{"CSV: an id over two lines", "tenant,load\n\"a\nb\",1\n", "f:2: the quote before the id is not closed"},
		{"CSV: an id twice", "tenant,load\nacme,1\n\"acme\",2\n", `f:3: tenant "acme" was named before, at 2`},
		{"CSV: a negative load", "tenant,load\nacme,-1\n", `f:2: the load "-1" is negative`},
		{"CSV: less than nothing", "tenant,load\nacme,-0\n", `f:2: the load "-0" is negative`},
		{"CSV: an infinite load", "tenant,load\nacme,Inf\n", `f:2: the load "Inf" is not a number`},
		{"CSV: NaN", "tenant,load\nacme,nan\n", `f:2: the load "nan" is not a number`},
		{"CSV: too large a load", "tenant,load\nacme,1e999\n", `f:2: the load "1e999" is beyond all numbers`},
		{"CSV: a hexadecimal load", "tenant,load\nacme,0x10\n", `f:2: the load "0x10" is not a number`},
		{"CSV: a load in words", "tenant,load\nacme,some\n", `f:2: the load "some" is not a number`},
		{"CSV: a space", "tenant,load\nacme, 1\n", `f:2: the load " 1" is not a number`},
		{"CSV: a sign alone", "tenant,load\nacme,-\n", `f:2: the load "-" is not a number`},
	} {
		p, err := readPopulation(strings.NewReader(c.text), "f", directoryID)
		wantUsage(t, c.name, err, c.want)
		if p != nil {
			t.Errorf("%s: a population of %d tenants beside the error", c.name, len(p.tenants))
		}
	}
	broken := errors.New("the disk is gone")
	_, err := readPopulation(io.MultiReader(strings.NewReader("acme\nbe"), iotest.ErrReader(broken)), "f", directoryID)
	wantUsage(t, "an error of the reader", err, "f:2: the disk is gone")
	if !errors.Is(err, broken) {
		t.Errorf("%v does not wrap the reader's error", err)
	}
}

// wantUsage wants an error of wrong use that begins with the text.
func wantUsage(t *testing.T, name string, err error, begin string) {
	t.Helper()
	var e *exitError
	if !errors.As(err, &e) || e.code != ExitUsage || !strings.HasPrefix(err.Error(), begin) {
		t.Errorf("%s: %v; want status 2 and %q", name, err, begin)
	}
}

func TestNamedPopulation(t *testing.T) {
	p, err := namedPopulation([]string{"acme", "beta"}, directoryID)
	if err != nil || !slices.Equal(p.tenants, []string{"acme", "beta"}) || p.loads != nil {
		t.Errorf("%+v, %v", p, err)
	}
	for _, c := range []struct{ id, want string }{
		{"", "argument 2: the tenant's id is empty"},
		{"acme", `argument 2: tenant "acme" was named before, at 1`},
		{strings.Repeat("é", 65), "argument 2: the tenant's id is 130 bytes long"},
		{"\xc3", `argument 2: the tenant's id is "\xc3", not valid UTF-8`},
	} {
		_, err := namedPopulation([]string{"acme", c.id}, directoryID)
		wantUsage(t, c.id, err, c.want)
	}
}

func TestFilePopulation(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tenants")
	if err := os.WriteFile(file, []byte("acme\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &app{in: strings.NewReader("beta\n\n")}
	if p, err := a.filePopulation(file, directoryID); err != nil || !slices.Equal(p.tenants, []string{"acme"}) {
		t.Errorf("%+v, %v", p, err)
	}
	_, err := a.filePopulation("-", directoryID)
	wantUsage(t, "standard input", err, "standard input:2: the tenant's id is empty")
	_, err = a.filePopulation(file+"-not", directoryID)
	wantUsage(t, "no file", err, "cannot read the tenants: open "+file+"-not: ")
	_, err = a.filePopulation(filepath.Dir(file), directoryID)
	wantUsage(t, "a folder", err, filepath.Dir(file)+":1: read ")
}

// What encoding/csv writes is read back, as long as an id stays on its line.
func TestReadPopulationRoundTrip(t *testing.T) {
	id := rapid.StringOfN(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune(`",' ;`+"\t\x00"))), 1, -1, 128).
		Filter(func(s string) bool { return !strings.ContainsAny(s, "\r\n") && s != "\ufeff" })
	rapid.Check(t, func(t *rapid.T) {
		tenants := rapid.SliceOfNDistinct(id, 1, 20, rapid.ID).Draw(t, "tenants")
		loads := rapid.SliceOfN(rapid.Float64Range(0, math.MaxFloat64), len(tenants), len(tenants)).Draw(t, "loads")
		var text bytes.Buffer
		w := csv.NewWriter(&text)
		w.UseCRLF = rapid.Bool().Draw(t, "CRLF")
		records := [][]string{{"tenant", "load"}}
		for i, id := range tenants {
			records = append(records, []string{id, strconv.FormatFloat(math.Abs(loads[i]), 'g', -1, 64)})
		}
		if err := w.WriteAll(records); err != nil {
			t.Fatal(err)
		}
		p, err := readPopulation(&text, "f", directoryID)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(p.tenants, tenants) || !slices.Equal(p.loads, loads) {
			t.Fatalf("%q, %v; want %q, %v", p.tenants, p.loads, tenants, loads)
		}
	})
}

// FuzzReadPopulation: what is read is valid, and is what encoding/csv reads; what is refused has
// status 2.
func FuzzReadPopulation(f *testing.F) {
	f.Add([]byte("acme\nbeta\n"))
	f.Add([]byte("tenant,load\nacme,24861\n\"a,\"\"b\",0.5\n"))
	f.Add([]byte("\ufefftenant,load\r\nacme,1e3\r"))
	f.Add([]byte("tenant,load\n\xff,NaN\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := readPopulation(bytes.NewReader(text), "f", directoryID)
		if err != nil {
			var e *exitError
			if !errors.As(err, &e) || e.code != ExitUsage || p != nil {
				t.Fatalf("%v has no status 2, or a population beside it", err)
			}
			return
		}
		seen := make(map[string]bool)
		for _, id := range p.tenants {
			if len(id) < 1 || len(id) > 128 || !utf8.ValidString(id) || seen[id] {
				t.Fatalf("tenant %q was taken", id)
			}
			seen[id] = true
		}
		if len(p.tenants) == 0 {
			t.Fatal("no tenants were taken")
		}
		if p.loads == nil {
			return
		}
		r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff"))))
		r.FieldsPerRecord = 2
		records, err := r.ReadAll()
		if err != nil {
			t.Fatalf("encoding/csv refuses it: %v", err)
		}
		if len(records) != len(p.tenants)+1 || len(p.loads) != len(p.tenants) {
			t.Fatalf("%d tenants, %d loads, %d records", len(p.tenants), len(p.loads), len(records))
		}
		for i, record := range records[1:] {
			load, err := strconv.ParseFloat(record[1], 64)
			if err != nil || record[0] != p.tenants[i] || load != p.loads[i] || !(load >= 0) || math.IsInf(load, 0) {
				t.Fatalf("record %q became tenant %q with load %v", record, p.tenants[i], p.loads[i])
			}
		}
	})
}
