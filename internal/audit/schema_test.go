package audit_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	reflector "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/audit/assembly"
)

const schemaFile = "../../docs/audit.schema.json"

// typeComments are the comments of this package's types and their fields, by "Type." and "Type.Field".
func typeComments(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string]string{}
	text := func(groups ...*ast.CommentGroup) string {
		var all []string
		for _, g := range groups {
			all = append(all, strings.Fields(g.Text())...)
		}
		return strings.Join(all, " ")
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range g.Specs {
				named, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				docs[named.Name.Name+"."] = text(g.Doc, named.Doc)
				if s, ok := named.Type.(*ast.StructType); ok {
					for _, f := range s.Fields.List {
						for _, name := range f.Names {
							docs[named.Name.Name+"."+name.Name] = text(f.Doc, f.Comment)
						}
					}
				}
			}
		}
	}
	return docs
}

// reportSchema is the JSON Schema of a report. The published one allows what later versions add.
func reportSchema(t *testing.T, later bool) []byte {
	t.Helper()
	docs := typeComments(t)
	r := reflector.Reflector{
		Anonymous: true, ExpandedStruct: true, AllowAdditionalProperties: later,
		Mapper: func(typ reflect.Type) *reflector.Schema {
			if typ != reflect.TypeFor[audit.Level]() {
				return nil
			}
			s := &reflector.Schema{Type: "string", Description: "worst last"}
			for l := audit.Info; l <= audit.Fatal; l++ {
				s.Enum = append(s.Enum, l.String())
			}
			return s
		},
		LookupComment: func(typ reflect.Type, field string) string { return docs[typ.Name()+"."+field] },
	}
	s := r.Reflect(&audit.Report{})
	s.Title = "report of cellwall audit"
	schema, _ := s.Properties.Get("schema")
	schema.Const = audit.Schema
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(data, '\n')
}

// TestSchemaIsCurrent holds docs/audit.schema.json to the types; -update writes it anew.
func TestSchemaIsCurrent(t *testing.T) {
	want := reportSchema(t, true)
	if *update {
		if err := os.WriteFile(schemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the types say; run: go test ./internal/audit -run TestSchemaIsCurrent -update", schemaFile)
	}
}

// TestReportsConform holds that the reports of all examples and fixtures, suppressed findings included,
// conform to the schema, without any field beyond it.
func TestReportsConform(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(reportSchema(t, false)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("report.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("report.json")
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, in audit.Input, opt audit.Options, more ...audit.Variant) {
		t.Helper()
		data, err := json.Marshal(audit.RunVariants(append([]audit.Variant{{Name: "a", Input: in}}, more...), opt))
		if err != nil {
			t.Fatal(err)
		}
		report, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(report); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, r := range audit.Rules() {
		if !strings.HasPrefix(r.Example, "-- ") {
			continue
		}
		in, err := assembly.Load(files(r.Example))
		if err != nil {
			t.Fatal(err)
		}
		w := audit.Waiver{Rule: r.ID, Resource: "*e*", Reason: "r", Expires: day("2027-01-01"), File: "w.yaml", Line: 1}
		check(r.ID, in, audit.Options{})
		check(r.ID+", waived", in, audit.Options{Waivers: []audit.Waiver{w}})
	}
	check("a full load balancer", sharedALB(101, true).load(t), audit.Options{})
	check("a full load balancer in one variant", sharedALB(101, true).load(t), audit.Options{}, audit.Variant{Name: "b", Input: sharedALB(3, true).load(t)})
	check("an export in use", mailing(nil).load(t), audit.Options{Before: mailing(map[string]any{"queue": ref("Queue")}, "queue").load(t).Stacks})
	for _, bad := range []string{`{}`, `{"schema":"cellwall.audit/v2"}`} {
		report, err := jsonschema.UnmarshalJSON(strings.NewReader(bad))
		if err != nil {
			t.Fatal(err)
		}
		if schema.Validate(report) == nil {
			t.Errorf("%s conforms", bad)
		}
	}
}
