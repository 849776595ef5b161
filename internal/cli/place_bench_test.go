package cli

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// BenchmarkPlaceProcess runs the built binary: start, place one tenant, exit.
//
//	go test ./internal/cli -run '^$' -bench PlaceProcess -count 5
func BenchmarkPlaceProcess(b *testing.B) {
	binary := filepath.Join(b.TempDir(), "cellwall")
	build := exec.Command("go", "build", "-trimpath", "-o", binary, "cellwall.dev/cellwall/cmd/cellwall")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	for b.Loop() {
		out, err := exec.Command(binary, "place", "--scheme", "rendezvous/v1", "--shards", "16", "--per-tenant", "2", "--key-hex", "6b", "--json", "acme").Output()
		if err != nil || len(out) == 0 {
			b.Fatalf("%v: %q", err, out)
		}
	}
}
