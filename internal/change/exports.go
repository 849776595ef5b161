package change

import (
	"bufio"
	"fmt"

	"cellwall.dev/cellwall/internal/audit"
)

// withdrawn are the exports that go, or change, while deployed stacks import them, and the notes on imports of which
// that is not known.
func (c *comparison) withdrawn() (out []audit.Withdrawal, notes []string) {
	out, vague := audit.Withdrawals(c.was.stacks, c.next.stacks, func(account, region, export string) bool {
		return c.passed[shared{account, region, "export " + export}].sure
	})
	for _, name := range vague {
		notes = append(notes, fmt.Sprintf("stack %s imports by a name that only a deployment knows: whether that export stays is not compared", name))
	}
	return out, notes
}

// exportRefusals are the withdrawn exports that no order of deployments lets go.
func exportRefusals(withdrawn []audit.Withdrawal) []Refusal {
	var out []Refusal
	for i := range withdrawn {
		w := &withdrawn[i]
		if w.Fits {
			continue
		}
		out = append(out, Refusal{Stack: w.Stack, What: fmt.Sprintf("%s the export %s, which is in use", w.Verb(), w.Export),
			Why: "CloudFormation refuses it while a stack imports it: " + w.Why(), Next: w.Next()})
	}
	return out
}

// writeExports says in which order stacks let go of exports.
func (r *Report) writeExports(b *bufio.Writer) {
	said := false
	for i := range r.Exports {
		if w := &r.Exports[i]; w.Fits {
			if !said {
				b.WriteString("exports in use, in this order, each deployment by itself (cdk deploy --exclusively)\n")
				said = true
			}
			fmt.Fprintf(b, "  %s (%s %s)\n", w.Order(), w.Verb(), w.Export)
		}
	}
	if said {
		b.WriteString("\n")
	}
}
