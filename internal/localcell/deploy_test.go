package localcell

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/localcell/loopback"
)

// another is the same worker with another digest: what follows a program in its file does nothing.
func another(t *testing.T, mark string) (file string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	return executable(t, string(text)+mark)
}

func executable(t *testing.T, text string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "worker")
	if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

// add puts a version into the state directory.
func (c *cell) add(file string) (version string) {
	c.t.Helper()
	version, err := c.dir.AddWorker(file)
	if err != nil {
		c.t.Fatal(err)
	}
	return version
}

// deploy brings shards to a version.
func (c *cell) deploy(version string, shards ...string) error {
	c.t.Helper()
	_, err := c.Deploy(c.t.Context(), Deployment{Cell: "eu-1", Shards: shards, Version: version})
	return err
}

// runs are the versions of all shards, by what answers.
func (c *cell) runs() map[string]WorkerVersion {
	c.t.Helper()
	all, err := c.Versions(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	by := map[string]WorkerVersion{}
	for _, v := range all {
		by[v.Shard] = v
	}
	if len(by) != 3 {
		c.t.Fatalf("versions of %d shards: %+v", len(by), all)
	}
	return by
}

func (c *cell) kill(name string) {
	c.t.Helper()
	if err := c.statusOf(name).Kill(); err != nil {
		c.t.Fatal(err)
	}
}

// TestDeployments puts all to one cell, which each leaves with the same version everywhere.
func TestDeployments(t *testing.T) {
	c := up(t)
	first := c.runs()["s01"].Runs
	if !versionForm.MatchString(first) {
		t.Fatalf("the first version is %q", first)
	}
	second := c.add(another(t, "2"))
	for _, test := range []struct {
		name string
		run  func(*testing.T, *cell, string, string)
	}{
		{"AVersionStaysUntilTheNext", aVersionStaysUntilTheNext},
		{"WhatRunsIsLeftAlone", whatRunsIsLeftAlone},
		{"AVersionThatDoesNotStart", aVersionThatDoesNotStart},
		{"DeploymentsAreRefused", deploymentsAreRefused},
		{"ABrokenShardIsNotDeployedTo", aBrokenShardIsNotDeployedTo},
		{"BehindAGate", behindAGate},
		{"WhoeverAskedMayLeave", whoeverAskedMayLeave},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &cell{c.Running, t, c.dir}
			test.run(t, c, first, second)
			if err := c.deploy(first, "s01", "s02", "s03"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func aVersionStaysUntilTheNext(t *testing.T, c *cell, first, second string) {
	before := c.statusOf("s01")
	if err := c.deploy(second, "s01", "s03"); err != nil {
		t.Fatal(err)
	}
	now := c.runs()
	if now["s01"].Runs != second || now["s03"].Runs != second || now["s02"].Runs != first || now["s01"].Wants != second {
		t.Errorf("after a deployment to s01 and s03: %+v", now)
	}
	after := c.statusOf("s01")
	if after.PID == before.PID || after.Version != second || after.Deployment != "" {
		t.Errorf("s01 was %+v, and is %+v", before, after)
	}
	if crash := c.sight().Fired; len(crash) > 0 {
		t.Errorf("a deployment rings %q", crash)
	}
	c.kill("s01")
	eventually(t, "s01 is back", func() bool { s := c.statusOf("s01"); return s.PID != after.PID && s.State == string(childReady) })
	if got := c.runs()["s01"].Runs; got != second {
		t.Errorf("after its death s01 runs %s", got)
	}
	c.wants(http.StatusOK, c.token("acme"), "GET", "/orders", "")
	if err := c.deploy(first, "s01"); err != nil { // no file is needed
		t.Fatal(err)
	}
	if got := c.runs()["s01"].Runs; got != first {
		t.Errorf("rolled back, s01 runs %s", got)
	}
}

// sight is what the supervisor has seen, ever.
func (c *cell) sight() Sight {
	c.t.Helper()
	s, err := c.Look(c.t.Context(), "eu-1", c.Started, c.Started, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

func whatRunsIsLeftAlone(t *testing.T, c *cell, first, _ string) {
	if err := c.deploy(first, "s01", "s02", "s03"); err != nil {
		t.Fatal(err)
	}
	before := c.statusOf("s02").PID
	for range 3 {
		if err := c.deploy(first, "s02"); err != nil {
			t.Fatal(err)
		}
	}
	if after := c.statusOf("s02").PID; after != before {
		t.Errorf("process %d became %d", before, after)
	}
}

func aVersionThatDoesNotStart(t *testing.T, c *cell, first, second string) {
	broken := c.add(executable(t, "#!/bin/sh\necho no such table >&2\nexit 7\n"))
	err := c.deploy(broken, "s02", "s03")
	if err == nil || !strings.Contains(err.Error(), "eu-1/s02") || !strings.Contains(err.Error(), "exit status 7") || !strings.Contains(err.Error(), "no such table") {
		t.Errorf("a version that ends at once: %v", err)
	}
	now := c.runs()
	if v := now["s02"]; v.Runs != "" || v.Wants != broken || v.Deploying || !strings.Contains(v.Problem, "no such table") || len(v.Problem) > problemEnd+10 {
		t.Errorf("s02: %+v", v)
	}
	if now["s03"].Runs != first || now["s03"].Wants != first {
		t.Errorf("the deployment went on to %+v", now["s03"])
	}
	if s := c.statusOf("s02"); s.Version != broken || s.Deployment == "" {
		t.Errorf("the status says %+v", s)
	}
	eventually(t, "the death rings", func() bool { return len(c.sight().Firing) > 0 })
	c.wants(http.StatusOK, c.token("acme"), "GET", "/orders", "") // a member is left
	if err := c.deploy(second, "s02"); err != nil {
		t.Fatal(err)
	}
	if v := c.runs()["s02"]; v.Runs != second || v.Problem != "" {
		t.Errorf("after another version: %+v", v)
	}
}

func deploymentsAreRefused(t *testing.T, c *cell, first, second string) {
	if _, err := c.Deploy(t.Context(), Deployment{Cell: "eu-1", Shards: []string{"s01"}, Version: first, Fencing: 7}); err != nil {
		t.Fatal(err)
	}
	damaged := c.add(executable(t, "#!/bin/sh\nexit 8\n"))
	file, err := c.dir.versionFile(damaged)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("#!/bin/sh\nexit 9\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	none := versionPrefix + strings.Repeat("0", 64)
	for _, test := range []struct {
		name   string
		d      Deployment
		status int
		words  string
	}{
		{"unknown shard", Deployment{Cell: "eu-1", Shards: []string{"s01", "s99"}, Version: second}, 404, `"s99"`},
		{"unknown cell", Deployment{Cell: "us-1", Shards: []string{"s01"}, Version: second}, 404, `"us-1"`},
		{"no shards", Deployment{Cell: "eu-1", Version: second}, 400, "no shards"},
		{"a shard twice", Deployment{Cell: "eu-1", Shards: []string{"s01", "s01"}, Version: second}, 400, "twice"},
		{"a version that is not there", Deployment{Cell: "eu-1", Shards: []string{"s01"}, Version: none}, 404, none},
		{"a path", Deployment{Cell: "eu-1", Shards: []string{"s01"}, Version: "sha256:../../../bin/false"}, 404, "hexadecimal"},
		{"no version", Deployment{Cell: "eu-1", Shards: []string{"s01"}}, 404, "hexadecimal"},
		{"a damaged file", Deployment{Cell: "eu-1", Shards: []string{"s01"}, Version: damaged}, 404, "was changed"},
		{"a lost lease", Deployment{Cell: "eu-1", Shards: []string{"s01"}, Version: second, Fencing: 6}, 409, "taken over"},
	} {
		_, err := c.Deploy(t.Context(), test.d)
		if refused, ok := errors.AsType[*loopback.StatusError](err); !ok || refused.Status != test.status || !strings.Contains(err.Error(), test.words) {
			t.Errorf("%s: %v, want status %d and %q", test.name, err, test.status, test.words)
		}
	}
	for shard, v := range c.runs() {
		if v.Runs != first || v.Deploying || v.Problem != "" {
			t.Errorf("%s after what was refused: %+v", shard, v)
		}
	}
}

func aBrokenShardIsNotDeployedTo(t *testing.T, c *cell, first, second string) {
	if _, err := c.Break(t.Context(), "s03", time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := c.deploy(second, "s03"); err == nil || !strings.Contains(err.Error(), "on purpose") {
		t.Errorf("to a shard that is held: %v", err)
	}
	if err := c.Restore(t.Context(), "s03"); err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitShard(t.Context(), "s03"); err != nil {
		t.Fatal(err)
	}
	if got := c.runs()["s03"].Runs; got != first {
		t.Errorf("it came back with %s", got)
	}
}

func behindAGate(t *testing.T, c *cell, _, second string) {
	if _, err := c.Fail(t.Context(), "s01", Fault{How: HowSlow, Factor: 2}); err != nil {
		t.Fatal(err)
	}
	if err := c.deploy(second, "s01"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Heal(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if got := c.runs()["s01"].Runs; got != second {
		t.Errorf("healed, s01 runs %s", got)
	}
}

func whoeverAskedMayLeave(t *testing.T, c *cell, _, second string) {
	ctx, cancel := context.WithCancel(t.Context())
	slow := c.add(executable(t, "#!/bin/sh\nsleep 1\nexec "+c.plan().Worker+"\n"))
	left := make(chan error, 1)
	go func() {
		_, err := c.Deploy(ctx, Deployment{Cell: "eu-1", Shards: []string{"s01", "s02"}, Version: slow})
		left <- err
	}()
	eventually(t, "the deployment has begun", func() bool { return c.runs()["s01"].Deploying })
	if err := c.deploy(second, "s02"); err == nil || !strings.Contains(err.Error(), "under way") {
		t.Errorf("a second deployment: %v", err)
	}
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("whoever left got %v", err)
	}
	eventually(t, "both run it", func() bool {
		now := c.runs()
		return now["s01"].Runs == slow && now["s02"].Runs == slow && !now["s02"].Deploying
	})
}

func (c *cell) plan() Plan {
	c.t.Helper()
	l, err := c.dir.Layout()
	if err != nil {
		c.t.Fatal(err)
	}
	return l.Cells[0]
}

// TestASupervisorKilledInTheMiddle: after the next up each shard runs what is written down, one version or the other,
// and one that does not start takes nothing else down.
func TestASupervisorKilledInTheMiddle(t *testing.T) {
	c := up(t)
	first := c.runs()["s01"].Runs
	versions := []string{first, c.add(another(t, "2"))}
	for round := range 3 {
		version := versions[(round+1)%2]
		go c.Deploy(context.WithoutCancel(t.Context()), Deployment{Cell: "eu-1", Shards: []string{"s01", "s02", "s03"}, Version: version})
		time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
		c = c.killed()
		for shard, v := range c.runs() {
			if v.Runs != v.Wants || v.Wants != versions[0] && v.Wants != versions[1] {
				t.Errorf("round %d, %s: %+v", round, shard, v)
			}
		}
		for _, tenant := range testTenants {
			c.wants(http.StatusOK, c.token(tenant), "GET", "/orders", "")
		}
	}
	broken := c.add(executable(t, "#!/bin/sh\nexit 7\n"))
	go c.Deploy(context.WithoutCancel(t.Context()), Deployment{Cell: "eu-1", Shards: []string{"s01", "s02"}, Version: broken})
	eventually(t, "s01 is to run what does not start", func() bool { return c.runs()["s01"].Wants == broken })
	c = c.killed()
	now := c.runs()
	if v := now["s01"]; v.Wants != broken || v.Runs != "" || v.Problem == "" {
		t.Errorf("s01: %+v", v)
	}
	if v := now["s02"]; v.Runs != v.Wants || v.Wants == broken {
		t.Errorf("s02: %+v", v)
	}
	c.wants(http.StatusOK, c.token("acme"), "GET", "/orders", "")
	if err := c.deploy(first, "s01", "s02", "s03"); err != nil {
		t.Fatal(err)
	}
	if s := c.sight(); s.Begun.Before(c.Started) {
		t.Errorf("the cell was started at %v, and watched since %v", c.Started, s.Begun)
	}
}

// killed is the cell after its supervisor was killed and it was started again.
func (c *cell) killed() *cell {
	c.t.Helper()
	before := c.processes()
	if now, err := c.dir.traces(); err == nil {
		before = now.processes()
	}
	if err := c.Supervisor.Kill(); err != nil {
		c.t.Fatal(err)
	}
	eventually(c.t, "the guard has ended all", func() bool {
		for _, p := range before {
			if p.Alive() {
				return false
			}
		}
		return true
	})
	return upIn(c.t, c.dir, testPlan(c.t))
}

// TestWorkersThatAreNone: what is no executable file is refused, and nothing is left of it.
func TestWorkersThatAreNone(t *testing.T) {
	d := Dir{filepath.Join(t.TempDir(), "state")}
	if _, err := d.AddWorker("/bin/false"); !errors.Is(err, ErrNotRunning) {
		t.Errorf("without a cell: %v", err)
	}
	if _, err := d.create(); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o700); err != nil {
		t.Fatal(err)
	}
	plain := executable(t, "#!/bin/sh\n")
	if err := os.Chmod(plain, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{
		"a folder": t.TempDir(), "a device": os.DevNull, "a pipe": pipe, "no program": plain, "nothing": "/no/such", "an empty one": executable(t, ""), "no name": "",
	} {
		if _, err := d.AddWorker(file); !errors.Is(err, ErrWorker) {
			t.Errorf("%s: %v, want %q", name, err, ErrWorker)
		}
	}
	left, err := filepath.Glob(filepath.Join(d.String(), dirWorkers, "*"))
	hidden, _ := filepath.Glob(filepath.Join(d.String(), dirWorkers, ".*"))
	if err != nil || len(left)+len(hidden) > 0 {
		t.Errorf("left: %q %q, %v", left, hidden, err)
	}
}

// TestVersionsStayBounded: the start lets go of old versions, but for the last and those that a shard is to run.
func TestVersionsStayBounded(t *testing.T) {
	d := Dir{filepath.Join(t.TempDir(), "state")}
	if _, err := d.create(); err != nil {
		t.Fatal(err)
	}
	var all []string
	for n := range 2 * keepWorkers {
		version, err := d.AddWorker(executable(t, fmt.Sprint(n)))
		if err != nil {
			t.Fatal(err)
		}
		file, err := d.versionFile(version)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(int64(1000+n), 0)
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
		all = append(all, version)
	}
	v, err := d.versions()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.put(&door{cell: &member{plan: Plan{Cell: "eu-1"}}, shard: "s01"}, all[1]); err != nil {
		t.Fatal(err)
	}
	l := Plan{Cell: "eu-1", Worker: executable(t, "now")}.Alone()
	if err := d.addWorkers(&l); err != nil {
		t.Fatal(err)
	}
	if err := d.HasWorker(l.Cells[0].Version); err != nil {
		t.Error(err)
	}
	for n, version := range all {
		err := d.HasWorker(version)
		if want := n == 1 || n >= keepWorkers; want != (err == nil) {
			t.Errorf("version %d of %d: %v", n, len(all), err)
		} else if !want && !errors.Is(err, ErrNoVersion) {
			t.Errorf("version %d: %v, want %q", n, err, ErrNoVersion)
		}
	}
	if err := d.purge(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(d.String()); !os.IsNotExist(err) {
		t.Errorf("purged, and %v", err)
	}
}

// TestDrained: a process that is replaced ends what it has begun, and one that does not is killed.
func TestDrained(t *testing.T) {
	c, dir, _ := startChild(t, `trap 'sleep 0.3; echo done >> ended; exit 0' TERM; touch ready; while :; do sleep 0.01; done`)
	eventually(t, "it is ready", c.is(childReady))
	if err := c.drain(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "ended")); err != nil {
		t.Errorf("it did not end what it had begun: %v", err)
	}
	eventually(t, "another is ready", func() bool { return c.status().Starts == 2 && c.is(childReady)() })
	if at := c.lastCrash(); !at.IsZero() {
		t.Errorf("its end counts as a death, at %v", at)
	}

	c, _, _ = startChild(t, `trap '' TERM; touch ready; while :; do sleep 0.01; done`)
	eventually(t, "it is ready", c.is(childReady))
	if err := c.drain(t.Context(), 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another is ready", func() bool { return c.status().Starts == 2 && c.is(childReady)() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.drain(ctx, time.Second); !errors.Is(err, context.Canceled) {
		t.Errorf("whoever does not wait gets %v", err)
	}
}
