//go:build unix

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
)

// full takes so many bytes in all, and of the write that goes beyond what still fits.
type full struct{ room int }

func (f *full) Write(p []byte) (int, error) {
	if len(p) > f.room {
		n := f.room
		f.room = 0
		return n, errors.New("no space left on device")
	}
	f.room -= len(p)
	return len(p), nil
}

// TestTallied: what a disk took of a write that failed counts, and nothing else.
func TestTallied(t *testing.T) {
	w := &tallied{w: &full{room: 5}, n: 100}
	if n, err := w.Write([]byte("abc")); n != 3 || err != nil || w.n != 103 {
		t.Errorf("%d, %v, %d in all", n, err, w.n)
	}
	if n, err := w.Write([]byte("defg")); n != 2 || err == nil || w.n != 105 {
		t.Errorf("%d, %v, %d in all", n, err, w.n)
	}
}

// TestTenantExportStopsWithinAPage: rows of a page that failed half-way are in the file already. The export
// that goes on makes the file that one without a stop makes, without them twice.
func TestTenantExportStopsWithinAPage(t *testing.T) {
	if !alone(t) {
		return
	}
	t.Chdir(t.TempDir())
	dir, err := directory.Open(t.Context(), directory.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dir.AddCell(t.Context(), directory.Cell{Name: "eu-1", Zones: []string{"a"}}, directory.Change{Operation: "add", By: "ann"}); err != nil {
		t.Fatal(err)
	}
	store := dir.Store("ann")
	const tenants = 2500 // three pages
	// Rows that are long, so that the file is full before go test's own log of this process would be.
	long := strings.Repeat("x", 120)
	for i := range tenants {
		e := directory.Entry{Tenant: fmt.Sprintf("t%04d-%s", i, long), Cell: "eu-1", State: directory.Active, Pins: []string{"s1"}, Operation: "add"}
		if _, err := store.Create(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	export := func() (int, error) {
		f := &directoryFlags{app: &app{out: &bytes.Buffer{}, err: &bytes.Buffer{}}}
		d := &desk{Residence: directory.NewResidence(dir, nil, nil), where: "memory"}
		return f.exportFile(t.Context(), d, "all.csv", directory.CSV, func(int) {})
	}
	if n, err := export(); err != nil || n != tenants {
		t.Fatalf("%d tenants, %v", n, err)
	}
	whole, err := os.ReadFile("all.csv")
	if err != nil {
		t.Fatal(err)
	}
	for tenant, after := range map[string]int{"t0700": 0, "t1400": 1000, "t2400": 2000} {
		size := bytes.Index(whole, []byte(tenant)) + 3 // within its row
		restore := limitFiles(t, size)
		n, err := export()
		restore()
		if !errors.Is(err, syscall.EFBIG) {
			t.Fatalf("with room for %d bytes: %d tenants, %v", size, n, err)
		}
		part, err := os.Stat("all.csv.part")
		if err != nil {
			t.Fatal(err)
		}
		var at exportedTo
		found, err := readCheckpoint("all.csv.checkpoint", &at)
		if err != nil || found != (after > 0) || at.Tenants != after || at.Bytes >= part.Size() {
			t.Errorf("stopped at %s: checkpoint %+v, %t, %v; the file has %d bytes", tenant, at, found, err, part.Size())
		}
		if n, err := export(); err != nil || n != tenants {
			t.Errorf("stopped at %s: %d tenants, %v", tenant, n, err)
		}
		if got, err := os.ReadFile("all.csv"); err != nil || !bytes.Equal(got, whole) {
			t.Errorf("stopped at %s: %v, the file has %d bytes, want %d", tenant, err, len(got), len(whole))
		}
	}
}

// alone says that this is a process for the test alone, and is otherwise that process's result: what a test does to a whole
// process must not reach others, nor the log that go test keeps of files.
func alone(t *testing.T) bool {
	t.Helper()
	const variable = "CELLWALL_TEST_ALONE"
	if os.Getenv(variable) == t.Name() {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), variable+"="+t.Name())
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// limitFiles keeps this process from making a file larger, as a full disk does, until restore is called.
func limitFiles(t *testing.T, size int) (restore func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(size), Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Fatal(err)
		}
		signal.Reset(syscall.SIGXFSZ)
	}
}
