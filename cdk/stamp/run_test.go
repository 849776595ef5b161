package stamp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// program is the app, built once.
var program = sync.OnceValues(func() (string, error) {
	file := filepath.Join(scratch, "app")
	out, err := exec.Command("go", "build", "-o", file, root+"/cdk").CombinedOutput()
	if err != nil {
		return "", errors.New(string(out))
	}
	return file, nil
})

// project is a folder with what a synthesis reads: the sample fleet with two shards a cell, and the
// built assets.
func project(t *testing.T) string {
	t.Helper()
	dir := dist(t, ARM64)
	text := read(t, filepath.Join(root, "fleet.yaml"))
	for _, cut := range [][2]string{{"shards: 16", "shards: 2"}, {"shards: 4", "shards: 2"}, {"  sizes: {whale: {perTenant: 4}}\n", ""}} {
		if !strings.Contains(text, cut[0]) {
			t.Fatalf("the sample fleet has no %q any more: cut it otherwise", cut[0])
		}
		text = strings.ReplaceAll(text, cut[0], cut[1])
	}
	write(t, filepath.Join(dir, "fleet.yaml"), text, 0o644)
	return dir
}

// run starts the app in a folder as the CDK CLI does, and returns what it wrote to out.
func run(t *testing.T, dir, out string, context map[string]string) (stderr string, err error) {
	t.Helper()
	app, err := program()
	if err != nil {
		t.Fatal(err)
	}
	common, err := settings()
	if err != nil {
		t.Fatal(err)
	}
	all := maps.Clone(common)
	for k, v := range context {
		all[k] = v
	}
	encoded, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(app)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CDK_OUTDIR="+out, "CDK_CONTEXT_JSON="+string(encoded),
		// The runtime's warnings about Node.js versions are no words of ours.
		"JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION=1", "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20")
	var errs, data bytes.Buffer
	cmd.Stderr, cmd.Stdout = &errs, &data
	err = cmd.Run()
	if data.Len() > 0 {
		t.Errorf("the app wrote to standard output: %s", data.String())
	}
	return errs.String(), err
}

// files are all files below a folder, by their paths in it.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all[path] = read(t, filepath.Join(dir, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestSameBytes: two syntheses give the same bytes, from and to other folders too, and one cell alone
// the same as in the whole.
func TestSameBytes(t *testing.T) {
	out := t.TempDir()
	synthesise := func(name string, context map[string]string) map[string]string {
		folder := filepath.Join(out, name)
		if stderr, err := run(t, project(t), folder, context); err != nil || stderr != "" {
			t.Fatalf("ended with %v, and said:\n%s", err, stderr)
		}
		return files(t, folder)
	}
	whole := synthesise("whole", nil)
	if n := len(whole); n < 30 {
		t.Fatalf("the assembly has %d files: %v", n, slices.Sorted(maps.Keys(whole)))
	}
	same := func(what string, a, b map[string]string) {
		for _, path := range slices.Sorted(maps.Keys(a)) {
			if other, ok := b[path]; !ok || other != a[path] {
				t.Errorf("%s: %s differs", what, path)
			}
		}
		if len(a) != len(b) {
			t.Errorf("%s: %d files, and %d", what, len(a), len(b))
		}
	}
	same("again, from another folder", whole, synthesise("elsewhere/again", nil))

	below := func(all map[string]string, folder string) map[string]string {
		some := map[string]string{}
		for path, content := range all {
			if strings.HasPrefix(path, folder+"/") {
				some[path] = content
			}
		}
		return some
	}
	for _, cell := range []string{"eu-1"} {
		alone := synthesise("alone-"+cell, map[string]string{"cell": cell})
		same(cell+" alone", below(whole, "assembly-"+cell), below(alone, "assembly-"+cell))
		for path := range alone {
			if strings.HasPrefix(path, "assembly-") && !strings.HasPrefix(path, "assembly-"+cell+"/") || strings.HasPrefix(path, "global") {
				t.Errorf("%s alone: %s belongs to another", cell, path)
			}
			if content, asset := whole[path]; strings.HasPrefix(path, "asset.") && (!asset || content != alone[path]) {
				t.Errorf("%s alone: %s differs", cell, path)
			}
		}
	}
	for path, content := range whole {
		if strings.Contains(content, out) || strings.Contains(content, os.TempDir()+"/cellwall") {
			t.Errorf("%s names a folder of this machine", path)
		}
	}
}

