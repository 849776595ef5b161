package cli

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
)

// lineReader makes lines as they are read.
type lineReader struct {
	line  func(i int) string
	lines int
	next  int
	rest  string
	bytes int
}

func (r *lineReader) Read(p []byte) (int, error) {
	if r.rest == "" {
		if r.next == r.lines {
			return 0, io.EOF
		}
		r.rest = r.line(r.next) + "\n"
		r.next++
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	r.bytes += n
	return n, nil
}

// wideLine is a line of 450 bytes of which a population needs 16.
func wideLine(i int) string {
	if i == 0 {
		return populationHeader
	}
	return fmt.Sprintf("t%07d,1.%0440d", i, i)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A file is read as a stream: what is kept is the ids and at most 48 bytes for each, whatever the lines hold.
func TestAPopulationIsNotItsFile(t *testing.T) {
	lines := 100_000
	if !testing.Short() {
		lines = 700_000 // 315 MB
	}
	for _, c := range []struct {
		name string
		line func(int) string
		id   int
	}{
		{"wide lines", wideLine, 8},
		{"long ids", func(i int) string { return fmt.Sprintf("%0200d", i) }, 200},
	} {
		before := heap()
		r := &lineReader{line: c.line, lines: lines}
		p, err := readPopulation(r, "f", placementID)
		if err != nil {
			t.Fatal(err)
		}
		each := float64(heap()-before) / float64(len(p.tenants))
		t.Logf("%s: %d MB read, %.1f bytes kept for each of %d tenants", c.name, r.bytes>>20, each, len(p.tenants))
		if each > float64(c.id+48) {
			t.Errorf("%s: %.1f bytes for each tenant with an id of %d: want at most %d", c.name, each, c.id, c.id+48)
		}
		runtime.KeepAlive(p)
	}
}

// A tenant that stands twice is found however far apart, and its first line is named.
func TestDuplicatesAreFarApart(t *testing.T) {
	const lines = 150_000
	r := &lineReader{lines: lines, line: func(i int) string {
		if i == lines-1 {
			i = 77
		}
		return fmt.Sprintf("t%d", i)
	}}
	_, err := readPopulation(r, "f", placementID)
	wantUsage(t, "far apart", err, fmt.Sprintf(`f:%d: tenant "t77" was named before, at 78`, lines))
}

// The further columns of a population for plan.
func TestReadColumns(t *testing.T) {
	const text = "tenant,load,pins,cell,size\na,1,s01 s02,eu-1,\n\"b,c\",2,\"s03\",\"us-1\",whale\nd,3,,eu-1,whale\n"
	p, err := readColumns(strings.NewReader(text), "f", placementID, planColumns)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"a 1 eu-1  [s01 s02]", "b,c 2 us-1 whale [s03]", "d 3 eu-1 whale []"} {
		if got := fmt.Sprintf("%s %v %s %s %v", p.tenants[i], p.load(i), p.words[p.cells[i]], p.size(i), p.pins[i]); got != want {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
	}
	var many strings.Builder
	many.WriteString("tenant,load,size\n")
	for i := range maxWords {
		fmt.Fprintf(&many, "t%d,1,size%d\n", i, i)
	}
	_, err = readColumns(strings.NewReader(many.String()), "f", placementID, planColumns)
	wantUsage(t, "too many sizes", err, fmt.Sprintf(`f:%d: size "size%d" is one name too many`, maxWords+1, maxWords-1))
}
