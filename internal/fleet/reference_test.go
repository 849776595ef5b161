package fleet

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:generate go test -run ^(TestSchemaIsCurrent|TestReferenceIsCurrent)$ -update

var update = flag.Bool("update", false, "write docs/fleet.schema.json and the table in docs/fleet.md")

const (
	schemaFile    = "../../docs/fleet.schema.json"
	referenceFile = "../../docs/fleet.md"
)

// current compares a file with what the code makes, or writes it with -update.
func current(t *testing.T, file string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the types say; run: go generate ./internal/fleet", file)
	}
}

func TestSchemaIsCurrent(t *testing.T) {
	schema, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	current(t, schemaFile, schema)
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	data, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("fleet.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("fleet.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// instance is a YAML file as the editor's schema validator sees it.
func instance(file string) (any, error) {
	data, err := yaml.YAMLToJSON([]byte(file))
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(data))
}

func TestSchemaAcceptsTheSamples(t *testing.T) {
	schema := compiled(t)
	for _, file := range samples(t) {
		v, err := instance(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("%v\n%s", err, file)
		}
	}
}

// TestSchemaRefuses names the cases whose fault lies in one value, so that an editor can see it.
func TestSchemaRefuses(t *testing.T) {
	schema := compiled(t)
	known := map[string]faultCase{}
	for _, c := range slices.Concat(decodingFaults, ruleFaults, routingFaults, cellFaults) {
		known[c.name] = c
	}
	for _, name := range []string{
		"list", "unknown key at the top", "unknown key in a list", "empty value", "empty text", "block without a value", "block with keys",
		"number for text", "truth for text", "list for text", "account as a number", "account too short", "account key too short",
		"quoted number", "mapping for a number", "below range", "beyond range", "bad truth", "bad choice", "percent without sign", "percent beyond 100",
		"days", "duration without unit", "negative duration", "capital letters", "hyphen at the end", "too long a name", "not a region", "zone with its region", "no zones",
		"no subnet id", "no shards", "no shards listed", "shards in words", "size of a bad name", "one consumer", "bad image", "bad image key", "command with a slash",
		"groups of one", "groups without number", "no routes", "relative path", "issuer without TLS", "issuer with a query", "claim with a space", "not a topic",
		"symmetric signature", "source of another name", "tenant in the middle of a segment", "tenant of a bad principal", "burst below nothing",
	} {
		c, ok := known[name]
		if !ok {
			t.Errorf("there is no case %q", name)
			continue
		}
		v, err := instance(c.file(t))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if schema.Validate(v) == nil {
			t.Errorf("the schema accepts the case %q", name)
		}
	}
}

// TestSchemaAgrees sees that the schema refuses nothing that Parse accepts.
func TestSchemaAgrees(t *testing.T) {
	schema := compiled(t)
	for _, s := range []struct{ key, value string }{
		{"fullyDown", "100%"}, {"fullyDown", "100.00%"}, {"fullyDown", "0.05%"}, {"fullyDown", "7%"}, {"fullyDown", "00%"}, {"fullyDown", "010%"}, {"fullyDown", "101%"}, {"fullyDown", "1.234%"},
		{"bake", "1h30m"}, {"bake", "0"}, {"bake", "1.5h"}, {"bake", "h"}, {"bake", "90"}, {"bake", "+1h"}, {"bake", ".5h"}, {"bake", "0s"},
		{"ingress", "shared"}, {"ingress", "{grouped: 4}"}, {"ingress", "{grouped: 4, more: 1}"}, {"ingress", "{}"},
	} {
		template := map[string]string{
			"fullyDown": "budget: {fullyDown: %s}\n",
			"bake":      "rollout: {waves: [{percent: 100, bake: %s}]}\n",
		}[s.key]
		file := base
		if template != "" {
			file += fmt.Sprintf(template, s.value)
		} else {
			file = strings.Replace(base, "cells:\n", "  http: {asset: a, amis: {eu-west-1/arm64: ami-01234567, us-east-1/arm64: ami-01234567}, ingress: "+s.value+"}\ncells:\n", 1)
		}
		v, err := instance(file)
		if err != nil {
			t.Fatal(err)
		}
		_, errParse := Parse("f", []byte(file))
		if errSchema := schema.Validate(v); (errParse == nil) != (errSchema == nil) {
			t.Errorf("%s: %s: Parse says %v, the schema %v", s.key, s.value, errParse, errSchema)
		}
	}
}

// TestEveryKeyIsDescribed walks the schema: each key has a sentence for whoever edits the file.
func TestEveryKeyIsDescribed(t *testing.T) {
	data, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	all := map[string]any{"Fleet": root}
	for name, def := range root["$defs"].(map[string]any) {
		all[name] = def
	}
	for name, def := range all {
		properties, _ := def.(map[string]any)["properties"].(map[string]any)
		for key, p := range properties {
			if p.(map[string]any)["description"] == nil {
				t.Errorf("%s.%s has no comment in fleet.go", name, key)
			}
		}
	}
}

// TestReferenceIsCurrent keeps the table of keys in docs/fleet.md equal to the types.
func TestReferenceIsCurrent(t *testing.T) {
	page, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- keys: made by go generate ./internal/fleet -->\n", "<!-- end of keys -->\n"
	before, rest, found := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s lacks the marks %q and %q", referenceFile, begin, end)
	}
	docs, err := comments()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| key | value | default | meaning |\n|---|---|---|---|\n")
	rows(&b, docs, "", reflect.TypeFor[Fleet]())
	current(t, referenceFile, []byte(before+begin+b.String()+end+after))
}

// rows writes a line for each key below path, depth first, in the order of the types.
func rows(b *strings.Builder, docs comment, path string, t reflect.Type) {
	for f := range t.Fields() {
		s, ok := describe(f)
		if !ok {
			continue
		}
		key := join(path, s.name)
		def := s.def
		switch {
		case s.required:
			def = "required"
		case def != "":
			def = "`" + def + "`"
		}
		doc := docs.of(t, f.Name)
		if later, listed := noEffectYet[key]; listed {
			doc = strings.TrimSuffix(doc, ".") + ". **No effect yet**: " + later + "."
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", key, form(f.Type, s), def, strings.ReplaceAll(doc, "|", `\|`))
		inner, below := f.Type, key
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
			switch inner.Kind() {
			case reflect.Slice:
				below += "[]"
			case reflect.Map:
				below += ".*"
			}
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner != reflect.TypeFor[Ingress]() {
			rows(b, docs, below, inner)
		}
	}
}

// form says in words which values a key takes.
func form(t reflect.Type, s described) string {
	switch t {
	case reflect.TypeFor[*Percent]():
		return "percentage, 0% to 100%"
	case reflect.TypeFor[time.Duration]():
		return "duration, such as 90m"
	case reflect.TypeFor[Ingress]():
		return "per-shard, shared or {grouped: 2 to 100}"
	case reflect.TypeFor[Shards]():
		return "1 to 1000, or a list of as many"
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case len(s.enum) > 0:
		return alternatives(s.enum)
	case t.Kind() == reflect.Int:
		if s.min == nil && s.max == nil {
			return "number"
		}
		return "number, " + bounds(s)
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.String && s.shape != "":
		return "text: " + strings.TrimPrefix(strings.TrimPrefix(shapes[s.shape].want, "an "), "a ")
	case t.Kind() == reflect.Slice && s.max != nil:
		return "list of " + bounds(s) + " items"
	case t.Kind() == reflect.Slice:
		return "list"
	case t.Kind() == reflect.Map || t.Kind() == reflect.Struct:
		return "mapping"
	}
	return "text"
}
