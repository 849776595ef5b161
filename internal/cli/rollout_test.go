package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
	"cellwall.dev/cellwall/internal/rollout/run/runtest"
	"cellwall.dev/cellwall/internal/rollout/show"
)

const newDigest, oldDigest = "sha256:new", "sha256:old"

// tower runs commands over rollouts that are kept in memory, and cells that are none.
type tower struct {
	*testing.T
	store    *runtest.Store
	world    *runtest.World
	spec     rollout.Spec
	requests atomic.Int64 // that each cell has served
	fires    sync.Map     // alarms by cell
	blind    atomic.Bool  // the gate has no data
	process  atomic.Int64
	clock    run.Clock
	look     *show.Look // of a terminal, if there is one
	refuses  error      // of hands
	planned  error      // of a plan
}

func newTower(t *testing.T) *tower {
	t.Helper()
	inFolder(t, directoryFleet)
	cell := func(name string) rollout.PlannedCell {
		return rollout.PlannedCell{Name: name, Stages: []rollout.PlannedStage{{Name: "core"}, {Name: "zone-a", Bake: rollout.Duration(time.Millisecond)}}}
	}
	o := &tower{T: t, store: runtest.NewStore(), clock: run.Wall{}}
	o.spec = rollout.Spec{Service: "orders", Digest: newDigest, Phase: rollout.Release, MinRequests: 100, Waves: []rollout.Wave{
		{Batches: [][]rollout.PlannedCell{{cell("eu-canary")}}}, {Batches: [][]rollout.PlannedCell{{cell("eu-1"), cell("us-1")}}}}}
	named := o.spec
	named.ID = "any"
	o.world = runtest.NewWorld(o.clock, named, oldDigest)
	o.requests.Store(1000)
	o.world.Sees = func(cell string, _, _ time.Time, _ []string) (rollout.Observation, error) {
		seen := rollout.Observation{Requests: o.requests.Load()}
		if alarm, is := o.fires.Load(cell); is {
			seen.Firing = []string{alarm.(string)}
		}
		if o.blind.Load() {
			seen.Missing = []string{"requests"}
		}
		return seen, nil
	}
	return o
}

// parts are those of one process.
func (o *tower) parts() rolloutParts {
	process := fmt.Sprintf("ann@test, process %d", o.process.Add(1))
	return rolloutParts{
		open: func(context.Context, *rolloutFlags) (*rolloutDesk, error) {
			return &rolloutDesk{service: "orders", store: o.store, by: "ann", holder: process, close: func() error { return nil }}, nil
		},
		plan: func(context.Context, *rolloutFlags, *rolloutDesk, *rolloutStartFlags) (rollout.Spec, error) {
			return o.spec, o.planned
		},
		hands: func(context.Context, *rolloutFlags, *rolloutDesk, rollout.State, rollout.EventKind) (*rolloutHands, error) {
			return &rolloutHands{stacks: o.world, gate: o.world, interval: 5 * time.Millisecond, close: func() error { return nil }}, o.refuses
		},
		clock: o.clock, poll: 5 * time.Millisecond, patience: 45 * time.Second,
	}
}

// begin runs a command as another process does.
func (o *tower) begin(ctx context.Context, args ...string) *begun {
	b := &begun{t: o.T, args: args, done: make(chan struct{})}
	to := &output{to: &b.out}
	a := &app{in: strings.NewReader(""), out: to, err: &b.errs, rollouts: o.parts(), terminal: func(io.Writer) (show.Look, bool) {
		if o.look != nil {
			return *o.look, true
		}
		return show.Look{}, false
	}}
	go func() {
		defer close(b.done)
		b.code = a.run(ctx, to, append([]string{"rollout"}, args...))
	}()
	return b
}

