package audit

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"cellwall.dev/cellwall/internal/audit/limitdata"
)

// Bounds on the text report; the JSON report has all.
const (
	shownPaths = 3    // of one finding
	maxLine    = 4096 // bytes of one line: templates of others have names of any length
)

// printer writes lines of a report. What templates say may hold anything: control characters come out
// escaped, so that no name moves a cursor, colours a screen or makes a line of its own.
type printer struct{ w *bufio.Writer }

func (p printer) line(format string, args ...any) {
	p.w.WriteString(bounded(fmt.Sprintf(format, args...)))
	p.w.WriteByte('\n')
}

// bounded is a text made printable, without what goes beyond a long line.
func bounded(text string) string {
	head, rest := Clip(text, maxLine)
	if rest == 0 {
		return Printable(text)
	}
	return fmt.Sprintf("%s… and %d bytes more", Printable(head), rest)
}

// Clip is the first bytes of a text, at most as many as given, without a part of a character at the
// end, and how many bytes that leaves out.
func Clip(text string, most int) (head string, rest int) {
	if len(text) <= most {
		return text, 0
	}
	cut := most
	for cut > 0 && most-cut < utf8.UTFMax && !utf8.RuneStart(text[cut]) { // what is no UTF-8 is cut anywhere
		cut--
	}
	return text[:cut], len(text) - cut
}

// Printable is a text on one line, with what is no printable character escaped as in Go.
func Printable(text string) string {
	plain := true
	for _, r := range text {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			plain = false
			break
		}
	}
	if plain {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if unicode.IsPrint(r) && (r != utf8.RuneError || n > 1) {
			b.WriteString(text[:n])
		} else {
			q := strconv.Quote(text[:n])
			b.WriteString(q[1 : len(q)-1])
		}
		text = text[n:]
	}
	return b.String()
}

// WriteText writes the report for a terminal: worst first, all findings of one resource together.
func (r *Report) WriteText(w io.Writer) error {
	p := printer{bufio.NewWriter(w)}
	for _, group := range r.grouped() {
		for i, f := range group {
			f.writeText(p, i == 0)
		}
		if group[0].Level != Info && group[0].Suppressed == nil {
			p.line("")
		}
	}
	if n := r.Summary.Findings[Info.String()]; n > 0 || r.Summary.Suppressed > 0 {
		p.line("")
	}
	for _, pool := range r.Pools {
		only := ""
		if len(pool.Variants) > 0 {
			only = " in " + strings.Join(pool.Variants, ", ")
		}
		p.line("reserved concurrency of account %s in %s%s: %d − %d kept free − %d reserved by %s = %d left",
			pool.Account, pool.Region, only, pool.Limit, pool.Free, pool.Reserved, pool.by(), pool.Left)
	}
	if n := len(r.Skipped); n > 0 {
		p.line("not read, no templates: %s", strings.Join(r.Skipped, ", "))
	}
	s := &r.Summary
	var counts []string
	for i := len(levelNames) - 1; i >= 0; i-- {
		counts = append(counts, fmt.Sprintf("%d %s", s.Findings[levelNames[i]], levelNames[i]))
	}
	if s.Suppressed > 0 {
		counts = append(counts, fmt.Sprintf("%d suppressed", s.Suppressed))
	}
	in := ""
	if len(r.Variants) > 0 {
		in = plural(len(r.Variants), "variant") + ", "
		for _, v := range r.Variants {
			p.line("variant %s: %s, %s, %s", v.Name, plural(v.Stacks, "stack"), plural(v.Resources, "resource"), plural(v.Shards, "shard"))
		}
	}
	p.line("%s%s, %s, %s in %s: %s", in, plural(s.Stacks, "stack"), plural(s.Resources, "resource"),
		plural(len(s.Shards), "shard"), plural(s.cells(), "cell"), strings.Join(counts, ", "))
	if why := r.Unjudged(); why != "" {
		p.line("NOT JUDGED: %s", why)
	}
	return p.w.Flush()
}

// grouped are the findings with those of one resource together, where the worst of them stands. What is
// only listed and what is suppressed keeps its place at the end.
func (r *Report) grouped() [][]*Finding {
	var out [][]*Finding
	at := map[Resource]int{}
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Resource != nil && f.Resource.Type != "" && f.Level != Info && f.Suppressed == nil {
			if g, ok := at[*f.Resource]; ok {
				out[g] = append(out[g], f)
				continue
			}
			at[*f.Resource] = len(out)
		}
		out = append(out, []*Finding{f})
	}
	return out
}

