package assembly

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"cellwall.dev/cellwall/internal/audit"
)

func files(m map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range m {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

const (
	empty   = `{"Resources": {}}`
	stackOf = `{"artifacts": {"s": {"type": "aws:cloudformation:stack", "environment": "aws://111111111111/eu-west-1", "properties": {"templateFile": %q}}}}`
)

func TestLoadAssembly(t *testing.T) {
	in, err := Load(files(map[string]string{
		"manifest.json": `{"version": "48.0.0", "missing": [{"key": "availability-zones:x"}], "artifacts": {
			"nested": {"type": "cdk:cloud-assembly", "properties": {"directoryName": "assembly-eu-1"}},
			"Tree": {"type": "cdk:tree", "properties": {"file": "tree.json"}}}}`,
		"assembly-eu-1/manifest.json": `{"version": "48.0.0", "artifacts": {
			"core": {"type": "aws:cloudformation:stack", "environment": "aws://unknown-account/unknown-region", "displayName": "eu-1/core (orders-eu-1-core)",
				"properties": {"templateFile": "core.json", "stackName": "orders-eu-1-core", "tags": {"cellwall:cell": "eu-1"}, "parameters": {"P": "v"}},
				"additionalMetadataFile": "core.metadata.json"}}}`,
		"assembly-eu-1/core.json":          `{"Resources": {"T": {"Type": "AWS::DynamoDB::Table"}}}`,
		"assembly-eu-1/core.metadata.json": `{"/eu-1/core/Table/Resource": [{"type": "aws:cdk:creationStack", "data": ["x"]}, {"type": "aws:cdk:logicalId", "data": "T"}], "/eu-1/core": [{"type": "aws:cdk:tags", "data": [{}]}]}`,
	}))
	if err != nil {
		t.Fatal(err)
	}
	if len(in.Stacks) != 1 || len(in.Notes) != 1 || !strings.Contains(in.Notes[0].What, "availability-zones:x") {
		t.Fatalf("input %+v", in)
	}
	s := in.Stacks[0]
	if s.Name != "orders-eu-1-core" || s.Path != "eu-1/core" || s.Account != "" || s.Region != "" || s.Tags["cellwall:cell"] != "eu-1" ||
		s.Values["P"] != "v" || s.Paths["T"] != "eu-1/core/Table/Resource" || s.File != "assembly-eu-1/core.json" {
		t.Errorf("stack %+v", s)
	}
}

// TestLoadNamesWhatIsUnknown holds that versions and artifact types that nobody knew when this was
// written are in the report.
func TestLoadNamesWhatIsUnknown(t *testing.T) {
	artifacts := `"s": {"type": "aws:cloudformation:stack", "environment": "aws://1/r", "properties": {"templateFile": "t.json"}}, "t": {"type": "cdk:tree"}`
	for manifest, want := range map[string]string{
		`{"version": "36.0.0", "artifacts": {` + artifacts + `}}`:                         "",
		fmt.Sprintf(`{"version": "%d.1.0", "artifacts": {%s}}`, knownSchema, artifacts):   "",
		fmt.Sprintf(`{"version": "%d.0.0", "artifacts": {%s}}`, knownSchema+1, artifacts): "newer than",
		`{"artifacts": {` + artifacts + `}}`:                                              `version "" is none`,
		`{"version": "48.0.0", "artifacts": {` + artifacts + `, "x": {"type": "odd"}}}`:   `unknown type "odd"`,
	} {
		in, err := Load(files(map[string]string{"manifest.json": manifest, "t.json": empty}))
		if err != nil {
			t.Errorf("%s: %v", manifest, err)
			continue
		}
		if len(in.Notes) > 1 || want == "" && len(in.Notes) > 0 || want != "" && (len(in.Notes) == 0 || !strings.Contains(in.Notes[0].What, want)) {
			t.Errorf("%s: notes %+v, want %q", manifest, in.Notes, want)
		}
	}
}

func TestLoadBare(t *testing.T) {
	in, err := Load(files(map[string]string{
		"orders-eu-1-shard-01.template.json": empty,
		"orders-eu-1-shard-02.yaml":          "Resources: {}\n",
		"orders-eu-1-core.template":          "\n  {\"Resources\": {}}",
		"other.template":                     "Resources:\n",
		"package.json":                       `{"name": "x"}`,
		"tsconfig.json":                      "{ // comments\n}",
		"k8s.yaml":                           "kind: A\n---\nkind: B\n",
		"chart/templates/helm.yaml":          "{{ if .Values.x }}\n",
		"sub/dir/orders-eu-1-shard-03.yaml":  "Resources: {}\n",
		"node_modules/x/t.json":              empty,
		"synthesized/manifest.json":          `{"artifacts": {}}`,
		"synthesized/t.json":                 empty,
		"1/2/3/4/5/6/7/8/9/t.json":           empty,
		"notes.txt":                          "{",
		".hidden.json":                       "{",
		"sub/deeper.json":                    "{",
	}))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range in.Stacks {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "orders-eu-1-core orders-eu-1-shard-01 orders-eu-1-shard-02 other orders-eu-1-shard-03" {
		t.Errorf("stacks %s", got)
	}
	if got := strings.Join(in.Skipped, " "); got != "chart/templates/helm.yaml k8s.yaml package.json sub/deeper.json tsconfig.json" {
		t.Errorf("skipped %s", got)
	}
	if len(in.Notes) != 2 || !strings.Contains(in.Notes[0].What, "deeper than 8") || in.Notes[1].File != "synthesized" {
		t.Errorf("notes %+v", in.Notes)
	}
}

func TestLoadFaults(t *testing.T) {
	deep := map[string]string{"manifest.json": `{"artifacts": {"a": {"type": "cdk:cloud-assembly", "properties": {"directoryName": "d"}}}}`}
	for i, dir := 0, "d"; i <= maxNested; i, dir = i+1, dir+"/d" {
		deep[dir+"/manifest.json"] = deep["manifest.json"]
	}
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 9; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9)+fmt.Sprintf("*a%d", i-1))
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"nothing":                {map[string]string{"x.txt": ""}, "no manifest.json of a cloud assembly and no CloudFormation template"},
		"no template":            {map[string]string{"x.json": "{}"}, "no CloudFormation template"},
		"broken JSON":            {map[string]string{"x.json": `{"Resources": {`}, "x.json: 1:16: the text ends in the middle"},
		"broken YAML":            {map[string]string{"x.yaml": "Resources:\n\t- x"}, "x.yaml: not YAML"},
		"every fault at once":    {map[string]string{"x.json": `{`, "y.yaml": "Resources: []"}, "y.yaml: Resources is a list, want an object"},
		"template in a circle":   {map[string]string{"a.yaml": "Resources: {N: {Type: AWS::CloudFormation::Stack, Properties: {TemplateURL: ./b.yaml}}}", "b.yaml": "Resources: {N: {Type: AWS::CloudFormation::Stack, Properties: {TemplateURL: a.yaml}}}"}, "stacks nested deeper than 16"},
		"nothing but others":     {map[string]string{"x.json": "{ // no\n}"}, "x.json: 1:3: not JSON"},
		"one broken of two":      {map[string]string{"x.yaml": "Resources: {}", "y.yaml": "Resources: ["}, "y.yaml: not YAML"},
		"duplicate key":          {map[string]string{"x.yaml": "Resources:\n  A: {Type: T}\n  A: {Type: T}\n"}, `x.yaml: 3:3: "A": key stands twice in one object`},
		"duplicate in JSON":      {map[string]string{"manifest.json": `{"artifacts": {}, "artifacts": {}}`}, `"artifacts": key stands twice`},
		"alias bomb":             {map[string]string{"x.yaml": bomb + "Resources: {}\n"}, "values once aliases are expanded"},
		"alias in itself":        {map[string]string{"x.yaml": "Resources: &r {A: *r}\n"}, "x.yaml: "},
		"merge key":              {map[string]string{"x.yaml": "A: &a {x: 1}\nResources: {<<: *a}\n"}, "no merge key"},
		"key that is a list":     {map[string]string{"x.yaml": "Resources: {[a]: 1}\n"}, "a key must be a single value"},
		"two documents":          {map[string]string{"x.yaml": "Resources: {}\n---\nResources: {}\n"}, "a second document"},
		"deep YAML":              {map[string]string{"x.yaml": "Resources: " + strings.Repeat("[", 300) + strings.Repeat("]", 300)}, "nested deeper than 256 levels"},
		"deep JSON":              {map[string]string{"x.json": `{"Resources": ` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + "}"}, "nested deeper than 256 levels"},
		"manifest not JSON":      {map[string]string{"manifest.json": "hello"}, "manifest.json: 1:1: not JSON"},
		"manifest of other form": {map[string]string{"manifest.json": `{"artifacts": 5}`}, "manifest.json: not of the expected form"},
		"no stack":               {map[string]string{"manifest.json": `{"version": "48.0.0", "artifacts": {}}`}, "manifest.json: no stack in the whole assembly"},
		"no stack by a typo": {map[string]string{"manifest.json": `{"version": "48.0.0", "artifacts": {"s": {"type": "aws:cloudformation:stacks"}}}`},
			`artifact "s" is of the unknown type "aws:cloudformation:stacks"`},
		"no stack in nested assemblies": {map[string]string{"manifest.json": deep["manifest.json"], "d/manifest.json": `{"artifacts": {}}`}, "no stack in the whole assembly"},
		"no stack of a new version":     {map[string]string{"manifest.json": `{"version": "999.0.0", "artifacts": {}}`}, "version 999.0.0 is newer"},
		"no artifacts":                  {map[string]string{"manifest.json": `{"name": "web app"}`}, "no artifacts: not the manifest of a cloud assembly"},
		"template missing":              {map[string]string{"manifest.json": fmt.Sprintf(stackOf, "gone.json")}, "gone.json: open gone.json: file does not exist"},
		"template outside":              {map[string]string{"manifest.json": fmt.Sprintf(stackOf, "../secret.json")}, "../secret.json: the path leaves the directory"},
		"template absolute":             {map[string]string{"manifest.json": fmt.Sprintf(stackOf, "/etc/passwd")}, "/etc/passwd: the path leaves the directory"},
		"no template file":              {map[string]string{"manifest.json": fmt.Sprintf(stackOf, "")}, `artifact "s": no templateFile`},
		"template is no template": {map[string]string{"manifest.json": fmt.Sprintf(stackOf, "a.json"), "a.json": "[]"},
			"a.json: a template is an object, this is a list"},
		"environment":       {map[string]string{"manifest.json": `{"artifacts": {"s": {"type": "aws:cloudformation:stack", "environment": "moon"}}}`}, `environment "moon" is not aws://ACCOUNT/REGION`},
		"assembly outside":  {map[string]string{"manifest.json": `{"artifacts": {"a": {"type": "cdk:cloud-assembly", "properties": {"directoryName": "../.."}}}}`}, `directoryName "../.." leaves the directory`},
		"assembly absolute": {map[string]string{"manifest.json": `{"artifacts": {"a": {"type": "cdk:cloud-assembly", "properties": {"directoryName": "/"}}}}`}, "leaves the directory"},
		"assembly in itself": {map[string]string{"manifest.json": `{"artifacts": {"a": {"type": "cdk:cloud-assembly", "properties": {"directoryName": "."}}}}`},
			"an assembly holds itself"},
		"assemblies too deep": {deep, "assemblies nested deeper than 16"},
		"stack in itself": {map[string]string{"manifest.json": fmt.Sprintf(stackOf, "a.json"),
			"a.json": `{"Resources": {"N": {"Type": "AWS::CloudFormation::Stack", "Metadata": {"aws:asset:path": "a.json"}}}}`}, "stacks nested deeper than 16"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(files(c.files))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want %q", err, c.want)
			}
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("error %v is not ErrMalformed", err)
			}
		})
	}
}

