package audit

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/template"
)

// MapRule says where what it matches belongs, for stacks that do not follow cellwall's own tags, paths and
// names. NewMapRule and ParseMapRule make one; the zero value matches nothing.
type MapRule struct {
	source  string         // one of mapSources
	key     string         // of a tag
	pattern *regexp.Regexp // of the whole text; of a path, of whole segments
	fixed   Shard          // what the rule says by itself
	origin  string         // the rule as its author wrote it
}

// What a rule may look at.
const (
	mapStack   = "stack"
	mapPath    = "path"
	mapTag     = "tag"
	mapAccount = "account"
	mapRegion  = "region"
)

// mapSources are what a rule may look at, with how to write it.
var mapSources = []string{mapStack, mapPath, mapTag, mapAccount, mapRegion}

// MapSpec is a rule in parts.
type MapSpec struct {
	Source  string // stack, path, tag, account or region
	Key     string // of a tag, and of nothing else
	Pattern string // a regular expression in RE2's syntax; "" matches each value and takes a tag's for the shard
	Fixed   Shard  // what holds of all that matches; a named group goes before it
	Origin  string // where the rule stands, for the report
}

// NewMapRule makes a rule. It fails for a source, an expression or a named group that is none, and for a rule
// that would say nothing.
func NewMapRule(s MapSpec) (MapRule, error) {
	r := MapRule{source: s.Source, key: s.Key, fixed: s.Fixed, origin: s.Origin}
	switch {
	case !slices.Contains(mapSources, s.Source):
		return MapRule{}, fmt.Errorf("%q is nothing that a mapping looks at: write %s", s.Source, strings.Join(mapSources, ", "))
	case s.Source == mapTag && s.Key == "":
		return MapRule{}, errors.New("which tag? write its key")
	case s.Source != mapTag && s.Key != "":
		return MapRule{}, fmt.Errorf("only a tag has a key, and %s has %q", s.Source, s.Key)
	}
	pattern := s.Pattern
	if pattern == "" {
		pattern = ".+"
		if s.Source == mapTag && s.Fixed == (Shard{}) {
			pattern = "(?P<shard>.+)"
		}
	}
	if _, err := regexp.Compile(pattern); err != nil { // by itself, so that the message has the author's own words
		return MapRule{}, fmt.Errorf("%q is no regular expression: %w", s.Pattern, err)
	}
	before, after := "^(?:", ")$"
	if s.Source == mapPath {
		before, after = "(?:^|/)(?:", ")(?:/|$)"
	}
	r.pattern = regexp.MustCompile(before + pattern + after)
	says := s.Fixed != (Shard{})
	for _, name := range r.pattern.SubexpNames() {
		switch name {
		case "":
		case "service", "cell", "shard":
			says = true
		default:
			return MapRule{}, fmt.Errorf("the group %q in %q is none of service, cell and shard", name, s.Pattern)
		}
	}
	if !says {
		return MapRule{}, fmt.Errorf("%q says neither cell nor shard: name a group, (?P<cell>…) or (?P<shard>…)", cmp.Or(s.Pattern, s.Source))
	}
	return r, nil
}

// ParseMapRule reads a rule as the flag --shard has it: stack:REGEX, path:REGEX, account:REGEX, region:REGEX,
// tag:KEY (whose value is the shard) or tag:KEY=REGEX.
func ParseMapRule(s string) (MapRule, error) {
	source, rest, ok := strings.Cut(s, ":")
	if !ok || rest == "" {
		return MapRule{}, fmt.Errorf("%q is not SOURCE:REGEX with one of %s", s, strings.Join(mapSources, ", "))
	}
	spec := MapSpec{Source: source, Pattern: rest, Origin: s}
	if source == mapTag {
		spec.Key, spec.Pattern = rest, ""
		// a tag's key may itself hold a colon, and so may the expression: the first = ends the key
		if key, pattern, ok := strings.Cut(rest, "="); ok {
			spec.Key, spec.Pattern = key, pattern
		}
	}
	return NewMapRule(spec)
}

// match is what the rule says of a text.
func (r *MapRule) match(text string) (place, bool) {
	if text == "" || r.pattern == nil {
		return place{}, false
	}
	m := r.pattern.FindStringSubmatch(text)
	if m == nil {
		return place{}, false
	}
	p := r.fixed
	for i, name := range r.pattern.SubexpNames() {
		if m[i] == "" {
			continue
		}
		switch name {
		case "service":
			p.Service = m[i]
		case "cell":
			p.Cell = m[i]
		case "shard":
			p.ID = m[i]
		}
	}
	return p, p != (place{})
}

// mapping is a list of rules at work.
type mapping struct {
	rules   []MapRule
	keys    map[string]bool // tags that the rules look at
	stacks  []int           // by rule: stacks that it matched
	owned   []int           // by rule: resources that it matched by their own tag or path
	against map[reviewKey]bool
}

