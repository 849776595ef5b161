package change

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"cellwall.dev/cellwall/internal/template"
)

// WriteText writes the report for people. Shards of a cell in which the same happens share their lines.
func (r *Report) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	if len(r.Fleet) > 0 {
		b.WriteString("the fleet\n")
		for _, e := range r.Fleet {
			fmt.Fprintf(b, "  %s\n", e)
		}
		b.WriteString("\n")
	}
	if r.Empty() {
		b.WriteString("no stack changes\n")
	}
	for i := 0; i < len(r.Stacks); {
		cell := r.Stacks[i].Cell
		n := i + 1
		for n < len(r.Stacks) && r.Stacks[n].Cell == cell {
			n++
		}
		writeCell(b, r.Stacks[i:n])
		i = n
	}
	r.writeBilled(b)
	for _, room := range r.Concurrency {
		room.write(b)
	}
	r.writeExports(b)
	if len(r.Accepted) > 0 {
		b.WriteString("accepted\n")
		accepted := make([]Refusal, len(r.Accepted))
		for i, e := range r.Accepted {
			accepted[i] = e.Refusal
			accepted[i].Next = e.Reason
		}
		writeRefusals(b, accepted, "because")
	}
	if len(r.Refused) > 0 {
		b.WriteString("refused\n")
		writeRefusals(b, r.Refused, "instead")
	}
	return b.Flush()
}

// writeRefusals writes each refusal once, with the stacks that have it; next is the word before what follows from it.
func writeRefusals(b *bufio.Writer, refused []Refusal, next string) {
	var order []Refusal
	of := map[Refusal][]string{}
	for _, e := range refused {
		key := Refusal{What: e.What, Why: e.Why, Next: e.Next}
		if of[key] == nil {
			order = append(order, key)
		}
		of[key] = append(of[key], e.Stack)
	}
	for _, e := range order {
		where := ""
		switch stacks := of[e]; {
		case len(stacks) > 1:
			where = fmt.Sprintf("in %d stacks, %s: ", len(stacks), listed(stacks))
		case stacks[0] != "":
			where = "stack " + stacks[0] + ": "
		}
		fmt.Fprintf(b, "  %s%s\n    why: %s\n    %s: %s\n", where, e.What, e.Why, next, e.Next)
	}
}

// String is an edit in words.
func (e Edit) String() string {
	switch {
	case e.From == "":
		return e.Path + added(e.To)
	case e.To == "":
		return e.Path + ": removed"
	}
	return fmt.Sprintf("%s: %s → %s", e.Path, short(e.From), short(e.To))
}

func added(value string) string {
	if value == "present" || value == "a list" {
		return ": added"
	}
	return ": added, " + short(value)
}

// marks lead the lines of resources by their kind.
var marks = map[Kind]string{Added: "+", Changed: "~", MayReplace: "?", Replaced: "±", Removed: "-"}

// did are the kinds as the sums of a stack say them.
var did = []struct {
	kind Kind
	text string
}{{Added, "added"}, {Changed, "changed in place"}, {MayReplace, "may be replaced"}, {Replaced, "replaced"}, {Removed, "removed"}}

func writeCell(b *bufio.Writer, stacks []Stack) {
	if cell := stacks[0].Cell; cell != "" {
		fmt.Fprintf(b, "cell %s\n", cell)
	} else {
		b.WriteString("the whole service\n")
	}
	var order []string
	alike := map[string][]*Stack{}
	for i := range stacks {
		s := &stacks[i]
		key := strings.Join(append([]string{s.Account, s.Region, s.sum()}, s.lines(false)...), "\n")
		if s.Shard == "" {
			key = s.Name + "\n" + key // only shards are alike
		}
		if alike[key] == nil {
			order = append(order, key)
		}
		alike[key] = append(alike[key], s)
	}
	for _, key := range order {
		group := alike[key]
		fmt.Fprintf(b, "  %s: %s\n", heading(group), group[0].sum())
		for _, line := range group[0].lines(len(group) == 1) {
			fmt.Fprintf(b, "    %s\n", line)
		}
	}
	b.WriteString("\n")
}

