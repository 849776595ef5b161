package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAuditSpares holds that a report is not written over what the audit reads, by whichever name, and that this is
// said before anything changes.
func TestAuditSpares(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"t/o-c-shard-1.json": `{"Resources": {"T": {"Type": "AWS::DynamoDB::Table"}}}`,
		"t/o-c-shard-2.json": `{"Resources": {"T": {"Type": "AWS::DynamoDB::Table"}}}`,
		"w.yaml":             "waivers: []\n",
		"m.yaml":             "shards: [{stack: 'o-(?P<cell>c)-shard-(?P<shard>.)'}]\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	if status, _, errw := command("", "audit", "-o", at("b.json"), at("t")); status != ExitDone {
		t.Fatalf("status %d, %s", status, errw)
	}
	if err := os.Symlink("w.yaml", at("link")); err != nil {
		t.Fatal(err)
	}
	before := map[string]string{}
	for _, name := range []string{"w.yaml", "m.yaml", "b.json", "t/o-c-shard-1.json"} {
		data, err := os.ReadFile(at(name))
		if err != nil {
			t.Fatal(err)
		}
		before[name] = string(data)
	}
	for _, file := range []string{"w.yaml", "link", "m.yaml", "b.json", "t/o-c-shard-1.json", "t/../t/o-c-shard-2.json"} {
		status, out, errw := command("", "audit", "--waivers", at("w.yaml"), "--map", at("m.yaml"), "--baseline", at("b.json"), "-o", at(file), at("t"))
		if status != ExitUsage || out != "" || !strings.Contains(errw, "which the audit reads") {
			t.Errorf("-o %s: status %d, %s%s", file, status, out, errw)
		}
	}
	for name, text := range before {
		if data, err := os.ReadFile(at(name)); err != nil || string(data) != text {
			t.Errorf("%s was changed, %v: %.80q", name, err, data)
		}
	}
}

// TestAuditOutputByLink holds that a link stays one, whether what it leads to is there or not, and that - is
// standard output.
func TestAuditOutputByLink(t *testing.T) {
	dir := t.TempDir()
	link, file := filepath.Join(dir, "latest.json"), filepath.Join(dir, "real.json")
	if err := os.Symlink("real.json", link); err != nil {
		t.Fatal(err)
	}
	_, want, _ := command("", "audit", "--json", auditHole)
	for range 2 {
		if status, _, errw := command("", "audit", "-o", link, auditHole); status != ExitFound {
			t.Fatalf("status %d, %s", status, errw)
		}
		info, err := os.Lstat(file)
		if data, _ := os.ReadFile(file); err != nil || !info.Mode().IsRegular() || string(data) != want {
			t.Errorf("%v, %.80q", err, data)
		}
		if to, err := os.Readlink(link); err != nil || to != "real.json" {
			t.Errorf("the link leads to %q, %v", to, err)
		}
	}
	t.Chdir(dir)
	if err := os.Mkdir("t", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("t/a.json", []byte(`{"Resources": {"T": {"Type": "AWS::DynamoDB::Table"}}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, out, _ := command("", "audit", "-o", "-", "t"); !strings.Contains(out, "NOT JUDGED") {
		t.Errorf("on standard output: %q", out)
	}
	if _, err := os.Stat("-"); err == nil {
		t.Error("there is a file -")
	}
}

// TestAuditEmptyFlags holds that a variable of a script that is not set does not take a baseline or waivers away, and
// that a device in their place ends in an error.
func TestAuditEmptyFlags(t *testing.T) {
	for _, flag := range []string{"--output", "--waivers", "--baseline", "--before", "--map", "--format", "--live-role", "--fail-on", "--fleet"} {
		if status, out, errw := command("", "audit", flag, "", auditHole); status != ExitUsage || out != "" || !strings.Contains(errw, flag) {
			t.Errorf("%s: status %d, %s%s", flag, status, out, errw)
		}
	}
	for _, flag := range []string{"--waivers", "--map"} {
		for _, file := range []string{"/dev/zero", "testdata", "no/such"} {
			if status, _, errw := command("", "audit", flag, file, auditHole); status != ExitUsage || !strings.Contains(errw, flag) {
				t.Errorf("%s %s: status %d, %s", flag, file, status, errw)
			}
		}
	}
}