// TestRefusals: what is wrong is said on standard error, a line each, without a stack trace, and the
// app fails without leaving an assembly.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		spoil   func(t *testing.T, dir string)
		context map[string]string
		want    []string // a line each, by a part of it
	}{
		"a fleet with two faults": {
			spoil: func(t *testing.T, dir string) {
				file := filepath.Join(dir, "fleet.yaml")
				text := strings.Replace(read(t, file), "perTenant: 2", "perTenant: none", 1)
				write(t, file, strings.Replace(text, "region: eu-west-1", "region: europe", 1), 0o644)
			},
			want: []string{"fleet.yaml:3:", "fleet.yaml:9:"},
		},
		"no fleet":         {context: map[string]string{"fleet": "absent.yaml"}, want: []string{"absent.yaml"}},
		"an unknown cell":  {context: map[string]string{"cell": "eu-9"}, want: []string{"-c cell=eu-9: the fleet has no such cell; write one of eu-canary, eu-1, us-1"}},
		"unknown replicas": {context: map[string]string{"newReplicas": "us-east-1,mars-1"}, want: []string{"-c newReplicas=mars-1: the directory has no replica there; write one of directory.replicas: us-east-1"}},
		"an unknown audit": {context: map[string]string{"audit": "no"}, want: []string{"-c audit=no: write on or off"}},
		"an unknown arch":  {context: map[string]string{"arch": "mips"}, want: []string{"-c arch=mips: Lambda has no such architecture; write arm64 or x86_64"}},
		"the other arch":   {context: map[string]string{"arch": "x86_64"}, want: []string{"dist/router/bootstrap is built for EM_AARCH64", "dist/keeper/bootstrap is built for EM_AARCH64", "dist/worker/bootstrap is built for EM_AARCH64"}},
		"nothing is built": {
			spoil: func(t *testing.T, dir string) {
				if err := os.RemoveAll(filepath.Join(dir, "dist")); err != nil {
					t.Fatal(err)
				}
			},
			want: []string{"dist/router/bootstrap is missing: run make dist", "dist/keeper/bootstrap is missing: run make dist", "dist/worker/bootstrap is missing: run make dist", "dist/worker-http/worker-http is missing: run make dist"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, out := project(t), filepath.Join(t.TempDir(), "out")
			if c.spoil != nil {
				c.spoil(t, dir)
			}
			stderr, err := run(t, dir, out, c.context)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Fatalf("ended with %v, want status 1; it said:\n%s", err, stderr)
			}
			lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
			if len(lines) != len(c.want) {
				t.Fatalf("said %d lines, want %d:\n%s", len(lines), len(c.want), stderr)
			}
			for i, want := range c.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("line %d is %q, want something with %q", i+1, lines[i], want)
				}
			}
			if _, err := os.Stat(filepath.Join(out, "manifest.json")); err == nil {
				t.Error("an assembly was written all the same")
			}
		})
	}
}

// TestOtherArchitecture: functions that were built for x86_64 run there, by one setting.
func TestOtherArchitecture(t *testing.T) {
	f := sample(t)
	f.Dir = dist(t, X86)
	f.Cells[0].Shards = f.Cells[0].Shards[:1]
	in := input(f)
	in.Arch = X86
	folder, err := try(t, in)
	if err != nil {
		t.Fatal(err)
	}
	a := open(t, folder)
	for _, path := range []string{"eu-canary/core", "eu-canary/shard-s01"} {
		for _, fn := range a[path].of("AWS::Lambda::Function") {
			if got := text(fn.at("Architectures")); got != `["x86_64"]` {
				t.Errorf("%s: function %v runs on %s", path, fn.at("FunctionName"), got)
			}
		}
	}
}

// TestFailedAssertion: what the CDK itself refuses comes back as one line.
func TestFailedAssertion(t *testing.T) {
	f := sample(t)
	f.Shard.HTTP = nil                    // whose names would be found equal before
	f.Cells = append(f.Cells, f.Cells[0]) // no fleet file gives this
	_, err := try(t, input(f))
	if err == nil {
		t.Fatal("two cells of one name were stamped")
	}
	if got := err.Error(); !strings.HasPrefix(got, "the CDK refused the stacks: ") || !strings.Contains(got, "eu-canary") || strings.ContainsAny(got, "\n") || strings.Contains(got, "node_modules") {
		t.Errorf("the error is %q", got)
	}
}