// heading names one stack, or shards that are alike.
func heading(group []*Stack) string {
	s := group[0]
	where := ""
	if s.Account != "" || s.Region != "" {
		where = fmt.Sprintf(" (%s)", strings.Trim(s.Account+", "+s.Region, ", "))
	}
	if len(group) == 1 {
		return "stack " + s.Name + where
	}
	ids := make([]string, len(group))
	for i := range group {
		ids[i] = group[i].Shard
	}
	return fmt.Sprintf("the stacks of %d shards%s, %s", len(group), where, listed(ids))
}

// listed is a list of names, of which none is left out: three and more whose numbers follow on each other are told by
// the first and the last.
func listed(names []string) string {
	var all []string
	for i := 0; i < len(names); {
		n := i + 1
		for n < len(names) && follows(names[n-1], names[n]) {
			n++
		}
		if n-i > 2 {
			all = append(all, names[i]+" to "+names[n-1])
		} else {
			all = append(all, names[i:n]...)
		}
		i = n
	}
	return strings.Join(all, " ")
}

// numbered is a name that ends in a number.
var numbered = regexp.MustCompile(`^(.*?)([0-9]{1,9})$`)

// follows says whether two names have the same beginning, and then a number and the next.
func follows(a, b string) bool {
	x, y := numbered.FindStringSubmatch(a), numbered.FindStringSubmatch(b)
	if x == nil || y == nil || x[1] != y[1] {
		return false
	}
	n, _ := strconv.Atoi(x[2]) // nine digits fit
	return fmt.Sprintf("%0*d", len(x[2]), n+1) == y[2]
}

// sum says how much of a stack changes.
func (s *Stack) sum() string {
	switch s.Kind {
	case Added:
		return "added, " + plural(len(s.Resources), "resource")
	case Removed:
		kept := 0
		for i := range s.Resources {
			if s.Resources[i].Kept {
				kept++
			}
		}
		return fmt.Sprintf("removed, %s, %d left behind; deploying removes no stack, cdk destroy does, over the old assembly", plural(len(s.Resources), "resource"), kept)
	}
	var parts []string
	for _, d := range did {
		n := 0
		for i := range s.Resources {
			if s.Resources[i].Kind == d.kind {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, d.text))
		}
	}
	if s.Tags {
		parts = append(parts, "other tags on all of it")
	}
	return strings.Join(parts, ", ")
}

// lines are what happens in a stack. What comes or goes as a whole is counted, and what is left behind told, by its
// own name where that is wanted.
func (s *Stack) lines(named bool) []string {
	var lines []string
	if s.Kind != Changed {
		counts := map[string]int{}
		for i := range s.Resources {
			if e := &s.Resources[i]; e.Kept {
				what := label(e)
				if named && e.Name != "" {
					what = word(e.Type) + " " + e.Name
				}
				lines = append(lines, "= "+what+" is left behind")
			} else {
				counts[word(e.Type)]++
			}
		}
		var all []string
		for _, w := range slices.Sorted(maps.Keys(counts)) {
			all = append(all, plural(counts[w], w))
		}
		if len(all) > 0 {
			lines = append([]string{marks[s.Kind] + " " + strings.Join(all, ", ")}, lines...)
		}
		return append(lines, s.causes()...)
	}
	for i := range s.Resources {
		lines = append(lines, s.Resources[i].lines(named)...)
	}
	return lines
}

// causes are the edits that bring or take a whole stack.
func (s *Stack) causes() []string {
	all := map[string]bool{}
	for i := range s.Resources {
		for _, c := range s.Resources[i].Causes {
			all[c] = true
		}
	}
	if len(all) == 0 {
		return nil
	}
	return []string{"by " + strings.Join(slices.Sorted(maps.Keys(all)), ", ")}
}

func (e *Resource) lines(named bool) []string {
	head := marks[e.Kind] + " " + label(e)
	if named && e.Name != "" && (e.Kind == Added || e.Kind == Removed) {
		head += ", named " + e.Name
	}
	switch {
	case e.Kind == Removed && e.Kept:
		head += ": removed from the stack, and left behind"
	case e.Kind == Replaced && e.Kept:
		head += ": replaced; the old one is left behind"
	case e.Kind == Replaced:
		head += ": replaced"
	case e.Kind == MayReplace:
		head += ": changed in place or replaced"
	}
	if len(e.Causes) > 0 {
		head += "  [" + strings.Join(e.Causes, ", ") + "]"
	}
	lines := []string{head}
	const shown = 12
	for i, p := range e.Properties {
		if i == shown {
			lines = append(lines, fmt.Sprintf("    and %d more, which --json has", len(e.Properties)-shown))
			break
		}
		lines = append(lines, "    "+p.line())
	}
	for _, why := range e.Why {
		lines = append(lines, "    "+why)
	}
	return lines
}

