package stamp

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// BenchmarkScale synthesises cells of more and more shards, fleets of more and more cells, and one cell of them all,
// each in a process of its own as the CDK's command line starts it. Beside the time it reports processor time, which
// other work on the machine stretches less, and the peak memory of the largest process, which is the CDK's Node.js.
func BenchmarkScale(b *testing.B) {
	for _, shards := range []int{4, 16, 64} {
		b.Run(fmt.Sprintf("cell of %d shards", shards), func(b *testing.B) { scale(b, 1, shards, "") })
	}
	for _, cells := range []int{1, 5, 10, 20} {
		b.Run(fmt.Sprintf("fleet of %d cells", cells), func(b *testing.B) { scale(b, cells, 16, "") })
	}
	for _, cells := range []int{1, 20} {
		b.Run(fmt.Sprintf("one cell of %d", cells), func(b *testing.B) { scale(b, cells, 16, "cell-01") })
	}
}

func scale(b *testing.B, cells, shards int, cell string) {
	app, err := program()
	must(b, err)
	common, err := settings()
	must(b, err)
	context := map[string]any{"cell": cell}
	for k, v := range common {
		context[k] = v
	}
	encoded, err := json.Marshal(context)
	must(b, err)
	dir := dist(b, ARM64)
	write(b, filepath.Join(dir, "fleet.yaml"), large(b, cells, shards), 0o644)
	var processors float64
	var peak int64
	for b.Loop() {
		out, err := os.MkdirTemp(scratch, "cdk.out-")
		must(b, err)
		cmd := exec.Command(app)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CDK_OUTDIR="+out, "CDK_CONTEXT_JSON="+string(encoded),
			"JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION=1", "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20")
		if said, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, said)
		}
		processors += (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
		peak = max(peak, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) // KiB
		must(b, os.RemoveAll(out))
	}
	b.ReportMetric(processors/float64(b.N), "cpu-s/op")
	b.ReportMetric(float64(peak)/1024, "peak-MiB")
}

// large is the sample fleet's file with other cells.
func large(b *testing.B, cells, shards int) string {
	text := read(b, filepath.Join(root, "fleet.yaml"))
	head, rest, ok := strings.Cut(text, "\ncells:\n")
	if _, _, waves := strings.Cut(rest, "\nrollout:\n"); !ok || !waves {
		b.Fatal("the sample fleet has no cells before its rollout any more")
	}
	head = strings.Replace(head, "lambdaConcurrency: 3000", "lambdaConcurrency: 100000", 1)
	var all strings.Builder
	for n := range cells {
		fmt.Fprintf(&all, "  - {name: cell-%02d, account: \"222222222222\", region: %s, zones: [a, b, c], shards: %d}\n",
			n+1, []string{"eu-west-1", "us-east-1"}[n%2], shards)
	}
	return head + "\ncells:\n" + all.String()
}
