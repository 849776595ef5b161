package snapshot

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

const (
	routerFile = "CELLWALL_TEST_ROUTER_FILE"
	routerCell = "CELLWALL_TEST_ROUTER_CELL"
)

// many is a snapshot of n tenants with ids of the given length, a tenth of them pinned.
func many(t testing.TB, generation uint64, n, length int) *Snapshot {
	t.Helper()
	b := NewBuilder("eu-1")
	for i := range n {
		id := fmt.Sprintf("tenant-%07d-", i)
		e := directory.Entry{Tenant: id + strings.Repeat("x", length-len(id)), Cell: "eu-1", State: directory.Active, Epoch: uint64(i%5 + 1), Topology: 3}
		if i%10 == 0 {
			e.Size, e.Pins = "whale", []string{fmt.Sprintf("s%02d", i/10%16+1), fmt.Sprintf("s%02d", (i/10+1)%16+1)}
		}
		if err := b.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := b.Entries()
	if err != nil {
		t.Fatal(err)
	}
	return &Snapshot{Cell: "eu-1", Generation: generation, Taken: epoch0, Entries: entries}
}

// manyOfFleet is a front door's snapshot of n tenants in 20 cells.
func manyOfFleet(t testing.TB, generation uint64, n, length int) *Snapshot {
	t.Helper()
	cells := []string{}
	for i := range 20 {
		cells = append(cells, fmt.Sprintf("eu-%d", i+1))
	}
	b := NewFleetBuilder(cells)
	for i := range n {
		id := fmt.Sprintf("tenant-%07d-", i)
		e := directory.Entry{Tenant: id + strings.Repeat("x", length-len(id)), Cell: cells[i%20], State: directory.Active, Epoch: uint64(i%5 + 1), Topology: 3}
		if err := b.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := b.Entries()
	if err != nil {
		t.Fatal(err)
	}
	return &Snapshot{Cell: Fleet, Generation: generation, Taken: epoch0, Entries: entries}
}

// TestAMillionTenantsFit: a process that holds a million tenants, and opens the next snapshot of as many
// meanwhile, never takes more than 512 MB.
func TestAMillionTenantsFit(t *testing.T) {
	if file := os.Getenv(routerFile); file != "" {
		routeThrough(t, file)
		return
	}
	switch {
	case testing.Short():
		t.Skip("a million tenants take seconds")
	case raceEnabled:
		t.Skip("the race detector takes memory of its own")
	}
	const limit = 512 << 20
	for _, c := range []struct {
		of     string
		length int
		make   func(t testing.TB, generation uint64, n, length int) *Snapshot
	}{{"eu-1", 36, many}, {"eu-1", 128, many}, {Fleet, 36, manyOfFleet}, {Fleet, 128, manyOfFleet}} {
		length, dir := c.length, t.TempDir()
		for generation := uint64(1); generation <= 2; generation++ {
			if err := os.WriteFile(fmt.Sprintf("%s/%d", dir, generation), seal(t, c.make(t, generation, 1_000_000, length)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		runtime.GC()
		child := exec.Command(os.Args[0], "-test.run=^TestAMillionTenantsFit$", "-test.v")
		child.Env = append(os.Environ(), routerFile+"="+dir, routerCell+"="+c.of)
		out, err := child.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		_, rest, _ := bytes.Cut(out, []byte("peak kB: "))
		peak, err := strconv.Atoi(string(bytes.Fields(rest)[0]))
		if err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		info, err := os.Stat(dir + "/1")
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("of %s, ids of %d bytes: sealed %d bytes, at most %d MB resident", c.of, length, info.Size(), peak>>10)
		if peak<<10 > limit {
			t.Errorf("of "+c.of+", ids of %d bytes: %d MB resident, want at most %d", length, peak>>10, limit>>20)
		}
	}
}

// routeThrough is a router's or a front door's part: it holds one snapshot and opens the next, several times.
func routeThrough(t *testing.T, dir string) {
	of := os.Getenv(routerCell)
	h := NewHolder(of)
	for generation := uint64(1); generation <= 2; generation++ {
		sealed, err := os.ReadFile(fmt.Sprintf("%s/%d", dir, generation))
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), &ring, sealed, Want{Cell: of, Above: h.Generation(), Now: epoch0})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Take(s); err != nil || s.Entries.Len() != 1_000_000 {
			t.Fatalf("%d entries, %v", s.Entries.Len(), err)
		}
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(status), "VmHWM:")
	if !found {
		t.Fatal("the kernel does not say how much memory was resident")
	}
	fmt.Printf("peak kB: %s\n", strings.Fields(rest)[0])
}

// ofBoth runs a benchmark over snapshots of a cell and of a front door.
func ofBoth(b *testing.B, run func(b *testing.B, s *Snapshot)) {
	for of, make := range map[string]func(testing.TB, uint64, int, int) *Snapshot{"cell": many, "frontdoor": manyOfFleet} {
		for _, n := range []int{1000, 100_000, 1_000_000} {
			b.Run(fmt.Sprintf("%s/%d", of, n), func(b *testing.B) { run(b, make(b, 1, n, 36)) })
		}
	}
}

// BenchmarkOpen is what a router's start does with a snapshot, but for fetching it and for the key service.
func BenchmarkOpen(b *testing.B) {
	ofBoth(b, func(b *testing.B, s *Snapshot) {
		sealed := seal(b, s)
		for b.Loop() {
			b.StopTimer()
			fresh := bytes.Clone(sealed)
			b.StartTimer()
			if _, err := Open(b.Context(), &ring, fresh, Want{Cell: s.Cell, Now: epoch0.Add(time.Second)}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(sealed)), "bytes")
		b.ReportMetric(float64(len(sealed))/float64(s.Entries.Len()), "bytes/tenant")
	})
}

func BenchmarkEntry(b *testing.B) {
	ofBoth(b, func(b *testing.B, s *Snapshot) {
		h := NewHolder(s.Cell)
		if err := h.Take(s); err != nil {
			b.Fatal(err)
		}
		tenants := []string{}
		for e := range s.Entries.All() {
			tenants = append(tenants, e.Tenant)
		}
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			i = (i + 7919) % len(tenants)
			if _, _, ok := h.Entry(tenants[i]); !ok {
				b.Fatal("not found")
			}
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	s := many(b, 1, 1_000_000, 36)
	for b.Loop() {
		seal(b, s)
	}
}
