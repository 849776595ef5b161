package gate

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"

	"cellwall.dev/cellwall/internal/audit"
)

// shown is how many findings a failure tells of; the audit's command line has all.
const shown = 20

// waiverFamily begins the rules about waivers and acknowledgements.
const waiverFamily = "WV"

// verdict is an audit's report as the gate sees it.
type verdict struct {
	dir      string          // of the cloud assembly
	findings []audit.Finding // each once, worst first, without what is shared by design
	failOn   audit.Level
}

func newVerdict(dir string, r audit.Report, failOn audit.Level) verdict {
	v := verdict{dir: dir, failOn: failOn}
	seen := map[string]bool{}
	for _, f := range r.Findings {
		if f.Level > audit.Info && !seen[f.Fingerprint] {
			seen[f.Fingerprint] = true
			v.findings = append(v.findings, f)
		}
	}
	return v
}

func (v verdict) fails(f audit.Finding) bool { return f.Suppressed == nil && f.Level >= v.failOn }

// reasons are the findings that fail, as lines for a person, and why what was to suppress them did not; "" where none
// fails.
func (v verdict) reasons() string {
	var failing, about []audit.Finding
	for _, f := range v.findings {
		switch {
		case v.fails(f):
			failing = append(failing, f)
		case strings.HasPrefix(f.Rule, waiverFamily):
			about = append(about, f)
		}
	}
	n := len(failing)
	if n == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "error: the audit refuses the stacks, %s at or above %s:\n", count(n, "finding"), v.failOn)
	for _, f := range slices.Concat(failing[:min(n, shown)], about[:min(len(about), shown)]) {
		fmt.Fprintf(&b, "  %s %s: %s\n", f.Level, f.Rule, f.Message)
		if at := where(f.Resource); at != "" {
			fmt.Fprintf(&b, "    at  %s\n", at)
		}
		if f.Fix != "" {
			fmt.Fprintf(&b, "    fix %s\n", f.Fix)
		}
	}
	if n > shown {
		fmt.Fprintf(&b, "  and %d more\n", n-shown)
	}
	return b.String()
}

// where is a resource as the author of the stacks knows it, "" for none.
func where(r *audit.Resource) string {
	if r == nil {
		return ""
	}
	return cmp.Or(r.Path, strings.TrimSpace(r.Stack+" "+r.LogicalID), r.Name, r.File)
}

func count(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// report is what the CDK is told.
func (v verdict) report() *awscdk.PolicyValidationPluginReport {
	violations := []*awscdk.PolicyViolation{}
	waived := 0
	for _, f := range v.findings {
		if f.Suppressed != nil && f.Suppressed.Kind != audit.ByAcknowledgement {
			waived++ // the CDK knows acknowledgements alone
			continue
		}
		violations = append(violations, v.violation(f))
	}
	why := v.reasons()
	if why != "" {
		violations = append(violations, refusal(why))
	}
	report := &awscdk.PolicyValidationPluginReport{Success: yes(why == ""), PluginVersion: str(version), Violations: &violations}
	if waived > 0 {
		report.Metadata = &map[string]*string{"waived": str(count(waived, "finding"))}
	}
	return report
}

// refusal is the violation of no resource that fails every selection of stacks, whatever was acknowledged.
func refusal(why string) *awscdk.PolicyViolation {
	return &awscdk.PolicyViolation{RuleName: str(Rule), Description: str(why), Severity: str("fatal"),
		ViolatingResources: &[]*awscdk.PolicyViolatingResource{}}
}

// violation names the shared resource alone: the command line says the whole once for each resource that it is given.
func (v verdict) violation(f audit.Finding) *awscdk.PolicyViolation {
	meta := map[string]*string{"level": str(f.Level.String()), "fingerprint": str(f.Fingerprint)}
	if f.Reason != "" {
		meta["reason"] = str(f.Reason)
	}
	if len(f.Shards) > 0 {
		var shards []string
		for _, s := range f.Shards {
			shards = append(shards, s.String())
		}
		meta["shards"] = str(strings.Join(shards, " "))
	}
	out := &awscdk.PolicyViolation{RuleName: str(f.Rule), Description: str(f.Message), Severity: str(v.severity(f)),
		RuleMetadata: &meta, ViolatingResources: &[]*awscdk.PolicyViolatingResource{v.place(f.Resource)}}
	if f.Fix != "" {
		out.Fix = str(f.Fix)
	}
	return out
}

// severity is the CDK's word for a finding. It computes success anew from these once something is acknowledged, so
// error and fatal are kept for what fails. Acknowledged findings are never fatal for it, or they would stay.
func (v verdict) severity(f audit.Finding) string {
	switch {
	case f.Suppressed != nil:
		return audit.Error.String()
	case v.fails(f):
		return max(f.Level, audit.Error).String()
	case f.Level == audit.Review:
		return audit.Info.String()
	default:
		return audit.Warning.String()
	}
}

// place is a finding's resource. One of nothing would be dropped as soon as its rule is acknowledged anywhere; one
// without a path only when it is at the app.
func (v verdict) place(r *audit.Resource) *awscdk.PolicyViolatingResource {
	out := &awscdk.PolicyViolatingResource{Locations: &[]*string{}}
	if r == nil {
		return out
	}
	if r.LogicalID != "" && r.File != "" { // the CDK finds the construct itself
		out.ResourceLogicalId, out.TemplatePath = str(r.LogicalID), str(filepath.Join(v.dir, filepath.FromSlash(r.File)))
	} else if r.Path != "" {
		out.ConstructPath = str(r.Path)
	}
	return out
}

func str(s string) *string { return &s }
func yes(b bool) *bool     { return &b }
