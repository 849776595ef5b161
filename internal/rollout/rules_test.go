package rollout

import (
	"fmt"
	"slices"
	"time"
)

// edgeRule says what is wrong with a step, and "" when nothing is; nodeRule says it of a state.
type (
	edgeRule func(before, after *node, e Event, commands []Command) string
	nodeRule func(x *explorer, n *node) string
)

var edgeRules = map[string]edgeRule{
	"NothingAfterRed":     nothingAfterRed,
	"NoSkip":              noSkip,
	"OnlyTouched":         onlyTouched,
	"DoneIsProved":        doneIsProved,
	"Despite":             despite,
	"HaltedIsForGood":     haltedIsForGood,
	"MissingDataStopsAll": missingDataStopsAll,
	"PausedBeginsNothing": pausedBeginsNothing,
	"OneCommandAtATime":   oneCommandAtATime,
	"TakenIsReadAnew":     takenIsReadAnew,
}

var nodeRules map[string]nodeRule

func init() {
	nodeRules = map[string]nodeRule{"Resumed": resumed, "MayNoMore": mayNoMore, "NeverStuckSilently": neverStuckSilently}
}

func nothingAfterRed(_, after *node, _ Event, commands []Command) string {
	if !after.red {
		return ""
	}
	if after.forward() || after.s.Status == IsDone {
		return fmt.Sprintf("it is %s after red", after.s.Status)
	}
	for _, c := range commands {
		if c.Kind == Prepare || c.Kind == Execute {
			return fmt.Sprintf("%s of %s after red", c.Kind, c.Cell)
		}
	}
	return ""
}

func noSkip(_, after *node, _ Event, commands []Command) string {
	cells := after.s.Cells
	for _, c := range commands {
		if c.Kind != Execute && c.Kind != Prepare {
			continue
		}
		i := slices.IndexFunc(cells, func(o Cell) bool { return o.Name == c.Cell })
		at := cells[i]
		for _, o := range cells {
			if o.Wave < at.Wave && o.Step != Done {
				return fmt.Sprintf("%s of %s, while %s of an earlier wave is %s", c.Kind, c.Cell, o.Name, o.Step)
			}
			if o.Wave == at.Wave && o.Batch < at.Batch && o.Step != Done {
				return fmt.Sprintf("%s of %s, while %s of an earlier batch is %s", c.Kind, c.Cell, o.Name, o.Step)
			}
			if o.Wave == at.Wave && (o.Step == Waiting || o.Step == Looking) {
				return fmt.Sprintf("%s of %s, before it is known what fires in %s", c.Kind, c.Cell, o.Name)
			}
		}
		if at.Stage > 0 && !after.proved[i][at.Stage-1] {
			return fmt.Sprintf("%s of stage %d of %s, though the stage before is not proved", c.Kind, at.Stage, c.Cell)
		}
	}
	if after.s.Status == IsDone && slices.ContainsFunc(cells, func(c Cell) bool { return c.Step != Done }) {
		return "done, and a cell is not"
	}
	return ""
}

func onlyTouched(before, after *node, e Event, commands []Command) string {
	for i, c := range after.s.Cells {
		for j, s := range c.Stages {
			was := before.s.Cells[i].Stages[j]
			told := slices.ContainsFunc(commands, func(o Command) bool { return o.Kind == Execute && o.Cell == c.Name && o.Stage == s.Name })
			if told && (!s.Touched || !s.Read) || s.Touched && !was.Touched && !told {
				return fmt.Sprintf("%s/%s: executed and touched differ", c.Name, s.Name)
			}
			never := e.Kind == Executed && e.Untouched && e.Cell == c.Name && e.Stage == s.Name && before.told[i][j] == 1
			if was.Touched && !s.Touched && !never || was.Read && !s.Read || was.Touched && s.Previous != was.Previous {
				return fmt.Sprintf("%s/%s: what was before it is forgotten", c.Name, s.Name)
			}
			if never && s.Touched && !told {
				return fmt.Sprintf("%s/%s: it was never changed, and called so", c.Name, s.Name)
			}
			if s.Back && !was.Back {
				settled := e.Stack == Complete || e.Stack == RolledBack
				ok := e.Kind == Read && e.Cell == c.Name && e.Stage == s.Name && s.Touched
				if s.Previous == "" {
					ok = ok && (e.Stack == Absent) == !s.Stays && e.Stack != Stuck && e.Stack != Unknown && e.Stack != InProgress
				} else {
					ok = ok && settled && e.Digest == s.Previous && !s.Stays
				}
				if !ok {
					return fmt.Sprintf("%s/%s: called back and is not", c.Name, s.Name)
				}
			}
			if after.s.Status == IsRolledBack && s.Touched && !s.Back {
				return fmt.Sprintf("%s/%s: the rollout is rolled back, and it is not", c.Name, s.Name)
			}
		}
		if after.s.Status == IsRolledBack && before.s.Status != IsRolledBack && c.Step == Executing {
			return fmt.Sprintf("%s: the rollout is rolled back, and it is executing", c.Name)
		}
	}
	for _, o := range commands {
		if o.Kind != Restore {
			continue
		}
		c := after.cell(o.Cell)
		s := c.Stages[slices.IndexFunc(c.Stages, func(s Stage) bool { return s.Name == o.Stage })]
		if !s.Touched || o.Digest == "" || o.Digest != s.Previous || after.s.Status != IsRollingBack {
			return fmt.Sprintf("%+v, and that is not what was before", o)
		}
	}
	return ""
}

