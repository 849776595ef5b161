package audit

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Proposal is a mapping that tells like stacks apart, where nothing says who is who. It is a guess: nothing was
// judged by it.
type Proposal struct {
	Rules  []string `json:"rules"`  // each to be given as --shard
	Shards []Shard  `json:"shards"` // that they would find, in order; cells, without an ID, where shards of such cells are known
	Stacks int      `json:"stacks"` // that they would place
}

// text is the proposal as a part of a sentence.
func (p *Proposal) text() string {
	if p == nil {
		return ""
	}
	var flags []string
	for _, r := range p.Rules {
		flags = append(flags, "--shard '"+r+"'")
	}
	var names []string
	for _, s := range p.Shards[:min(len(p.Shards), 4)] {
		names = append(names, s.String())
	}
	if len(p.Shards) > len(names) {
		names = append(names, "…")
	}
	what := "shard"
	if p.Shards[0].ID == "" {
		what = "cell"
	}
	return fmt.Sprintf("; %s that are like each other would be %s (%s) by %s", plural(p.Stacks, "stack"), plural(len(p.Shards), what), strings.Join(names, ", "), strings.Join(flags, " "))
}

// fix is the rule's, with the proposal before it.
func (p *Proposal) fix(r *rule) string {
	if p == nil {
		return ""
	}
	return strings.TrimPrefix(p.text(), "; ") + ": try that, or " + r.fix
}

// propose looks for a mapping for the stacks that belong nowhere. A stack that says of which service it is, and of no
// cell, is the whole service's, such as a front door in each region.
func (g *graph) propose() *Proposal {
	var top, nested []*Stack
	for i := range g.stacks {
		if s := &g.stacks[i]; g.places[i].nowhere() && g.places[i].Service == "" && !g.hasShard[i] {
			if s.Nested == nil {
				top = append(top, s)
			} else {
				nested = append(nested, s)
			}
		}
	}
	cells := map[string]bool{}
	for _, s := range g.shards {
		cells[s.Cell] = s.Cell != ""
	}
	if p := propose(top, g.stacks, cells); p != nil {
		return p
	}
	return propose(nested, g.stacks, cells) // which go with their parents, where these are somebody's
}