func TestLoadBoundsFiles(t *testing.T) {
	fsys := files(map[string]string{"x.yaml": "Resources: {}\n#" + strings.Repeat("x", maxYAML)})
	if _, err := Load(fsys); err == nil || !strings.Contains(err.Error(), "larger than 8 MiB") {
		t.Errorf("error %v", err)
	}
	fsys = files(map[string]string{"x.json": strings.Repeat(" ", maxFile+1)})
	if _, err := Load(fsys); err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") {
		t.Errorf("error %v", err)
	}
}

func TestLoadStaysInsideOfTheDirectory(t *testing.T) {
	dir := t.TempDir()
	inside := filepath.Join(dir, "inside")
	write := func(file, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "secret.json"), empty)
	write(filepath.Join(inside, "manifest.json"), fmt.Sprintf(stackOf, "link.json"))
	if err := os.Symlink(filepath.Join(dir, "secret.json"), filepath.Join(inside, "link.json")); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	root, err := os.OpenRoot(inside)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := Load(root.FS()); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "link.json: ") {
		t.Errorf("followed a link out of the directory: %v", err)
	}
}

// A pipe without a writer is no reason to wait.
func TestLoadOpensNoPipe(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "a.json")
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Skip("no pipes here:", err)
	}
	for _, other := range []string{"", "b.json", "sub/manifest.json"} {
		if other != "" {
			file := filepath.Join(dir, filepath.FromSlash(other))
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.Link(pipe, file)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Load(os.DirFS(dir)); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "a.json: not a regular file") {
			t.Errorf("with %q: %v", other, err)
		}
	}
	if err := os.Rename(pipe, filepath.Join(dir, "manifest.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(os.DirFS(dir)); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "manifest.json: not a regular file") {
		t.Errorf("a manifest: %v", err)
	}
}

