package layering

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// listed is what go list tells of one package.
type listed struct {
	ImportPath   string
	Imports      []string // of the package's own files
	Deps         []string // all that it links
	TestImports  []string
	XTestImports []string
}

// TestImportsPointDown holds every package of the module against every ban. Nothing is compiled: go
// list reads the import lines.
func TestImportsPointDown(t *testing.T) {
	packages := list(t, "../..")
	if len(packages) < 10 {
		t.Fatalf("go list found only %d packages", len(packages))
	}
	for _, fault := range faults(packages) {
		t.Error(fault)
	}
}

// faults is every broken ban, in order.
func faults(packages []listed) []string {
	var faults []string
	for _, p := range packages {
		if levelOf(p.ImportPath) == none {
			faults = append(faults, p.ImportPath+" has no level: give it one in the table of rules_test.go")
		}
		if s := services(p.Imports); levelOf(p.ImportPath) == adapter && len(s) > 1 {
			faults = append(faults, fmt.Sprintf("%s imports the clients of %s, but an adapter adapts one service: two change and fail for different reasons", p.ImportPath, strings.Join(s, " and ")))
		}
		for _, name := range slices.Sorted(maps.Keys(bans)) {
			b := bans[name]
			if !b.who(p.ImportPath) {
				continue
			}
			imports := slices.Clone(p.Imports)
			if b.deep {
				imports = append(imports, p.Deps...)
			}
			if b.tests {
				imports = append(imports, p.TestImports...)
				imports = append(imports, p.XTestImports...)
			}
			slices.Sort(imports)
			for _, imported := range slices.Compact(imports) {
				if b.what(p.ImportPath, imported) {
					faults = append(faults, fmt.Sprintf("%s imports %s, but %s: %s", p.ImportPath, imported, name, b.reason))
				}
			}
		}
	}
	return faults
}

// list asks go for the packages of the module. The folders are named, because ./... would walk into
// node_modules.
func list(t *testing.T, root string) []listed {
	t.Helper()
	args := []string{"list", "-json=ImportPath,Imports,Deps,TestImports,XTestImports"}
	for _, folder := range []string{"cdk", "cmd", "internal", "lambda", "test"} {
		if _, err := os.Stat(filepath.Join(root, folder)); err == nil {
			args = append(args, "./"+folder+"/...")
		} else if !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, stderr.String())
	}
	var packages []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return packages
		case err != nil:
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

