package rollout

import (
	"slices"
	"testing"
	"time"
)

// spoil changes what Next says, as an engine with a fault would.
type spoil func(before State, e Event, after *State, commands *[]Command)

// TestRulesCanFail spoils the engine in ways that each rule must find, so that no rule holds by never looking.
func TestRulesCanFail(t *testing.T) {
	steps := func(from, to Step) spoil {
		return func(_ State, _ Event, after *State, _ *[]Command) {
			for i := range after.Cells {
				if after.Cells[i].Step == from {
					after.Cells[i].Step = to
				}
			}
		}
	}
	statuses := func(from, to Status) spoil {
		return func(_ State, _ Event, after *State, _ *[]Command) {
			if after.Status == from {
				after.Status = to
			}
		}
	}
	stages := func(f func(c *Cell, s *Stage)) spoil {
		return func(_ State, _ Event, after *State, _ *[]Command) {
			for i := range after.Cells {
				for j := range after.Cells[i].Stages {
					f(&after.Cells[i], &after.Cells[i].Stages[j])
				}
			}
		}
	}
	adds := func(when func(State, Event, *State) bool, kind CommandKind, cell string) spoil {
		return func(before State, e Event, after *State, commands *[]Command) {
			if when(before, e, after) {
				*commands = append(*commands, Command{Kind: kind, Fencing: 1, Cell: cell, Stage: "s0", Digest: "new"})
			}
		}
	}
	kind := func(k EventKind) func(State, Event, *State) bool {
		return func(_ State, e Event, _ *State) bool { return e.Kind == k }
	}
	plan, two := shape{[][]int{{1}, {1}}, 1, false, true}, shape{[][]int{{1}}, 2, false, true}
	for _, m := range []struct {
		rule, what string
		shape      shape
		spoil      spoil
	}{
		{"NothingAfterRed", "a red gate only pauses", plan, statuses(IsHalted, IsPaused)},
		{"NothingAfterRed", "a skipped stack is a success", plan, func(before State, e Event, after *State, _ *[]Command) {
			if e.Kind == Read && e.Stack == Complete && after.Status == IsHalted {
				after.Status = before.Status
				after.Cells[0].Step = Proving
			}
		}},
		{"NothingAfterRed", "what is halted prepares", plan, adds(func(_ State, e Event, s *State) bool { return s.Status == IsHalted && e.Kind == Looked }, Prepare, "c1")},
		{"NoSkip", "the second wave does not wait", plan, adds(kind(Prepared), Execute, "c2")},
		{"NoSkip", "a stage does not wait for the one before", two, func(_ State, _ Event, after *State, _ *[]Command) {
			if c := &after.Cells[0]; c.Step == Settling && c.Stage == 0 {
				c.Step, c.Stage = Reading, 1
			}
		}},
		{"NoSkip", "done too early", plan, func(_ State, e Event, after *State, _ *[]Command) {
			if after.Cells[0].Step == Done {
				after.Status = IsDone
			}
		}},
		{"OnlyTouched", "executed and not noted", plan, stages(func(_ *Cell, s *Stage) { s.Touched = false })},
		{"OnlyTouched", "all of a halted rollout is called touched", plan, func(_ State, _ Event, after *State, _ *[]Command) {
			if after.Status == IsHalted {
				after.Cells[1].Stages[0].Touched = true
			}
		}},
		{"OnlyTouched", "what was before is forgotten", plan, stages(func(c *Cell, s *Stage) {
			if c.Step == Baking {
				s.Previous = "new"
			}
		})},
		{"OnlyTouched", "back without a look", plan, stages(func(c *Cell, s *Stage) { s.Back = s.Back || c.Step == UndoSettling })},
		{"OnlyTouched", "rolled back while it is executing", plan, func(_ State, _ Event, after *State, _ *[]Command) {
			if after.Status == IsRollingBack && after.Cells[0].Step == Executing {
				after.Status = IsRolledBack
			}
		}},
		{"OnlyTouched", "restores another digest", plan, func(_ State, _ Event, _ *State, commands *[]Command) {
			for i := range *commands {
				if (*commands)[i].Kind == Restore {
					(*commands)[i].Digest = "older"
				}
			}
		}},
		{"DoneIsProved", "it does not bake", plan, steps(Baking, Done)},
		{"DoneIsProved", "it does not count requests", plan, func(before State, e Event, after *State, _ *[]Command) {
			if c := before.Cells[0]; e.Kind == Looked && c.Step == Baking && e.Observation != nil && e.Observation.Requests == 99 && before.Status == IsRunning {
				after.Cells[0].Step = Done
			}
		}},
		{"DoneIsProved", "the stack is not read", plan, steps(Settling, Proving)},
		{"Despite", "nobody excuses what fires before", plan, steps(Looking, Seen)},
		{"Despite", "what fires elsewhere is ignored", plan, func(before State, e Event, after *State, _ *[]Command) {
			if e.Observation != nil && len(e.Observation.Elsewhere) > 0 {
				after.Status = before.Status
			}
		}},
		{"HaltedIsForGood", "a resume revives it", plan, func(before State, e Event, after *State, _ *[]Command) {
			if before.Status == IsHalted && e.Kind == Taken {
				after.Status = IsRunning
			}
		}},
		{"MissingDataStopsAll", "missing data is green", plan, func(before State, e Event, after *State, _ *[]Command) {
			if e.Kind == Looked && e.Error != "" {
				after.Status = before.Status
			}
		}},
		{"PausedBeginsNothing", "a pause comes too late", plan, func(before State, e Event, after *State, commands *[]Command) {
			if e.Kind == Pause {
				*commands = append(*commands, Command{Kind: Prepare, Fencing: 1, Cell: "c1", Stage: "s0"})
			}
		}},
		{"OneCommandAtATime", "rolled back while it executes", plan, func(before State, e Event, after *State, commands *[]Command) {
			if e.Kind == Rollback && before.Cells[0].Step == Executing && after.Status == IsRollingBack {
				*commands = append(*commands, Command{Kind: Restore, Fencing: 1, Cell: "c1", Stage: "s0", Digest: before.Cells[0].Stages[0].Previous})
			}
		}},
		{"Resumed", "who takes over forgets a bake", plan, func(_ State, e Event, after *State, _ *[]Command) {
			if e.Kind == Taken && after.Cells[0].Step == Baking {
				after.Cells[0].Step = Broken
			}
		}},
		{"TakenIsReadAnew", "what a dead holder was told is awaited", plan, func(before State, e Event, after *State, _ *[]Command) {
			if e.Kind == Taken && before.Cells[0].Step == Executing {
				after.Cells[0].Step = Executing
			}
		}},
		{"NeverStuckSilently", "it pauses without a reason and looks no more", plan, func(_ State, _ Event, after *State, _ *[]Command) {
			if after.Status == IsHalted {
				after.Why = ""
			}
		}},
	} {
		x := newExplorer(m.shape)
		x.edge, x.node = map[string]edgeRule{}, map[string]nodeRule{}
		if r := edgeRules[m.rule]; r != nil {
			x.edge[m.rule] = r
		} else {
			x.node[m.rule] = nodeRules[m.rule]
		}
		x.next = func(s State, e Event) (State, []Command, error) {
			after, commands, err := Next(s, e)
			if err == nil {
				m.spoil(s, e, &after, &commands)
			}
			return after, commands, err
		}
		if x.run(); x.fault == "" {
			t.Errorf("%s does not find that %s: %d states", m.rule, m.what, len(x.seen))
		}
	}
}

