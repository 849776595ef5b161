package rollout

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// cases are told by events: c1 is looked at and read, and so on until it executes.
func toExecuting(cell string) []Event {
	return append([]Event{{Kind: Looked, Cell: cell, Observation: &Observation{}}}, fromReading(cell)...)
}

func fromReading(cell string) []Event {
	return []Event{{Kind: Read, Cell: cell, Stage: "s0", Stack: Complete, Digest: "old"}, {Kind: Prepared, Cell: cell, Stage: "s0"}}
}

func toProving(cell string) []Event {
	return []Event{{Kind: Executed, Cell: cell, Stage: "s0"}, {Kind: Read, Cell: cell, Stage: "s0", Stack: Complete, Digest: "new"}}
}

func look(cell string, o Observation) Event { return Event{Kind: Looked, Cell: cell, Observation: &o} }

func one() Spec { return shape{[][]int{{1}}, 1, false, false}.spec() }

func expect(t *testing.T, s State, status Status, steps ...Step) {
	t.Helper()
	if s.Status != status {
		t.Errorf("it is %s (%s), not %s", s.Status, s.Why, status)
	}
	for i, step := range steps {
		if s.Cells[i].Step != step {
			t.Errorf("%s is %s, not %s", s.Cells[i].Name, s.Cells[i].Step, step)
		}
	}
}

// TestPausedWhileExecuting: what has begun ends and is watched; what has not begun is taken back, and told again by resume.
func TestPausedWhileExecuting(t *testing.T) {
	told := more(t, play(t, one(), toExecuting("c1")...), Event{Kind: Pause, By: "ann", Why: "lunch"})
	expect(t, told, IsPaused, Executing)
	if told.Why != "paused by ann: lunch" {
		t.Errorf("why: %s", told.Why)
	}
	begun := more(t, told, toProving("c1")...)
	expect(t, begun, IsPaused, Proving)
	expect(t, more(t, begun, look("c1", Observation{Firing: []string{"x"}})), IsHalted)
	not := more(t, told, Event{Kind: Executed, Cell: "c1", Stage: "s0", Error: "not begun", Untouched: true})
	expect(t, not, IsPaused, Looking)
	if c := not.Cells[0]; c.Stages[0].Touched || !c.From.IsZero() {
		t.Errorf("it was never changed: %+v", c)
	}
	expect(t, more(t, not, Event{Kind: Rollback}), IsRolledBack)
	again := more(t, not, append([]Event{{Kind: Resume}}, toExecuting("c1")...)...)
	expect(t, again, IsRunning, Executing)
	// One that an earlier holder was told to change may have been changed, whatever this one did.
	twice := more(t, again, Event{Kind: Taken, Fencing: 2})
	twice = more(t, twice, fromReading("c1")...)
	twice = more(t, twice, Event{Kind: Pause}, Event{Kind: Executed, Cell: "c1", Stage: "s0", Error: "not begun", Untouched: true})
	expect(t, twice, IsPaused, Reading)
	if !twice.Cells[0].Stages[0].Touched {
		t.Error("it is called as it was, and nobody knows")
	}
}

// TestRolledBackWhileExecuting: the way back begins when the way there has ended.
func TestRolledBackWhileExecuting(t *testing.T) {
	s := more(t, play(t, one(), toExecuting("c1")...), Event{Kind: Rollback})
	expect(t, s, IsRollingBack, Executing)
	if len(Due(s)) > 0 {
		t.Errorf("%+v is due before the answer", Due(s))
	}
	s = more(t, s, Event{Kind: Executed, Cell: "c1", Stage: "s0", Error: "cancelled"})
	expect(t, s, IsRollingBack, UndoReading)
	s = more(t, s, Event{Kind: Read, Cell: "c1", Stage: "s0", Stack: InProgress})
	expect(t, s, IsRollingBack, UndoReading)
	s = more(t, s, Event{Kind: Read, Cell: "c1", Stage: "s0", Stack: Failed, Digest: "new"})
	expect(t, s, IsRollingBack, Restoring)
	failed := more(t, s, Event{Kind: Restored, Cell: "c1", Stage: "s0", Error: "AccessDenied: KMS"}, Event{Kind: Read, Cell: "c1", Stage: "s0", Stack: Stuck, Digest: "old"})
	expect(t, failed, IsHalted, UndoStuck)
	if !strings.Contains(failed.Why, "continue-update-rollback") || !strings.Contains(failed.Why, "AccessDenied") {
		t.Errorf("no way out: %s", failed.Why)
	}
	// It is repaired by hand, and rolled back once more.
	s = more(t, failed, Event{Kind: Rollback}, Event{Kind: Read, Cell: "c1", Stage: "s0", Stack: RolledBack, Digest: "old"})
	expect(t, s, IsRolledBack, Undone)
}