func (p Property) line() string {
	what := ""
	switch p.Kind {
	case Replaced:
		what = ", for which it is replaced"
	case MayReplace:
		what = ", for which it may be replaced"
	}
	switch {
	case p.From == nil:
		return p.Path + ": " + value(p.To) + what + " (new)"
	case p.To == nil:
		return p.Path + ": was " + value(p.From) + what + " (gone)"
	}
	from, to := value(p.From), value(p.To)
	if from == to {
		return fmt.Sprintf("%s: another %s%s", p.Path, to, what)
	}
	return fmt.Sprintf("%s: %s → %s%s", p.Path, from, to, what)
}

// unique is the end of a logical id by which the CDK makes it unique, or a version another one.
var unique = regexp.MustCompile(`(?:[0-9A-F]{8})?[0-9a-f]{32,}$|[0-9A-F]{8}$`)

// value is a template's value in one short line. References have no hashes: these differ between shards, and say
// nothing to people.
func value(n *template.Node) string {
	if t, ok := n.Scalar(); ok {
		return short(t)
	}
	if isCall(*n) {
		var refers []string
		template.Uses(*n, func(u template.Use) {
			name := unique.ReplaceAllString(u.Name, "")
			switch u.Kind {
			case template.UseRef:
				refers = append(refers, name)
			case template.UseGetAtt:
				refers = append(refers, u.Attr+" of "+name)
			}
		})
		if fn := n.Key(0); len(refers) == 1 && (fn == "Ref" || fn == "Fn::GetAtt") {
			return refers[0]
		}
	}
	data, _ := n.MarshalJSON() // only strings could fail, and they do not
	return short(string(data))
}

// short is a text in one line of at most 60 characters.
func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	return s
}

func (r *Report) writeBilled(b *bufio.Writer) {
	if len(r.Billed) == 0 {
		return
	}
	b.WriteString("billed for as long as it is there\n")
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  cell\twhat\tbefore\tafter\tleft behind")
	for _, l := range r.Billed {
		kept := ""
		if l.Kept > 0 {
			kept = fmt.Sprint(l.Kept)
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", cmp.Or(l.Cell, "all"), l.What, l.From, l.To, kept)
	}
	w.Flush() // b keeps the error
	b.WriteString("\n")
}

// String is 4, or 4 to 12.
func (c Count) String() string {
	if c.Min == c.Max {
		return fmt.Sprint(c.Min)
	}
	return fmt.Sprintf("%d to %d", c.Min, c.Max)
}

func (r *Room) write(b *bufio.Writer) {
	fits := "in this order"
	if !r.Fits {
		fits = "in no order"
	}
	fmt.Fprintf(b, "reserved concurrency of account %s in %s: %d → %d, of %d, %s\n", r.Account, r.Region, r.From, r.To, r.Room, fits)
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for i := 0; i < len(r.Steps); {
		s := r.Steps[i]
		n, most := i+1, 0
		for n < len(r.Steps) && r.Steps[n].From == s.From && r.Steps[n].To == s.To && r.Steps[n].Gone == s.Gone {
			n++
		}
		for _, s := range r.Steps[i:n] {
			most = max(most, s.Before-s.From+s.Peak)
		}
		do, number := "deploy", fmt.Sprint(i+1)
		if s.Gone {
			do = "destroy"
		}
		what := s.Stack
		if n > i+1 { // alike, one after the other
			number, what = fmt.Sprintf("%d to %d", i+1, n), s.Stack+" to "+r.Steps[n-1].Stack
		}
		fmt.Fprintf(w, "  %s.\t%s %s\t%d → %d\tat most %d reserved\n", number, do, what, s.From, s.To, most)
		i = n
	}
	w.Flush() // b keeps the error
	b.WriteString("\n")
}
