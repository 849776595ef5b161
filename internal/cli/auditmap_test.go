package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
)

// strangers are the templates of two shards of somebody else's, who share a table.
func strangers(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"shop-eu-node-1.json", "shop-eu-node-2.json"} {
		text := `{"Resources": {"Q": {"Type": "AWS::SQS::Queue", "Properties": {"X": "arn:aws:dynamodb:eu-west-1:111111111111:table/all"}}}}`
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestAuditOfOthersStacks holds that the proposal of an audit that could tell nobody is a mapping that works, as a
// flag and in a file.
func TestAuditOfOthersStacks(t *testing.T) {
	dir := strangers(t)
	status, out, errw := command("", "audit", "--json", dir)
	var r audit.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != ExitFound || r.Proposal == nil {
		t.Fatalf("status %d, %v, %s", status, err, out)
	}
	rule := r.Proposal.Rules[0]
	if rule != `stack:shop-eu-node-(?P<shard>\d+)` || !strings.Contains(errw, "--shard '"+rule+"'") {
		t.Errorf("proposes %q, standard error %q", rule, errw)
	}
	file := filepath.Join(t.TempDir(), "who.yaml")
	if err := os.WriteFile(file, []byte("shards:\n  - stack: '"+strings.TrimPrefix(rule, "stack:")+"'\n    cell: eu\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{{"--shard", rule}, {"--map", file}, {"--shard", `stack:.*-(?P<shard>\d)`, "--map", file}} {
		status, out, errw := command("", slices.Concat([]string{"audit"}, flags, []string{dir})...)
		if status != ExitFound || !strings.Contains(out, "error    SD002  2 of 2 shards ") {
			t.Errorf("%q: status %d, %s%s", flags, status, out, errw)
		}
	}
}

func TestAuditRefusesMappings(t *testing.T) {
	dir := strangers(t)
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("shards:\n  - stak: x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--shard", "orders"}, "is not SOURCE:REGEX"},
		{[]string{"--shard", "stack:("}, "is no regular expression"},
		{[]string{"--map", "nowhere.yaml"}, "open nowhere.yaml: no such file"},
		{[]string{"--map", bad}, `bad.yaml:2:5: unknown key "stak"`},
	} {
		status, out, errw := command("", slices.Concat([]string{"audit"}, c.flags, []string{dir})...)
		if status != ExitUsage || out != "" || !strings.Contains(errw, c.want) {
			t.Errorf("%q: status %d, %q, output %q", c.flags, status, errw, out)
		}
	}
}
