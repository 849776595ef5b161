package gate

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/audit/assembly"
)

var today = time.Date(2027, 1, 15, 9, 0, 0, 0, time.UTC)

func on(day time.Time) Options { return Options{Audit: audit.Options{Today: day}} }

// TestClean: where nothing is found, the gate says nothing.
func TestClean(t *testing.T) {
	report, said, refused := cell{}.synthesise(t, on(today))
	if refused || said != "" || report.PluginName != "" {
		t.Errorf("refused: %v; it said %q and reported %+v", refused, said, report)
	}
}

// TestHole: a shared queue fails the synthesis, by one violation where the queue is and by one of no construct, which
// belongs to every selection of stacks.
func TestHole(t *testing.T) {
	report, said, refused := cell{shared: true}.synthesise(t, on(today))
	if !refused || report.Conclusion != "failure" {
		t.Errorf("refused: %v, report %+v", refused, report)
	}
	if !strings.HasPrefix(said, "error: the audit refuses the stacks, 1 finding at or above error\nhint: bin/cellwall audit ") {
		t.Errorf("it said:\n%s", said)
	}
	if len(report.Violations) != 2 {
		t.Fatalf("%d violations: %+v", len(report.Violations), report.Violations)
	}
	hole, refusal := report.Violations[0], report.Violations[1]
	if hole.RuleName != "SD003" || hole.Severity != "error" || len(hole.ViolatingConstructs) != 1 || hole.ViolatingConstructs[0].ConstructPath != "eu-1/core/Queue" ||
		hole.SuggestedFix == "" || hole.RuleMetadata["shards"] != "eu-1/s01 eu-1/s02" || len(hole.RuleMetadata["fingerprint"]) != 32 || hole.RuleMetadata["level"] != "error" {
		t.Errorf("the hole is reported as %+v", hole)
	}
	const why = "the audit refuses the stacks, 1 finding at or above error:\n  error SD003: 2 of 2 shards of cell eu-1 depend on queue \"work\"\n    at  eu-1/core/Queue\n    fix "
	if refusal.RuleName != Rule || refusal.Severity != "fatal" || len(refusal.ViolatingConstructs) != 1 || refusal.ViolatingConstructs[0].ConstructPath != "" ||
		!strings.HasPrefix(refusal.Description, why) {
		t.Errorf("the refusal is %+v", refusal)
	}
}

// TestThreshold: what is below it goes unsaid.
func TestThreshold(t *testing.T) {
	o := on(today)
	o.FailOn = audit.Fatal
	report, said, refused := cell{shared: true}.synthesise(t, o)
	if refused || said != "" || report.PluginName != "" {
		t.Errorf("refused: %v; it said %q and reported %+v", refused, said, report)
	}
}

// TestAcknowledged: what is acknowledged at the resource or above it passes until its day, with its reason in the
// report. What is not as it should be fails, and the reason why is said.
func TestAcknowledged(t *testing.T) {
	const good = "these two fail together, expires 2027-01-15"
	for name, c := range map[string]struct {
		path, reason string
		day          time.Time
		refused      string // by something with this; "" when it is not
	}{
		"at the queue":     {"eu-1/core/Queue", good, today, ""},
		"at its stack":     {"eu-1/core", good, today, ""},
		"at its Stage":     {"eu-1", good, today, ""},
		"a day too late":   {"eu-1/core/Queue", good, today.AddDate(0, 0, 1), "WV001"},
		"without an end":   {"eu-1", "these two fail together", today, "WV003"},
		"at a shard":       {"eu-1/shard-s01", good, today, "WV002"},
		"at the whole app": {"", good, today, "WV002"}, // it would hide every later hole of the rule
	} {
		t.Run(name, func(t *testing.T) {
			k := cell{shared: true, acks: map[string]string{c.path: c.reason}, out: filepath.Join(t.TempDir(), "out")}
			report, said, refused := k.synthesise(t, on(c.day))
			if again := auditOf(t, k.out, c.day); again != (c.refused != "") {
				t.Errorf("cellwall audit of the assembly finds something: %v, the gate: %v", again, !again)
			}
			if c.refused != "" {
				if why := report.why(); !refused || !strings.Contains(why, "error SD003") || !strings.Contains(why, c.refused+": the acknowledgement of SD003 at ") {
					t.Errorf("refused: %v; it said:\n%s\nand reported %+v", refused, said, report)
				}
				return
			}
			if refused || said != "" || report.Conclusion != "success" || len(report.Violations) != 0 {
				t.Errorf("refused: %v; it said %q and reported %+v", refused, said, report)
			}
			if s := report.SuppressedViolations; len(s) != 1 || s[0].RuleName != "SD003" || s[0].Reason != good {
				t.Errorf("suppressed: %+v", s)
			}
		})
	}
}

