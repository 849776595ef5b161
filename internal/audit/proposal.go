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
	Shards []Shard  `json:"shards"` // that they would find, in order
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
	return fmt.Sprintf("; %s that are like each other would be %s (%s) by %s", plural(p.Stacks, "stack"), plural(len(p.Shards), "shard"), strings.Join(names, ", "), strings.Join(flags, " "))
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
	var nowhere []*Stack
	for i := range g.stacks {
		if g.places[i].nowhere() && g.places[i].Service == "" && !g.hasShard[i] {
			nowhere = append(nowhere, &g.stacks[i])
		}
	}
	return propose(nowhere)
}

// propose looks for a mapping among stacks that belong nowhere: of groups of stacks with the same types of
// resources, a data path among them, the largest whose members a tag, their names or their paths tell apart, and
// those groups that have the same shards.
func propose(stacks []*Stack) *Proposal {
	like := map[string][]*Stack{}
	for _, s := range stacks {
		if key := kindOf(s); key != "" && s.Nested == nil {
			like[key] = append(like[key], s)
		}
	}
	type candidate struct {
		rule   string
		shards map[Shard]bool
		stacks int
	}
	var found []candidate
	for _, key := range slices.Sorted(maps.Keys(like)) {
		group := like[key]
		if len(group) < 2 {
			continue
		}
		for _, rule := range guesses(group) {
			if shards, ok := tellsApart(rule, group); ok {
				found = append(found, candidate{rule, shards, len(group)})
				break // the guesses of a group are in the order of trust
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return -cmp.Compare(a.stacks, b.stacks) })
	p := &Proposal{Shards: slices.SortedFunc(maps.Keys(found[0].shards), compareShards)}
	for _, c := range found {
		if maps.Equal(c.shards, found[0].shards) {
			p.Stacks += c.stacks
			if !slices.Contains(p.Rules, c.rule) {
				p.Rules = append(p.Rules, c.rule)
			}
		}
	}
	return p
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

// tellsApart says whether a rule gives each stack of a group a shard of its own.
func tellsApart(rule string, group []*Stack) (map[Shard]bool, bool) {
	r, err := ParseMapRule(rule)
	if err != nil {
		return nil, false
	}
	m := newMapping([]MapRule{r})
	shards := map[Shard]bool{}
	for _, s := range group {
		p := m.stack(s, s.scope())
		if p.ID == "" || shards[p] {
			return nil, false
		}
		shards[p] = true
	}
	return shards, true
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
	if p := patternOf(texts(func(s *Stack) string { return s.Name })); p != "" {
		rules = append(rules, "stack:"+p)
	}
	if p := patternOf(texts(func(s *Stack) string { return s.Path })); p != "" {
		rules = append(rules, "path:"+p)
	}
	return rules
}

// separators are what stands between the fields of a name or path.
var separators = regexp.MustCompile(`[-_./:]`)

// patternOf is an expression for texts that differ in some of their fields, or "". The last field that differs is
// the shard, what differs before it is the cell.
func patternOf(texts []string) string {
	fields := make([][]string, len(texts))
	for i, s := range texts {
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
			parts[k] = regexp.QuoteMeta(values[0])
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
	if class == `\w+` { // words are told apart whole: blue and black
		return "", class, ""
	}
	return before, class, after
}
