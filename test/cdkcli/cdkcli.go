// Package cdkcli runs the CDK's own command line, and the project's, for tests that deploy to the AWS API emulator.
package cdkcli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/test/awsemu"
)

// Path is the CDK's command line, which must be installed.
func Path(t *testing.T, root string) string {
	t.Helper()
	path := filepath.Join(root, "node_modules", ".bin", "cdk")
	if _, err := os.Stat(path); err != nil {
		t.Fatal("the CDK's command line is not installed\nhint: make node_modules/.stamp does that, and make test, too")
	}
	return path
}

// Environ is the environment of a program that works in an account and region of the emulator, or runs the CDK there.
func Environ(t *testing.T, aws *awsemu.Emulator, account, region string) []string {
	t.Helper()
	return append(aws.Environ(t, account, region),
		"CI=true", "HOME="+t.TempDir(), "CDK_DISABLE_CLI_TELEMETRY=true", "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION=1", "NODE_NO_WARNINGS=1")
}

// SynthArgs synthesise all stacks of an app into a folder, with functions for this machine, which runs them.
func SynthArgs(app, out string) []string {
	arch := map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]
	return []string{"synth", "--quiet", "--app", app, "--output", out, "-c", "arch=" + arch, "**"}
}

// DeployArgs deploy the stacks that are named after them of an assembly.
func DeployArgs(assembly string) []string {
	return []string{"deploy", "--app", assembly, "--require-approval", "never", "--exclusively", "--concurrency", "8", "--progress", "events"}
}

// Command runs a program and returns what it wrote, both streams together, without a terminal's colours.
func Command(t *testing.T, dir string, env []string, name string, args ...string) (string, error) {
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
	return Plain(out.String()), err
}

// Run is Command for what must succeed.
func Run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	start := time.Now()
	out, err := Command(t, dir, env, name, args...)
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

var escape = regexp.MustCompile("\x1b\\[[0-9;]*m")

// Plain is a text without a terminal's colours.
func Plain(text string) string { return escape.ReplaceAllString(text, "") }
