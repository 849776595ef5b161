//go:build unix

package cdkdeploy

import (
	"context"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const set = "cellwall-0123456789ab-7"

// stub is a command line that runs a script of the shell instead, in which $OUT is a folder of the test's.
func stub(t *testing.T, script string) (c *CLI, out string) {
	t.Helper()
	out = t.TempDir()
	program := filepath.Join(t.TempDir(), "cdk")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nOUT='"+out+"'\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Program: program, Logs: filepath.Join(out, "logs"), Environ: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + out, "AWS_PROFILE=ops", "CDK_ROLLBACK=false", "cdk_hotswap=true", "FORCE_COLOR=1"}})
	if err != nil {
		t.Fatal(err)
	}
	return c, out
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPrepare: what the command line is told, where it runs, and what of the environment it gets.
func TestPrepare(t *testing.T) {
	c, out := stub(t, `for a in "$@"; do echo "$a"; done > $OUT/args; env > $OUT/env; ls -A > $OUT/here; cat > $OUT/in; echo said; echo cried >&2`)
	dir := t.TempDir()
	if err := c.Prepare(t.Context(), dir, set, []string{"eu-1/shard-s01", "eu-1/shard-s04"}); err != nil {
		t.Fatal(err)
	}
	want := []string{"deploy", "--app", dir, "--exclusively", "--method", "prepare-change-set", "--change-set-name", set, "--require-approval", "never",
		"--concurrency", "2", "--progress", "events", "--no-notices", "--no-version-reporting", "--no-color", "eu-1/shard-s01", "eu-1/shard-s04"}
	if got := strings.Split(strings.TrimSpace(read(t, out, "args")), "\n"); !slices.Equal(got, want) {
		t.Errorf("arguments %q\nwant      %q", got, want)
	}
	env := read(t, out, "env")
	for _, has := range []string{"AWS_PROFILE=ops", "CI=true", "CDK_DISABLE_CLI_TELEMETRY=true"} {
		if !strings.Contains(env, has+"\n") {
			t.Errorf("the environment lacks %s", has)
		}
	}
	for _, hasNot := range []string{"ROLLBACK", "hotswap", "FORCE_COLOR"} {
		if strings.Contains(env, hasNot) {
			t.Errorf("the environment has %s", hasNot)
		}
	}
	if here, in := read(t, out, "here"), read(t, out, "in"); here+in != "" {
		t.Errorf("it ran beside %q with the input %q", here, in)
	}
	logs, err := filepath.Glob(filepath.Join(out, "logs", "*.log"))
	if err != nil || len(logs) != 1 || !strings.HasPrefix(filepath.Base(logs[0]), set+"-eu-1-shard-s01-") || !strings.Contains(read(t, logs[0]), "said\n") || !strings.Contains(read(t, logs[0]), "cried\n") {
		t.Errorf("logs %v: %v", logs, err)
	}
}

// TestDoesNothing: exit status 0 is no error here, and no proof: release.Stacks looks for the change sets.
func TestDoesNothing(t *testing.T) {
	c, _ := stub(t, "exit 0")
	if err := c.Prepare(t.Context(), t.TempDir(), set, []string{"a"}); err != nil {
		t.Error(err)
	}
}

func TestFails(t *testing.T) {
	c, out := stub(t, `printf 'one\033[31m two\007\n\377three\n'; exit 3`)
	err := c.Prepare(t.Context(), t.TempDir(), set, []string{"eu-1/core"})
	want := "it ended with:\none two \n?three"
	if err == nil || !strings.HasPrefix(err.Error(), "cdk deploy --method prepare-change-set of eu-1/core, whose output is in "+out) || !strings.HasSuffix(err.Error(), want) || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("%v", err)
	}
	c, _ = stub(t, "exit 1")
	c.logs = ""
	if err := c.Prepare(t.Context(), t.TempDir(), set, []string{"a"}); err == nil || !strings.HasSuffix(err.Error(), "of a: exit status 1; it said nothing") {
		t.Errorf("%v", err)
	}
}

