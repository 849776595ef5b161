package fleet

import (
	"embed"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
)

// sources hold the comments of the types, which describe the keys to whoever edits a fleet file.
//
//go:embed fleet.go ingress.go
var sources embed.FS

// Schema returns the JSON Schema (draft 2020-12) of a fleet file, indented. It is made from the types,
// their tags and their comments; rules between values are beyond it.
func Schema() ([]byte, error) {
	docs, err := comments()
	if err != nil {
		return nil, err
	}
	reflector := jsonschema.Reflector{
		Anonymous:      true,
		ExpandedStruct: true,
		FieldNameTag:   "yaml",
		Mapper:         formSchema,
		LookupComment:  func(t reflect.Type, field string) string { return docs.of(t, field) },
	}
	root := reflector.Reflect(&Fleet{})
	root.Title = "cellwall fleet"
	countOrList(root.Definitions["Shards"])
	refine(root, root.Definitions, reflect.TypeFor[Fleet](), map[reflect.Type]bool{})
	data, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the schema of fleet files: %w", err)
	}
	return append(data, '\n'), nil
}

// formSchema describes the types whose YAML form is not that of their Go type.
func formSchema(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[Percent]():
		return &jsonschema.Schema{Type: "string", Pattern: `^(?:100(?:\.00?)?|[1-9]?[0-9](?:\.[0-9]{1,2})?)%$`, Examples: []any{"15%", "0.5%"}}
	case reflect.TypeFor[time.Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: durationForm.String(), Examples: []any{"90m", "2h30m"}}
	case reflect.TypeFor[Ingress]():
		group := jsonschema.NewProperties()
		group.Set("grouped", &jsonschema.Schema{Type: "integer", Minimum: "2", Maximum: "100"})
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
			{Type: "string", Enum: []any{string(IngressPerShard), string(IngressShared)}},
			{Type: "object", Properties: group, Required: []string{"grouped"}, AdditionalProperties: jsonschema.FalseSchema},
		}}
	}
	return nil
}

// countOrList turns the schema of a list of shards into that of its two forms.
func countOrList(s *jsonschema.Schema) {
	list := &jsonschema.Schema{Type: s.Type, Items: s.Items, MinItems: new(uint64(1)), MaxItems: new(uint64(maxShards))}
	s.Type, s.Items = "", nil
	s.OneOf = []*jsonschema.Schema{{Type: "integer", Minimum: "1", Maximum: json.Number(strconv.Itoa(maxShards))}, list}
}

// refine adds to the schema of struct type t what its tags say in this package's own words.
func refine(s *jsonschema.Schema, defs jsonschema.Definitions, t reflect.Type, done map[reflect.Type]bool) {
	done[t] = true
	for f := range t.Fields() {
		tags, ok := describe(f)
		if !ok {
			continue
		}
		p, _ := s.Properties.Get(tags.name)
		switch shape, shaped := shapes[tags.shape]; {
		case !shaped:
		case p.Type == "array":
			p.Items.Pattern = shape.pattern.String()
		case p.Type == "object":
			p.AdditionalProperties.Pattern = shape.pattern.String()
		default:
			p.Pattern = shape.pattern.String()
		}
		if keys, shaped := shapes[tags.keys]; shaped {
			p.PropertyNames = &jsonschema.Schema{Pattern: keys.pattern.String()}
		}
		inner := f.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
			inner = inner.Elem()
		}
		if def := defs[inner.Name()]; def != nil && !done[inner] {
			refine(def, defs, inner, done)
		}
	}
}

// comment holds the doc comments of types and fields, as comments returns them.
type comment map[string]string

// of returns the comment on a field of a struct type, or on the type itself when field is "". Go wants
// comments above a field to begin with its name; a fleet file has its key.
func (c comment) of(t reflect.Type, field string) string {
	text := c[t.Name()+"."+field]
	rest, named := strings.CutPrefix(text, field+" ")
	if field == "" || !named {
		return text
	}
	f, _ := t.FieldByName(field)
	key, _ := describe(f)
	return key.name + " " + rest
}

// comments returns the doc comment of each type ("Cell.") and field ("Cell.Zones"), in one line.
func comments() (comment, error) {
	docs := comment{}
	for _, name := range []string{"fleet.go", "ingress.go"} {
		src, err := sources.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read the types' comments: %w", err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("read the types' comments: %w", err)
		}
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range g.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					docs[t.Name.Name+"."] = oneLine(g.Doc, nil)
					fields(docs, t)
				}
			}
		}
	}
	return docs, nil
}

func fields(docs comment, t *ast.TypeSpec) {
	s, ok := t.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range s.Fields.List {
		for _, name := range f.Names {
			docs[t.Name.Name+"."+name.Name] = oneLine(f.Doc, f.Comment)
		}
	}
}

func oneLine(above, beside *ast.CommentGroup) string {
	return strings.Join(strings.Fields(above.Text()+" "+beside.Text()), " ")
}
