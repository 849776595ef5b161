package assembly

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkBesideCfnLint audits the templates of one cell of the sample fleet (core, four shards, watch) and of its
// global stack, and lets cfn-lint look at the same files, in the same run, each end to end: a process is started, reads,
// judges and writes. ratio is how many times as much processor time cfn-lint took, which a busy machine does not
// stretch; clock-ratio is the same by the clock. The aim is 20.
//
//	go test ./internal/audit/assembly -run '^$' -bench BesideCfnLint -benchtime 20x
func BenchmarkBesideCfnLint(b *testing.B) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		b.Fatal(err)
	}
	linter := filepath.Join(root, ".venv/bin/cfn-lint")
	if _, err := os.Stat(linter); err != nil {
		b.Skip("cfn-lint is not installed in .venv: make test installs it")
	}
	cellwall := filepath.Join(b.TempDir(), "cellwall")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-o", cellwall, "../../../cmd/cellwall").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	dir, files := sampleTemplates(b)
	run := func(name string, args ...string) (cpu, clock time.Duration) {
		cmd := exec.CommandContext(b.Context(), name, args...)
		cmd.Dir = dir
		start := time.Now()
		out, err := cmd.CombinedOutput()
		clock = time.Since(start)
		if err != nil { // a finding is no failure, yet there is none in the sample fleet
			b.Fatalf("%s: %v\n%s", name, err, out)
		}
		return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), clock
	}
	peerCPU, peerClock := run(linter, append([]string{"--config-file", filepath.Join(root, ".cfnlintrc"), "--"}, files...)...)
	var cpu, clock time.Duration
	n := 0
	for b.Loop() {
		c, w := run(cellwall, "audit", dir)
		cpu, clock = cpu+c, clock+w
		n++
	}
	cpu, clock = cpu/time.Duration(n), clock/time.Duration(n)
	b.ReportMetric(peerCPU.Seconds()/cpu.Seconds(), "ratio")
	b.ReportMetric(peerClock.Seconds()/clock.Seconds(), "clock-ratio")
	b.ReportMetric(cpu.Seconds(), "cpu-s/op")
	b.ReportMetric(peerCPU.Seconds(), "cfn-lint-cpu-s")
	b.ReportMetric(float64(len(files)), "templates")
}

// sampleTemplates writes the templates of the cell eu-canary into a directory, by the names of their stacks.
func sampleTemplates(b *testing.B) (dir string, files []string) {
	const golden = "../../../cdk/stamp/testdata/sample"
	dir = b.TempDir()
	put := func(stack, file string, replace ...string) {
		data, err := os.ReadFile(filepath.Join(golden, file))
		if err != nil {
			b.Fatal(err)
		}
		at := filepath.Join(dir, "orders-"+stack+".json")
		if err := os.WriteFile(at, []byte(strings.NewReplacer(replace...).Replace(string(data))), 0o600); err != nil {
			b.Fatal(err)
		}
		files = append(files, at)
	}
	put("global", "global.json")
	put("eu-canary-core", "eu-canary.core.json")
	put("eu-canary-watch", "eu-canary.watch.json")
	for _, shard := range []string{"s01", "s02", "s03", "s04"} {
		put("eu-canary-shard-"+shard, "eu-canary.shard-s01.json", "s01", shard)
	}
	slices.Sort(files)
	return dir, files
}