// TestStuckWithoutPrevious: a stack that is new and stuck is named, not left.
func TestStuckWithoutPrevious(t *testing.T) {
	s := play(t, one(), look("c1", Observation{}), Event{Kind: Read, Cell: "c1", Stage: "s0", Stack: Absent}, Event{Kind: Prepared, Cell: "c1", Stage: "s0"})
	s = more(t, s, Event{Kind: Executed, Cell: "c1", Stage: "s0"}, Event{Kind: Rollback})
	expect(t, more(t, s, Event{Kind: Read, Cell: "c1", Stage: "s0", Stack: Stuck}), IsHalted, UndoStuck)
	s = more(t, s, Event{Kind: Read, Cell: "c1", Stage: "s0", Stack: Complete, Digest: "new"})
	expect(t, s, IsRolledBack, Stays)
}

// TestStacksAreNamed: what only a read finds is named as well as what a command says, whoever reads.
func TestStacksAreNamed(t *testing.T) {
	const which = "stack orders-c1-core in 1/eu-west-1 is UPDATE_ROLLBACK_FAILED"
	found := func(status StackStatus) Event {
		return Event{Kind: Read, Cell: "c1", Stage: "s0", Stack: status, Digest: "old", Why: which}
	}
	executing := play(t, one(), toExecuting("c1")...)
	for name, s := range map[string]State{
		"before its change":     more(t, play(t, one(), look("c1", Observation{})), found(Stuck)),
		"failed before that":    more(t, play(t, one(), look("c1", Observation{})), found(Failed)),
		"after it":              more(t, executing, Event{Kind: Executed, Cell: "c1", Stage: "s0"}, found(Stuck)),
		"failed":                more(t, executing, Event{Kind: Executed, Cell: "c1", Stage: "s0"}, found(Failed)),
		"by whoever takes over": more(t, executing, Event{Kind: Taken, Fencing: 2}, found(Stuck)),
		"went back meanwhile":   more(t, executing, Event{Kind: Taken, Fencing: 2}, found(RolledBack)),
		"on the way back":       more(t, executing, Event{Kind: Executed, Cell: "c1", Stage: "s0"}, Event{Kind: Rollback}, found(Stuck)),
		"not brought back": more(t, executing, Event{Kind: Executed, Cell: "c1", Stage: "s0"}, Event{Kind: Rollback},
			Event{Kind: Read, Cell: "c1", Stage: "s0", Stack: Complete, Digest: "new"}, Event{Kind: Restored, Cell: "c1", Stage: "s0"}, found(Failed)),
	} {
		if s.Status != IsHalted || !strings.Contains(s.Why, which) {
			t.Errorf("%s: it is %s: %s", name, s.Status, s.Why)
		}
	}
}