// TestMay: only what is awaited may begin, and only while it is wanted.
func TestMay(t *testing.T) {
	spec := shape{[][]int{{1}}, 1, false, false}.spec()
	told := play(t, spec, Event{Kind: Looked, Cell: "c1", Observation: &Observation{}},
		Event{Kind: Read, Cell: "c1", Stage: "s0", Stack: Complete, Digest: "old"}, Event{Kind: Prepared, Cell: "c1", Stage: "s0"})
	i := slices.IndexFunc(Due(told), func(c Command) bool { return c.Kind == Execute })
	execute := Due(told)[i]
	for _, test := range []struct {
		what string
		s    State
		ok   bool
	}{
		{"told", told, true},
		{"paused", more(t, told, Event{Kind: Pause}), false},
		{"resumed", more(t, told, Event{Kind: Pause}, Event{Kind: Resume}), true},
		{"aborted", more(t, told, Event{Kind: Abort}), false},
		{"rolled back", more(t, told, Event{Kind: Rollback}), false},
		{"red", more(t, told, Event{Kind: Looked, Cell: "c1", Observation: &Observation{Firing: []string{"x"}}}), false},
		{"no data", more(t, told, Event{Kind: Looked, Cell: "c1", Error: "throttled"}), false},
		{"taken", more(t, told, Event{Kind: Taken, Fencing: 2}), false},
		{"answered", more(t, told, Event{Kind: Executed, Cell: "c1", Stage: "s0"}), false},
	} {
		if May(test.s, execute) != test.ok {
			t.Errorf("%s: may is %t", test.what, !test.ok)
		}
	}
	back := more(t, told, Event{Kind: Executed, Cell: "c1", Stage: "s0"}, Event{Kind: Rollback}, Event{Kind: Read, Cell: "c1", Stage: "s0", Stack: Complete, Digest: "new"})
	restore := Due(back)[0]
	if restore.Kind != Restore || !May(back, restore) || May(more(t, back, Event{Kind: Abort}), restore) {
		t.Errorf("%+v may begin also when that is aborted, or never", restore)
	}
	other := restore
	other.Since = time.Unix(1, 0)
	if May(back, other) {
		t.Error("what is not due may begin")
	}
}