// begun is a command that runs.
type begun struct {
	t         *testing.T
	args      []string
	out, errs safeBuffer
	code      int
	done      chan struct{}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// patience bounds what a test waits for.
const testPatience = time.Minute

func (b *begun) wait() (code int, out, errs string) {
	b.t.Helper()
	select {
	case <-b.done:
	case <-time.After(testPatience):
		b.t.Fatalf("%v does not end:\n%s%s", b.args, b.out.String(), b.errs.String())
	}
	return b.code, b.out.String(), b.errs.String()
}

// run runs a command to its end.
func (o *tower) run(args ...string) (code int, out, errs string) {
	o.Helper()
	return o.begin(o.Context(), args...).wait()
}

// is runs a command that has to end with a status and say words.
func (o *tower) is(code int, words string, args ...string) (out string) {
	o.Helper()
	got, out, errs := o.run(args...)
	if got != code || !strings.Contains(out+errs, words) {
		o.Errorf("%v: status %d, stdout %q, stderr %q; want status %d and %q", args, got, out, errs, code, words)
	}
	return out
}

// until waits for something.
func (o *tower) until(what string, holds func() bool) {
	o.Helper()
	for end := time.Now().Add(testPatience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			o.Fatalf("it is never so that %s", what)
		}
	}
}

func (o *tower) state() rollout.State {
	r, _ := o.store.Latest(o.Context(), "orders")
	return r.State
}

func (o *tower) step(cell string) rollout.Step {
	for _, c := range o.state().Cells {
		if c.Name == cell {
			return c.Step
		}
	}
	return ""
}

var startAWS = []string{"start", "--app", "cdk.out", "--directory", "aws"}

func TestRolloutStart(t *testing.T) {
	o := newTower(t)
	o.is(ExitFound, "no such rollout", "status")
	o.is(ExitFound, "cellwall rollout start", "watch")
	code, out, errs := o.run(append(startAWS, "--summary", "sum.md")...)
	if code != ExitDone {
		t.Fatalf("status %d:\n%s%s", code, out, errs)
	}
	for _, want := range []string{"rollout " + o.state().Spec.ID + " begins: sha256:new, 3 cells in 2 waves\n", "wave 1, cell eu-canary: executing core\n",
		"wave 2, cell us-1: done\n", "the rollout is done\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
	for _, want := range []string{"of orders: sha256:new, 3 cells in 2 waves; the bakes take", "wave 1: eu-canary\n", "wave 2: eu-1, us-1\n"} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q is missing:\n%s", want, errs)
		}
	}
	for stage, digest := range o.world.Digests() {
		if digest != newDigest {
			t.Errorf("%s runs %s", stage, digest)
		}
	}
	if sum, err := os.ReadFile("sum.md"); err != nil || !strings.Contains(string(sum), "**done**") || !strings.Contains(string(sum), "| cells | 3 done |") {
		t.Errorf("%s, %v", sum, err)
	}
	if id := o.state().Spec.ID; !regexp.MustCompile(`^[0-9]{8}-[0-9]{6}-[0-9a-f]{6}$`).MatchString(id) {
		t.Errorf("its id is %q", id)
	}
	// Again: every stage is there, nothing is executed, and the summary is added to.
	before := len(o.world.Executed())
	o.is(ExitDone, "the rollout is done", append(startAWS, "--summary", "sum.md")...)
	if sum, _ := os.ReadFile("sum.md"); strings.Count(string(sum), "### Rollout") != 2 {
		t.Errorf("the summary is\n%s", sum)
	}
	if len(o.world.Executed()) != before {
		t.Errorf("the same digest was executed again")
	}
	if list := o.is(ExitDone, "", "history"); strings.Count(list, "\n") != 3 || strings.Count(list, "3 of 3") != 2 {
		t.Errorf("the list is\n%s", list)
	}
	o.is(ExitDone, "executing zone-a", "history", lines[rolloutLine](&office{t}, o.is(ExitDone, "", "history", "--json"))[1].Rollout)
	o.is(ExitDone, ": done after", "status")
	o.is(ExitDone, "the rollout is done", "watch")
	o.is(ExitUsage, "no such rollout", "status", "nosuch")
	o.is(ExitUsage, "cellwall rollout history", "history", "nosuch")
	o.is(ExitFound, ": the rollout is done", "pause")
	o.is(ExitFound, ": the rollout is done", "abort")
	o.is(ExitFound, "is done", "resume")
	o.is(ExitUsage, "want at least 1", "history", "--limit", "0")
}

