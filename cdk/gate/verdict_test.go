package gate

import (
	"fmt"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
)

// TestSuccess: a report succeeds exactly when nothing fails, and the CDK comes to the same when it computes that anew
// from severities, whatever it drops as acknowledged.
func TestSuccess(t *testing.T) {
	levels := []audit.Level{audit.Info, audit.Review, audit.Warning, audit.Error, audit.Fatal}
	for _, failOn := range levels[1:] {
		for _, level := range levels {
			for _, by := range []string{"", audit.ByAcknowledgement, audit.ByWaiver, audit.ByBaseline} {
				f := audit.Finding{Rule: "SD001", Level: level, Fingerprint: "f"}
				if by != "" {
					f.Suppressed = &audit.Suppression{Kind: by}
				}
				r := newVerdict("out", audit.Report{Findings: []audit.Finding{f}}, failOn).report()
				name := fmt.Sprintf("%s at %s suppressed by %q", level, failOn, by)
				if want := by != "" || level < failOn || level == audit.Info; *r.Success != want {
					t.Errorf("%s: success is %v", name, *r.Success)
				}
				for _, dropped := range []bool{false, true} {
					anew := true
					for _, v := range *r.Violations {
						if dropped && *v.RuleName == f.Rule && *v.Severity != "fatal" {
							continue
						}
						anew = anew && *v.Severity != "error" && *v.Severity != "fatal"
					}
					if anew != *r.Success {
						t.Errorf("%s: the CDK comes to %v", name, anew)
					}
				}
			}
		}
	}
}

// TestOnce: a finding is one violation, however often the audit has it, and one that counts is never hidden by one that
// is suppressed.
func TestOnce(t *testing.T) {
	r := audit.Report{Findings: []audit.Finding{
		{Rule: "SD001", Level: audit.Error, Fingerprint: "a"},
		{Rule: "SD001", Level: audit.Error, Fingerprint: "a"},
		{Rule: "SD001", Level: audit.Error, Fingerprint: "b"},
	}}
	if v := *newVerdict("out", r, audit.Error).report().Violations; len(v) != 3 {
		t.Errorf("%d violations, want two and the refusal", len(v))
	}
}

// TestManyReasons: a person is told of so many, and of how many more there are.
func TestManyReasons(t *testing.T) {
	var r audit.Report
	for i := range shown + 7 {
		r.Findings = append(r.Findings, audit.Finding{Rule: "SD001", Level: audit.Error, Fingerprint: fmt.Sprint(i), Message: "one",
			Resource: &audit.Resource{Name: "arn:aws:sns:eu-west-1:111111111111:out-of-sight"}})
	}
	why := newVerdict("out", r, audit.Error).reasons()
	if !strings.HasPrefix(why, "the audit refuses the stacks, 27 findings") || strings.Count(why, "SD001") != shown ||
		!strings.HasSuffix(why, "  and 7 more") || !strings.Contains(why, "    at  arn:aws:sns:") {
		t.Errorf("it says:\n%s", why)
	}
}