// TestWaived: a waiver passes as an acknowledgement does. The CDK, which knows none, is told nothing.
func TestWaived(t *testing.T) {
	o := on(today)
	o.Audit.Waivers = []audit.Waiver{{Rule: "SD003", Resource: "eu-1/core/*", Reason: "they fail together", Expires: today}}
	o.FailOn = audit.Review
	report, said, refused := cell{shared: true}.synthesise(t, o)
	if refused || said != "" || report.PluginName != "" {
		t.Errorf("refused: %v; it said %q and reported %+v", refused, said, report)
	}
	o.Audit.Waivers[0].Expires = today.AddDate(0, 0, -1)
	if report, _, refused := (cell{shared: true}).synthesise(t, o); !refused || !strings.Contains(report.why(), "WV001") {
		t.Errorf("an expired waiver: refused: %v, and reported %+v", refused, report)
	}
}

// TestUnread: an assembly that cannot be read, or of which something was not, fails.
func TestUnread(t *testing.T) {
	for name, templates := range map[string][]string{
		"no manifest": nil,
		"more stacks": {"out/eu-1.template.json", "out/eu-9.template.json"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			if err := os.Mkdir("out", 0o755); err != nil {
				t.Fatal(err)
			}
			if templates != nil {
				for file, text := range map[string]string{
					"out/manifest.json":      `{"version":"55.0.0","artifacts":{"eu-1":{"type":"aws:cloudformation:stack","environment":"aws://111111111111/eu-west-1","properties":{"templateFile":"eu-1.template.json"}}}}`,
					"out/eu-1.template.json": `{"Resources":{"Topic":{"Type":"AWS::SNS::Topic"}}}`,
				} {
					if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			v, err := newPlugin("out", on(today)).judge(templates)
			if err == nil {
				t.Fatalf("judged as %+v", v)
			}
			if templates != nil && err.Error() != "the CDK wrote out/eu-9.template.json, which was not read" {
				t.Error(err)
			}
		})
	}
}

// TestBroken: an audit that panics is a failure, in every selection of stacks: a plugin that throws would be none.
func TestBroken(t *testing.T) {
	cli, err := filepath.Abs("../../node_modules/.bin/cdk")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(cli); err != nil {
		t.Skip("the CDK's command line is not installed: make test installs it")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	synth := func(app string, selection ...string) (stderr string) {
		cmd := exec.Command(cli, append([]string{"synth", "--quiet", "--no-notices", "--app", app, "--output", "out"}, selection...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), asApp+"=1", "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION=1", "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 1 {
			t.Fatalf("cdk synth %v ended with %v:\n%s", selection, err, errs.String())
		}
		return errs.String()
	}
	const why = "the audit could not be done, so that nothing may be deployed: it broke, which is a fault of cellwall: a rule broke"
	if said := synth(exe); !strings.Contains(said, "error: "+why+"\n") || !strings.Contains(said, "FATAL "+why) || !strings.Contains(said, "goroutine ") {
		t.Errorf("it said:\n%s", said)
	}
	if r := readReport(t, filepath.Join(dir, "out")); r.Conclusion != "failure" || len(r.Violations) != 1 || r.why() != why {
		t.Errorf("it reported %+v", r)
	}
	if said := synth("out", "eu-1/shard-s01"); !strings.Contains(said, "FATAL "+why) { // the assembly as it was left
		t.Errorf("of the folder it said:\n%s", said)
	}
}

// auditOf says whether an audit of a written assembly finds anything at or above error, as cellwall audit does.
func auditOf(t *testing.T, dir string, day time.Time) bool {
	t.Helper()
	in, err := assembly.Load(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	r := audit.Run(in, audit.Options{Today: day})
	return r.AtLeast(audit.Error) > 0
}

// TestForgotten: what is acknowledged at a Stage no more is not in the assembly any more, with the gate and without.
func TestForgotten(t *testing.T) {
	k := cell{shared: true, acks: map[string]string{"eu-1": "these two fail together, expires 2027-01-15"}, out: filepath.Join(t.TempDir(), "out")}
	for _, again := range []func() error{
		func() error { _, _, _ = cell{shared: true, out: k.out}.synthesise(t, on(today)); return nil },
		func() error { return Off(cell{shared: true}.app(k.out)) },
	} {
		if _, _, refused := k.synthesise(t, on(today)); refused || auditOf(t, k.out, today) {
			t.Fatal("an acknowledgement at the Stage is not heeded")
		}
		if err := again(); err != nil {
			t.Fatal(err)
		}
		if !auditOf(t, k.out, today) {
			t.Error("an acknowledgement that is no more still holds")
		}
	}
}
