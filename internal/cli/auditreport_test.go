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

const auditHole = auditFixtures + "core-rule" // one shared load balancer

// TestAuditFormats holds that each form is written to standard output and to a file alike, that the name
// of the file decides the form where no flag does, and that the status does not depend on it.
func TestAuditFormats(t *testing.T) {
	dir := t.TempDir()
	starts := map[string]string{"text": "error    SD001", "json": "{\n  \"schema\": \"cellwall.audit/v1\"", "sarif": "{\n \"$schema\": \"https://docs.oasis-open.org/sarif", "html": "<!DOCTYPE html>"}
	for format, start := range starts {
		status, out, errw := command("", "audit", "--format", format, auditHole)
		if status != ExitFound || !strings.HasPrefix(out, start) {
			t.Errorf("%s: status %d, %.80q, %s", format, status, out, errw)
		}
		for ending, means := range auditEndings {
			if means != format {
				continue
			}
			file := filepath.Join(dir, "r"+ending)
			status, none, errw := command("", "audit", "-o", file, auditHole)
			data, err := os.ReadFile(file)
			if status != ExitFound || none != "" || err != nil || string(data) != out {
				t.Errorf("-o r%s: status %d, %v, output %q, %s", ending, status, err, none, errw)
			}
		}
	}
	file := filepath.Join(dir, "twice.sarif.json")
	for range 2 { // the second one replaces the first
		if status, _, errw := command("", "audit", "-o", file, auditHole); status != ExitFound {
			t.Errorf("status %d, %s", status, errw)
		}
	}
	if data, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(data), starts["sarif"]) {
		t.Errorf("%v, %.80q", err, data)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	for _, c := range []struct {
		status int
		args   []string
	}{
		{ExitUsage, []string{"--format", "xml", auditHole}},
		{ExitUsage, []string{"--json", "--format", "html", auditHole}},
		{ExitFound, []string{"--json", "--format", "json", auditHole}},
		{ExitUsage, []string{"-o", filepath.Join(dir, "no", "such", "r.json"), auditHole}},
		{ExitUsage, []string{"-o", dir, auditHole}},
	} {
		if status, _, errw := command("", slices.Concat([]string{"audit"}, c.args)...); status != c.status {
			t.Errorf("%q: status %d, want %d; %s", c.args, status, c.status, errw)
		}
	}
}

// TestAuditSARIFLines holds that a result says where its resource stands in the file as it is.
func TestAuditSARIFLines(t *testing.T) {
	_, out, _ := command("", "audit", "--format", "sarif", auditHole)
	var log struct {
		Runs []struct {
			Results []struct {
				RuleID    string
				Locations []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine int }
					}
					LogicalLocations []struct{ Name string }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &log); err != nil {
		t.Fatal(err)
	}
	at := log.Runs[0].Results[0].Locations[0]
	data, err := os.ReadFile(at.PhysicalLocation.ArtifactLocation.URI)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(data), "\n")
	if n := at.PhysicalLocation.Region.StartLine; n < 1 || n > len(lines) || !strings.Contains(lines[n-1], `"`+at.LogicalLocations[0].Name+`"`) {
		t.Errorf("%+v is not on its line", at)
	}
}

