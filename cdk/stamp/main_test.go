package stamp

import (
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/jsii-runtime-go"

	"cellwall.dev/cellwall/internal/fleet"
)

// scratch is a folder that all tests share.
var scratch string

func TestMain(m *testing.M) {
	if os.Getenv(asApp) != "" {
		os.Exit(holedApp())
	}
	var err error
	if scratch, err = os.MkdirTemp("", "cellwall-stamp-test-"); err != nil {
		panic(err)
	}
	code := m.Run()
	jsii.Close()
	os.RemoveAll(scratch)
	os.Exit(code)
}

// root is the project's folder.
const root = "../.."

// sample is the project's own fleet with its assets made up beside it, cut to its first cell.
func sample(t testing.TB, change ...func(*fleet.Fleet)) *fleet.Fleet {
	t.Helper()
	f, err := fleet.Load(filepath.Join(root, "fleet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	f.Dir = dist(t, ARM64)
	f.Cells = f.Cells[:1]
	for _, c := range change {
		c(f)
	}
	return f
}

// dist is a folder with what make dist builds: executables of 64 bytes, headers alone.
func dist(t testing.TB, functions Arch) string {
	t.Helper()
	dir := t.TempDir()
	for name, arch := range map[string]Arch{
		"dist/router/bootstrap": functions, "dist/keeper/bootstrap": functions, "dist/frontdoor/bootstrap": functions,
		"dist/worker/bootstrap": functions, "dist/worker-http/worker-http": ARM64} {
		write(t, filepath.Join(dir, name), executable(arch), 0o755)
	}
	return dir
}

func executable(a Arch) string {
	header := elf.Header64{Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type: uint16(elf.ET_EXEC), Machine: uint16(a.machine()), Version: uint32(elf.EV_CURRENT), Ehsize: 64}
	var b strings.Builder
	if err := binary.Write(&b, binary.LittleEndian, header); err != nil {
		panic(err)
	}
	return b.String()
}

func write(t testing.TB, file, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// settings is the context of the project's cdk.json.
var settings = sync.OnceValues(func() (map[string]any, error) {
	b, err := os.ReadFile(filepath.Join(root, "cdk.json"))
	if err != nil {
		return nil, err
	}
	var file struct{ Context map[string]any }
	err = json.Unmarshal(b, &file)
	return file.Context, err
})

func input(f *fleet.Fleet) Input {
	return Input{Fleet: f, Router: f.Path("dist/router"), Keeper: f.Path("dist/keeper"), FrontDoor: f.Path("dist/frontdoor"), Arch: ARM64}
}

// try synthesises into a new folder, which stays until all tests are done.
func try(t testing.TB, in Input) (folder string, err error) {
	t.Helper()
	context, err := settings()
	if err != nil {
		t.Fatal(err)
	}
	if folder, err = os.MkdirTemp(scratch, "cdk.out-"); err != nil {
		t.Fatal(err)
	}
	return folder, Synthesise(NewApp(Options{Out: folder, Context: context}), in)
}

func synth(t testing.TB, f *fleet.Fleet) assembly {
	t.Helper()
	folder, err := try(t, input(f))
	if err != nil {
		t.Fatal(err)
	}
	return open(t, folder)
}

// assembly is a cloud assembly's stacks by construct path, such as eu-canary/shard-s01.
type assembly map[string]stack

type stack struct {
	Name, Environment string
	Tags              map[string]string
	after             map[string]bool // stacks that are deployed before, by construct path
	file              string
	text              string // the template's bytes
	Template          templateFile
}

type templateFile struct {
	Parameters map[string]parameter
	Resources  map[string]resource
	Outputs    map[string]any
}

type parameter struct{ Type, Default string }

type resource struct {
	Type                string
	Properties          map[string]any
	CreationPolicy      map[string]any
	UpdatePolicy        map[string]any
	DependsOn           dependencies
	DeletionPolicy      string
	UpdateReplacePolicy string
}

// dependencies are logical ids; a template may write a single one without a list.
type dependencies []string

func (d *dependencies) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*d = make([]string, 1)
		return json.Unmarshal(b, &(*d)[0])
	}
	return json.Unmarshal(b, (*[]string)(d))
}

func open(t testing.TB, folder string) assembly {
	t.Helper()
	a := assembly{}
	a.add(t, folder)
	return a
}

func (a assembly) add(t testing.TB, folder string) {
	t.Helper()
	var manifest struct {
		Missing   []any
		Artifacts map[string]struct {
			Type, Environment, DisplayName string
			Dependencies                   []string
			Properties                     struct {
				TemplateFile, DirectoryName, StackName string
				Tags                                   map[string]string
			}
		}
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(folder, "manifest.json"))), &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest.Missing) > 0 {
		t.Errorf("%s asks for look-ups: %v", folder, manifest.Missing)
	}
	for id, artifact := range manifest.Artifacts {
		switch p := artifact.Properties; artifact.Type {
		case "cdk:cloud-assembly":
			a.add(t, filepath.Join(folder, p.DirectoryName))
		case "aws:cloudformation:stack":
			s := stack{Name: p.StackName, Environment: artifact.Environment, Tags: p.Tags, after: map[string]bool{}, file: filepath.Join(folder, p.TemplateFile)}
			for _, d := range artifact.Dependencies {
				if before := manifest.Artifacts[d]; before.Type == artifact.Type {
					s.after[before.DisplayName] = true
				}
			}
			s.text = read(t, s.file)
			if err := json.Unmarshal([]byte(s.text), &s.Template); err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			a[artifact.DisplayName] = s
		}
	}
}

