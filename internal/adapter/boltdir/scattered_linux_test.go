package boltdir

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
)

// peak is how much memory this process had at most while it did something, in bytes.
func peak(t *testing.T, do func()) int {
	t.Helper()
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // proc(5): resets VmHWM
		t.Skipf("the peak cannot be reset here: %v", err)
	}
	do()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	var kib int
	_, text, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(text, &kib); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// A file in scattered order takes about the memory that one in the order of ids takes.
func TestScatteredImportTakesNoMoreMemory(t *testing.T) {
	const tenants = 40_000
	ids := make([]int, tenants)
	for i := range ids {
		ids[i] = i
	}
	load := func() {
		home := open(t, file(t))
		d := prepareBench(t, home)
		var lines strings.Builder
		lines.WriteString("tenant,cell,load,topology\n")
		for _, i := range ids {
			fmt.Fprintf(&lines, "%s,eu-%d,1.5,1\n", tenantID(i), i%4+1)
		}
		all := directory.ReadEntries(strings.NewReader(lines.String()), directory.CSV)
		if err := directory.Import(t.Context(), all, 0, changeOf("import"), d.Enrol, func(directory.Progress) {}); err != nil {
			t.Fatal(err)
		}
		if err := home.Close(); err != nil {
			t.Fatal(err)
		}
	}
	ordered := peak(t, load)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(tenants, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	if slices.IsSorted(ids) {
		t.Fatal("nothing was shuffled")
	}
	scattered := peak(t, load)
	t.Logf("%d MB ordered, %d MB scattered", ordered>>20, scattered>>20)
	if scattered > ordered*5/4 {
		t.Errorf("%d bytes for tenants in scattered order, %d for the same in the order of their ids", scattered, ordered)
	}
}