// TestAuditDecisions holds what waivers and a baseline do to the status, and that bad ones are wrong use.
func TestAuditDecisions(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	waiver := func(expires string) string {
		return write("w"+expires+".yaml", "waivers:\n  - {rule: SD001, resource: '*', reason: r, expires: "+expires+"}\n")
	}
	if status, _, errw := command("", "audit", "--waivers", waiver("2999-01-01"), auditHole); status != ExitUsage || !strings.Contains(errw, "waive everything") {
		t.Errorf("a waiver of everything: status %d, %s", status, errw)
	}
	waiver = func(expires string) string {
		return write("w"+expires+".yaml", "waivers:\n  - {rule: SD001, resource: '*/Alb*', reason: until the split, expires: "+expires+"}\n")
	}
	status, out, errw := command("", "audit", "--waivers", waiver("2999-01-01"), auditHole)
	if status != ExitDone || !strings.Contains(out, "waived until 2999-01-01: until the split") || !strings.Contains(out, "1 suppressed") {
		t.Errorf("waived: status %d, %s%s", status, out, errw)
	}
	status, out, errw = command("", "audit", "--waivers", waiver("2020-01-01"), auditHole)
	if status != ExitFound || !strings.Contains(out, "error    WV001") || !strings.Contains(errw, "2 findings at or above error") {
		t.Errorf("expired: status %d, %s%s", status, out, errw)
	}

	base := filepath.Join(dir, "base.json")
	if status, _, errw := command("", "audit", "-o", base, auditHole); status != ExitFound {
		t.Fatalf("status %d, %s", status, errw)
	}
	if status, out, errw := command("", "audit", "--baseline", base, "--fail-on", "review", auditHole); status != ExitDone || !strings.Contains(out, "known from the baseline") {
		t.Errorf("baseline: status %d, %s%s", status, out, errw)
	}
	if status, out, _ := command("", "audit", "--baseline", base, auditFixtures+"assembly-ssm-rule"); status != ExitFound {
		t.Errorf("another assembly: status %d, %s", status, out)
	}
	for _, args := range [][]string{
		{"--waivers", filepath.Join(dir, "none.yaml")},
		{"--waivers", write("bad.yaml", "waivers: 3")},
		{"--baseline", filepath.Join(dir, "none.json")},
		{"--baseline", write("bad.json", "{}")},
		{"--baseline", write("text.json", "error SD001")},
	} {
		status, out, errw := command("", slices.Concat([]string{"audit"}, args, []string{auditHole})...)
		if status != ExitUsage || out != "" || !strings.Contains(errw, "hint:") {
			t.Errorf("%q: status %d, %s%s", args, status, out, errw)
		}
	}
}

func TestAuditRulesAndExplain(t *testing.T) {
	status, out, _ := command("", "audit", "rules")
	if status != ExitDone || strings.Count(out, "\n") != len(audit.Rules()) {
		t.Errorf("status %d, %s", status, out)
	}
	status, out, _ = command("", "audit", "rules", "--json")
	var rules []audit.Rule
	if err := json.Unmarshal([]byte(out), &rules); status != ExitDone || err != nil || !slices.Equal(rules, audit.Rules()) {
		t.Errorf("status %d, %v, %s", status, err, out)
	}
	for _, r := range rules {
		status, out, errw := command("", "audit", "explain", strings.ToLower(r.ID))
		first, _, _ := strings.Cut(r.Example, "\n")
		if status != ExitDone || !strings.HasPrefix(out, r.ID+"  "+r.Title) || !strings.Contains(out, "    "+first) || !strings.Contains(out, "\nfix: ") {
			t.Errorf("%s: status %d, %s%s", r.ID, status, out, errw)
		}
	}
	status, out, _ = command("", "audit", "explain", "--json", "SD001", "UN001")
	if err := json.Unmarshal([]byte(out), &rules); status != ExitDone || err != nil || len(rules) != 2 || rules[1].ID != "UN001" {
		t.Errorf("status %d, %v, %s", status, err, out)
	}
	for _, args := range [][]string{{"explain"}, {"explain", "SD999"}, {"rules", "x"}} {
		if status, out, errw := command("", slices.Concat([]string{"audit"}, args)...); status != ExitUsage || out != "" || !strings.Contains(errw, "hint:") {
			t.Errorf("%q: status %d, %s%s", args, status, out, errw)
		}
	}
	// a directory of that name is reached by ./
	t.Chdir(t.TempDir())
	if err := os.Mkdir("rules", 0o755); err != nil {
		t.Fatal(err)
	}
	if status, _, errw := command("", "audit", "./rules"); status != ExitUsage || !strings.Contains(errw, "no manifest.json") {
		t.Errorf("./rules: status %d, %s", status, errw)
	}
}