// TestFlapping: an alarm that fires here and elsewhere is waited for, whichever ends first; resumed before that, it is
// judged; named, it is ignored; and when it comes back later, it is this rollout's.
func TestFlapping(t *testing.T) {
	s := more(t, play(t, one(), toExecuting("c1")...), toProving("c1")...)
	storm := more(t, s, look("c1", Observation{Firing: []string{"x"}, Elsewhere: []string{"x"}}))
	expect(t, storm, IsPaused, Proving)
	here := more(t, storm, look("c1", Observation{Firing: []string{"x"}, Fired: []string{"x"}}))
	expect(t, here, IsPaused, Proving)
	expect(t, more(t, here, Event{Kind: Resume}, look("c1", Observation{Firing: []string{"x"}})), IsHalted)
	expect(t, more(t, storm, Event{Kind: Resume}, look("c1", Observation{Firing: []string{"x"}, Elsewhere: []string{"x"}})), IsPaused)
	named := more(t, here, Event{Kind: Resume, Despite: []Despite{{Alarm: "x", Because: "the provider is down"}}})
	expect(t, more(t, named, look("c1", Observation{Firing: []string{"x"}})), IsRunning)
	quiet := more(t, here, look("c1", Observation{Fired: []string{"x"}, Requests: 1000}))
	expect(t, quiet, IsPaused, Proving)
	c := quiet.Cells[0]
	if len(c.Before) > 0 || !c.From.Equal(quiet.Updated) || !c.Since.Equal(quiet.Updated) {
		t.Errorf("the storm is over, and %+v", c)
	}
	// Resume by itself begins nothing before that look.
	if doubtful := more(t, here, Event{Kind: Resume}); len(doubtful.Cells[0].Before) == 0 {
		t.Error("it is forgotten by resume")
	}
	s = more(t, quiet, Event{Kind: Resume}, look("c1", Observation{Fired: []string{"x"}}))
	expect(t, s, IsHalted)
}

// TestMinRequests: a bake ends with enough time and enough requests, and a hole makes it begin again.
func TestMinRequests(t *testing.T) {
	s := more(t, play(t, one(), toExecuting("c1")...), toProving("c1")...)
	since := s.Cells[0].Since
	at := func(d time.Duration, requests int64) Event {
		return Event{Kind: Looked, Cell: "c1", At: since.Add(d), Observation: &Observation{Requests: requests}}
	}
	expect(t, more(t, s, at(time.Hour-1, 5000)), IsRunning, Proving)
	expect(t, more(t, s, at(9*time.Hour, 99)), IsRunning, Proving)
	expect(t, more(t, s, at(time.Hour, 100)), IsRunning, Baking)
	hole := more(t, s, Event{Kind: Looked, Cell: "c1", At: since.Add(50 * time.Minute), Error: "throttled"})
	expect(t, hole, IsPaused, Proving)
	if more(t, hole, Event{Kind: Looked, Cell: "c1", At: since.Add(51 * time.Minute), Error: "throttled"}).Updated != hole.Updated {
		t.Error("each look without data is a change")
	}
	hole = more(t, hole, Event{Kind: Resume}, at(2*time.Hour, 5000))
	expect(t, hole, IsRunning, Proving)
	expect(t, more(t, hole, at(3*time.Hour-1, 5000)), IsRunning, Proving)
	expect(t, more(t, hole, at(3*time.Hour, 5000)), IsRunning, Baking)
	// A late look from before the deployment makes no bake longer, or shorter.
	old := more(t, s, Event{Kind: Looked, Cell: "c1", At: since.Add(-time.Minute), Observation: &Observation{Requests: 5000}})
	expect(t, old, IsRunning, Proving)
	if !old.Cells[0].Since.Equal(since) {
		t.Error("a late look moved the bake")
	}
}

// TestReadAnewAfterAPause: somebody else changes a stage after it was read, while the rollout rests or nobody drives it; the
// way back leads to what was there last.
func TestReadAnewAfterAPause(t *testing.T) {
	for name, rest := range map[string][]Event{
		"read, and paused":      {{Kind: Pause}, {Kind: Read, Cell: "c1", Stage: "s0", Stack: Complete, Digest: "old"}, {Kind: Resume}},
		"prepared, and paused":  {{Kind: Read, Cell: "c1", Stage: "s0", Stack: Complete, Digest: "old"}, {Kind: Pause}, {Kind: Prepared, Cell: "c1", Stage: "s0"}, {Kind: Resume}},
		"preparing, and killed": {{Kind: Read, Cell: "c1", Stage: "s0", Stack: Complete, Digest: "old"}, {Kind: Taken, Fencing: 2}},
		"read, and killed":      {{Kind: Pause}, {Kind: Read, Cell: "c1", Stage: "s0", Stack: Complete, Digest: "old"}, {Kind: Taken, Fencing: 2}, {Kind: Resume}},
	} {
		s := more(t, play(t, one(), look("c1", Observation{})), rest...)
		expect(t, s, IsRunning, Reading)
		s = more(t, s, Event{Kind: Read, Cell: "c1", Stage: "s0", Stack: Complete, Digest: "by hand"}, Event{Kind: Prepared, Cell: "c1", Stage: "s0"})
		expect(t, s, IsRunning, Executing)
		if p := s.Cells[0].Stages[0].Previous; p != "by hand" {
			t.Errorf("%s: the way back leads to %q", name, p)
		}
	}
}

