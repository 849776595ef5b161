package directory_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
)

// window is how many lines are put in order before they are enrolled.
const window = 50_000

func lines(n int) string { return linesOf(n, func(i int) int { return i }) }

// linesOf is a file of n tenants in the order that at gives.
func linesOf(n int, at func(int) int) string {
	var b strings.Builder
	b.WriteString("tenant,cell,load\n")
	for i := range n {
		fmt.Fprintf(&b, "t%06d,eu-1,1\n", at(i))
	}
	return b.String()
}

// shuffled is linesOf in an order of chance.
func shuffled(t *testing.T, n int) string {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	order := rand.New(rand.NewPCG(seed, 0)).Perm(n)
	return linesOf(n, func(i int) int { return order[i] })
}

func entries(text string) iter.Seq2[directory.Line, error] {
	return directory.ReadEntries(strings.NewReader(text), directory.CSV)
}

// register has who was enrolled, how often.
type register struct {
	sync.Mutex
	times map[string]int
}

func (r *register) enrol(_ context.Context, all []directory.Entry, _ directory.Change) (directory.Enrolled, error) {
	r.Lock()
	defer r.Unlock()
	for _, e := range all {
		r.times[e.Tenant]++
	}
	return directory.Enrolled{Created: len(all)}, nil
}

// An import that was interrupted is taken up where progress says, or from the beginning, and both come
// to the same end.
func TestImportIsTakenUp(t *testing.T) {
	const n = 2*window + 20_000
	file := shuffled(t, n)
	for _, from := range []string{"progress", "beginning"} {
		r := register{times: map[string]int{}}
		errStop := errors.New("stop")
		done, failing := 0, func(ctx context.Context, all []directory.Entry, c directory.Change) (directory.Enrolled, error) {
			r.Lock()
			stop := len(r.times) > window+window/2
			r.Unlock()
			if stop {
				return directory.Enrolled{}, errStop
			}
			return r.enrol(ctx, all, c)
		}
		progress := func(p directory.Progress) {
			if p.Line < done {
				t.Errorf("progress went from line %d to %d", done, p.Line)
			}
			done = p.Line
		}
		err := directory.Import(t.Context(), entries(file), 0, change("import"), failing, progress)
		if !errors.Is(err, errStop) || done != window+1 { // the first line names the columns
			t.Fatalf("%v at line %d, want it to stop after a window, at line %d", err, done, window+1)
		}
		number := 0
		for line := range entries(file) {
			if number++; line.Number <= done && r.times[line.Entry.Tenant] != 1 {
				t.Fatalf("line %d is said to be done, and is not", line.Number)
			}
		}
		if from == "beginning" {
			done = 0
		}
		first, before := done, maps.Clone(r.times)
		if err := directory.Import(t.Context(), entries(file), done, change("import"), r.enrol, progress); err != nil {
			t.Fatal(err)
		}
		if done != n+1 || len(r.times) != n {
			t.Errorf("done up to line %d, %d tenants; want %d and %d", done, len(r.times), n+1, n)
		}
		again := 0
		for id, times := range r.times {
			again += times - before[id]
		}
		if want := n - max(first-1, 0); again != want {
			t.Errorf("taken up after line %d, %d tenants were enrolled; want %d", first, again, want)
		}
	}
}