// Each ban finds what it is there for, and leaves what is allowed.
func TestBans(t *testing.T) {
	in := func(path string) string { return module + path }
	const ec2 = "github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	const sqs = servicePrefix + "sqs"
	broken := make(map[string]bool)
	for _, c := range []struct {
		p    listed
		want []string // names of the bans that it breaks
	}{
		{listed{ImportPath: in("internal/blast"), Imports: []string{"fmt", "iter", in("internal/placement")}, Deps: []string{"os"}, TestImports: []string{"os", "pgregory.net/rapid"}}, nil},
		{listed{ImportPath: in("internal/blast"), Imports: []string{"pgregory.net/rapid"}}, []string{"level 1 imports the standard library and level 1"}},
		{listed{ImportPath: in("internal/wave"), Imports: []string{in("internal/fleet")}}, []string{"level 1 imports the standard library and level 1"}},
		{listed{ImportPath: in("internal/blast"), Imports: []string{"math/rand/v2"}}, nil},
		{listed{ImportPath: in("internal/blast"), Imports: []string{"math/rand"}}, []string{"level 1 has no I/O, clock, context or random source"}},
		{listed{ImportPath: in("internal/template"), Imports: []string{"os", "math/rand/v2", "net/http"}}, slices.Repeat([]string{"level 1 has no I/O, clock, context or random source"}, 3)},

		{listed{ImportPath: in("internal/fleet/names"), Imports: []string{"time", in("internal/placement"), "go.yaml.in/yaml/v3"}}, nil},
		{listed{ImportPath: in("internal/directory"), Imports: []string{in("internal/adapter/boltdir")}}, []string{"level 2 imports levels 1 and 2 only"}},
		{listed{ImportPath: in("internal/audit"), Imports: []string{in("internal/cli")}}, []string{"level 2 imports levels 1 and 2 only"}},
		{listed{ImportPath: in("internal/move"), Deps: []string{sqs}}, []string{"level 2 links no AWS SDK"}},

		{listed{ImportPath: in("internal/adapter/shardqueue"), Imports: []string{sqs, in("internal/routing"), in("internal/adapter/shardqueue/wire")}}, nil},
		{listed{ImportPath: in("internal/adapter/shardqueue"), Imports: []string{in("internal/adapter/boltdir")}}, []string{"adapters import no other adapter"}},
		{listed{ImportPath: in("internal/adapter/shardqueue"), Imports: []string{in("internal/adapter/shardqueues")}}, []string{"adapters import no other adapter"}},
		{listed{ImportPath: in("internal/adapter/dynamodir"), Imports: []string{servicePrefix + "dynamodb", servicePrefix + "dynamodb/types"}}, nil},
		{listed{ImportPath: in("internal/adapter/dynamodir"), Imports: []string{servicePrefix + "dynamodb", servicePrefix + "sqs/types"}}, []string{"an adapter adapts one service"}},
		{listed{ImportPath: in("internal/adapter/shardqueue"), Imports: []string{in("internal/handler")}}, []string{"level 3 imports levels 1 and 2 only"}},

		{listed{ImportPath: in("cmd/cellwall"), Imports: []string{in("internal/cli")}, Deps: []string{sqs, in("internal/adapter/boltdir")}}, nil},
		{listed{ImportPath: in("cmd/cellwall"), Deps: []string{ec2}}, []string{"jsii is linked by the CDK app only"}},
		{listed{ImportPath: in("lambda/router"), Deps: []string{"github.com/aws/jsii-runtime-go/runtime"}}, []string{"jsii is linked by the CDK app only"}},
		{listed{ImportPath: in("internal/fleet"), XTestImports: []string{"github.com/aws/constructs-go/constructs/v10"}}, []string{"jsii is linked by the CDK app only"}},
		{listed{ImportPath: in("internal/cli"), Imports: []string{in("cdk/stamp")}}, []string{"level 4 imports no CDK app and no tests", "nothing imports the CDK app"}},
		{listed{ImportPath: in("test/synth"), TestImports: []string{in("cdk/stamp"), ec2}}, []string{"nothing imports the CDK app"}},
		{listed{ImportPath: in("lambda/shardkit"), Deps: []string{in("internal/adapter/itemdynamo")}}, []string{"lambda/shardkit links no adapter"}},

		{listed{ImportPath: in("cdk/stamp"), Imports: []string{ec2, in("internal/fleet/names"), in("internal/audit"), in("internal/placement"), in("cdk/plugin")}}, nil},
		{listed{ImportPath: in("cdk"), Imports: []string{in("internal/routing")}}, []string{"the CDK app imports level 1, fleet and audit"}},
		{listed{ImportPath: in("cdk"), Imports: []string{in("internal/fleets")}}, []string{"the CDK app imports level 1, fleet and audit"}},

		{listed{ImportPath: in("internal/novelty")}, []string{"has no level"}},
		{listed{ImportPath: in("internal/placements")}, []string{"has no level"}},
		{listed{ImportPath: "cellwall.dev/cellwall"}, []string{"has no level"}},
	} {
		got := faults([]listed{c.p})
		ok := len(got) == len(c.want)
		for i := range min(len(got), len(c.want)) {
			ok = ok && strings.Contains(got[i], c.want[i])
			broken[c.want[i]] = true
		}
		if !ok {
			t.Errorf("%+v\nbreaks %d bans: %q\nwant %q", c.p, len(got), got, c.want)
		}
	}
	for name, b := range bans {
		if !broken[name] {
			t.Errorf("no case breaks the ban: %s", name)
		}
		if b.reason == "" {
			t.Errorf("no reason is given for the ban: %s", name)
		}
	}
}

// TestSeededDrawsFromItsSeed: the package that may import math/rand/v2 calls rand.New and rand.NewPCG of it
// alone; the functions beside them draw from a source that nobody seeds.
func TestSeededDrawsFromItsSeed(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", strings.TrimPrefix(seeded, module), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	draws := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "rand" {
					if draws++; !slices.Contains([]string{"New", "NewPCG", "Rand", "PCG"}, s.Sel.Name) {
						t.Errorf("%s uses rand.%s, whose numbers nobody can draw again", file, s.Sel.Name)
					}
				}
			}
			return true
		})
	}
	if draws == 0 {
		t.Errorf("%s draws nothing any more: take its exception away", seeded)
	}
}
