package show

import (
	"fmt"
	"strings"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
)

// MaxSummary bounds a summary, in bytes. GitHub takes 65,536 characters in a comment and 1 MiB in a job's summary.
const MaxSummary = 48 << 10

// Summary is the rollout in Markdown, as a job's summary or a comment of a pull request shows it. It begins and ends
// with an empty line, so that it can be appended to another.
func Summary(s rollout.State, at time.Time) string {
	var b strings.Builder
	n := tally(s.Cells)
	fmt.Fprintf(&b, "\n### Rollout %s of %s: %s\n\n", code(s.Spec.ID), code(s.Spec.Service), mdWord(string(s.Status)))
	if s.Why != "" {
		fmt.Fprintf(&b, "Why: %s\n\n", code(s.Why))
	}
	end := at
	if s.Status.Over() {
		end = s.Updated
	}
	fmt.Fprintf(&b, "| | |\n|---|---|\n| digest | %s |\n| phase | %s |\n| begun | %s |\n| took | %s |\n", code(s.Spec.Digest), mdWord(string(s.Spec.Phase)),
		s.Started.UTC().Format(time.RFC3339), length(end.Sub(s.Started)))
	if s.Holder != "" {
		fmt.Fprintf(&b, "| last driven by | %s |\n", code(s.Holder))
	}
	var counts []string
	for k, c := range n {
		if c > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", c, kinds[k].word))
		}
	}
	fmt.Fprintf(&b, "| cells | %s |\n", strings.Join(counts, ", "))
	if t := NewTenants(s); t != nil {
		fmt.Fprintf(&b, "| tenants with all shards new | %s of %s |\n", grouped(int64(t.Whole)), grouped(int64(t.Of)))
	}
	for i, d := range s.Despite {
		if i == 20 {
			fmt.Fprintf(&b, "| despite | and %d more |\n", len(s.Despite)-i)
			break
		}
		fmt.Fprintf(&b, "| despite %s | %s %s |\n", code(d.Alarm), code(d.Because), mdBy(d.By))
	}
	b.WriteString("\n| wave | cell | status | stage | why |\n|---|---|---|---|---|\n")
	for i, c := range s.Cells {
		row := summaryRow(s, c)
		if b.Len()+len(row) > MaxSummary-200 {
			fmt.Fprintf(&b, "| | and %d more | | | |\n", len(s.Cells)-i)
			break
		}
		b.WriteString(row)
	}
	b.WriteString("\n")
	return b.String()
}

func mdBy(by string) string {
	if by == "" {
		return ""
	}
	return "(" + code(by) + ")"
}

func summaryRow(s rollout.State, c rollout.Cell) string {
	stage, why := "", ""
	switch c.Step {
	case rollout.Waiting, rollout.Done, rollout.Undone:
	case rollout.Stays:
		why = View{State: s}.sentence(c)
	default:
		stage = fmt.Sprintf("%s, %d of %d", code(c.Stages[c.Stage].Name), c.Stage+1, len(c.Stages))
		why = c.Why
	}
	if why != "" {
		why = code(why)
	}
	return fmt.Sprintf("| %d | %s | %s | %s | %s |\n", c.Wave+1, code(c.Name), mdWord(string(c.Step)), stage, why)
}

// mdWord is a word of the engine's own; whatever else it is, it is escaped.
func mdWord(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz-") == "" {
		return "**" + word + "**"
	}
	return code(word)
}

// maxCode is how many bytes of one text from outside stand in a summary.
const maxCode = 400

// code is a text from outside as code in Markdown and in its tables. All but letters, digits and spaces of ASCII are
// character references, which Markdown does not read as its own signs, and nothing is linked or mentioned in code.
func code(text string) string {
	var b strings.Builder
	b.WriteString("<code>")
	for _, r := range cleanTo(text, maxCode) {
		switch {
		case r == ' ', r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= 0x80:
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "&#%d;", r)
		}
	}
	b.WriteString("</code>")
	return b.String()
}
