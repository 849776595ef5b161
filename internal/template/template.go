package template

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Template is the sections of one CloudFormation template, each sorted by name.
type Template struct {
	Resources  []Resource
	Parameters []Parameter
	Outputs    []Output
	Conditions []Condition
	Mappings   Node
	// Transforms are the macros that CloudFormation would run over the template before it reads it.
	Transforms []string
	// Loops are the Fn::ForEach blocks among the resources, which stand for resources unseen.
	Loops []string

	params map[string]int
}

// Resource is one entry of Resources.
type Resource struct {
	ID         string // logical id
	Type       string // AWS::DynamoDB::Table
	Properties Node
	Metadata   Node
	// CreationPolicy and UpdatePolicy say how CloudFormation waits for it and replaces it; functions
	// that deployments call are named there.
	CreationPolicy, UpdatePolicy Node
	DependsOn                    []string
	Condition                    string // name of the condition under which it exists, or ""
	// DeletionPolicy and UpdateReplacePolicy say what becomes of it when it leaves the template and when
	// it is replaced: Delete, Retain, RetainExceptOnCreate or Snapshot, or "".
	DeletionPolicy, UpdateReplacePolicy string
}

// Parameter is one entry of Parameters.
type Parameter struct {
	ID         string
	Type       string
	Default    string
	HasDefault bool
}

// Output is one entry of Outputs.
type Output struct {
	ID        string
	Value     Node
	Export    Node // the export's name
	HasExport bool
}

// Condition is one entry of Conditions.
type Condition struct {
	ID   string
	Expr Node
}

// IsTemplate says whether a document looks like a CloudFormation template, so that other files beside
// templates can be told apart from broken ones.
func IsTemplate(root Node) bool {
	if root.Kind() != Map {
		return false
	}
	_, resources := root.Get("Resources")
	_, version := root.Get("AWSTemplateFormatVersion")
	return resources || version
}

// Parse takes a document apart. The error lists every fault of shape at once.
func Parse(root Node) (Template, error) {
	p := parser{}
	if root.Kind() != Map {
		return Template{}, fmt.Errorf("a template is an object, this is %v", root.Kind())
	}
	if _, ok := root.Get("Resources"); !ok {
		return Template{}, errors.New("no Resources section: not a CloudFormation template")
	}
	p.section(root, "Resources", p.resource)
	p.section(root, "Parameters", p.parameter)
	p.section(root, "Outputs", p.output)
	p.section(root, "Conditions", func(id string, n Node) {
		p.t.Conditions = append(p.t.Conditions, Condition{id, n})
	})
	if m, ok := root.Get("Mappings"); ok && m.Kind() != Map {
		p.fault("Mappings", m, Map)
	} else {
		p.t.Mappings = m
	}
	if t, ok := root.Get("Transform"); ok {
		p.t.Transforms = transforms(t)
	}
	p.applyGlobals(root)
	if len(p.errs) > 0 {
		return Template{}, errors.Join(p.errs...)
	}
	slices.SortFunc(p.t.Resources, func(a, b Resource) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(p.t.Parameters, func(a, b Parameter) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(p.t.Outputs, func(a, b Output) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(p.t.Conditions, func(a, b Condition) int { return strings.Compare(a.ID, b.ID) })
	p.t.params = make(map[string]int, len(p.t.Parameters))
	for i, q := range p.t.Parameters {
		p.t.params[q.ID] = i
	}
	return p.t, nil
}

// Parameter is the parameter of that name, and whether the template has it.
func (t *Template) Parameter(id string) (Parameter, bool) {
	i, ok := t.params[id]
	if !ok {
		return Parameter{}, false
	}
	return t.Parameters[i], true
}

type parser struct {
	t    Template
	errs []error
}

func (p *parser) fault(where string, got Node, want Kind) {
	p.errs = append(p.errs, fmt.Errorf("%s is %v, want %v", where, got.Kind(), want))
}

func (p *parser) section(root Node, name string, entry func(id string, n Node)) {
	s, ok := root.Get(name)
	if !ok || s.Kind() == Null { // YAML writes an empty section as null
		return
	}
	if s.Kind() != Map {
		p.fault(name, s, Map)
		return
	}
	for i := range s.Len() {
		entry(s.Key(i), s.At(i))
	}
}

func (p *parser) resource(id string, n Node) {
	where := "Resources." + id
	if strings.HasPrefix(id, "Fn::") {
		p.t.Loops = append(p.t.Loops, id)
		return
	}
	if n.Kind() != Map {
		p.fault(where, n, Map)
		return
	}
	r := Resource{ID: id}
	typ, _ := n.Get("Type")
	var ok bool
	if r.Type, ok = typ.Str(); !ok || r.Type == "" {
		p.errs = append(p.errs, fmt.Errorf("%s has no Type, or one that is not a string", where))
		return
	}
	for _, part := range []struct {
		name string
		to   *Node
	}{{"Properties", &r.Properties}, {"Metadata", &r.Metadata},
		{"CreationPolicy", &r.CreationPolicy}, {"UpdatePolicy", &r.UpdatePolicy}} {
		v, _ := n.Get(part.name)
		if v.Kind() != Map && v.Kind() != Null {
			p.fault(where+"."+part.name, v, Map)
			return
		}
		*part.to = v
	}
	r.Condition = n.GetString("Condition")
	r.DeletionPolicy, r.UpdateReplacePolicy = n.GetString("DeletionPolicy"), n.GetString("UpdateReplacePolicy")
	if d, ok := n.Get("DependsOn"); ok {
		if r.DependsOn, ok = stringOrList(d); !ok {
			p.errs = append(p.errs, fmt.Errorf("%s.DependsOn is neither a logical id nor a list of them", where))
			return
		}
	}
	p.t.Resources = append(p.t.Resources, r)
}

func (p *parser) parameter(id string, n Node) {
	if n.Kind() != Map {
		p.fault("Parameters."+id, n, Map)
		return
	}
	q := Parameter{ID: id, Type: n.GetString("Type")}
	if d, ok := n.Get("Default"); ok {
		q.Default, q.HasDefault = d.Scalar()
	}
	p.t.Parameters = append(p.t.Parameters, q)
}

func (p *parser) output(id string, n Node) {
	if strings.HasPrefix(id, "Fn::") {
		return // a loop over outputs: an import of one shows up as unresolved
	}
	if n.Kind() != Map {
		p.fault("Outputs."+id, n, Map)
		return
	}
	o := Output{ID: id}
	o.Value, _ = n.Get("Value")
	if e, ok := n.Get("Export"); ok {
		o.Export, o.HasExport = e.Get("Name")
	}
	p.t.Outputs = append(p.t.Outputs, o)
}

func stringOrList(n Node) ([]string, bool) {
	if s, ok := n.Str(); ok {
		return []string{s}, true
	}
	if n.Kind() != List {
		return nil, false
	}
	out := make([]string, 0, n.Len())
	for i := range n.Len() {
		s, ok := n.At(i).Str()
		if !ok {
			return nil, false
		}
		out = append(out, s)
	}
	return out, true
}

// transforms are the names of the macros, whether written as a name, a list or Fn::Transform.
func transforms(n Node) []string {
	switch n.Kind() {
	case String:
		return []string{n.text}
	case List:
		var out []string
		for i := range n.Len() {
			out = append(out, transforms(n.At(i))...)
		}
		return out
	case Map:
		return []string{n.GetString("Name")}
	}
	return nil
}