// TestToldInTheJournal: of a stage of many stacks, the first 1000 bytes of the error, which a journal keeps, have the command
// line's last words.
func TestToldInTheJournal(t *testing.T) {
	c, _ := stub(t, `i=0; while [ $i -lt 100 ]; do echo "eu-1/shard-s$i: creating CloudFormation changeset..."; i=$((i+1)); done; echo "Error: the bootstrap stack is of version 5, and 30 is needed"; exit 1`)
	var stacks []string
	for i := range 100 {
		stacks = append(stacks, "eu-1/shard-s"+strconv.Itoa(i))
	}
	err := c.Prepare(t.Context(), t.TempDir(), set, stacks)
	if text := err.Error(); !strings.Contains(text[:min(1000, len(text))], "of version 5, and 30 is needed") || !strings.Contains(text, "of eu-1/shard-s0 and 99 more, whose output is in ") {
		t.Errorf("%s", text)
	}
}

// TestMuchOutput: of megabytes, the file has the beginning and the error the end.
func TestMuchOutput(t *testing.T) {
	c, out := stub(t, `echo first; i=0; while [ $i -lt 900 ]; do printf '%010000d\n' $i; i=$((i+1)); done; echo last; exit 1`)
	err := c.Prepare(t.Context(), t.TempDir(), set, []string{"a"})
	if err == nil || !strings.HasSuffix(err.Error(), "\nlast") || len(err.Error()) > maxTail+1000 {
		t.Errorf("an error of %d bytes that ends in %q", len(err.Error()), err.Error()[max(0, len(err.Error())-20):])
	}
	logs, _ := filepath.Glob(filepath.Join(out, "logs", "*"))
	text := read(t, logs[0])
	if len(text) > maxLog+100 || len(text) < maxLog || !strings.HasPrefix(text, "first\n") || !strings.HasSuffix(text, "[the rest is left out]\n") {
		t.Errorf("a log of %d bytes", len(text))
	}
}

