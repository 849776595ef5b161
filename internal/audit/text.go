package audit

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"
)

// shownPaths is how many paths a finding shows as text; the JSON report has one for each shard.
const shownPaths = 3

// WriteText writes the report for a terminal: worst first, one block for each shared resource.
func (r *Report) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	for i := range r.Findings {
		r.Findings[i].writeText(b)
	}
	if n := r.Summary.Findings[Info.String()]; n > 0 {
		b.WriteString("\n")
	}
	for _, p := range r.Pools {
		fmt.Fprintf(b, "reserved concurrency of account %s in %s: %d − %d kept free − %d reserved by %s = %d left\n",
			p.Account, p.Region, p.Limit, p.Free, p.Reserved, plural(p.Functions, "function"), p.Left)
	}
	if n := len(r.Skipped); n > 0 {
		fmt.Fprintf(b, "not read, no templates: %s\n", strings.Join(r.Skipped, ", "))
	}
	s := &r.Summary
	fmt.Fprintf(b, "%s, %s, %s in %s: ", plural(s.Stacks, "stack"), plural(s.Resources, "resource"),
		plural(len(s.Shards), "shard"), plural(s.cells(), "cell"))
	for i := len(levelNames) - 1; i >= 0; i-- {
		fmt.Fprintf(b, "%d %s", s.Findings[levelNames[i]], levelNames[i])
		if i > 0 {
			b.WriteString(", ")
		}
	}
	b.WriteString("\n")
	if why := r.Unjudged(); why != "" {
		fmt.Fprintf(b, "NOT JUDGED: %s\n", why)
	}
	return b.Flush()
}

func (s *Summary) cells() int {
	seen := map[place]bool{}
	for _, sh := range s.Shards {
		seen[place{Service: sh.Service, Cell: sh.Cell}] = true
	}
	return len(seen)
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func (f *Finding) writeText(b *bufio.Writer) {
	const indent = "         "
	if f.Level == Info { // short: there is nothing to do about it
		fmt.Fprintf(b, "%-8s %s  %s: %s\n", f.Level, f.Rule, f.Message, f.Reason)
		if len(f.Paths) > 0 {
			fmt.Fprintf(b, "%spath   %s\n", indent, f.Paths[0].text())
		}
		return
	}
	fmt.Fprintf(b, "%-8s %s  %s\n", f.Level, f.Rule, f.Message)
	line := func(word, text string) {
		if text != "" {
			fmt.Fprintf(b, "%s%-6s %s\n", indent, word, text)
		}
	}
	if r := f.Resource; r != nil {
		line("what", r.text())
	}
	if l := f.Limit; l != nil {
		hard := "adjustable"
		if l.Hard {
			hard = "not adjustable"
		}
		line("limit", fmt.Sprintf("%s: %d of %d, %s (%s)", l.Name, l.Used, l.Max, hard, l.Quota))
	}
	for i, p := range f.Paths {
		if i == shownPaths {
			line("", fmt.Sprintf("… and one path each for %s; --json has them", plural(len(f.Shards)-shownPaths, "more shard")))
			break
		}
		line("path", p.text())
	}
	line("why", f.Reason)
	line("fix", f.Fix)
	b.WriteString("\n")
}

func (r *Resource) text() string {
	var parts []string
	if r.Stack != "" {
		parts = append(parts, strings.TrimSuffix(r.Stack+" "+r.LogicalID, " "))
	}
	if r.Name != "" {
		parts = append(parts, r.Name)
	}
	parts = append(parts, r.Type, r.File)
	out := make([]string, 0, len(parts))
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, ", ")
}

// text is "eu-1/s01: RuleFE12 ─ListenerArn→ …", with the stack wherever it changes.
func (p *Path) text() string {
	var b strings.Builder
	b.WriteString(p.Shard.String() + ": ")
	stack := ""
	for i, s := range p.Steps {
		if i > 0 {
			how := s.How
			if s.At != "" && s.At != s.How {
				how += " " + s.At
			}
			fmt.Fprintf(&b, " ─[%s]→ ", how)
		}
		if s.Stack != "" && s.Stack != stack {
			b.WriteString(s.Stack + " ")
			stack = s.Stack
		}
		b.WriteString(cmp.Or(s.LogicalID, s.Name))
		if s.Kind == "resource" {
			fmt.Fprintf(&b, " (%s)", s.Type[strings.LastIndexByte(s.Type, ':')+1:])
		} else {
			fmt.Fprintf(&b, " (%s)", s.Kind)
		}
	}
	return b.String()
}
