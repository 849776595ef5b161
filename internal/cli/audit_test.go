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

const auditFixtures = "../audit/testdata/"

func TestAudit(t *testing.T) {
	status, out, errw := command("", "audit", auditFixtures+"core-rule")
	if status != ExitFound || !strings.Contains(out, "error    SD001  3 of 3 shards of cell orders-eu-1 depend on load balancer") {
		t.Errorf("status %d, %s%s", status, out, errw)
	}
	if errw != "error: the audit has 1 finding at or above error\n" {
		t.Errorf("standard error %q", errw)
	}

	status, out, errw = command("", "audit", "--json", auditFixtures+"assembly-ssm-rule")
	var r audit.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if status != ExitFound || r.Schema != audit.Schema || r.Findings[0].Rule != "SD001" || r.Findings[0].Level != audit.Error || len(r.Findings[0].Paths) != 2 {
		t.Errorf("status %d, %s%s", status, out, errw)
	}
	// the keys that docs/audit.md documents
	var raw map[string]any
	if err := json.Unmarshal([]byte(out), &raw); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"schema", "summary", "findings", "pools", "skipped"} {
		if _, ok := raw[key]; !ok {
			t.Errorf("no %q in the report", key)
		}
	}
}

func TestAuditThreshold(t *testing.T) {
	dir := t.TempDir()
	for _, s := range []string{"1", "2"} {
		text := `{"Resources": {"F": {"Type": "AWS::Lambda::Function", "Properties": {"Role": "arn:aws:iam::111111111111:role/everyone"}}}}`
		if err := os.WriteFile(filepath.Join(dir, "o-c-shard-"+s+".json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for level, want := range map[string]int{"error": ExitDone, "warning": ExitFound, "review": ExitFound} {
		if status, out, errw := command("", "audit", "--fail-on", level, dir); status != want {
			t.Errorf("--fail-on %s: status %d, want %d\n%s%s", level, status, want, out, errw)
		}
	}
}

// TestAuditDoesNotPassWhatItCannotJudge holds that CI does not stay green over templates in which not
// one shard can be told, and that the last words say what was not judged.
func TestAuditDoesNotPassWhatItCannotJudge(t *testing.T) {
	write := func(names ...string) string {
		t.Helper()
		dir := t.TempDir()
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(`{"Resources": {"T": {"Type": "AWS::DynamoDB::Table"}}}`), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	for _, c := range []struct {
		args []string
		want int
		says string
	}{
		{[]string{write("web.json")}, ExitFound, "no stack or resource says which shard"},
		{[]string{"--fail-on", "fatal", write("web.json")}, ExitDone, "no stack or resource says which shard"},
		{[]string{write("o-c-shard-1.json")}, ExitDone, "one shard alone shares nothing"},
		{[]string{"--fail-on", "review", write("o-c-shard-1.json")}, ExitFound, "one shard alone shares nothing"},
		{[]string{"--fail-on", "review", write("o-c-shard-1.json", "o-c-shard-2.json")}, ExitDone, ""},
	} {
		status, out, errw := command("", slices.Concat([]string{"audit"}, c.args)...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		last := lines[len(lines)-1]
		if status != c.want || strings.HasPrefix(last, "NOT JUDGED: "+c.says) != (c.says != "") || strings.Contains(errw, c.says) != true || (c.says == "") != (errw == "") {
			t.Errorf("%q: status %d, last line %q, %q; want %d and %q", c.args, status, last, errw, c.want, c.says)
		}
	}
}

func TestAuditTakesLimitsFromTheFleet(t *testing.T) {
	sample, err := os.ReadFile("../../fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// the fixture does not know its account, so that the default limit of 1,000 holds with any fleet
	status, _, errw := command("", "audit", "--fleet", "../../fleet.yaml", auditFixtures+"concurrency")
	if status != ExitFound {
		t.Errorf("status %d, %s", status, errw)
	}
	dir := t.TempDir()
	manifest := `{"artifacts": {"s": {"type": "aws:cloudformation:stack", "environment": "aws://222222222222/eu-west-1", "properties": {"templateFile": "s.json", "stackName": "orders-eu-1-shard-s01"}}}}`
	for name, text := range map[string]string{"manifest.json": manifest,
		"s.json": `{"Resources": {"F": {"Type": "AWS::Lambda::Function", "Properties": {"ReservedConcurrentExecutions": 901}}}}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if status, out, _ := command("", "audit", dir); status != ExitFound {
		t.Errorf("without a fleet: status %d, %s", status, out)
	}
	if !strings.Contains(string(sample), `"222222222222": {lambdaConcurrency: 3000}`) {
		t.Fatal("the sample fleet does not say what this test expects of it")
	}
	if status, out, errw := command("", "audit", "--fleet", "../../fleet.yaml", dir); status != ExitDone || !strings.Contains(out, "3000 − 100 kept free − 1302 reserved by 1 function and, 401 of it, by what was not read, after the fleet file = 1598 left") {
		t.Errorf("with the fleet: status %d, %s%s", status, out, errw)
	}
}

func TestAuditRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		d := filepath.Join(dir, strings.ReplaceAll(name, ".", "-"))
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return d
	}
	file := filepath.Join(write("a.txt", ""), "a.txt")
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "requires at least 1 arg(s), only received 0"},
		{[]string{dir + "/nowhere"}, "there is no directory"},
		{[]string{file}, "is a file, not a directory"},
		{[]string{filepath.Dir(file)}, "no manifest.json of a cloud assembly and no CloudFormation template"},
		{[]string{write("manifest.json", "{")}, "manifest.json: 1:2: the text ends in the middle of a value"},
		{[]string{write("t.yaml", "Resources: [")}, "t.yaml: not YAML"},
		{[]string{"--fail-on", "info", auditFixtures + "cycle"}, `--fail-on "info" is no level`},
		{[]string{"--fail", auditFixtures + "cycle"}, "unknown flag: --fail"},
		{[]string{"--fleet", "nowhere.yaml", auditFixtures + "cycle"}, "nowhere.yaml"},
	} {
		status, out, errw := command("", slices.Concat([]string{"audit"}, c.args)...)
		if status != ExitUsage || out != "" || !strings.Contains(errw, c.want) || !strings.Contains(errw, "hint:") && !strings.Contains(c.want, "no level") {
			t.Errorf("%q: status %d, want %q in %q, output %q", c.args, status, c.want, errw, out)
		}
	}
}

// TestAuditTakesWaiversFromTheFleet: what the fleet accepts passes; --waivers names other ones in its place.
func TestAuditTakesWaiversFromTheFleet(t *testing.T) {
	dir := t.TempDir()
	fleet, err := os.ReadFile("../../fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"fleet.yaml":    string(fleet) + "audit: {waivers: accepted.yaml}\n",
		"accepted.yaml": `waivers: [{rule: SD001, resource: "*", reason: cheaper, expires: 2999-12-31}]`,
		"none.yaml":     "waivers: []\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file, in := filepath.Join(dir, "fleet.yaml"), auditFixtures+"core-rule"
	if status, _, errw := command("", "audit", "--fleet", file, in); status != ExitUsage || !strings.Contains(errw, "audit.waivers: ") || !strings.Contains(errw, "accepted.yaml:1:") {
		t.Errorf("of a waiver for everything: status %d, %s", status, errw)
	}
	write := func(pattern string) {
		text := `waivers: [{rule: SD001, resource: "` + pattern + `", reason: cheaper, expires: 2999-12-31}]`
		if err := os.WriteFile(filepath.Join(dir, "accepted.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("orders-eu-1-*")
	if status, out, errw := command("", "audit", "--fleet", file, in); status != ExitDone {
		t.Errorf("status %d, %s%s", status, out, errw)
	}
	if status, out, errw := command("", "audit", "--fleet", file, "--waivers", filepath.Join(dir, "none.yaml"), in); status != ExitFound {
		t.Errorf("with --waivers: status %d, %s%s", status, out, errw)
	}
}
