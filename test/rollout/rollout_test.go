package rollout

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/google/go-cmp/cmp"

	engine "cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/test/awsemu"
)

// By default leases of killed processes are given back, instead of waited for.
var long = flag.Bool("long", false, "wait for leases of killed processes to run out, and bake until requests were seen")

// TestRollout rolls a good version out, whose controller is killed in every phase, and a bad one, which is halted in the second
// wave and rolled back. Its parts build on each other and run in order.
func TestRollout(t *testing.T) {
	if testing.Short() {
		t.Skip("deploys a fleet and rolls it out, which takes minutes: left out by -short")
	}
	w := newWorld(t, "v1", "v2", "v3")
	w.runs(t, "v1", canary, second, third)
	w.templates(t, "v1", canary, second, third)
	part := func(name string, f func(*testing.T)) {
		if start := time.Now(); !t.Run(name, f) {
			t.FailNow()
		} else {
			t.Logf("%s took %.1f s", name, time.Since(start).Seconds())
		}
	}
	part("Refused", w.refused)
	part("GoodVersion", w.goodVersion)
	part("SameDigestAgain", w.sameDigestAgain)
	part("SilentCLI", w.silentCLI)
	part("StackFails", w.stackFails)
	part("Aborted", w.aborted)
	part("BadVersion", w.badVersion)
	if *long {
		part("Requests", w.requests)
	}
	part("Stuck", w.stuck)
}

// goodVersion goes through all waves, though whoever drives is killed while he prepares, executes, waits for the stacks, and
// watches. Meanwhile another rollout is refused.
func (w *world) goodVersion(t *testing.T) {
	held := w.shardStack(t, canary, "s01")
	before := map[string]map[string]int{}
	for _, c := range w.fleet.Cells {
		before[c.Name] = w.events(t, c.Name)
	}
	w.aws.Obstruct(t, held, awsemu.Hold)
	p := w.begin(t, "start", "--app", w.assemblies["v2"], "--before", w.assemblies["v1"])
	id := p.steps(t, canary, "zone-a", engine.Preparing).Spec.ID
	w.begin(t, "start", "--app", w.assemblies["v2"]).ends(t, 3, id)
	p.kill(t)
	w.begin(t, "start", "--app", w.assemblies["v2"]).ends(t, 3, id, "resume")

	p = w.begin(t, "resume")
	p.steps(t, canary, "zone-a", engine.Executing)
	w.stackIs(t, canary, held, "UPDATE_IN_PROGRESS")
	p.kill(t)
	p = w.begin(t, "resume")
	p.steps(t, canary, "zone-a", engine.Reading) // until the stack has settled
	p.kill(t)
	w.aws.Obstruct(t, held)
	w.stackIs(t, canary, held, "UPDATE_COMPLETE")
	p = w.begin(t, "resume")
	p.steps(t, canary, "", engine.Proving, engine.Baking)
	p.kill(t)

	p = w.begin(t, "resume")
	p.ends(t, 0)
	s := w.state(t)
	if s.Spec.ID != id || s.Status != engine.IsDone {
		t.Errorf("rollout %s is %s", s.Spec.ID, s.Status)
	}
	if all := p.events(t); len(all) == 0 || all[len(all)-1].Status != string(engine.IsDone) {
		t.Errorf("the last process told %+v", all)
	}
	w.runs(t, "v2", canary, second, third)
	w.templates(t, "v2", canary, second, third)
	for _, c := range w.fleet.Cells {
		n, now := w.fleet.NamesOf(c), w.events(t, c.Name)
		for stack, count := range before[c.Name] {
			if same := stack == n.Stack() || stack == n.WatchStack(); same != (now[stack] == count) {
				t.Errorf("stack %s has %d events after %d: only shards were changed", stack, now[stack], count)
			}
		}
	}
}

// sameDigestAgain has no effect.
func (w *world) sameDigestAgain(t *testing.T) {
	before := w.allEvents(t)
	w.begin(t, w.quickly(t, "start", "--app", w.assemblies["v2"])...).ends(t, 0)
	if diff := cmp.Diff(before, w.allEvents(t)); diff != "" {
		t.Errorf("stacks had events (-before +after):\n%s", diff)
	}
}