// TestWentBackBefore: what a stage's rolled-back stacks were before its change is asked along with every read of it, so that
// only what went back afterwards is a failure; and it is what was read last before the change.
func TestWentBackBefore(t *testing.T) {
	ask := func(s State) string {
		for _, c := range Due(s) {
			if c.Kind == AskRead {
				return c.WentBack
			}
		}
		return "nothing is read"
	}
	back := func(by string) Event {
		return Event{Kind: Read, Cell: "c1", Stage: "s0", Stack: RolledBack, Digest: "old", WentBack: by}
	}
	told := more(t, play(t, one(), look("c1", Observation{}), back("a"), Event{Kind: Pause}, Event{Kind: Prepared, Cell: "c1", Stage: "s0"},
		Event{Kind: Resume}, back("b")), Event{Kind: Prepared, Cell: "c1", Stage: "s0"})
	expect(t, told, IsRunning, Executing)
	heir := more(t, told, Event{Kind: Taken, Fencing: 2})
	if expect(t, heir, IsRunning, Reading); ask(heir) != "b" {
		t.Errorf("%q is asked for", ask(heir))
	}
	// It was not begun: it is complete, with the old digest.
	again := more(t, heir, Event{Kind: Read, Cell: "c1", Stage: "s0", Stack: Complete, Digest: "old", WentBack: "b"}, Event{Kind: Prepared, Cell: "c1", Stage: "s0"})
	expect(t, again, IsRunning, Executing)
	if settling := more(t, again, Event{Kind: Executed, Cell: "c1", Stage: "s0"}); ask(settling) != "b" {
		t.Errorf("%q is asked for", ask(settling))
	}
	// It was, and failed.
	expect(t, more(t, heir, back("c")), IsHalted, Broken)
}

// TestLooksAreNoTransitions: however long a bake or a pause is, looks that say the same change nothing, and so nothing is
// journalled: quiet ones, too few requests, missing data, a storm, and what fires before the wave.
func TestLooksAreNoTransitions(t *testing.T) {
	spec := shape{[][]int{{3}}, 2, false, false}.spec()
	begun := play(t, spec, look("c1", Observation{}), look("c2", Observation{}), look("c3", Observation{}))
	for _, cell := range []string{"c1", "c2", "c3"} {
		begun = more(t, begun, fromReading(cell)...)
		begun = more(t, begun, toProving(cell)...)
	}
	for name, c := range map[string]struct {
		from State
		o    Observation
		most int // looks that change something
	}{
		"quiet":            {begun, Observation{Requests: 5}, 0},
		"missing":          {begun, Observation{Missing: []string{"requests"}}, 1},
		"storm":            {begun, Observation{Firing: []string{"fire"}, Fired: []string{"fire"}, Elsewhere: []string{"fire"}}, 1},
		"before the wave":  {play(t, spec), Observation{Firing: []string{"fire"}}, 1},
		"nothing is known": {play(t, spec), Observation{Missing: []string{"health"}}, 1},
	} {
		s, changes := c.from, 0
		for i := range 1000 {
			cell := s.Cells[i%3].Name
			after := more(t, s, look(cell, c.o))
			if !reflect.DeepEqual(after, s) {
				changes++
			}
			s = after
		}
		if most := 3*c.most + 1; changes > most || c.most == 0 && changes > 0 {
			t.Errorf("%s: %d of 1000 looks changed something", name, changes)
		}
	}
}