func TestLoadPassesErrorsOfTheFileSystem(t *testing.T) {
	if _, err := Load(failing{}); err == nil || errors.Is(err, ErrMalformed) {
		t.Errorf("error %v", err)
	}
}

// failing is a file system of which nothing can be listed.
type failing struct{}

func (failing) Open(name string) (fs.File, error) {
	if name == "manifest.json" {
		return nil, fs.ErrNotExist
	}
	return nil, fs.ErrPermission
}

func TestYAML(t *testing.T) {
	for in, want := range map[string]string{
		"a: !Ref B":                     `{"a":{"Ref":"B"}}`,
		"a: !GetAtt B.C.D":              `{"a":{"Fn::GetAtt":["B","C.D"]}}`,
		"a: !GetAtt [B, C]":             `{"a":{"Fn::GetAtt":["B","C"]}}`,
		"a: !Sub '${X}-y'":              `{"a":{"Fn::Sub":"${X}-y"}}`,
		"a: !Sub 42":                    `{"a":{"Fn::Sub":"42"}}`,
		"a: !Sub ['${b}', {b: !Ref C}]": `{"a":{"Fn::Sub":["${b}",{"b":{"Ref":"C"}}]}}`,
		"a: !Join ['', [x, !Ref Y]]":    `{"a":{"Fn::Join":["",["x",{"Ref":"Y"}]]}}`,
		"a: !If [C, !Ref X, 1]":         `{"a":{"Fn::If":["C",{"Ref":"X"},1]}}`,
		"a: !ImportValue\n  Fn::Sub: x": `{"a":{"Fn::ImportValue":{"Fn::Sub":"x"}}}`,
		"a: !Select [0, !GetAZs '']":    `{"a":{"Fn::Select":[0,{"Fn::GetAZs":""}]}}`,
		"a: !FindInMap [M, a, b]":       `{"a":{"Fn::FindInMap":["M","a","b"]}}`,
		"a: !Condition C":               `{"a":{"Condition":"C"}}`,
		"a: !Base64 x":                  `{"a":{"Fn::Base64":"x"}}`,
		"a: !Nonsense x":                `{"a":{"Fn::Nonsense":"x"}}`,
		"a: 012345678901":               `{"a":"012345678901"}`,
		"a: '012'":                      `{"a":"012"}`,
		"a: [yes, true, null, ~, 1.50]": `{"a":["yes",true,null,null,1.50]}`,
		"a: 2010-09-09":                 `{"a":"2010-09-09"}`,
		"a: &x {b: 1}\nc: *x":           `{"a":{"b":1},"c":{"b":1}}`,
		"a: |\n  two\n  lines":          `{"a":"two\nlines"}`,
		"1: x":                          `{"1":"x"}`,
	} {
		n, err := decodeYAML([]byte(in))
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got, _ := n.MarshalJSON(); string(got) != want {
			t.Errorf("%s = %s, want %s", in, got, want)
		}
	}
}

