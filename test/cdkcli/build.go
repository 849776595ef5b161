package cdkcli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// binaries are what deployments need of the project, built once in a process.
var binaries struct {
	once sync.Once
	dir  string
	err  error
}

// Main runs a package's tests and removes what Built made. It is for TestMain.
func Main(m *testing.M) int {
	code := m.Run()
	if binaries.dir != "" {
		if err := os.RemoveAll(binaries.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return code
}

// Built is the folder with cellwall, cdk-app, and dist for this machine.
func Built(t *testing.T, root string) string {
	t.Helper()
	binaries.once.Do(func() {
		if binaries.dir, binaries.err = os.MkdirTemp("", "cellwall-deploy-"); binaries.err != nil {
			return
		}
		for _, args := range [][]string{
			{"go", "build", "-o", binaries.dir + "/", "./cmd/cellwall"},
			{"go", "build", "-o", filepath.Join(binaries.dir, "cdk-app"), "./cdk"},
			{"scripts/build-dist.sh"},
		} {
			command := exec.Command(args[0], args[1:]...)
			command.Dir, command.Env = root, append(os.Environ(), "DIST="+filepath.Join(binaries.dir, "dist"), "ARCH="+runtime.GOARCH)
			if out, err := command.CombinedOutput(); err != nil {
				binaries.err = errors.Join(binaries.err, fmt.Errorf("%v: %w\n%s", args, err, out))
			}
		}
	})
	if binaries.err != nil {
		t.Fatal(binaries.err)
	}
	return binaries.dir
}