// TestFew: a way back asks for all cells together, and few command lines run at once. Who waits when it ends begins none.
func TestFew(t *testing.T) {
	c, out := stub(t, `echo x >> $OUT/begun; while [ ! -e $OUT/go ]; do sleep 0.02; done`)
	begun := func() int {
		text, _ := os.ReadFile(filepath.Join(out, "begun"))
		return strings.Count(string(text), "x")
	}
	const all = processes + 3
	ended := make(chan error, all)
	for range all {
		go func() { ended <- c.Prepare(t.Context(), out, set, []string{"a"}) }()
	}
	wait(t, func() bool { return begun() == processes && len(c.places) == processes })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Prepare(ctx, out, set, []string{"a"}); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "not begun") {
		t.Errorf("%v", err)
	}
	time.Sleep(100 * time.Millisecond)
	if n := begun(); n != processes {
		t.Errorf("%d run at once", n)
	}
	if err := os.WriteFile(filepath.Join(out, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for range all {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if n := begun(); n != all {
		t.Errorf("%d ran in all, of %d", n, all)
	}
}

// TestHangs: a command line that waits for an answer that never comes is ended, and said to be.
func TestHangs(t *testing.T) {
	c, _ := stub(t, `echo uploading; sleep 1000`)
	c.grace, c.limit = 100*time.Millisecond, time.Second
	err := c.Prepare(t.Context(), t.TempDir(), set, []string{"a"})
	if err == nil || !strings.Contains(err.Error(), "it was ended: it took more than 1s") || !strings.HasSuffix(err.Error(), "uploading") {
		t.Errorf("%v", err)
	}
}

// TestNoHome: without HOME the settings are those of the user whom the system knows, to the command line, too.
func TestNoHome(t *testing.T) {
	u, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	c, _ := stub(t, "exit 0")
	file := func(environ ...string) string {
		c.environ = environ
		got, err := c.settingsFile()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got, want := file("PATH=/bin"), filepath.Join(u.HomeDir, ".cdk.json"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := file("HOME=/a", "HOME=/b"); got != filepath.Join("/b", ".cdk.json") {
		t.Error(got)
	}
}

// TestEnded: a command line that hangs is ended with what it has started, whether it listens or not.
func TestEnded(t *testing.T) {
	for name, script := range map[string]string{
		"listens": `sleep 1000 & echo $! > $OUT/child.new; mv $OUT/child.new $OUT/child; wait`,
		"is deaf": `trap '' TERM; sh -c "trap '' TERM; echo \$\$ > $OUT/child.new; mv $OUT/child.new $OUT/child; while :; do sleep 1000; done" & while :; do sleep 1000; done`,
	} {
		c, out := stub(t, script)
		c.grace = 100 * time.Millisecond
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("the lease is lost")
		ended := make(chan error, 1)
		go func() { ended <- c.Prepare(ctx, t.TempDir(), set, []string{"a"}) }()
		child := ""
		wait(t, func() bool {
			text, err := os.ReadFile(filepath.Join(out, "child"))
			child = strings.TrimSpace(string(text))
			return err == nil
		})
		cancel(enough)
		if err := <-ended; !errors.Is(err, enough) || !strings.Contains(err.Error(), "it was ended") {
			t.Errorf("%s: %v", name, err)
		}
		pid, err := strconv.Atoi(child)
		if err != nil {
			t.Fatal(err)
		}
		wait(t, func() bool { return gone(pid) })
	}
}

// gone says that a process has ended; a zombie, for which nobody has waited yet, has.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(text), ") Z ")
}

func wait(t *testing.T, until func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !until(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not come within a minute")
		}
	}
}

// TestLeftBehind: a child that outlives the command line with its output open does not hold anybody up.
func TestLeftBehind(t *testing.T) {
	c, out := stub(t, `sleep 1000 & echo $! > $OUT/child; exit 0`)
	c.grace = 100 * time.Millisecond
	err := c.Prepare(t.Context(), t.TempDir(), set, []string{"a"})
	if err == nil || !strings.Contains(err.Error(), "WaitDelay") {
		t.Errorf("%v", err)
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(read(t, out, "child")))
	wait(t, func() bool { return gone(pid) })
}

// TestNothingElse: what would mean other stacks, or another folder of settings, never reaches the command line.
func TestNothingElse(t *testing.T) {
	c, out := stub(t, `touch $OUT/ran`)
	for _, stacks := range [][]string{nil, {""}, {"**"}, {"eu-1/*"}, {"-h"}, {"--all"}, {"a", "{a,b}"}, {"a b"}, {"!a"}} {
		if err := c.Prepare(t.Context(), t.TempDir(), set, stacks); err == nil {
			t.Errorf("%q went through", stacks)
		}
	}
	for _, set := range []string{"", "-x", "a b", strings.Repeat("a", 129), "7a"} {
		if err := c.Prepare(t.Context(), t.TempDir(), set, []string{"a"}); err == nil {
			t.Errorf("change set %q went through", set)
		}
	}
	settings := filepath.Join(out, ".cdk.json")
	for text, want := range map[string]string{
		`{"tags": [{"Key": "a", "Value": "b"}], "rollback": false, "notices": false}`: "have rollback, tags, which would change what is deployed",
		`[`: "the CDK's settings in " + settings,
	} {
		if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.Prepare(t.Context(), t.TempDir(), set, []string{"a"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := os.Stat(filepath.Join(out, "ran")); err == nil {
		t.Error("the command line ran")
	}
	if err := os.WriteFile(settings, []byte("\xef\xbb\xbf{\"notices\": false}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Prepare(t.Context(), t.TempDir(), set, []string{"a"}); err != nil {
		t.Errorf("harmless settings: %v", err)
	}
}

func TestNew(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "cdk")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{filepath.Join(dir, "none"), dir, file} {
		if _, err := New(Config{Program: program}); err == nil || !strings.Contains(err.Error(), "npm ci") {
			t.Errorf("%s: %v", program, err)
		}
	}
}
