package blast

import (
	"encoding/hex"
	"encoding/json"
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"cellwall.dev/cellwall/internal/placement"
)

// BenchmarkBesidePython does the same work as testdata/recipe.py, in the same run: hmac/v1, 3 of 64
// shards, all 2,080 single failures and pairs, and checks that the counts are equal. "text" is what
// Recipe 12.2 does, which computes the subsets anew for each set; "once" computes them once. A ratio is
// how many times as much processor time Python took, the start of the interpreter left out: the clock
// would favour whichever ran while the machine was less busy.
//
//	go test ./internal/blast -run '^$' -bench BesidePython -benchtime 20x
func BenchmarkBesidePython(b *testing.B) {
	python, err := exec.LookPath("python3")
	if err != nil {
		b.Skip("there is no python3 to compare with")
	}
	for _, c := range []struct {
		mode    string
		tenants int
	}{{"text", 200}, {"once", 200}, {"once", 20_000}} {
		b.Run(c.mode+"/"+strconv.Itoa(c.tenants), func(b *testing.B) {
			const n, k = 64, 3
			out, err := exec.CommandContext(b.Context(), python, "testdata/recipe.py", tenantPrefix,
				strconv.Itoa(c.tenants), strconv.Itoa(n), strconv.Itoa(k), hex.EncodeToString([]byte(benchKey)), c.mode).Output()
			if err != nil {
				b.Fatal(err)
			}
			var peer struct {
				Seconds float64  `json:"seconds"`
				Counts  [][2]int `json:"counts"`
			}
			if err := json.Unmarshal(out, &peer); err != nil {
				b.Fatal(err)
			}
			start := cpu(b)
			for b.Loop() {
				p := placedLoads(b, placement.HMACv1, n, k, c.tenants)
				for f := 1; f <= 2; f++ {
					measured(b, p, f)
				}
			}
			own := (cpu(b) - start).Seconds() / float64(b.N)
			b.ReportMetric(peer.Seconds/own, "ratio")
			b.ReportMetric(own, "cpu-s/op")
			b.ReportMetric(peer.Seconds, "python-cpu-s")
			sameCounts(b, placedLoads(b, placement.HMACv1, n, k, c.tenants), peer.Counts)
		})
	}
}

// sameCounts compares with Python's, which come in lexicographic order.
func sameCounts(b *testing.B, p *Population, counts [][2]int) {
	var sets [][]int
	for f := 1; f <= 2; f++ {
		sets = append(sets, slices.SortedFunc(slices.Values(everySet(p.Shards(), f)), slices.Compare)...)
	}
	if len(sets) != len(counts) {
		b.Fatalf("Python has %d sets, want %d", len(counts), len(sets))
	}
	for i, set := range sets {
		if got := fail(b, p, set); counts[i] != [2]int{got.FullyDown, got.Degraded} {
			b.Fatalf("%v: %+v, Python has %v", set, got, counts[i])
		}
	}
}