// audited loads and audits, which is what must not crash whatever the bytes are.
func audited(t *testing.T, fsys fs.FS) {
	in, err := Load(fsys)
	if err != nil {
		if err.Error() == "" {
			t.Fatal("an error without words")
		}
		return
	}
	r := audit.Run(in, audit.Options{})
	for _, f := range r.Findings {
		if len(f.Paths) != len(f.Shards) {
			t.Fatalf("%d paths for %d shards: %+v", len(f.Paths), len(f.Shards), f)
		}
		for _, p := range f.Paths {
			if len(p.Steps) == 0 {
				t.Fatalf("a path without steps: %+v", f)
			}
		}
	}
	if err := r.WriteText(&strings.Builder{}); err != nil {
		t.Fatal(err)
	}
}

// seeds are all fixture files of the audit.
func seeds(f *testing.F, ext string) [][]byte {
	var out [][]byte
	err := filepath.WalkDir("../testdata", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ext || strings.Contains(path, "/fuzz/") {
			return err
		}
		data, err := os.ReadFile(path)
		out = append(out, data)
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	return out
}

func FuzzYAML(f *testing.F) {
	for _, s := range seeds(f, ".yaml") {
		f.Add(s)
	}
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("? [x]\n: y"))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := decodeYAML(data)
		if err != nil {
			return
		}
		if out, err := n.MarshalJSON(); err != nil || !json.Valid(out) {
			t.Fatalf("%s: %v", out, err)
		}
	})
}