func (a assembly) paths() []string { return slices.Sorted(maps.Keys(a)) }

// of are the stack's resources of one type, in order of their logical ids.
func (s stack) of(kind string) []resource {
	var all []resource
	for _, id := range slices.Sorted(maps.Keys(s.Template.Resources)) {
		if r := s.Template.Resources[id]; r.Type == kind {
			all = append(all, r)
		}
	}
	return all
}

// one is the stack's only resource of a type.
func (s stack) one(t testing.TB, kind string) resource {
	t.Helper()
	all := s.of(kind)
	if len(all) != 1 {
		t.Fatalf("stack %s has %d of %s, want 1", s.Name, len(all), kind)
	}
	return all[0]
}

// named is the resource whose property has the value.
func (s stack) named(t testing.TB, kind, property, value string) resource {
	t.Helper()
	for _, r := range s.of(kind) {
		if r.Properties[property] == value {
			return r
		}
	}
	t.Fatalf("stack %s has no %s with %s %s", s.Name, kind, property, value)
	return resource{}
}

// permissions are the statements of the policies of the role with that name.
func (s stack) permissions(t testing.TB, role string) []statement {
	t.Helper()
	var all []statement
	for id, r := range s.Template.Resources {
		if r.Type != "AWS::IAM::Role" || r.Properties["RoleName"] != role {
			continue
		}
		if r.at("ManagedPolicyArns") != nil || r.at("Policies") != nil {
			t.Errorf("role %s has policies of AWS's or within: %s", role, text(r.Properties))
		}
		if got := text(r.at("AssumeRolePolicyDocument", "Statement")); got != `[{"Action":"sts:AssumeRole","Effect":"Allow","Principal":{"Service":"lambda.amazonaws.com"}}]` {
			t.Errorf("role %s is assumed by %s", role, got)
		}
		for _, p := range s.of("AWS::IAM::Policy") {
			if strings.Contains(text(p.at("Roles")), `"`+id+`"`) {
				all = append(all, statements(t, p.at("PolicyDocument"))...)
			}
		}
	}
	if len(all) == 0 {
		t.Fatalf("stack %s has no permissions of a role %s", s.Name, role)
	}
	return all
}

// environment looks up the variables of the function with that name, as os.Getenv does inside of it.
func (s stack) environment(t testing.TB, function string) func(string) string {
	t.Helper()
	env, _ := s.named(t, "AWS::Lambda::Function", "FunctionName", function).at("Environment", "Variables").(map[string]any)
	return func(name string) string { v, _ := env[name].(string); return v }
}

// at follows keys and list places into a property; nil where the way ends.
func (r resource) at(way ...any) any {
	var v any = r.Properties
	for _, step := range way {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			l, _ := v.([]any)
			if step >= len(l) {
				return nil
			}
			v = l[step]
		}
	}
	return v
}

// text is a value as JSON, for comparison and search.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
