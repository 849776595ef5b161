// Package deploy deploys the sample fleet for real: CDK's own command line against the AWS API emulator,
// then requests through the deployed router function to a deployed slice. docs/testing.md says what of
// this is real.
package deploy

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/test/awsemu"
)

const (
	canary = "eu-canary"
	// home is where the directory is, and the canary, too.
	homeAccount, homeRegion = "111111111111", "eu-west-1"
)

// world is what the tests of one deployment share.
type world struct {
	root    string // of the project
	dir     string // the fleet's folder: fleet.yaml, cdk.json, dist/
	app     string // the CDK app, built
	fleet   *fleet.Fleet
	names   names.Fleet
	aws     *awsemu.Emulator
	environ []string
	issuer  *issuer
}

// newWorld builds everything that a deployment needs and starts the emulator. The other cells of the
// sample fleet are cut to four shards, which saves time and leaves the canary as it is.
func newWorld(t *testing.T) *world {
	t.Helper()
	root, err := awsemu.Root()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{root: root, dir: t.TempDir()}
	if _, err := os.Stat(w.cli()); err != nil {
		t.Fatal("the CDK's command line is not installed\nhint: make node_modules/.stamp does that, and make test, too")
	}
	w.issuer = newIssuer(t)
	t.Setenv("SSL_CERT_FILE", w.issuer.certificate) // the functions believe it, too
	w.aws = awsemu.Start(t)
	for _, name := range slices.Sorted(maps.Keys(w.aws.TemplateOnly())) {
		t.Logf("template-only: %s: %s", name, w.aws.TemplateOnly()[name])
	}
	w.writeFleet(t, func(yaml string) string { return strings.ReplaceAll(yaml, "shards: 16", "shards: 4") })
	w.names = names.ForFleet(w.fleet.Service)
	w.copyFile(t, "cdk.json")
	w.app = filepath.Join(t.TempDir(), "cdk-app")
	w.run(t, root, os.Environ(), "go", "build", "-o", w.app, "./cdk")
	w.run(t, root, append(os.Environ(), "DIST="+filepath.Join(w.dir, "dist"), "ARCH="+runtime.GOARCH), "scripts/build-dist.sh")
	w.environ = append(w.aws.Environ(t, homeAccount, homeRegion),
		"CI=true", "HOME="+t.TempDir(), "CDK_DISABLE_CLI_TELEMETRY=true", "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION=1", "NODE_NO_WARNINGS=1")
	return w
}

// writeFleet puts an edited copy of the project's fleet.yaml into the fleet's folder, with the test's own issuer
// and with front doors.
func (w *world) writeFleet(t *testing.T, edit func(string) string) {
	t.Helper()
	yaml, err := os.ReadFile(filepath.Join(w.root, "fleet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(w.dir, "fleet.yaml")
	const login = "https://login.example.com/"
	if !strings.Contains(string(yaml), "issuer: "+login+",") {
		t.Fatalf("the sample fleet's issuer is not %s any more: write it otherwise", login)
	}
	text := strings.Replace(string(yaml), login, w.issuer.URL, 1) + "frontDoor: {}\n"
	if err := os.WriteFile(path, []byte(edit(text)), 0o666); err != nil {
		t.Fatal(err)
	}
	if w.fleet, err = fleet.Load(path); err != nil {
		t.Fatal(err)
	}
}

func (w *world) copyFile(t *testing.T, name string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.root, name))
	if err == nil {
		err = os.WriteFile(filepath.Join(w.dir, name), data, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// cell is a cell of the fleet, by name.
func (w *world) cell(t *testing.T, name string) fleet.Cell {
	t.Helper()
	for _, c := range w.fleet.Cells {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("the fleet has no cell %s", name)
	return fleet.Cell{}
}

// synth synthesises the fleet and returns the assembly's folder.
func (w *world) synth(t *testing.T, args ...string) string {
	t.Helper()
	out := t.TempDir()
	// The functions are run on this machine, so they are built for it.
	arch := map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]
	w.cdk(t, w.dir, append([]string{"synth", "--quiet", "--app", w.app, "--output", out, "-c", "arch=" + arch, "**"}, args...)...)
	return out
}

// deploy deploys stacks of an assembly and returns what the CDK wrote.
func (w *world) deploy(t *testing.T, assembly string, stacks ...string) string {
	t.Helper()
	return w.cdk(t, w.dir, append(deployArgs(assembly), stacks...)...)
}

func deployArgs(assembly string) []string {
	return []string{"deploy", "--app", assembly, "--require-approval", "never", "--exclusively", "--concurrency", "4", "--progress", "events"}
}

// bootstrap prepares an account's region for the CDK, with credentials of that account and outside of
// any app's folder, as it must be.
func (w *world) bootstrap(t *testing.T, account, region string) {
	t.Helper()
	w.run(t, t.TempDir(), append(w.environ, w.aws.Environ(t, account, region)...), w.cli(), "bootstrap", "aws://"+account+"/"+region)
}

// cdk runs the CDK's command line, which must succeed.
func (w *world) cdk(t *testing.T, dir string, args ...string) string {
	t.Helper()
	return w.run(t, dir, w.environ, w.cli(), args...)
}

// cdkFails runs the CDK's command line, which must fail.
func (w *world) cdkFails(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := command(t, dir, w.environ, w.cli(), args...)
	if err == nil {
		t.Fatalf("cdk %s succeeded:\n%s", strings.Join(args, " "), out)
	}
	return out
}

func (w *world) cli() string { return filepath.Join(w.root, "node_modules", ".bin", "cdk") }

func (w *world) run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	start := time.Now()
	out, err := command(t, dir, env, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	shown := name
	if len(args) > 0 {
		shown = filepath.Base(name) + " " + args[0]
	}
	t.Logf("%s took %.1f s", shown, time.Since(start).Seconds())
	return out
}

// command runs a program and returns what it wrote, both streams together.
func command(t *testing.T, dir string, env []string, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env = dir, env
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("%w (%v)", err, ctx.Err())
	}
	return plain(out.String()), err
}

var escape = regexp.MustCompile("\x1b\\[[0-9;]*m")

// plain is a text without a terminal's colours.
func plain(text string) string { return escape.ReplaceAllString(text, "") }
