//go:build linux

// Package rie runs the built Lambda functions under AWS's Runtime Interface Emulator, as Lambda would
// run them: the router answers events of an HTTP API, and reaches slices that are processes too. The
// AWS APIs behind them are a small fake.
package rie

import (
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

const module = "cellwall.dev/cellwall"

// root is the project's folder, two above this package's.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// build runs the project's own build script in a folder that holds the project, and returns the folder
// with the functions.
func build(t *testing.T, folder, arch string) string {
	t.Helper()
	dist := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "sh", "scripts/build-dist.sh")
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "DIST="+dist, "ARCH="+arch, "HTTP_ARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build for %s: %v\n%s", arch, err, out)
	}
	return dist
}

// built is the functions for this machine, built once.
var built struct {
	once sync.Once
	dir  string
}

// functions returns the folder with the functions for this machine.
func functions(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		dir, err := os.MkdirTemp("", "cellwall-rie-")
		if err != nil {
			t.Fatal(err)
		}
		built.dir = dir
		if err := os.CopyFS(dir, os.DirFS(build(t, root(t), runtime.GOARCH))); err != nil {
			t.Fatal(err)
		}
	})
	if built.dir == "" {
		t.Fatal("the functions could not be built")
	}
	return built.dir
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// artefacts are what build-dist.sh makes, with the package of each.
var artefacts = map[string]string{
	"router/bootstrap": "./lambda/router", "keeper/bootstrap": "./lambda/keeper", "frontdoor/bootstrap": "./lambda/frontdoor", "worker/bootstrap": "./lambda/worker", "worker-http/worker-http": "./lambda/worker-http",
}

// TestArtefacts holds what a rollout relies on: the functions are static and stripped, for the
// architecture that was asked for, free of the CDK, and the same bytes from any folder.
func TestArtefacts(t *testing.T) {
	copied := t.TempDir()
	copySources(t, root(t), copied)
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		t.Run(arch, func(t *testing.T) {
			here, there := build(t, root(t), arch), build(t, copied, arch)
			for name := range artefacts {
				file := filepath.Join(here, name)
				checkBinary(t, file, machine)
				a, b := digest(t, file), digest(t, filepath.Join(there, name))
				if a != b {
					t.Errorf("%s built in two folders gives %s and %s", name, a, b)
				}
				info, err := os.Stat(file)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%s %s: %.1f MB, sha256 %s", arch, name, float64(info.Size())/1e6, a)
			}
		})
	}
}

func checkBinary(t *testing.T, file string, machine elf.Machine) {
	t.Helper()
	binary, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	if binary.Machine != machine {
		t.Errorf("%s is for %v", file, binary.Machine)
	}
	for _, p := range binary.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("%s is linked dynamically", file)
		}
	}
	for _, section := range []string{".symtab", ".debug_info", ".zdebug_info"} {
		if binary.Section(section) != nil {
			t.Errorf("%s is not stripped: it has %s", file, section)
		}
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, dep := range info.Deps {
		if strings.Contains(dep.Path, "jsii") || strings.Contains(dep.Path, "awscdk") || strings.Contains(dep.Path, "constructs-go") {
			t.Errorf("%s links %s", file, dep.Path)
		}
	}
}

func digest(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// copySources copies what the functions are built from.
func copySources(t *testing.T, from, to string) {
	t.Helper()
	args := []string{"list", "-deps", "-json=ImportPath,Dir,GoFiles,EmbedFiles"}
	for _, pkg := range artefacts {
		args = append(args, pkg)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = from
	cmd.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	files := []string{"go.mod", "go.sum", "scripts/build-dist.sh"}
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p struct {
			ImportPath, Dir     string
			GoFiles, EmbedFiles []string
		}
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(p.ImportPath, module+"/") {
			continue
		}
		for _, name := range append(p.GoFiles, p.EmbedFiles...) {
			rel, err := filepath.Rel(from, filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, rel)
		}
	}
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