func doneIsProved(before, after *node, e Event, _ []Command) string {
	for i, c := range after.s.Cells {
		if c.Step != Done || before.s.Cells[i].Step == Done {
			continue
		}
		for j := range c.Stages {
			if !after.proved[i][j] {
				return fmt.Sprintf("%s is done, and stage %d is not proved", c.Name, j)
			}
		}
		since := before.s.Cells[i].Since
		if before.s.Cells[i].Step != Baking {
			return fmt.Sprintf("%s is done without its wave's bake", c.Name)
		}
		if e.Kind != Looked || e.Cell != c.Name || e.Observation == nil || len(e.Observation.Missing)+len(e.Observation.Fired) > 0 ||
			since.IsZero() || e.At.Sub(since) < time.Hour || e.Observation.Requests < 100 {
			return fmt.Sprintf("%s is done without a whole bake", c.Name)
		}
	}
	return ""
}

// despite: a cell in which an alarm fires is changed only when somebody excused it, and one that fires for the first time
// after the change halts, or pauses.
func despite(before, after *node, e Event, commands []Command) string {
	for _, o := range commands {
		if o.Kind != Prepare && o.Kind != Execute {
			continue
		}
		for _, a := range after.cell(o.Cell).Before {
			if !after.isExcused(a) {
				return fmt.Sprintf("%s of %s, in which %s fires that nobody excused", o.Kind, o.Cell, a)
			}
		}
	}
	if e.Kind != Looked || e.Observation == nil || !before.forward() {
		return ""
	}
	c := before.cell(e.Cell)
	for _, a := range slices.Concat(e.Observation.Firing, e.Observation.Fired) {
		excused := slices.Contains(c.Before, a) && before.isExcused(a)
		switch {
		case !c.watched() || excused:
		case before.blamed(c, a, *e.Observation) && after.forward():
			return fmt.Sprintf("%s fires in %s alone, and the rollout is %s", a, c.Name, after.s.Status)
		case slices.Contains(e.Observation.Elsewhere, a) && after.s.Status != IsPaused:
			return fmt.Sprintf("%s fires in %s and elsewhere, and the rollout is %s", a, c.Name, after.s.Status)
		}
	}
	return ""
}

func resumed(x *explorer, n *node) string {
	taken, _, err := x.after(n, Event{Kind: Taken, Fencing: 2, At: n.s.Updated, By: "heir"})
	if err != nil {
		return fmt.Sprintf("nobody can take it over: %v", err)
	}
	end := x.end(taken)
	switch {
	case n.forward() && end != IsDone:
		return fmt.Sprintf("taken over, all goes well, and it ends %q", end)
	case n.s.Status == IsRollingBack && end != IsRolledBack && !slices.ContainsFunc(n.s.Cells, func(c Cell) bool { return c.Step == UndoStuck }):
		return fmt.Sprintf("taken over, all goes well on the way back, and it ends %q", end)
	}
	return ""
}

func neverStuckSilently(_ *explorer, n *node) string {
	if n.s.Status.Over() || len(Due(n.s)) > 0 {
		return ""
	}
	awaited := slices.ContainsFunc(n.s.Cells, func(c Cell) bool { return c.Step == Executing || c.Step == Restoring })
	if n.s.Status == IsRunning || !awaited && n.s.Why == "" {
		return "nothing is due, nothing is awaited, and nobody is told"
	}
	return ""
}

// mayNoMore: what was told and has not begun is taken back by whatever stops the rollout.
func mayNoMore(_ *explorer, n *node) string {
	for _, c := range Due(n.s) {
		if n.s.Status != IsRunning && (c.Kind == Prepare || c.Kind == Execute) && May(n.s, c) || n.s.Status != IsRollingBack && c.Kind == Restore {
			return fmt.Sprintf("%s may begin while it is %s", c.Kind, n.s.Status)
		}
	}
	return ""
}

func haltedIsForGood(before, after *node, _ Event, _ []Command) string {
	if !before.forward() && (after.forward() || after.s.Status == IsDone && before.s.Status != IsDone) {
		return fmt.Sprintf("it goes on from %s", before.s.Status)
	}
	return ""
}

func missingDataStopsAll(_, after *node, e Event, commands []Command) string {
	if e.Kind == Looked && (e.Error != "" || len(e.Observation.Missing) > 0) && (after.s.Status == IsRunning || len(commands) > 1) {
		return fmt.Sprintf("data are missing, and it is %s", after.s.Status)
	}
	return ""
}

func pausedBeginsNothing(_, after *node, _ Event, commands []Command) string {
	for _, c := range commands {
		if after.s.Status == IsPaused && c.Kind != Look && c.Kind != AskRead {
			return fmt.Sprintf("%s while it is paused", c.Kind)
		}
		if after.s.Status.Over() {
			return fmt.Sprintf("%s while it is %s", c.Kind, after.s.Status)
		}
	}
	return ""
}

// takenIsReadAnew: who takes over waits for no answer to what another was told.
func takenIsReadAnew(_, after *node, e Event, commands []Command) string {
	if e.Kind != Taken {
		return ""
	}
	for _, c := range after.s.Cells {
		switch c.Step {
		case Preparing, Executing, Restoring:
			if !slices.ContainsFunc(commands, func(o Command) bool { return o.Cell == c.Name && o.Kind != Look && o.Kind != AskRead }) {
				return fmt.Sprintf("%s is %s, and the new holder was told nothing", c.Name, c.Step)
			}
		}
	}
	return ""
}

// oneCommandAtATime: of what changes a cell, nothing is due while another such thing was not answered.
func oneCommandAtATime(before, _ *node, e Event, commands []Command) string {
	for _, o := range commands {
		was := before.cell(o.Cell).Step
		if (o.Kind == Restore || o.Kind == Execute) && (was == Executing || was == Restoring) && e.Kind != Taken {
			return fmt.Sprintf("%s of %s, which was %s", o.Kind, o.Cell, was)
		}
	}
	return ""
}
