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

const routerFile = "CELLWALL_TEST_ROUTER_FILE"

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
	for _, length := range []int{36, 128} {
		dir := t.TempDir()
		for generation := uint64(1); generation <= 2; generation++ {
			if err := os.WriteFile(fmt.Sprintf("%s/%d", dir, generation), seal(t, many(t, generation, 1_000_000, length)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		runtime.GC()
		child := exec.Command(os.Args[0], "-test.run=^TestAMillionTenantsFit$", "-test.v")
		child.Env = append(os.Environ(), routerFile+"="+dir)
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
		t.Logf("ids of %d bytes: sealed %d bytes, at most %d MB resident", length, info.Size(), peak>>10)
		if peak<<10 > limit {
			t.Errorf("ids of %d bytes: %d MB resident, want at most %d", length, peak>>10, limit>>20)
		}
	}
}

// routeThrough is a router's part: it holds one snapshot and opens the next, several times.
func routeThrough(t *testing.T, dir string) {
	h := NewHolder("eu-1")
	for generation := uint64(1); generation <= 2; generation++ {
		sealed, err := os.ReadFile(fmt.Sprintf("%s/%d", dir, generation))
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), &ring, sealed, Want{Cell: "eu-1", Above: h.Generation(), Now: epoch0})
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

// BenchmarkOpen is what a router's start does with a snapshot, but for fetching it and for the key service.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			sealed := seal(b, many(b, 1, n, 36))
			for b.Loop() {
				b.StopTimer()
				fresh := bytes.Clone(sealed)
				b.StartTimer()
				if _, err := Open(b.Context(), &ring, fresh, Want{Cell: "eu-1", Now: epoch0.Add(time.Second)}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(sealed)), "bytes")
			b.ReportMetric(float64(len(sealed))/float64(n), "bytes/tenant")
		})
	}
}

func BenchmarkEntry(b *testing.B) {
	for _, n := range []int{1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			h := NewHolder("eu-1")
			if err := h.Take(many(b, 1, n, 36)); err != nil {
				b.Fatal(err)
			}
			tenants := []string{}
			for e := range h.Snapshot().Entries.All() {
				tenants = append(tenants, e.Tenant)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i = (i + 7919) % n
				if _, _, ok := h.Entry(tenants[i]); !ok {
					b.Fatal("not found")
				}
			}
		})
	}
}

func BenchmarkSeal(b *testing.B) {
	s := many(b, 1, 1_000_000, 36)
	for b.Loop() {
		seal(b, s)
	}
}
