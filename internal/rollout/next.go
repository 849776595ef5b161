package rollout

import (
	"fmt"
	"slices"
)

// Next is the state after an event, and what is due in it that was not due before. It changes neither argument.
// On any error the state is the given one and nothing is due: ErrFenced, ErrUnexpected, ErrInvalid.
// s must come from New, Next or Decode.
func Next(s State, e Event) (State, []Command, error) {
	if e.Kind == Taken {
		if e.Fencing <= s.Fencing {
			return s, nil, fmt.Errorf("%w: fencing number %d was given out already, the latest is %d", ErrFenced, e.Fencing, s.Fencing)
		}
	} else if e.Fencing != s.Fencing || s.Fencing == 0 {
		return s, nil, fmt.Errorf("%w: the event has fencing number %d, the latest is %d", ErrFenced, e.Fencing, s.Fencing)
	}
	if e.At.IsZero() {
		return s, nil, fmt.Errorf("%w: the event %s has no time", ErrInvalid, e.Kind)
	}
	n := next{State: s.clone(), e: e}
	if err := n.take(); err != nil {
		return s, nil, err
	}
	if n.changed {
		n.Updated = e.At
	}
	var fresh []Command
	var was, is [2]Command
	for i := range n.Cells {
		before := s.due(was[:0], &s.Cells[i])
		for _, c := range n.due(is[:0], &n.Cells[i]) {
			if !slices.ContainsFunc(before, c.same) && !s.told(&s.Cells[i], c) {
				fresh = append(fresh, c)
			}
		}
	}
	return n.State, fresh, nil
}

// told says that the holder was given the command already and has not answered it: an abort takes it off what is due,
// and a rollback after that asks for the same again.
func (s *State) told(c *Cell, o Command) bool {
	return o.Kind == Restore && c.Step == Restoring && o.Fencing == s.Fencing && o.Stage == c.Stages[c.Stage].Name
}

// next is a state on its way.
type next struct {
	State
	e       Event
	changed bool
}

func (n *next) take() error {
	switch n.e.Kind {
	case Taken, Pause, Resume, Abort, Rollback:
		if err := n.wish(); err != nil {
			return err
		}
	case Looked, Read, Prepared, Executed, Restored:
		i := slices.IndexFunc(n.Cells, func(c Cell) bool { return c.Name == n.e.Cell })
		if i < 0 {
			return fmt.Errorf("%w: there is no cell %q in it", ErrUnexpected, n.e.Cell)
		}
		if err := n.answer(&n.Cells[i]); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: there is no event %q", ErrInvalid, n.e.Kind)
	}
	n.advance()
	n.finishUndo()
	return nil
}

// wish does what somebody asked for.
func (n *next) wish() error {
	refused := func() error { return &RefusedError{n.e.Kind, n.Status} }
	switch n.e.Kind {
	case Taken:
		n.Fencing, n.Holder = n.e.Fencing, n.e.By
		for i := range n.Cells {
			// What the last holder was told may have been done or not: only a read can say.
			switch c := &n.Cells[i]; c.Step {
			case WasRead, Preparing, Ready, Executing:
				c.Step, c.First = Reading, false
			case Restoring:
				c.Step = UndoReading
			}
		}
		if n.Status == IsRollingBack {
			n.undoAll()
		}
	case Pause:
		if n.Status != IsRunning {
			return refused()
		}
		n.status(IsPaused, n.because("paused"))
	case Resume:
		// One that runs takes what is excused, too: it may be about to pause for it.
		if n.Status != IsPaused && (n.Status != IsRunning || len(n.e.Despite) == 0) {
			return refused()
		}
		if err := checkDespite(n.e.Despite); err != nil {
			return err
		}
		n.Despite = append(n.Despite, n.e.Despite...)
		if n.Status == IsPaused {
			n.readAnew()
		}
		n.status(IsRunning, "")
	case Abort:
		if n.Status.Over() {
			return refused()
		}
		n.status(IsAborted, n.because("aborted"))
	case Rollback:
		if n.Status == IsRolledBack || n.Status == IsRollingBack {
			return refused()
		}
		n.status(IsRollingBack, n.because("rolled back"))
		n.undoAll()
	}
	if n.e.Wish != "" {
		n.Wish = n.e.Wish
	}
	n.changed = true
	return nil
}

// readAnew has read again what was read before a pause, which may have been long: nobody has kept others from changing it.
func (n *next) readAnew() {
	for i := range n.Cells {
		if c := &n.Cells[i]; c.Step == WasRead || c.Step == Ready {
			c.Step = Reading
		}
	}
}

// because is the reason for a wish, with who had it.
func (n *next) because(what string) string {
	if n.e.By != "" {
		what += " by " + n.e.By
	}
	if n.e.Why != "" {
		what += ": " + n.e.Why
	}
	return what
}

func (n *next) status(s Status, why string) { n.Status, n.Why, n.changed = s, why, true }

// pause stops what is new, until somebody has looked. The first reason stands.
func (n *next) pause(why string) {
	if n.Status == IsRunning {
		n.status(IsPaused, why)
	}
}

// halt stops the rollout for good. The first reason stands.
func (n *next) halt(why string) {
	if n.Status != IsRunning && n.Status != IsPaused {
		return
	}
	n.status(IsHalted, why)
	if n.Spec.Revert {
		n.Status = IsRollingBack
		n.undoAll()
	}
}

// advance begins what may begin. All that changes a cell for the first time passes here, and only while the rollout runs.
func (n *next) advance() {
	if n.Status != IsRunning || n.doubtful() {
		return
	}
	wave := n.wave()
	if wave < 0 {
		n.status(IsDone, "")
		return
	}
	cells := n.of(wave)
	for _, c := range cells {
		if c.Step == Waiting {
			n.step(c, Looking)
		}
	}
	// Before anything of a wave changes it is known what fires in all of it.
	if slices.ContainsFunc(cells, func(c *Cell) bool { return c.Step == Looking }) {
		return
	}
	batch := slices.IndexFunc(cells, func(c *Cell) bool { return c.Step != Done })
	for _, c := range cells {
		switch c.Step {
		case Seen:
			if c.Batch == cells[batch].Batch {
				n.step(c, Reading)
			}
		case WasRead:
			n.step(c, Preparing)
		case Ready:
			n.step(c, Executing)
			c.First = !c.Stages[c.Stage].Touched
			c.Stages[c.Stage].Touched = true
			if c.Changed.IsZero() {
				c.Changed = n.e.At
			}
			if c.From.IsZero() {
				c.From = n.e.At
			}
		}
	}
}

// wave is the first that has a cell that is not done, or -1.
func (n *next) wave() int {
	i := slices.IndexFunc(n.Cells, func(c Cell) bool { return c.Step != Done })
	if i < 0 {
		return -1
	}
	return n.Cells[i].Wave
}

func (n *next) of(wave int) []*Cell {
	var cells []*Cell
	for i := range n.Cells {
		if n.Cells[i].Wave == wave {
			cells = append(cells, &n.Cells[i])
		}
	}
	return cells
}

func (n *next) step(c *Cell, s Step) { c.Step, n.changed = s, true }