// TestHaltAmongSiblings: a cell halts the rollout while others of its batch are executing: these end, are read, and begin
// nothing more. With Revert they go back as soon as they have ended.
func TestHaltAmongSiblings(t *testing.T) {
	for _, revert := range []bool{false, true} {
		spec := shape{[][]int{{3}}, 2, revert, false}.spec()
		s := play(t, spec, look("c1", Observation{}), look("c2", Observation{}))
		s = more(t, s, toExecuting("c3")...)
		s = more(t, s, fromReading("c1")...)
		s = more(t, s, Event{Kind: Read, Cell: "c2", Stage: "s0", Stack: Complete, Digest: "old"})
		expect(t, s, IsRunning, Executing, Preparing, Executing)
		s = more(t, s, Event{Kind: Executed, Cell: "c3", Stage: "s0"}, Event{Kind: Read, Cell: "c3", Stage: "s0", Stack: RolledBack, Digest: "old"})
		if revert {
			expect(t, s, IsRollingBack, Executing, Preparing, UndoReading)
		} else {
			expect(t, s, IsHalted, Executing, Preparing, Broken)
		}
		s = more(t, s, Event{Kind: Prepared, Cell: "c2", Stage: "s0"}, Event{Kind: Executed, Cell: "c1", Stage: "s0"})
		if revert {
			expect(t, s, IsRollingBack, UndoReading, Ready, UndoReading)
			s = more(t, s, Event{Kind: Read, Cell: "c3", Stage: "s0", Stack: RolledBack, Digest: "old"},
				Event{Kind: Read, Cell: "c1", Stage: "s0", Stack: Complete, Digest: "new"},
				Event{Kind: Restored, Cell: "c1", Stage: "s0"}, Event{Kind: Read, Cell: "c1", Stage: "s0", Stack: Complete, Digest: "old"})
			expect(t, s, IsRolledBack, Undone, Ready, Undone)
			continue
		}
		s = more(t, s, Event{Kind: Read, Cell: "c1", Stage: "s0", Stack: Complete, Digest: "new"})
		expect(t, s, IsHalted, Proving, Ready, Broken)
		if len(Due(s)) > 0 {
			t.Errorf("%+v is due after a halt", Due(s))
		}
	}
}

// TestFiresWhileItWaits: an alarm that begins to fire in a cell whose turn has not come is not blamed on it.
func TestFiresWhileItWaits(t *testing.T) {
	spec := shape{[][]int{{1, 1}}, 1, false, false}.spec()
	s := play(t, spec, look("c2", Observation{}))
	s = more(t, s, toExecuting("c1")...)
	expect(t, s, IsRunning, Executing, Seen)
	s = more(t, s, look("c2", Observation{Firing: []string{"x"}}))
	expect(t, s, IsPaused, Executing, Looking)
	s = more(t, s, Event{Kind: Resume, Despite: []Despite{{Alarm: "x", Because: "known"}}}, look("c2", Observation{Firing: []string{"x"}}))
	expect(t, s, IsRunning, Executing, Seen)
}

// TestDespiteEitherWay: what is excused from the start and what is excused by resume is excused in the same way.
func TestDespiteEitherWay(t *testing.T) {
	excused := []Despite{{Alarm: "x", Because: "it is what this repairs", By: "ann"}}
	fires := look("c1", Observation{Firing: []string{"x"}})
	spec := one()
	spec.Despite = excused
	for name, s := range map[string]State{
		"from the start":   play(t, spec, fires),
		"while it runs":    play(t, one(), Event{Kind: Resume, Despite: excused}, fires),
		"when it is asked": play(t, one(), fires, Event{Kind: Resume, Despite: excused}, fires),
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, s, IsRunning, Reading)
			s = more(t, s, fromReading("c1")...)
			s = more(t, s, toProving("c1")...)
			expect(t, more(t, s, fires), IsRunning, Proving)
			expect(t, more(t, s, look("c1", Observation{Firing: []string{"x", "y"}})), IsHalted)
		})
	}
	expect(t, play(t, one(), fires), IsPaused, Looking)
	// An excuse is for what fires before: what was quiet then is judged.
	s := play(t, spec, toExecuting("c1")...)
	expect(t, more(t, s, fires), IsHalted)
	for _, bad := range [][]Despite{{{Alarm: "x"}}, {{Because: "why not"}}} {
		spec.Despite = bad
		if _, err := New(spec, begin); err == nil {
			t.Errorf("%+v is taken", bad)
		}
		if _, _, err := Next(play(t, one(), fires), Event{Kind: Resume, At: begin, Fencing: 1, Despite: bad}); err == nil {
			t.Errorf("%+v is taken by resume", bad)
		}
	}
}
