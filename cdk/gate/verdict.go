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

// reasons are the findings that fail, as lines for a person of which the first is the sum, and why what was to suppress
// them did not; "" where none fails.
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
	fmt.Fprintf(&b, "the audit refuses the stacks, %s at or above %s:\n", count(n, "finding"), v.failOn)
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
	return strings.TrimSuffix(b.String(), "\n")
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

// report is what the CDK is told: of what fails, and of what is acknowledged, which it lists as suppressed. It knows no
// waivers, and what is below the threshold it would say again at every synthesis: cellwall audit has those.
func (v verdict) report() *awscdk.PolicyValidationPluginReport {
	violations := []*awscdk.PolicyViolation{}
	for _, f := range v.findings {
		if v.fails(f) || f.Suppressed != nil && f.Suppressed.Kind == audit.ByAcknowledgement {
			violations = append(violations, v.violation(f))
		}
	}
	why := v.reasons()
	if why != "" {
		violations = append(violations, refusal(why))
	}
	return &awscdk.PolicyValidationPluginReport{Success: yes(why == ""), PluginVersion: str(version), Violations: &violations}
}

// refusal is the violation that fails every selection of stacks, whatever was acknowledged. Its resource is of no
// construct, and with that of every selection; without one, the CDK would leave it out of what it prints.
func refusal(why string) *awscdk.PolicyViolation {
	return &awscdk.PolicyViolation{RuleName: str(Rule), Description: str(why), Severity: str("fatal"),
		ViolatingResources: &[]*awscdk.PolicyViolatingResource{{Locations: &[]*string{}}}}
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
	out := &awscdk.PolicyViolation{RuleName: str(f.Rule), Description: str(f.Message), Severity: str(severity(f)),
		RuleMetadata: &meta, ViolatingResources: &[]*awscdk.PolicyViolatingResource{v.place(f.Resource)}}
	if f.Fix != "" {
		out.Fix = str(f.Fix)
	}
	return out
}

// severity is the CDK's word for a finding. It computes success anew from these once something is acknowledged. What
// is acknowledged in a template's own metadata, which the CDK does not look at, must then not count.
func severity(f audit.Finding) string {
	if f.Suppressed != nil {
		return audit.Info.String()
	}
	return max(f.Level, audit.Error).String()
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
