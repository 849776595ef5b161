package stamp

import (
	"os"
	"path/filepath"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
	load "cellwall.dev/cellwall/internal/audit/assembly"
)

// TestAudit: what cellwall stamps passes its own audit. What shards share is meant, and said so; but for the load
// balancers of those shapes that share them, each of which is found with its security group.
func TestAudit(t *testing.T) {
	shared := map[string]map[string]int{"grouped": {"SD001": 2, "SI004": 2}, "shared": {"SD001": 1, "SI004": 1}}
	eachShape(t, func(t *testing.T, a assembly) { checkAudit(t, a, shared[filepath.Base(t.Name())]) })
}

// checkAudit runs the audit over an assembly. It may find as much of each rule as given, and must.
func checkAudit(t *testing.T, a assembly, may map[string]int) {
	t.Helper()
	in, err := load.Load(os.DirFS(filepath.Dir(a["global"].file)))
	if err != nil {
		t.Fatal(err)
	}
	report := audit.Run(in, audit.Options{})
	if why := report.Unjudged(); why != "" {
		t.Error(why)
	}
	found := map[string]int{}
	for _, f := range report.Findings {
		if f.Level == audit.Info {
			continue
		}
		if found[f.Rule]++; found[f.Rule] > may[f.Rule] {
			t.Errorf("%s %s: %s", f.Level, f.Rule, f.Message)
		}
	}
	for rule, want := range may {
		if found[rule] != want {
			t.Errorf("%s finds %d, want %d", rule, found[rule], want)
		}
	}
}