func TestRolloutEventsAreJSON(t *testing.T) {
	o := newTower(t)
	out := o.is(ExitDone, "", append(startAWS, "--json")...)
	keys := map[string]string{"time": "string", "rollout": "string", "seq": "float64", "kind": "string", "status": "string", "cell": "string", "wave": "float64",
		"stage": "string", "step": "string", "by": "string", "why": "string", "digest": "string", "phase": "string", "cells": "float64", "waves": "float64", "despite": "[]interface {}"}
	kinds := map[string]int{}
	for _, e := range lines[map[string]any](&office{t}, out) {
		for key, value := range e {
			if keys[key] != fmt.Sprintf("%T", value) {
				t.Errorf("%s is %T in %v", key, value, e)
			}
		}
		for _, key := range []string{"time", "rollout", "seq", "kind", "status"} {
			if e[key] == nil {
				t.Errorf("%v has no %s", e, key)
			}
		}
		kinds[e["kind"].(string)]++
	}
	if kinds["begun"] != 1 || kinds["taken"] != 1 || kinds["status"] != 1 || kinds["cell"] < 3*8 {
		t.Errorf("%v", kinds)
	}
	// The journal tells the same as whoever drove.
	if again := o.is(ExitDone, "", "history", o.state().Spec.ID, "--json"); again != out {
		t.Errorf("history says\n%s\nand start said\n%s", again, out)
	}
	var r show.Report
	if err := json.Unmarshal([]byte(o.is(ExitDone, "", "status", "--json")), &r); err != nil || r.Status != rollout.IsDone || !r.Over || r.Done != 3 || len(r.Cells) != 3 || r.Holder == nil || r.Holder.Drives {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRolloutStartRefuses(t *testing.T) {
	o := newTower(t)
	for _, c := range []struct {
		code  int
		words string
		args  []string
	}{
		{ExitUsage, "error: what is to be rolled out? name one of --app and --worker\nhint: --app cdk.out --directory aws, or --worker FILE --directory local\n", []string{"start"}},
		{ExitUsage, "name one of --app and --worker", []string{"start", "--app", "a", "--worker", "b"}},
		{ExitUsage, "error: --app is for cells on AWS: --directory aws\n", []string{"start", "--app", "a"}},
		{ExitUsage, "error: --app is for cells on AWS: --directory aws\n", []string{"start", "--app", "a", "--directory", "d.db"}},
		{ExitUsage, "error: --worker is for the cells of this machine: --directory local\n", []string{"start", "--worker", "a", "--directory", "aws"}},
		{ExitUsage, "error: --despite without --because\n", append(startAWS, "--despite", "health")},
		{ExitUsage, "--because says why the alarms of --despite do not count, and none is named", append(startAWS, "--because", "x")},
		{ExitUsage, "--because is empty", append(startAWS, "--despite", "health", "--because", "")},
		{ExitUsage, "error: --despite without --because\n", []string{"resume", "--despite", "health"}},
		{ExitUsage, `--phase "big": it is release, expand, migrate or contract`, append(startAWS, "--phase", "big")},
		{ExitUsage, "error: --phase contract without --needs-old\n", append(startAWS, "--phase", "contract")},
		{ExitUsage, "--needs-old is asked of --phase contract only", append(startAWS, "--needs-old", "sha256:x")},
		{ExitFound, "error: the old form is still needed: it is not known what cell eu-canary runs; read it first\n", append(startAWS, "--phase", "contract", "--needs-old", "sha256:x")},
		{ExitUsage, "--summary . is a directory", append(startAWS, "--summary", ".")},
		{ExitUsage, "--summary fleet.yaml is the fleet's description", append(startAWS, "--summary", "fleet.yaml")},
		{ExitUsage, "--summary: open nosuch/sum.md", append(startAWS, "--summary", "nosuch/sum.md")},
		{ExitUsage, "accepts 0 arg(s)", append(startAWS, "more")},
		{ExitUsage, "accepts at most 1 arg(s)", []string{"status", "a", "b"}},
		{ExitUsage, "argument 1 is empty", []string{"watch", ""}},
	} {
		o.is(c.code, c.words, c.args...)
	}
	o.refuses = usagef("the credentials are of another account")
	o.is(ExitUsage, "error: the credentials are of another account\n", startAWS...)
	o.refuses, o.planned = nil, foundf("the audit has 1 finding at or above error")
	o.is(ExitFound, "error: the audit has 1 finding at or above error\n", startAWS...)
	o.planned = nil
	if o.store.Appended() != 0 || len(o.world.Executed()) != 0 {
		t.Errorf("%d records, %v", o.store.Appended(), o.world.Executed())
	}
}

// TestRolloutRefusesASecond has one rollout wait for requests while others are begun.
func TestRolloutRefusesASecond(t *testing.T) {
	o := newTower(t)
	o.requests.Store(0)
	ctx, cancel := context.WithCancelCause(t.Context())
	first := o.begin(ctx, startAWS...)
	o.until("the canary bakes", func() bool { return o.step("eu-canary") == rollout.Proving })
	id := o.state().Spec.ID
	o.is(ExitFound, "error: rollout "+id+" of orders is running: another can begin when it is over\nhint: go on with cellwall rollout resume "+id+" --directory aws, back with", startAWS...)
	cancel(Interrupted(2))
	code, _, errs := first.wait()
	if code != 130 || !strings.Contains(errs, "hint: rollout "+id+" stays as it is, and nobody drives it; go on with cellwall rollout resume "+id+" --directory aws, stop it with cellwall rollout abort "+id+" --directory aws\n") {
		t.Errorf("interrupted: status %d, %s", code, errs)
	}
	if l, _, _ := o.store.Holder(t.Context(), "orders"); !l.Until.IsZero() {
		t.Errorf("the lease is kept: %+v", l)
	}
	o.is(ExitFound, "is running: another can begin when it is over", startAWS...)
	o.is(ExitDone, ", nobody drives it", "status")
	o.requests.Store(1000)
	o.is(ExitDone, "the rollout is done", "resume", "--directory", "aws")

	// Somebody who holds the lease for another reason keeps a rollout from beginning.
	if _, err := o.store.Take(t.Context(), "orders", "eve@laptop", o.clock.Now(), time.Hour); err != nil {
		t.Fatal(err)
	}
	o.is(ExitFound, "error: another holder drives the rollouts of this service: eve@laptop, until 20", startAWS...)
	o.is(ExitFound, "hint: watch it with cellwall rollout watch --directory aws;", startAWS...)
}

// TestRolloutWishes has other processes pause, resume, and roll back what a first one drives.
func TestRolloutWishes(t *testing.T) {
	o := newTower(t)
	o.requests.Store(0)
	first := o.begin(t.Context(), startAWS...)
	o.until("the canary bakes", func() bool { return o.step("eu-canary") == rollout.Proving })
	id := o.state().Spec.ID
	watcher := o.begin(t.Context(), "watch", "--directory", "aws")
	jsonWatcher := o.begin(t.Context(), "watch", id, "--json")
	o.is(ExitDone, "rollout "+id+" is paused; driven by ann@test, process 1", "pause", "--because", "lunch", "--by", "bob")
	o.is(ExitDone, "is paused", "pause") // it is so already
	o.is(ExitFound, "another came after it", "pause", "20200101-000000-000000")
	o.requests.Store(1000)
	o.is(ExitDone, "why: paused by ann: lunch", "status")
	o.is(ExitDone, "rollout "+id+" is ", "resume", id)
	o.until("eu-1 is deployed", func() bool { return o.step("eu-1") != rollout.Waiting })
	if code, out, _ := first.wait(); code != ExitDone || !strings.Contains(out, "pause by ann: lunch\n") {
		t.Errorf("status %d, %s", code, out)
	}
	if code, out, errs := watcher.wait(); code != ExitDone || !strings.Contains(out, "pause by ann: lunch\n") || !strings.HasSuffix(out, "the rollout is done\n") {
		t.Errorf("status %d, %s%s", code, out, errs)
	}
	code, out, _ := jsonWatcher.wait()
	events := lines[show.Event](&office{t}, out)
	if last := events[len(events)-1]; code != ExitDone || last.Kind != show.Changed || last.Status != rollout.IsDone {
		t.Errorf("status %d, %+v", code, last)
	}
	// Done is not the last word.
	o.is(ExitFound, "error: rollout "+id+" is rolled-back: rolled back by ann: wrong prices\n", "rollback", "--because", "wrong prices")
	for stage, digest := range o.world.Digests() {
		if digest != oldDigest {
			t.Errorf("%s runs %s", stage, digest)
		}
	}
	o.is(ExitFound, "cannot roll back: the rollout is rolled-back", "rollback")
}

func TestRolloutRollbackOfOneThatIsDriven(t *testing.T) {
	o := newTower(t)
	o.requests.Store(0)
	first := o.begin(t.Context(), append(startAWS, "--summary", "sum.md")...)
	o.until("the canary bakes", func() bool { return o.step("eu-canary") == rollout.Proving })
	o.is(ExitDone, " is roll", "rollback", "--because", "no")
	code, _, errs := first.wait()
	if code != ExitFound || !strings.Contains(errs, "is rolled-back: rolled back by ann: no\nhint: cellwall rollout history") {
		t.Errorf("status %d, %s", code, errs)
	}
	if sum, _ := os.ReadFile("sum.md"); !strings.Contains(string(sum), "**rolled-back**") || !strings.Contains(string(sum), "**undone**") {
		t.Errorf("%s", sum)
	}
}

// TestRolloutHalts has an alarm fire in the second wave.
func TestRolloutHalts(t *testing.T) {
	o := newTower(t)
	o.world.Does = func(cell, _, _ string) runtest.Change {
		if cell == "us-1" {
			o.fires.Store("us-1", "s03/health")
		}
		return runtest.Works
	}
	code, out, errs := o.run(startAWS...)
	id := o.state().Spec.ID
	if code != ExitFound || !strings.Contains(errs, "error: rollout "+id+" is halted: cell us-1: s03/health fired\nhint: go back with cellwall rollout rollback "+id+" --directory aws, or leave it as it is with cellwall rollout abort "+id+" --directory aws\n") {
		t.Fatalf("status %d, %s%s", code, out, errs)
	}
	o.is(ExitFound, "is halted: cell us-1", "watch")
	o.is(ExitFound, "hint: go back with", startAWS...)
	o.is(ExitFound, "cannot resume: the rollout is halted", "resume")
	o.is(ExitDone, "is aborted; nobody drives it", "abort", "--because", "by hand")
	o.is(ExitFound, "is rolled-back", "rollback")
	if d := o.world.Digests(); d["eu-1/core"] != oldDigest || d["us-1/zone-a"] != oldDigest && d["us-1/zone-a"] != newDigest {
		t.Errorf("%v", d)
	}
}

// TestRolloutDespite pauses for an alarm that fired before, and goes on when somebody answers for it.
func TestRolloutDespite(t *testing.T) {
	o := newTower(t)
	o.fires.Store("eu-1", "health")
	first := o.begin(t.Context(), startAWS...)
	o.until("it is paused", func() bool { return o.state().Status == rollout.IsPaused })
	o.is(ExitDone, "health fires before the wave", "status")
	o.is(ExitDone, "; ", "resume", "--despite", "health", "--because", "ticket 123")
	if code, out, errs := first.wait(); code != ExitDone || !strings.Contains(out, "resume by ann: ticket 123; despite health, because ticket 123\n") {
		t.Errorf("status %d, %s%s", code, out, errs)
	}
}

// TestRolloutPausedIsResumedElsewhere interrupts a driver of a paused rollout, and has others go on.
func TestRolloutPausedIsResumedElsewhere(t *testing.T) {
	o := newTower(t)
	o.blind.Store(true)
	ctx, cancel := context.WithCancelCause(t.Context())
	first := o.begin(ctx, startAWS...)
	o.until("it is paused", func() bool { return o.state().Status == rollout.IsPaused })
	cancel(Interrupted(15))
	if code, _, errs := first.wait(); code != 143 || !strings.Contains(errs, "cellwall rollout resume") {
		t.Errorf("status %d, %s", code, errs)
	}
	o.is(ExitFound, "cannot pause: the rollout is paused", "pause")
	o.is(ExitDone, "next: go on with cellwall rollout resume", "status")
	o.blind.Store(false)
	o.refuses = usagef("no assembly of that digest is there")
	o.is(ExitUsage, "no assembly of that digest is there", "resume")
	o.refuses = nil
	o.is(ExitDone, "the rollout is done", "resume")
}

// TestRolloutTaken has a rollout of a process that was killed: its lease runs, and it says nothing.
func TestRolloutTaken(t *testing.T) {
	o := newTower(t)
	o.requests.Store(0)
	ctx, cancel := context.WithCancelCause(t.Context())
	first := o.begin(ctx, startAWS...)
	o.until("the canary bakes", func() bool { return o.step("eu-canary") == rollout.Proving })
	cancel(Interrupted(2))
	first.wait()
	o.is(ExitDone, "next: nobody drives it, and nothing of it is watched: go on with cellwall rollout resume", "status")
	watcher := o.begin(t.Context(), "watch")
	o.until("who watches is told that nobody drives", func() bool { return strings.Contains(watcher.errs.String(), "nobody drives the rollout\nhint: ") })
	if _, err := o.store.Take(t.Context(), "orders", "ann@dead", o.clock.Now(), time.Second); err != nil {
		t.Fatal(err)
	}
	o.requests.Store(1000)
	o.is(ExitDone, "the rollout is done", "resume")
	if code, _, errs := watcher.wait(); code != ExitDone {
		t.Errorf("status %d, %s", code, errs)
	}
}

// TestRolloutPicture draws over what it drew, in a terminal.
func TestRolloutPicture(t *testing.T) {
	o := newTower(t)
	o.look = &show.Look{Width: 80, Height: 24, Colour: true, UTF8: true}
	o.requests.Store(0)
	first := o.begin(t.Context(), startAWS...)
	o.until("the picture shows what is waited for", func() bool { return strings.Contains(first.out.String(), "0 of 100 requests: waits for more") })
	o.requests.Store(1000)
	code, out, errs := first.wait()
	if code != ExitDone || strings.Contains(errs, "executing") {
		t.Fatalf("status %d, %s%s", code, out, errs)
	}
	screen := played(out)
	if len(screen) > 24 || !strings.Contains(screen[0], ": done after") || !slices.ContainsFunc(screen, func(l string) bool { return strings.HasPrefix(l, "wave 2  ✓ eu-1") }) {
		t.Errorf("the screen is\n%s", strings.Join(screen, "\n"))
	}
}

// played is what a terminal shows that got the text: enough of one for what a screen does.
func played(text string) []string {
	var screen []string
	row, column := 0, 0
	for len(text) > 0 {
		if rest, is := strings.CutPrefix(text, "\x1b["); is {
			i := strings.IndexFunc(rest, func(r rune) bool { return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' })
			n := 0
			fmt.Sscan(rest[:i], &n)
			switch rest[i] {
			case 'A':
				row = max(0, row-n)
			case 'J':
				screen = screen[:min(row, len(screen))]
			}
			text = rest[i+1:]
			continue
		}
		r := []rune(text)[0]
		text = text[len(string(r)):]
		switch r {
		case '\r':
			column = 0
		case '\n':
			row, column = row+1, 0
		default:
			for len(screen) <= row {
				screen = append(screen, "")
			}
			line := []rune(screen[row])
			for len(line) <= column {
				line = append(line, ' ')
			}
			line[column] = r
			screen[row], column = string(line), column+1
		}
	}
	return screen
}
