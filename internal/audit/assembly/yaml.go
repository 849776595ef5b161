package assembly

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"cellwall.dev/cellwall/internal/template"
)

// maxYAMLNodes bounds what aliases may multiply a file to; the largest template that CloudFormation
// takes has 1 MB and some 100,000 nodes.
const maxYAMLNodes = 2_000_000

// Decode reads a template's text: JSON when it begins with a brace, else YAML with the short form of functions written out.
func Decode(text []byte) (template.Node, error) {
	if strings.HasPrefix(strings.TrimLeft(string(text[:min(len(text), 1024)]), " \t\r\n\xef\xbb\xbf"), "{") {
		return template.DecodeJSON(text)
	}
	if len(text) > maxYAML {
		return template.Node{}, fmt.Errorf("larger than %d MiB, the most that is read of a YAML file", maxYAML>>20)
	}
	return decodeYAML(text)
}

// decodeYAML decodes one YAML document into the nodes that the same template has in JSON, with the
// short form of the intrinsic functions written out.
func decodeYAML(data []byte) (n template.Node, err error) {
	defer func() {
		// the parser reports some faults of its input by a panic
		if r := recover(); r != nil {
			err = fmt.Errorf("not YAML: %v", r)
		}
	}()
	var doc yaml.Node
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	if err := dec.Decode(&doc); err != nil {
		return template.Node{}, fmt.Errorf("not YAML: %w", err)
	}
	var more yaml.Node
	if err := dec.Decode(&more); err == nil {
		return template.Node{}, at(&more, errors.New("a second document in the file: a template is one"))
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return template.Node{}, errors.New("not YAML: no document")
	}
	c := yamlConverter{open: map[*yaml.Node]bool{}}
	return c.node(doc.Content[0], 0)
}

func at(n *yaml.Node, err error) error {
	return &template.SyntaxError{Line: n.Line, Column: n.Column, Err: err}
}

type yamlConverter struct {
	count int
	open  map[*yaml.Node]bool // anchors that are being expanded
}

func (c *yamlConverter) node(n *yaml.Node, depth int) (template.Node, error) {
	if c.count++; c.count > maxYAMLNodes {
		return template.Node{}, at(n, fmt.Errorf("more than %d values once aliases are expanded", maxYAMLNodes))
	}
	if depth > template.MaxDepth {
		return template.Node{}, at(n, template.ErrDepth)
	}
	if n.Kind == yaml.AliasNode {
		if n.Alias == nil || c.open[n.Alias] {
			return template.Node{}, at(n, errors.New("the alias stands inside of its own anchor"))
		}
		c.open[n.Alias] = true
		defer delete(c.open, n.Alias)
		return c.node(n.Alias, depth+1)
	}
	value, err := c.plain(n, depth)
	if err != nil {
		return template.Node{}, err
	}
	return short(n, value), nil
}

// plain is the value without its tag.
func (c *yamlConverter) plain(n *yaml.Node, depth int) (template.Node, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		return scalar(n), nil
	case yaml.SequenceNode:
		items := make([]template.Node, 0, len(n.Content))
		for _, child := range n.Content {
			v, err := c.node(child, depth+1)
			if err != nil {
				return template.Node{}, err
			}
			items = append(items, v)
		}
		return template.NewList(items), nil
	case yaml.MappingNode:
		var b template.MapBuilder
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind == yaml.AliasNode && key.Alias != nil {
				key = key.Alias
			}
			if key.Kind != yaml.ScalarNode {
				return template.Node{}, at(key, errors.New("a key must be a single value"))
			}
			if key.Tag == "!!merge" {
				return template.Node{}, at(key, errors.New("CloudFormation knows no merge key <<: write the keys out"))
			}
			v, err := c.node(n.Content[i+1], depth+1)
			if err != nil {
				return template.Node{}, err
			}
			if err := b.Add(key.Value, v); err != nil {
				return template.Node{}, at(key, fmt.Errorf("%q: %w", key.Value, err))
			}
		}
		return b.Node(), nil
	}
	return template.Node{}, at(n, errors.New("neither a value nor a list nor an object"))
}

func scalar(n *yaml.Node) template.Node {
	switch n.ShortTag() {
	case "!!null":
		return template.Node{}
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return template.NewBool(b)
		}
	case "!!int", "!!float":
		return template.NewNumber(n.Value)
	}
	return template.NewString(n.Value)
}

// short writes out a short-form intrinsic function: !Ref x is {Ref: x}, !GetAtt a.b is
// {Fn::GetAtt: [a, b]}, any other !F is {Fn::F: …}, known to CloudFormation or not: an unknown one is
// for the audit to name.
func short(n *yaml.Node, value template.Node) template.Node {
	name, ok := strings.CutPrefix(n.Tag, "!")
	if !ok || name == "" || strings.HasPrefix(name, "!") {
		return value
	}
	if n.Kind == yaml.ScalarNode {
		value = template.NewString(n.Value) // !Sub 42 is the text
	}
	switch name {
	case "Ref", "Condition":
		return template.Single(name, value)
	case "GetAtt":
		if s, ok := value.Str(); ok {
			id, attr, _ := strings.Cut(s, ".")
			value = template.NewList([]template.Node{template.NewString(id), template.NewString(attr)})
		}
	}
	return template.Single("Fn::"+strings.TrimPrefix(name, "Fn::"), value)
}