// propose looks for a mapping among stacks that belong nowhere: of groups of stacks with the same types of
// resources, a data path among them, the largest whose members a tag, their names or their paths tell apart, and
// those groups that have the same shards. Its rules say nothing of any other stack, but of those that are nearly like
// the group: a shard may have a queue more than its siblings. What is as many as the cells that
// are known, and called as they are, is theirs.
func propose(stacks []*Stack, all []Stack, cells map[string]bool) *Proposal {
	like := map[string][]*Stack{}
	for _, s := range stacks {
		if key := kindOf(s); key != "" {
			like[key] = append(like[key], s)
		}
	}
	type candidate struct {
		rule   string
		shards map[Shard]bool
		stacks []*Stack
	}
	var found []candidate
	for _, key := range slices.Sorted(maps.Keys(like)) {
		group := like[key]
		if len(group) < 2 {
			continue
		}
		for _, rule := range guesses(group) {
			if shards, placed := tellsApart(rule, group, stacks, all); placed != nil {
				rule, shards = ofCells(rule, shards, cells)
				found = append(found, candidate{rule, shards, placed})
				break // the guesses of a group are in the order of trust
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return -cmp.Compare(len(a.stacks), len(b.stacks)) })
	p := &Proposal{Shards: slices.SortedFunc(maps.Keys(found[0].shards), compareShards)}
	placed := map[*Stack]bool{}
	for _, c := range found {
		if maps.Equal(c.shards, found[0].shards) {
			for _, s := range c.stacks {
				placed[s] = true
			}
			if !slices.Contains(p.Rules, c.rule) {
				p.Rules = append(p.Rules, c.rule)
			}
		}
	}
	p.Stacks = len(placed)
	return p
}

// alike says whether two stacks, each with a data path, have more types of resources in common than not.
func alike(a, b *Stack) bool {
	if kindOf(a) == "" || kindOf(b) == "" {
		return false
	}
	in := map[string]int{}
	for k, s := range []*Stack{a, b} {
		for i := range s.Template.Resources {
			in[s.Template.Resources[i].Type] |= 1 << k
		}
	}
	both := 0
	for _, who := range in {
		if who == 1|1<<1 {
			both++
		}
	}
	return 2*both > len(in)
}

// kindOf is what like stacks have in common: the types of their resources; "" without one on a data path.
func kindOf(s *Stack) string {
	types := map[string]bool{}
	data := false
	for i := range s.Template.Resources {
		typ := s.Template.Resources[i].Type
		types[typ] = true
		data = data || traitsOf(typ).rule.level == Error
	}
	if !data {
		return ""
	}
	return strings.Join(slices.Sorted(maps.Keys(types)), " ")
}

// ofCells makes a rule that calls shards what are known to be cells one of cells.
func ofCells(rule string, shards map[Shard]bool, cells map[string]bool) (string, map[Shard]bool) {
	out := map[Shard]bool{}
	for s := range shards {
		if s.Cell != "" || !cells[s.ID] || !strings.Contains(rule, "(?P<shard>") {
			return rule, shards
		}
		out[Shard{Cell: s.ID}] = true
	}
	return strings.Replace(rule, "(?P<shard>", "(?P<cell>", 1), out
}

// tellsApart says whether a rule gives each stack of a group a shard of its own, and no other stack any. Of those that
// belong nowhere, too, what is nearly like the group may have one as well. placed are the stacks that have one, nil when
// the rule does not tell them apart.
func tellsApart(rule string, group, nowhere []*Stack, all []Stack) (shards map[Shard]bool, placed []*Stack) {
	r, err := ParseMapRule(rule)
	if err != nil {
		return nil, nil
	}
	m := newMapping([]MapRule{r})
	shards, placed = map[Shard]bool{}, slices.Clone(group)
	for _, s := range group {
		p := m.stack(s, s.scope())
		if p.ID == "" || shards[p] {
			return nil, nil
		}
		shards[p] = true
	}
	for i := range all {
		if r.source == mapTag {
			break // who has the tag says so
		}
		s := &all[i]
		p := m.stack(s, s.scope())
		switch {
		case p == place{} || slices.Contains(group, s):
		case slices.Contains(nowhere, s) && alike(s, group[0]) && p.ID != "" && !shards[p]:
			shards[p], placed = true, append(placed, s)
		case kindOf(s) != kindOf(group[0]):
			return nil, nil
		}
	}
	return shards, placed
}

// guesses are rules that may tell the stacks of a group apart: by a tag, by their names, by their paths.
func guesses(group []*Stack) []string {
	var rules []string
	keys := map[string]map[string]bool{}
	for _, s := range group {
		for key, value := range s.Tags {
			if keys[key] == nil {
				keys[key] = map[string]bool{}
			}
			keys[key][value] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if len(keys[key]) == len(group) && !strings.ContainsAny(key, "='") {
			rules = append(rules, "tag:"+key)
		}
	}
	texts := func(of func(*Stack) string) []string {
		var out []string
		for _, s := range group {
			out = append(out, of(s))
		}
		return out
	}
	if p := patternOf(texts((*Stack).ownName)); p != "" {
		rules = append(rules, "stack:"+p)
	}
	if p := patternOf(texts((*Stack).ownPath)); p != "" {
		rules = append(rules, "path:"+p)
	}
	return rules
}

// separators are what stands between the fields of a name or path.
var separators = regexp.MustCompile(`[-_./:]`)

// regionName is the name of a region of AWS, in which dashes separate nothing.
var regionName = regexp.MustCompile(`\b[a-z]{2}(?:-gov|-iso[a-z]?)?-(?:central|(?:north|south)?(?:east|west)?)-\d\b`)

const regionDash = "\x00"

// patternOf is an expression for texts that differ in some of their fields, or "". The last field that differs is
// the shard, what differs before it is the cell.
func patternOf(texts []string) string {
	fields := make([][]string, len(texts))
	texts = slices.Clone(texts)
	for i, s := range texts {
		s = regionName.ReplaceAllStringFunc(s, func(r string) string { return strings.ReplaceAll(r, "-", regionDash) }) // one word
		texts[i] = s
		fields[i] = separators.Split(s, -1)
		if s == "" || strings.Contains(s, "'") || len(fields[i]) != len(fields[0]) ||
			!slices.Equal(separators.FindAllString(s, -1), separators.FindAllString(texts[0], -1)) {
			return ""
		}
	}
	seps := append(separators.FindAllString(texts[0], -1), "")
	var differ []int
	parts := make([]string, len(fields[0]))
	for k := range fields[0] {
		values := make([]string, len(texts))
		for i := range texts {
			values[i] = fields[i][k]
		}
		before, class, after := common(values)
		if class == "" {
			parts[k] = regexp.QuoteMeta(strings.ReplaceAll(values[0], regionDash, "-"))
			continue
		}
		differ = append(differ, k)
		parts[k] = regexp.QuoteMeta(before) + "(" + class + ")" + regexp.QuoteMeta(after)
	}
	if len(differ) == 0 {
		return ""
	}
	first, last := differ[0], differ[len(differ)-1]
	var b strings.Builder
	for k, part := range parts {
		switch {
		case k == last:
			part = strings.Replace(part, "(", "(?P<shard>", 1)
		case len(differ) > 1 && k == first && k == differ[len(differ)-2]:
			part = strings.Replace(part, "(", "(?P<cell>", 1)
		case len(differ) > 1 && k >= first && k <= differ[len(differ)-2]: // the cell is more than one field
			part = strings.Replace(part, "(", "(?:", 1)
			if k == first {
				part = "(?P<cell>" + part
			}
			if k == differ[len(differ)-2] {
				part += ")"
			}
		}
		b.WriteString(part + regexp.QuoteMeta(seps[k]))
	}
	return b.String()
}

// common is what all values begin and end with, and a class for what is between; "" when they are one.
func common(values []string) (before, class, after string) {
	before, after = values[0], values[0]
	for _, v := range values[1:] {
		n := 0
		for n < min(len(before), len(v)) && before[n] == v[n] {
			n++
		}
		before = before[:n]
		n = 0
		for n < min(len(after), len(v)) && after[len(after)-1-n] == v[len(v)-1-n] {
			n++
		}
		after = after[len(after)-n:]
	}
	if len(before) == len(values[0]) && !slices.ContainsFunc(values, func(v string) bool { return v != before }) {
		return before, "", ""
	}
	if slices.ContainsFunc(values, func(v string) bool { return strings.Contains(v, regionDash) }) {
		return "", `[\w-]+`, ""
	}
	const digits = "0123456789"
	before, after = strings.TrimRight(before, digits), strings.TrimLeft(after, digits) // a number is one thing
	class = `\d+`
	for _, v := range values {
		if len(v) <= len(before)+len(after) {
			return "", `\w+`, "" // they overlap: v1 and v1x
		}
		if strings.Trim(v[len(before):len(v)-len(after)], digits) != "" {
			class = `\w+`
		}
	}
	if class == `\w+` { // words are told apart whole: blue and black, AcmeStack and AppleStack
		before, after = wordsBefore(values, before), wordsAfter(values, after)
	}
	return before, class, after
}

// wordsBefore is as much of what all values begin with as ends where a capital begins their next word.
func wordsBefore(values []string, before string) string {
	for n := len(before); n > 0; n-- {
		if !slices.ContainsFunc(values, func(v string) bool { return !capital(v, n) }) {
			return before[:n]
		}
	}
	return ""
}

// wordsAfter is as much of what all values end with as begins with a capital.
func wordsAfter(values []string, after string) string {
	for ; after != ""; after = after[1:] {
		if !slices.ContainsFunc(values, func(v string) bool { return !capital(v, len(v)-len(after)) }) {
			return after
		}
	}
	return ""
}

// capital says whether a word in CamelCase begins at i.
func capital(s string, i int) bool {
	upper := func(c byte) bool { return c >= 'A' && c <= 'Z' }
	return i > 0 && i < len(s) && upper(s[i]) && !upper(s[i-1])
}
