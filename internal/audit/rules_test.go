package audit_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/audit/assembly"
)

// files takes an example apart: text below a line "-- NAME … --", one text for each name.
func files(example string) fstest.MapFS {
	out := fstest.MapFS{}
	var names []string
	for line := range strings.Lines(example + "\n") {
		if head, ok := strings.CutPrefix(line, "-- "); ok {
			names = strings.Fields(strings.TrimSuffix(strings.TrimSpace(head), "--"))
			for _, n := range names {
				out[n] = &fstest.MapFile{}
			}
			continue
		}
		for _, n := range names {
			out[n].Data = append(out[n].Data, line...)
		}
	}
	return out
}

// prose are the rules whose examples are no templates: too many resources, or no template at all.
var prose = []string{"QT001", "WV001", "WV002", "WV003", "UN006", "UN007", "UN008"}

// TestExamples audits each rule's example and holds that it shows that rule at the level it says, and no
// other rule at or above warning.
func TestExamples(t *testing.T) {
	for _, r := range audit.Rules() {
		if r.Family == "" || r.Title == "" || r.Fix == "" || len(r.Help) < 40 || r.Example == "" {
			t.Errorf("%s is not documented: add it to the manual of its family", r.ID)
			continue
		}
		if !strings.HasPrefix(r.Example, "-- ") {
			if !slices.Contains(prose, r.ID) && r.Family != "limit" && r.Family != "account pool" {
				t.Errorf("%s has no example that can be audited", r.ID)
			}
			continue
		}
		next, was := files(r.Example), fstest.MapFS{}
		for name, file := range next {
			if old, ok := strings.CutPrefix(name, "was/"); ok {
				was[old] = file
				delete(next, name)
			}
		}
		in, err := assembly.Load(next)
		if err != nil {
			t.Errorf("%s: %v", r.ID, err)
			continue
		}
		var opt audit.Options
		if len(was) > 0 {
			before, err := assembly.Load(was)
			if err != nil {
				t.Errorf("%s: %v", r.ID, err)
				continue
			}
			opt.Before = before.Stacks
		}
		report := audit.Run(in, opt)
		found := false
		for _, f := range report.Findings {
			found = found || f.Rule == r.ID && f.Level == r.Level
			if f.Rule != r.ID && f.Level >= audit.Warning && f.Rule != "UN001" {
				t.Errorf("the example of %s shows %s %s as well: %s", r.ID, f.Level, f.Rule, f.Message)
			}
		}
		if !found {
			t.Errorf("the example of %s does not show it at level %s: %+v\n%s", r.ID, r.Level, report.Findings, r.Example)
		}
	}
}
