package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// templatesIn writes templates in YAML into a new folder, by stack name.
func templatesIn(t *testing.T, templates map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range templates {
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestExportInUse: both commands that compare with what is deployed refuse an export that goes while it is in use, and
// let pass what an order of deployments makes possible.
func TestExportInUse(t *testing.T) {
	t.Chdir(t.TempDir())
	const (
		bare  = "Resources:\n  Queue: {Type: AWS::SQS::Queue, DeletionPolicy: Retain}\n"
		core  = bare + "Outputs:\n  Queue: {Value: !Ref Queue, Export: {Name: orders-queue}}\n"
		uses  = "Resources:\n  Mailer: {Type: AWS::Lambda::Function, Properties: {Environment: {Variables: {QUEUE: !ImportValue orders-queue}}}}\n"
		stops = "Resources:\n  Mailer: {Type: AWS::Lambda::Function}\n"
	)
	was := templatesIn(t, map[string]string{"core": core, "mailer": uses})
	for name, c := range map[string]struct {
		next   map[string]string
		status int
		audit  string // what the audit says, at --fail-on error
		diff   string
	}{
		"removed": {map[string]string{"core": bare}, ExitFound, "error    SC006  stack \"core\" drops export \"orders-queue\"", "instead: remove mailer first"},
		"stops":   {map[string]string{"core": bare, "mailer": stops}, ExitDone, "warning  SC006", "deploy mailer, and only then deploy core (drops orders-queue)"},
		"stays":   {map[string]string{"core": core, "mailer": uses}, ExitDone, "0 fatal, 0 error, 0 warning", "no stack changes"},
	} {
		next := templatesIn(t, c.next)
		// without any shard the audit would fail by itself, so core is said to be one
		status, out, errs := command("", "audit", "--before", was, "--shard", "stack:(?P<cell>c)(?P<shard>ore)", next)
		if status != c.status || !strings.Contains(out, c.audit) {
			t.Errorf("%s: audit: status %d, %s\n%s", name, status, errs, out)
		}
		status, out, errs = runFleet(t, "diff", was, next)
		if status != c.status || !strings.Contains(out, c.diff) {
			t.Errorf("%s: fleet diff: status %d, %s\n%s", name, status, errs, out)
		}
	}
	if status, _, errs := command("", "audit", "--before", "no-such", was); status != ExitUsage || !strings.Contains(errs, "no-such") {
		t.Errorf("status %d, %s", status, errs)
	}
}