// A home in pages on disk writes each page once when neighbours come together.
func TestImportEnrolsNeighboursTogether(t *testing.T) {
	const n = window + 7_000
	var mu sync.Mutex
	var chunks [][]directory.Entry
	err := directory.Import(t.Context(), entries(shuffled(t, n)), 0, change("import"), func(_ context.Context, all []directory.Entry, _ directory.Change) (directory.Enrolled, error) {
		mu.Lock()
		defer mu.Unlock()
		chunks = append(chunks, all)
		return directory.Enrolled{Created: len(all)}, nil
	}, func(directory.Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	spans, total := 0, 0
	for _, chunk := range chunks {
		byID := func(a, b directory.Entry) int { return strings.Compare(a.Tenant, b.Tenant) }
		if !slices.IsSortedFunc(chunk, byID) {
			t.Fatalf("a chunk from %s is not in order", chunk[0].Tenant)
		}
		var first, last int
		if _, err := fmt.Sscanf(chunk[0].Tenant+" "+chunk[len(chunk)-1].Tenant, "t%d t%d", &first, &last); err != nil {
			t.Fatal(err)
		}
		spans += last - first + 1
		total += len(chunk)
	}
	// The chunks of one window do not overlap, so that they span at most all ids; of any order, each would.
	if total != n || spans > 2*n {
		t.Errorf("%d tenants in %d chunks over %d ids, want %d and at most %d", total, len(chunks), spans, n, 2*n)
	}
}

// What was enrolled before the interruption is there once, and counted once.
func TestImportIsRepeated(t *testing.T) {
	const n = 5_000
	d := directorytest.Fill(t, directory.NewMemory())
	errStop := errors.New("stop")
	failing := func(ctx context.Context, e []directory.Entry, c directory.Change) (directory.Enrolled, error) {
		if e[0].Tenant >= "t002500" {
			return directory.Enrolled{}, errStop
		}
		return d.Enrol(ctx, e, c)
	}
	none := func(directory.Progress) {}
	if err := directory.Import(t.Context(), entries(lines(n)), 0, change("import"), failing, none); !errors.Is(err, errStop) {
		t.Fatal(err)
	}
	for _, operation := range []string{"import", "another import"} {
		var last directory.Progress
		if err := directory.Import(t.Context(), entries(lines(n)), 0, change(operation), d.Enrol, func(p directory.Progress) { last = p }); err != nil {
			t.Fatal(err)
		}
		if last.Created+last.Present != n || len(last.Differ) > 0 {
			t.Errorf("%s: %+v", operation, last)
		}
		if c, err := d.Cell(t.Context(), "eu-1"); err != nil || c.Tenants != n || c.Load != n*1000 {
			t.Errorf("%s: the cell has %d tenants with load %v, %v", operation, c.Tenants, c.Load, err)
		}
	}
}

func TestImportStopsAtABadLine(t *testing.T) {
	d := directorytest.Fill(t, directory.NewMemory())
	err := directory.Import(t.Context(), entries("tenant,cell\na,eu-1\nb\n"), 0, change("import"), d.Enrol, func(directory.Progress) {})
	if fault := (directory.Fault{}); !errors.As(err, &fault) || fault.Line != 3 {
		t.Errorf("%v, want a fault on line 3", err)
	}
}

// What is exported, imported into another directory by the same change, and exported again, is the same file,
// byte for byte, in both formats and across them.
func TestExportImportExportIsTheSame(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		from, to := directorytest.Fill(t, directory.NewMemory()), directorytest.Fill(t, directory.NewMemory())
		format := rapid.SampledFrom([]directory.FileFormat{directory.CSV, directory.JSONLines}).Draw(rt, "format")
		ids := rapid.SliceOfNDistinct(rapid.StringOfN(rapid.RuneFrom(alphabet(format)), 1, 8, 128), 1, 8, rapid.ID).Draw(rt, "ids")
		for _, id := range ids {
			if _, err := from.Create(t.Context(), entryOf(rt, id), change("op")); err != nil {
				rt.Fatal(err)
			}
		}
		export := func(d *directory.Directory, f directory.FileFormat) string {
			var file bytes.Buffer
			if _, err := d.Export(t.Context(), &file, f, "", func(int, string) {}); err != nil {
				rt.Fatal(err)
			}
			return file.String()
		}
		file := export(from, format)
		check, err := to.Checker(t.Context(), time.Now())
		if err != nil {
			rt.Fatal(err)
		}
		all := func() iter.Seq2[directory.Line, error] { return directory.ReadEntries(strings.NewReader(file), format) }
		if bad, good, err := directory.Vet(all(), check, func(f directory.Fault) { rt.Error(f) }); bad > 0 || good != len(ids) || err != nil {
			rt.Fatalf("%d bad, %d good, %v", bad, good, err)
		}
		if err := directory.Import(t.Context(), all(), 0, change("op"), to.Enrol, func(directory.Progress) {}); err != nil {
			rt.Fatal(err)
		}
		if again := export(to, format); again != file {
			rt.Errorf("exported again:\n%s\nwas\n%s", again, file)
		}
		if a, b := export(from, directory.JSONLines), export(to, directory.JSONLines); a != b {
			rt.Errorf("as JSON lines:\n%s\nwas\n%s", b, a)
		}
	})
}
