package audit

import (
	"fmt"
	"strings"
)

var ruleWithdrawn = rule{"SC006", Error, "export", "keep the export for one release (in the CDK, exportValue), deploy those that import it without it, and drop it in the next"}

// withdrawnFindings are the exports that a deployment over before would take from stacks that import them.
func (g *graph) withdrawnFindings(before []Stack) []finding {
	if before == nil {
		return nil
	}
	withdrawn, vague := Withdrawals(before, g.stacks, nil)
	var out []finding
	for i := range withdrawn {
		w := &withdrawn[i]
		f := finding{rule: &ruleWithdrawn, level: ruleWithdrawn.level, node: -1, fix: w.Next(), reason: w.Why(),
			resource: &Resource{File: w.file, Stack: w.Stack, LogicalID: w.output, Name: w.Export}}
		if w.Fits {
			f.level, f.reason = Warning, "an order works, but a deployment of all stacks need not keep to it"
		}
		var names []string
		for _, c := range w.Imports {
			names = append(names, c.Stack)
			f.paths = append(f.paths, Path{Shard: c.place, Steps: []Step{c.at,
				{Kind: kindNames[outputNode], Stack: w.Stack, LogicalID: w.output, Name: w.Export, How: howNames[byImport], At: c.at.At}}})
			f.paths[len(f.paths)-1].Steps[0].At = ""
		}
		verb := fmt.Sprintf("%s export %s", w.Verb(), quote(w.Export))
		if w.Change == exportRemoved {
			verb = fmt.Sprintf("is not in the new assembly, and with it goes export %s", quote(w.Export))
		}
		f.message = fmt.Sprintf("stack %s %s, which %s imports (%s): CloudFormation refuses that", quote(w.Stack), verb, plural(len(names), "deployed stack"), listed(names))
		if len(names) > 1 {
			f.message = strings.Replace(f.message, " imports (", " import (", 1)
		}
		out = append(out, f)
	}
	for _, name := range vague {
		out = append(out, finding{rule: &ruleUnresolved, level: Review, node: -1, resource: &Resource{Stack: name},
			message: fmt.Sprintf("stack %s imports by a name that only a deployment knows: whether what it imports stays is not known", quote(name))})
	}
	return out
}

// listed is the first few of names.
func listed(names []string) string {
	const few = 8
	if len(names) > few {
		return strings.Join(names[:few], ", ") + fmt.Sprintf(" and %d more", len(names)-few)
	}
	return strings.Join(names, ", ")
}