func newMapping(rules []MapRule) *mapping {
	m := &mapping{rules: rules, keys: map[string]bool{}, stacks: make([]int, len(rules)), owned: make([]int, len(rules)), against: map[reviewKey]bool{}}
	for i := range rules {
		if rules[i].source == mapTag {
			m.keys[rules[i].key] = true
		}
	}
	return m
}

// says merges what the rules say, the first one first. text gives a rule what it looks at; where is for what
// the rules disagree on.
func (m *mapping) says(count []int, file, id string, text func(*MapRule) string) place {
	var p place
	var by [3]string // origin of service, cell and shard
	for i := range m.rules {
		r := &m.rules[i]
		q, ok := r.match(text(r))
		if !ok {
			continue
		}
		count[i]++
		for k, f := range p.fields(&q) {
			switch {
			case *f.other == "" || *f.own == *f.other:
			case *f.own == "":
				*f.own, by[k] = *f.other, r.origin
			default:
				m.conflict(file, id, f.word, *f.own, by[k], *f.other, r.origin)
			}
		}
	}
	return p
}

type field struct {
	word       string
	own, other *string
}

// fields are the fields of two places in pairs.
func (s *Shard) fields(other *Shard) [3]field {
	return [3]field{{"service", &s.Service, &other.Service}, {"cell", &s.Cell, &other.Cell}, {"shard", &s.ID, &other.ID}}
}

// over is what the mapping says, and for the rest what cellwall's own tags or paths say. Where both speak and
// disagree, the mapping holds, and a review item says so.
func (m *mapping) over(p, own place, file, id, source string) place {
	for _, f := range p.fields(&own) {
		switch {
		case *f.own == "":
			*f.own = *f.other
		case *f.other != "" && *f.own != *f.other:
			m.conflict(file, id, f.word, *f.own, "the mapping", *f.other, source)
		}
	}
	return p
}

func (m *mapping) conflict(file, id, word, taken, by, other, source string) {
	m.against[reviewKey{&ruleMapped, file, id, fmt.Sprintf("%s is %s by %s and %s by %s: the first was taken", word, quote(taken), by, quote(other), source)}] = true
}

// stack is what the rules say of a stack.
func (m *mapping) stack(s *Stack, sc template.Scope) place {
	if len(m.rules) == 0 {
		return place{}
	}
	return m.says(m.stacks, s.File, "", func(r *MapRule) string {
		switch r.source {
		case mapStack:
			return s.ownName()
		case mapPath:
			return s.ownPath()
		case mapAccount:
			return s.Account
		case mapRegion:
			return s.Region
		}
		return cmp.Or(s.Tags[r.key], agreedTag(s, sc, r.key))
	})
}

// resource is what the rules say of a resource by its own tags and path.
func (m *mapping) resource(s *Stack, id, path string, tags map[string]string) place {
	if len(m.rules) == 0 {
		return place{}
	}
	return m.says(m.owned, s.File, id, func(r *MapRule) string {
		switch r.source {
		case mapPath:
			return path
		case mapTag:
			return tags[r.key]
		}
		return ""
	})
}

// ownName is the stack's name; a nested stack has it from its parent, and says more by that of its file.
func (s *Stack) ownName() string {
	if s.Nested == nil {
		return s.Name
	}
	name, _, _ := strings.Cut(path.Base(s.File), ".")
	return name
}

// ownPath is the stack's construct path; of a nested stack without one, PARENT/LOGICALID, which is all that tells two
// stacks of one template apart.
func (s *Stack) ownPath() string {
	if s.Path == "" && s.Nested != nil {
		return s.Name
	}
	return s.Path
}

// agreedTag is the value that all resources with that tag have, or "".
func agreedTag(s *Stack, sc template.Scope, key string) string {
	value := ""
	for i := range s.Template.Resources {
		v := tagsOf(&s.Template.Resources[i], sc, map[string]bool{key: true})[key]
		switch {
		case v == "":
		case value == "":
			value = v
		case v != value:
			return ""
		}
	}
	return value
}

// Mapped is how often a rule of the mapping held.
type Mapped struct {
	Rule      string `json:"rule"`
	Stacks    int    `json:"stacks"`
	Resources int    `json:"resources"` // by their own tag or construct path
}

// report lists the rules, with a review item for each that matched nothing.
func (m *mapping) report() (rules []Mapped, found []finding) {
	for i := range m.rules {
		rules = append(rules, Mapped{m.rules[i].origin, m.stacks[i], m.owned[i]})
		if m.stacks[i]+m.owned[i] == 0 {
			found = append(found, finding{rule: &ruleMapped, level: Review, node: -1, message: "the mapping rule '" + m.rules[i].origin + "' matches nothing that was read"})
		}
	}
	return rules, found
}