// silentCLI is a command line of the CDK that does nothing and says that all is well.
func (w *world) silentCLI(t *testing.T) {
	before := w.allEvents(t)
	silent := filepath.Join(t.TempDir(), "cdk")
	if err := os.WriteFile(silent, []byte("#!/bin/sh\necho 'orders-eu-canary-shard-s01 (no changes)'\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	p := w.begin(t, "start", "--app", w.assemblies["v3"], "--cdk", silent)
	p.ends(t, 3, w.shardStack(t, canary, "s01"))
	if s := w.state(t); s.Status != engine.IsHalted {
		t.Errorf("the rollout is %s", s.Status)
	}
	w.begin(t, "abort").ends(t, 0)
	if s := w.state(t); s.Status != engine.IsAborted {
		t.Errorf("the rollout is %s", s.Status)
	}
	if diff := cmp.Diff(before, w.allEvents(t)); diff != "" {
		t.Errorf("stacks had events (-before +after):\n%s", diff)
	}
}

// stackFails: the change sets are there and are executed, and a stack of the stage fails.
func (w *world) stackFails(t *testing.T) {
	stack := w.shardStack(t, canary, "s02")
	w.aws.Obstruct(t, stack, awsemu.Fail)
	p := w.begin(t, w.quickly(t, "start", "--app", w.assemblies["v3"], "--revert")...)
	p.until(t, "it is rolled back", func(s engine.State) bool { return s.Status == engine.IsRolledBack })
	p.ends(t, 3, stack)
	w.aws.Obstruct(t, stack)
	w.runs(t, "v2", canary, second, third)
	w.templates(t, "v2", canary, second, third)
}

// aborted: another process stops a rollout whose stack is in progress, and a third brings the stack back.
func (w *world) aborted(t *testing.T) {
	held := w.shardStack(t, canary, "s01")
	w.aws.Obstruct(t, held, awsemu.Hold)
	p := w.begin(t, "start", "--app", w.assemblies["v3"])
	p.steps(t, canary, "zone-a", engine.Executing)
	w.stackIs(t, canary, held, "UPDATE_IN_PROGRESS")
	w.begin(t, "abort").ends(t, 0)
	p.until(t, "it is aborted", func(s engine.State) bool { return s.Status == engine.IsAborted })
	w.aws.Obstruct(t, held)
	p.ends(t, 3, string(engine.IsAborted))
	w.begin(t, "rollback").ends(t, 3, string(engine.IsRolledBack))
	w.runs(t, "v2", canary, second, third)
	w.templates(t, "v2", canary, second, third)
}

// badVersion rings an alarm in the second wave, which ends before anybody is asked. It is halted, and rolled back by a process
// that is killed, and by the next.
func (w *world) badVersion(t *testing.T) {
	untouched := w.events(t, third)
	p := w.begin(t, "start", "--app", w.assemblies["v3"])
	p.steps(t, second, "zone-a", engine.Proving)
	w.ring(t, second, "s01/errors", cwtypes.StateValueAlarm)
	w.ring(t, second, "s01/errors", cwtypes.StateValueOk)
	p.ends(t, 3, "health", second)
	s := w.state(t)
	if s.Status != engine.IsHalted || cellOf(s, third).Step != engine.Waiting {
		t.Errorf("the rollout is %s, and %s is %s", s.Status, third, cellOf(s, third).Step)
	}
	w.runs(t, "v3", canary)
	w.begin(t, "resume").ends(t, 3)

	w.begin(t, "rollback", "--assemblies", t.TempDir()).ends(t, 3, "no assembly of that digest")
	held := w.shardStack(t, canary, "s02")
	w.aws.Obstruct(t, held, awsemu.Hold)
	p = w.begin(t, "rollback")
	w.stackIs(t, canary, held, "UPDATE_IN_PROGRESS")
	p.kill(t)
	w.aws.Obstruct(t, held)
	p = w.begin(t, "resume")
	p.ends(t, 3, string(engine.IsRolledBack))
	w.runs(t, "v2", canary, second, third)
	w.templates(t, "v2", canary, second, third)
	if diff := cmp.Diff(untouched, w.events(t, third)); diff != "" {
		t.Errorf("stacks of %s had events (-before +after):\n%s", third, diff)
	}
}

// requests: no bake ends before routers have told of enough requests, which takes whole minutes.
func (w *world) requests(t *testing.T) {
	w.busy(t)
	p := w.begin(t, "start", "--app", w.assemblies["v3"], "--cdk", w.cdk, "--fleet", w.editedFleet(t, "minRequests: 0", "minRequests: 20"))
	p.steps(t, canary, "zone-a", engine.Proving)
	since := cellOf(w.state(t), canary).Since
	p.steps(t, canary, "zone-b", engine.Reading, engine.Preparing)
	if baked := w.state(t).Updated.Sub(since); baked < time.Minute {
		t.Errorf("the bake has ended after %v", baked)
	}
	w.begin(t, "abort").ends(t, 0)
	p.ends(t, 3, string(engine.IsAborted))
	w.begin(t, "rollback").ends(t, 3, string(engine.IsRolledBack))
	w.runs(t, "v2", canary, second, third)
}

// stuck: what CloudFormation cannot roll back is named, with the way out. The fleet is of no use afterwards.
func (w *world) stuck(t *testing.T) {
	w.aws.Obstruct(t, w.shardStack(t, canary, "s01"), awsemu.Fail, awsemu.Stuck)
	w.begin(t, "start", "--app", w.assemblies["v3"]).ends(t, 3, w.shardStack(t, canary, "s01"), "UPDATE_ROLLBACK_FAILED", "continue-update-rollback")
	w.begin(t, "rollback").ends(t, 3, "UPDATE_ROLLBACK_FAILED", "continue-update-rollback")
	if s := w.state(t); s.Status != engine.IsHalted || cellOf(s, canary).Step != engine.UndoStuck {
		t.Errorf("the rollout is %s, and %s is %s", s.Status, canary, cellOf(s, canary).Step)
	}
}

// quickly are the arguments of a rollout whose bakes are one look.
func (w *world) quickly(t *testing.T, args ...string) []string {
	return append(args, "--cdk", w.cdk, "--fleet", w.editedFleet(t, "bake: 3s", "bake: 0s"))
}