// by is who reserves what a pool's Reserved counts.
func (p *Pool) by() string {
	switch {
	case p.Unseen == 0:
		return plural(p.Functions, "function")
	case p.Functions == 0:
		return "what was not read, after the fleet file"
	}
	return fmt.Sprintf("%s and, %d of it, by what was not read, after the fleet file", plural(p.Functions, "function"), p.Unseen)
}

// whoReserves begins a sentence about a pool.
func (p *Pool) whoReserves() string {
	switch {
	case p.Unseen == 0 && p.Functions == 1:
		return "1 function reserves"
	case p.Unseen == 0:
		return plural(p.Functions, "function") + " reserve"
	case p.Functions == 0:
		return "stacks that were not read reserve"
	}
	return plural(p.Functions, "function") + " and stacks that were not read reserve"
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

// writeText writes one finding; only the first of a resource says what the resource is.
func (f *Finding) writeText(p printer, first bool) {
	const indent = "         "
	if s := f.Suppressed; s != nil {
		p.line("%-8s %s  %s%s, %s: %s", "(none)", f.Rule, f.Message, f.only(), f.Level, s.text())
		return
	}
	if f.Level == Info { // short: there is nothing to do about it
		p.line("%-8s %s  %s%s: %s", f.Level, f.Rule, f.Message, f.only(), f.Reason)
		if len(f.Paths) > 0 {
			p.line("%spath   %s", indent, f.Paths[0].text())
		}
		return
	}
	p.line("%-8s %s  %s", f.Level, f.Rule, f.Message)
	line := func(word, text string) {
		if text != "" {
			p.line("%s%-6s %s", indent, word, text)
		}
	}
	if len(f.Variants) > 0 {
		line("only", "in "+strings.Join(f.Variants, ", "))
	}
	if r := f.Resource; r != nil && first {
		line("what", r.text())
	}
	if l := f.Limit; l != nil {
		line("limit", l.Text())
	}
	for i, path := range f.Paths {
		if i == shownPaths {
			line("", fmt.Sprintf("… and one path each for %s; --json has them", plural(len(f.Shards)-shownPaths, "more shard")))
			break
		}
		line("path", path.text())
	}
	line("why", f.Reason)
	line("fix", f.Fix)
}

// only is " (only in cdk.out-us)" of a finding that does not hold in all variants.
func (f *Finding) only() string {
	if len(f.Variants) == 0 {
		return ""
	}
	return " (only in " + strings.Join(f.Variants, ", ") + ")"
}

// text is "waived until 2027-03-31: moves to shards of its own".
func (s *Suppression) text() string {
	word := map[string]string{ByWaiver: "waived", ByAcknowledgement: "acknowledged", ByBaseline: "known from the baseline"}[s.Kind]
	if s.Expires != "" {
		word += " until " + s.Expires
	}
	if s.Reason != "" {
		word += ": " + s.Reason
	}
	return word
}

// Text is "targets per ALB: 1023 of 1000, adjustable (L-7E6692B2, said by the account)".
func (l *Limit) Text() string {
	s := fmt.Sprintf("%s: %s of %d, adjustable", l.Name, span{l.Used, max(l.Used, l.Most)}, l.Max)
	if l.Hard {
		s = strings.TrimSuffix(s, "adjustable") + "not adjustable"
	}
	var notes []string
	if l.Quota != "" {
		notes = append(notes, l.Quota)
	}
	switch {
	case l.Source == LimitLive:
		notes = append(notes, "said by the account")
	case l.Source == LimitFleet:
		notes = append(notes, "said by the fleet file")
	case l.Certainty != "" && l.Certainty != string(limitdata.High):
		notes = append(notes, "of "+l.Certainty+" certainty")
	}
	if len(notes) > 0 {
		s += " (" + strings.Join(notes, ", ") + ")"
	}
	return s
}

func (r *Resource) text() string {
	var parts []string
	if r.Stack != "" {
		parts = append(parts, strings.TrimSuffix(r.Stack+" "+r.LogicalID, " "))
	}
	file := r.File
	if r.Line > 0 {
		file += ":" + strconv.Itoa(r.Line)
	}
	parts = append(parts, r.Name, r.Type, file)
	out := make([]string, 0, len(parts))
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, ", ")
}

// Text is "eu-1/s01: RuleFE12 ─[ListenerArn]→ …", with the stack wherever it changes, printable and on one
// line of bounded length.
func (p *Path) Text() string { return bounded(p.text()) }

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
