package gate

import (
	"flag"
	"io"
	"os"
	"testing"

	"cellwall.dev/cellwall/internal/audit/assembly"
)

var measured = flag.String("assembly", "", "cloud assembly that BenchmarkJudge measures, by its absolute path")

// BenchmarkJudge is what the audit adds to a synthesis: reading the assembly and auditing it.
func BenchmarkJudge(b *testing.B) {
	if *measured == "" {
		b.Skip("no -assembly")
	}
	in, err := assembly.Load(os.DirFS(*measured))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		v, err := newPlugin(*measured, Options{Stderr: io.Discard}).judge(nil)
		if err != nil {
			b.Fatal(err)
		}
		v.report()
	}
	b.ReportMetric(float64(len(in.Stacks)), "stacks")
}
