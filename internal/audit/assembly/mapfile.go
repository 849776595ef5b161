package assembly

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"cellwall.dev/cellwall/internal/audit"
)

// ReadMapping reads a mapping file, in the order of its rules:
//
//	shards:
//	  - stack: 'orders-(?P<cell>[a-z0-9-]+)-shard-(?P<shard>\d+)'
//	  - {tag: team:shard, value: '(?P<shard>\d+)'}
//	  - {account: "111111111111", cell: canary}
//
// An unknown key, a key twice, a rule of two sources and what NewMapRule refuses are errors that say the file's
// line; all are reported at once. name is the file's for messages.
func ReadMapping(name string, data []byte) (rules []audit.MapRule, err error) {
	defer func() {
		if r := recover(); r != nil { // as in decodeYAML
			rules, err = nil, fmt.Errorf("%s: not YAML: %v", name, r)
		}
	}()
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%s: not YAML: %w", name, err)
	}
	fail := func(n *yaml.Node, err error) error { return fmt.Errorf("%s:%d:%d: %w", name, n.Line, n.Column, err) }
	const form = "a mapping file is a list of rules under the key shards"
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s: %s", name, form)
	}
	top := doc.Content[0]
	if len(top.Content) != 2 || top.Content[0].Value != "shards" || top.Content[1].Kind != yaml.SequenceNode || len(top.Content[1].Content) == 0 {
		return nil, fail(top, errors.New(form))
	}
	var faults []error
	for _, n := range top.Content[1].Content {
		spec, err := mapSpec(n)
		if err == nil {
			spec.Origin = fmt.Sprintf("%s:%d", name, n.Line)
			var r audit.MapRule
			if r, err = audit.NewMapRule(spec); err == nil {
				rules = append(rules, r)
				continue
			}
		}
		faults = append(faults, fail(n, err))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return rules, nil
}

// sources are the keys of which each rule has exactly one.
var sources = []string{"stack", "path", "tag", "account", "region"}

func mapSpec(n *yaml.Node) (audit.MapSpec, error) {
	var s audit.MapSpec
	if n.Kind != yaml.MappingNode {
		return s, errors.New("a rule is keys and values, such as {stack: …}")
	}
	value := ""
	seen := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		key, v := n.Content[i].Value, n.Content[i+1]
		switch {
		case v.Kind != yaml.ScalarNode || v.Value == "":
			return s, fmt.Errorf("%q wants a text", key)
		case seen[key]:
			return s, fmt.Errorf("%q stands twice", key)
		}
		seen[key] = true
		switch {
		case slices.Contains(sources, key) && s.Source != "":
			return s, fmt.Errorf("a rule looks at one thing, and this one at %s and %s", s.Source, key)
		case key == "tag":
			s.Source, s.Key = key, v.Value
		case slices.Contains(sources, key):
			s.Source, s.Pattern = key, v.Value
		case key == "value":
			value = v.Value
		case key == "service":
			s.Fixed.Service = v.Value
		case key == "cell":
			s.Fixed.Cell = v.Value
		case key == "shard":
			s.Fixed.ID = v.Value
		default:
			return s, fmt.Errorf("unknown key %q: write one of %s, value, service, cell, shard", key, strings.Join(sources, ", "))
		}
	}
	switch {
	case s.Source == "":
		return s, fmt.Errorf("the rule says nothing of what it looks at: write one of %s", strings.Join(sources, ", "))
	case s.Source == "tag":
		s.Pattern = value
	case value != "":
		return s, fmt.Errorf("only a tag has a value, and this rule looks at %s", s.Source)
	}
	return s, nil
}