func FuzzManifest(f *testing.F) {
	for _, s := range seeds(f, ".json") {
		f.Add(s, s)
	}
	f.Add([]byte(fmt.Sprintf(stackOf, "t.json")), []byte(empty))
	f.Add([]byte(`{"artifacts": {"a": {"type": "cdk:cloud-assembly", "properties": {"directoryName": "d"}}}}`), []byte(empty))
	f.Fuzz(func(t *testing.T, manifest, other []byte) {
		fsys := fstest.MapFS{"manifest.json": {Data: manifest}, "t.json": {Data: other}, "d/manifest.json": {Data: other}, "d/t.json": {Data: manifest}}
		audited(t, fsys)
	})
}

func FuzzAudit(f *testing.F) {
	all := append(seeds(f, ".json"), seeds(f, ".yaml")...)
	for i, s := range all {
		f.Add(s, all[(i+1)%len(all)], all[(i+2)%len(all)])
	}
	f.Fuzz(func(t *testing.T, core, one, two []byte) {
		audited(t, fstest.MapFS{"o-c-core.template": {Data: core}, "o-c-shard-1.template": {Data: one}, "o-c-shard-2.template": {Data: two}})
	})
}

// What is acknowledged above all stacks stands beside the manifest; a file of another form is no file to go by.
func TestLoadAcknowledged(t *testing.T) {
	text, err := EncodeAcknowledged([]audit.Acknowledgement{{Path: "eu-1", Rule: "cellwall::SD003", Reason: "expires 2027-01-15"}})
	if err != nil {
		t.Fatal(err)
	}
	load := func(text string) (audit.Input, error) {
		return Load(fstest.MapFS{"manifest.json": {Data: []byte(fmt.Sprintf(stackOf, "a.json"))}, "a.json": {Data: []byte(empty)}, AcknowledgedFile: {Data: []byte(text)}})
	}
	in, err := load(string(text))
	if err != nil || len(in.Stacks[0].Acknowledged) != 1 || in.Stacks[0].Acknowledged[0].Path != "eu-1" {
		t.Errorf("%+v, %v", in.Stacks, err)
	}
	for _, broken := range []string{"{}", "[]", "", `{"schema": "cellwall.acknowledged/v2"}`} {
		if _, err := load(broken); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), AcknowledgedFile) {
			t.Errorf("%q: %v", broken, err)
		}
	}
}
