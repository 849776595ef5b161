package rollout

import (
	"slices"
	"testing"
	"time"
)

// rule is one guarantee over one step of the exploration.
type rule func(x *explorer, before, after node, e Event, commands []Command)

// rules are the guarantees that the exploration holds. Test, the whole space at once, asks all of them at each step, so
// that the space is gone through once.
var rules = map[string]rule{
	"NothingAfterRed":     nothingAfterRed,
	"NoSkip":              noSkip,
	"OnlyTouched":         onlyTouched,
	"DoneIsProved":        doneIsProved,
	"Resumed":             resumed,
	"NeverStuckSilently":  neverStuckSilently,
	"ExcusedByNameAlone":  excusedByNameAlone,
	"HaltedIsForGood":     haltedIsForGood,
	"MissingDataStopsAll": missingDataStopsAll,
	"EndsAreReached":      nil, // counted below
	"PausedBeginsNothing": pausedBeginsNothing,
	"OneCommandAtATime":   oneCommandAtATime,
}

// TestGuarantees goes through every order of events for every shape, and asks each rule at each step.
func TestGuarantees(t *testing.T) {
	nodes, edges := 0, 0
	reached := make(map[Status]int)
	for _, sh := range shapes() {
		x := &explorer{t: t, shape: sh, check: func(x *explorer, before, after node, e Event, commands []Command) {
			reached[after.s.Status]++
			for name, r := range rules {
				if r == nil {
					continue
				}
				r(x, before, after, e, commands)
				if t.Failed() {
					t.Fatalf("%s, shape %v\nbefore %+v\nevent  %+v\nafter  %+v\ndue    %+v", name, sh, before.s, e, after.s, commands)
				}
			}
		}}
		begun := time.Now()
		x.run()
		nodes, edges = nodes+len(x.seen), edges+x.edges
		t.Logf("%v: %d states, %d steps, %v", sh, len(x.seen), x.edges, time.Since(begun).Round(time.Millisecond))
	}
	t.Logf("%d states, %d steps", nodes, edges)
	for _, s := range statuses {
		if reached[s] == 0 {
			t.Errorf("no order of events leads to %s", s)
		}
	}
}

func nothingAfterRed(x *explorer, before, after node, e Event, commands []Command) {
	if !after.red {
		return
	}
	if after.forward() || after.s.Status == IsDone {
		x.t.Errorf("it is %s after red", after.s.Status)
	}
	for _, c := range commands {
		if c.Kind == Prepare || c.Kind == Execute {
			x.t.Errorf("%s of %s after red", c.Kind, c.Cell)
		}
	}
}

func noSkip(x *explorer, before, after node, e Event, commands []Command) {
	cells := after.s.Cells
	for _, c := range commands {
		if c.Kind != Execute && c.Kind != Prepare {
			continue
		}
		at := cells[slices.IndexFunc(cells, func(o Cell) bool { return o.Name == c.Cell })]
		for _, o := range cells {
			if o.Wave < at.Wave && o.Step != Done {
				x.t.Errorf("%s of %s, while %s of an earlier wave is %s", c.Kind, c.Cell, o.Name, o.Step)
			}
			if o.Wave == at.Wave && o.Batch < at.Batch && o.Step != Done && o.Step != Baking {
				x.t.Errorf("%s of %s, while %s of an earlier batch is %s", c.Kind, c.Cell, o.Name, o.Step)
			}
			if o.Wave == at.Wave && (o.Step == Waiting || o.Step == Looking) {
				x.t.Errorf("%s of %s, before it is known what fires in %s", c.Kind, c.Cell, o.Name)
			}
		}
		if at.Stage > 0 && !after.proved[slices.IndexFunc(cells, func(o Cell) bool { return o.Name == c.Cell })][at.Stage-1] {
			x.t.Errorf("%s of stage %d of %s, though the stage before is not proved", c.Kind, at.Stage, c.Cell)
		}
	}
	if after.s.Status == IsDone && slices.ContainsFunc(cells, func(c Cell) bool { return c.Step != Done }) {
		x.t.Error("done, and a cell is not")
	}
}

func onlyTouched(x *explorer, before, after node, e Event, commands []Command) {
	for i, c := range after.s.Cells {
		for j, s := range c.Stages {
			was := before.s.Cells[i].Stages[j]
			told := slices.ContainsFunc(commands, func(o Command) bool { return o.Kind == Execute && o.Cell == c.Name && o.Stage == s.Name })
			if told && (!s.Touched || !s.Read) || s.Touched && !was.Touched && !told {
				x.t.Errorf("%s/%s: executed and touched differ", c.Name, s.Name)
			}
			if was.Touched && (!s.Touched || s.Previous != was.Previous) {
				x.t.Errorf("%s/%s: what was before it is forgotten", c.Name, s.Name)
			}
			if s.Back && !was.Back {
				settled := e.Stack == Complete || e.Stack == RolledBack
				ok := e.Kind == Read && e.Cell == c.Name && e.Stage == s.Name && s.Touched
				if s.Previous == "" {
					ok = ok && (e.Stack == Absent) == !s.Stays
				} else {
					ok = ok && settled && e.Digest == s.Previous && !s.Stays
				}
				if !ok {
					x.t.Errorf("%s/%s: called back and is not", c.Name, s.Name)
				}
			}
			if after.s.Status == IsRolledBack && s.Touched && !s.Back {
				x.t.Errorf("%s/%s: the rollout is rolled back, and it is not", c.Name, s.Name)
			}
		}
	}
	for _, o := range commands {
		if o.Kind != Restore {
			continue
		}
		c := after.s.Cells[slices.IndexFunc(after.s.Cells, func(c Cell) bool { return c.Name == o.Cell })]
		s := c.Stages[slices.IndexFunc(c.Stages, func(s Stage) bool { return s.Name == o.Stage })]
		if !s.Touched || o.Digest == "" || o.Digest != s.Previous || after.s.Status != IsRollingBack {
			x.t.Errorf("%+v, and that is not what was before", o)
		}
	}
}

