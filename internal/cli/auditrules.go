package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/audit"
)

func auditRules(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "List what the audit looks for",
		Args:  exactly(0),
		RunE: func(*cobra.Command, []string) error {
			rules := audit.Rules()
			if asJSON {
				return writeRules(a.out, rules)
			}
			for _, r := range rules {
				if _, err := fmt.Fprintf(a.out, "%s  %-8s %s\n", r.ID, r.Level, r.Title); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array, with help and examples")
	return cmd
}

func auditExplain(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain RULE...",
		Short: "Say what a rule finds and why it matters, with an example and what to do",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return hint(usagef("name at least one rule, such as SD001"), "cellwall audit rules lists them")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			all := audit.Rules()
			var chosen []audit.Rule
			for _, id := range args {
				i := slices.IndexFunc(all, func(r audit.Rule) bool { return strings.EqualFold(r.ID, id) })
				if i < 0 {
					return hint(usagef("%q is no rule", id), "cellwall audit rules lists them")
				}
				chosen = append(chosen, all[i])
			}
			if asJSON {
				return writeRules(a.out, chosen)
			}
			for i, r := range chosen {
				if i > 0 {
					fmt.Fprintln(a.out)
				}
				if err := explainRule(a.out, r); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array")
	return cmd
}

func writeRules(w io.Writer, rules []audit.Rule) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(rules)
}

func explainRule(w io.Writer, r audit.Rule) error {
	_, err := fmt.Fprintf(w, "%s  %s (%s, %s)\n\n%s\n\nfix: %s\n\nexample:\n\n", r.ID, r.Title, r.Family, r.Level, folded(r.Help, 100), folded(r.Fix, 95))
	for line := range strings.Lines(r.Example + "\n") {
		if err == nil {
			_, err = fmt.Fprint(w, "    ", line)
		}
	}
	return err
}

// folded breaks a text into lines of at most width characters where it has spaces.
func folded(text string, width int) string {
	var b strings.Builder
	n := 0
	for i, word := range strings.Fields(text) {
		length := len([]rune(word))
		switch {
		case i == 0:
		case n+1+length > width:
			b.WriteByte('\n')
			n = 0
		default:
			b.WriteByte(' ')
			n++
		}
		b.WriteString(word)
		n += length
	}
	return b.String()
}
