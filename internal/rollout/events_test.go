package rollout

import (
	"slices"
	"time"
)

// possible is every event that may come next. Answers come also when nobody waits for them any more: those are refused.
func (n *node) possible(full bool) []Event {
	var events []Event
	at := n.s.Updated.Add(time.Second)
	add := func(e Event) {
		if e.At.IsZero() {
			e.At = at
		}
		if e.Fencing == 0 {
			e.Fencing = n.s.Fencing
		}
		events = append(events, e)
	}
	add(Event{Kind: Taken, Fencing: n.s.Fencing + 1, By: "other"})
	add(Event{Kind: Abort})
	add(Event{Kind: Rollback})
	switch n.s.Status {
	case IsRunning:
		add(Event{Kind: Pause})
	case IsPaused:
		add(Event{Kind: Resume})
	}
	if full && n.forward() && len(n.s.Despite) == 0 {
		add(Event{Kind: Resume, Despite: []Despite{{Alarm: "before", Because: "it is what the release repairs"}}})
	}
	for i := range n.s.Cells {
		n.answers(&n.s.Cells[i], full, add)
		n.looks(&n.s.Cells[i], full, at, add)
	}
	return events
}

func (n *node) answers(c *Cell, full bool, add func(Event)) {
	stage := c.Stages[c.Stage].Name
	kind := map[Step]EventKind{Preparing: Prepared, Executing: Executed, Restoring: Restored}[c.Step]
	switch c.Step {
	case Preparing, Executing, Restoring:
		add(Event{Kind: kind, Cell: c.Name, Stage: stage})
		if full || c.Step == Executing {
			add(Event{Kind: kind, Cell: c.Name, Stage: stage, Error: "it is paused", Untouched: true})
		}
		if c.Step == Preparing {
			add(Event{Kind: kind, Cell: c.Name, Stage: stage, Error: "denied"})
		}
	case Reading, Settling, UndoReading, UndoSettling:
		read := func(status StackStatus, digest string) {
			add(Event{Kind: Read, Cell: c.Name, Stage: stage, Stack: status, Digest: digest})
		}
		read(Complete, "old")
		read(Complete, "new")
		read(Unknown, "")
		if full {
			read(RolledBack, "old")
			read(Absent, "")
			read(InProgress, "new")
			read(Failed, "new")
			read(Stuck, "old")
			read(Complete, "")
		}
	}
}

func (n *node) looks(c *Cell, full bool, at time.Time, add func(Event)) {
	if !n.forward() || c.Step != Looking && c.Step != Seen && !c.watched() {
		return
	}
	look := func(at time.Time, o Observation) {
		add(Event{Kind: Looked, Cell: c.Name, At: at, Observation: &o})
	}
	baked := at
	if !c.Since.IsZero() {
		baked = c.Since.Add(time.Hour)
	}
	look(baked, Observation{Requests: 100})
	look(at, Observation{Firing: []string{"fire"}})
	look(at, Observation{Missing: []string{"health"}})
	if full {
		look(baked.Add(-1), Observation{Requests: 1000})
		look(baked, Observation{Requests: 99})
		look(at, Observation{Fired: []string{"fire"}})
		look(at, Observation{Firing: []string{"before"}})
		look(at, Observation{Firing: []string{"fire"}, Elsewhere: []string{"fire"}})
		add(Event{Kind: Looked, Cell: c.Name, Error: "throttled"})
	}
}

// well is the events of which one comes when all goes well; those that may change nothing are the last.
func (n *node) well() []Event {
	at := n.s.Updated.Add(time.Second)
	if n.s.Status == IsPaused {
		return []Event{{Kind: Resume, At: at, Fencing: n.s.Fencing, Despite: []Despite{{Alarm: "before", Because: "known"}, {Alarm: "fire", Because: "known"}}}}
	}
	var looks []Event
	for _, c := range Due(n.s) {
		cell := n.cell(c.Cell)
		e := Event{At: at, Fencing: n.s.Fencing, Cell: c.Cell, Stage: c.Stage}
		switch c.Kind {
		case Prepare:
			e.Kind = Prepared
		case Execute:
			e.Kind = Executed
		case Restore:
			e.Kind = Restored
		case AskRead:
			e.Kind, e.Stack, e.Digest = Read, Complete, "old"
			switch cell.Step {
			case Settling:
				e.Digest = "new"
			case UndoReading, UndoSettling:
				if e.Digest = cell.Stages[cell.Stage].Previous; e.Digest == "" {
					e.Stack = Absent
				}
			}
		case Look:
			e.Kind, e.Observation = Looked, &Observation{Requests: 100}
			if !cell.Since.IsZero() {
				e.At = cell.Since.Add(time.Hour)
			}
			looks = append(looks, e)
			continue
		}
		return []Event{e}
	}
	// What the holder was told is answered, also when it is not due any more.
	for _, c := range n.s.Cells {
		if c.Step == Executing {
			return []Event{{Kind: Executed, At: at, Fencing: n.s.Fencing, Cell: c.Name, Stage: c.Stages[c.Stage].Name}}
		}
	}
	return looks
}

func (n *node) cell(name string) *Cell {
	return &n.s.Cells[slices.IndexFunc(n.s.Cells, func(c Cell) bool { return c.Name == name })]
}

// isRed says, from the event and what was due alone, whether it shows that something went wrong.
func (n *node) isRed(e Event) bool {
	if !n.forward() || e.Cell == "" || e.Untouched {
		return false
	}
	c := n.cell(e.Cell)
	switch e.Kind {
	case Looked:
		return e.Observation != nil && c.watched() && slices.ContainsFunc(slices.Concat(e.Observation.Firing, e.Observation.Fired), func(a string) bool {
			return n.blamed(c, a, *e.Observation)
		})
	case Prepared:
		return e.Error != ""
	case Read:
		switch e.Stack {
		case Failed, Stuck, Unknown:
			return true
		case Complete:
			return c.Step == Settling && e.Digest != "new"
		case RolledBack, Absent:
			return c.Step == Settling || e.Stack == RolledBack && c.Stages[c.Stage].Touched
		}
	}
	return false
}

// blamed says that the alarm is this rollout's: it fires here and not elsewhere. One that was noted before is blamed only
// when it fires now, nobody has excused it, and somebody has resumed meanwhile.
func (n *node) blamed(c *Cell, alarm string, o Observation) bool {
	if slices.Contains(o.Elsewhere, alarm) {
		return false
	}
	if !slices.Contains(c.Before, alarm) {
		return true
	}
	return n.s.Status == IsRunning && slices.Contains(o.Firing, alarm) && !n.isExcused(alarm)
}

func (n *node) isExcused(alarm string) bool {
	return slices.ContainsFunc(n.s.Despite, func(d Despite) bool { return d.Alarm == alarm })
}