func doneIsProved(x *explorer, before, after node, e Event, _ []Command) {
	for i, c := range after.s.Cells {
		if c.Step != Done || before.s.Cells[i].Step == Done {
			continue
		}
		for j := range c.Stages {
			if !after.proved[i][j] {
				x.t.Errorf("%s is done, and stage %d is not proved", c.Name, j)
			}
		}
		since := before.s.Cells[i].Since
		if e.Kind != Looked || e.Cell != c.Name || e.Observation == nil || len(e.Observation.Missing)+len(e.Observation.Fired) > 0 ||
			e.At.Sub(since) < time.Hour || e.Observation.Requests < 100 {
			x.t.Errorf("%s is done without a whole bake", c.Name)
		}
	}
}

func resumed(x *explorer, before, after node, e Event, _ []Command) {
	taken, _, err := x.after(after, Event{Kind: Taken, Fencing: 2, At: after.s.Updated, By: "heir"})
	if err != nil {
		x.t.Errorf("nobody can take it over: %v", err)
		return
	}
	end := x.end(taken)
	switch {
	case after.forward() && end != IsDone:
		x.t.Errorf("taken over, all goes well, and it ends %s", end)
	case after.s.Status == IsRollingBack && end != IsRolledBack:
		x.t.Errorf("taken over, all goes well on the way back, and it ends %s", end)
	}
}

func neverStuckSilently(x *explorer, _, after node, _ Event, _ []Command) {
	if after.s.Status.Over() || len(Due(after.s)) > 0 {
		return
	}
	awaited := slices.ContainsFunc(after.s.Cells, func(c Cell) bool { return c.Step == Executing || c.Step == Restoring })
	if after.s.Status == IsRunning || !awaited && after.s.Why == "" {
		x.t.Error("nothing is due, nothing is awaited, and nobody is told")
	}
}

// excusedByNameAlone: a cell in which the alarm "before" fires is changed only when somebody excused it.
func excusedByNameAlone(x *explorer, _, after node, _ Event, commands []Command) {
	for _, o := range commands {
		c := after.s.Cells[slices.IndexFunc(after.s.Cells, func(c Cell) bool { return c.Name == o.Cell })]
		if (o.Kind == Prepare || o.Kind == Execute) && !c.touched() && slices.Contains(c.Before, "before") && len(after.s.Despite) == 0 {
			x.t.Errorf("%s of %s, in which an alarm fires that nobody excused", o.Kind, o.Cell)
		}
	}
}

func haltedIsForGood(x *explorer, before, after node, _ Event, _ []Command) {
	if !before.forward() && (after.forward() || after.s.Status == IsDone && before.s.Status != IsDone) {
		x.t.Errorf("it goes on from %s", before.s.Status)
	}
}

func missingDataStopsAll(x *explorer, _, after node, e Event, commands []Command) {
	if e.Kind == Looked && (e.Error != "" || len(e.Observation.Missing) > 0) && (after.s.Status == IsRunning || len(commands) > 1) {
		x.t.Errorf("data are missing, and it is %s", after.s.Status)
	}
}

func pausedBeginsNothing(x *explorer, _, after node, _ Event, commands []Command) {
	for _, c := range commands {
		if after.s.Status == IsPaused && c.Kind != Look && c.Kind != AskRead {
			x.t.Errorf("%s while it is paused", c.Kind)
		}
		if after.s.Status == IsAborted || after.s.Status == IsDone || after.s.Status == IsRolledBack {
			x.t.Errorf("%s while it is %s", c.Kind, after.s.Status)
		}
	}
}

// oneCommandAtATime: of what changes a cell, nothing is due while another such thing was not answered.
func oneCommandAtATime(x *explorer, before, after node, e Event, commands []Command) {
	for _, o := range commands {
		i := slices.IndexFunc(before.s.Cells, func(c Cell) bool { return c.Name == o.Cell })
		was := before.s.Cells[i].Step
		if (o.Kind == Restore || o.Kind == Execute) && (was == Executing || was == Restoring) && e.Kind != Taken {
			x.t.Errorf("%s of %s, which was %s", o.Kind, o.Cell, was)
		}
	}
}
