package audit

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// maxWaivers bounds one waivers file: each is held against each finding of its rule.
const maxWaivers = 2000

var fingerprintForm = regexp.MustCompile(`^[0-9a-f]{32}$`)

// ParseWaivers reads a waivers file: YAML with one list, waivers, of {rule, fingerprint or resource,
// reason, expires}. It is strict: an unknown, missing or doubled key is an error that begins with
// FILE:LINE:COLUMN. All errors are reported at once.
func ParseWaivers(file string, data []byte) (ws []Waiver, err error) {
	defer func() { // the parser reports some faults of its input by a panic
		if r := recover(); r != nil {
			ws, err = nil, fmt.Errorf("%s: not YAML: %v", file, r)
		}
	}()
	var doc yaml.Node
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: nothing in the file: write waivers: [] when nothing is waived", file)
	} else if err != nil {
		return nil, fmt.Errorf("%s: not YAML: %w", file, err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) { // one that is broken would hide its waivers as well
		return nil, fmt.Errorf("%s: a second document in the file", file)
	}
	p := waiverParser{file: file}
	root := p.mapping(doc.Content[0], "waivers")
	if list := root["waivers"]; list == nil || list.Kind != yaml.SequenceNode {
		p.fail(doc.Content[0], "no list \"waivers\"")
	} else if len(list.Content) > maxWaivers {
		p.fail(list, "%d waivers, at most %d are read", len(list.Content), maxWaivers)
	} else {
		for _, item := range list.Content {
			p.waiver(item)
		}
	}
	return p.out, errors.Join(p.errs...)
}

type waiverParser struct {
	file string
	out  []Waiver
	errs []error
}

func (p *waiverParser) fail(n *yaml.Node, format string, args ...any) {
	const enough = 20
	if len(p.errs) < enough {
		p.errs = append(p.errs, fmt.Errorf("%s:%d:%d: %s", p.file, n.Line, n.Column, fmt.Sprintf(format, args...)))
	}
}

// mapping is the values of a mapping that has no keys but these. Aliases and merges are not followed.
func (p *waiverParser) mapping(n *yaml.Node, keys ...string) map[string]*yaml.Node {
	if n.Kind != yaml.MappingNode {
		p.fail(n, "not a mapping with the keys %s", strings.Join(keys, ", "))
		return nil
	}
	out := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case !slices.Contains(keys, key.Value):
			p.fail(key, "unknown key %q; the keys are %s", key.Value, strings.Join(keys, ", "))
		case out[key.Value] != nil:
			p.fail(key, "the key %q stands twice", key.Value)
		default:
			out[key.Value] = n.Content[i+1]
		}
	}
	return out
}

func (p *waiverParser) waiver(n *yaml.Node) {
	before := len(p.errs)
	m := p.mapping(n, "rule", "fingerprint", "resource", "reason", "expires")
	if m == nil {
		return
	}
	text := func(key string) string {
		v := m[key]
		if v == nil {
			return ""
		}
		if v.Kind != yaml.ScalarNode || v.Value == "" {
			p.fail(v, "%s is not a text", key)
			return ""
		}
		return v.Value
	}
	w := Waiver{Rule: text("rule"), Fingerprint: text("fingerprint"), Resource: text("resource"), Reason: strings.TrimSpace(text("reason")), File: p.file, Line: n.Line}
	expires := text("expires")
	switch {
	case w.Rule == "":
		p.fail(n, "no rule: write the id of one, such as SD001")
	case !isRule(w.Rule):
		p.fail(m["rule"], "%q is no rule: cellwall audit rules lists them", w.Rule)
	case strings.HasPrefix(w.Rule, "WV"):
		p.fail(m["rule"], "%s is about waivers, and cannot be waived", w.Rule)
	}
	switch {
	case (w.Fingerprint == "") == (w.Resource == ""):
		p.fail(n, "write either the fingerprint of a finding or a pattern of its resource")
	case w.Fingerprint != "" && !fingerprintForm.MatchString(w.Fingerprint):
		p.fail(m["fingerprint"], "a fingerprint has 32 digits 0-9a-f; the JSON report says each finding's")
	case w.Resource != "" && tooWide(w.Resource):
		p.fail(m["resource"], "%q would waive everything, or nearly so: name what is waived", w.Resource)
	}
	if words(w.Reason) == 0 {
		p.fail(n, "no reason")
	}
	var err error
	if w.Expires, err = time.Parse(time.DateOnly, expires); err != nil {
		p.fail(n, "no day on which it ends: write expires: 2027-03-31")
	}
	for _, o := range p.out {
		if o.Rule == w.Rule && o.Fingerprint == w.Fingerprint && o.Resource == w.Resource {
			p.fail(n, "the same rule and findings as on line %d: keep one, with one reason and one last day", o.Line)
			break
		}
	}
	if len(p.errs) == before {
		p.out = append(p.out, w)
	}
}

// words counts the letters and digits of a text.
func words(text string) (n int) {
	for _, r := range text {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			n++
		}
	}
	return n
}

// tooWide says whether a pattern names so little that every later finding of its rule would be hidden, too.
func tooWide(pattern string) bool {
	const named = 3 // letters and digits
	return words(pattern) == 0 || strings.Contains(pattern, "*") && words(pattern) < named
}

func isRule(id string) bool {
	return slices.ContainsFunc(rules, func(r rule) bool { return r.id == id })
}
