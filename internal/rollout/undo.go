package rollout

import (
	"fmt"
	"slices"
	"strings"
)

// undoAll begins the way back of all cells that were touched, at once. Those whose last command is not answered yet
// follow when it is.
func (n *next) undoAll() {
	for i := range n.Cells {
		if c := &n.Cells[i]; c.Step != Executing && c.Step != Restoring {
			n.undo(c)
		}
	}
}

// undo goes to the last stage of the cell that is still to be brought back, or ends its way back. A cell that nobody
// touched is left as it is.
func (n *next) undo(c *Cell) {
	if !c.touched() {
		return
	}
	for i := len(c.Stages) - 1; i >= 0; i-- {
		if s := c.Stages[i]; s.Touched && !s.Back {
			c.Stage, c.First = i, false
			n.step(c, UndoReading)
			return
		}
	}
	if slices.ContainsFunc(c.Stages, func(s Stage) bool { return s.Stays }) {
		n.step(c, Stays)
	} else {
		n.step(c, Undone)
	}
}

// undoRead takes what a stage is on the way back, before and after it was restored.
func (n *next) undoRead(c *Cell) error {
	stage := &c.Stages[c.Stage]
	status := n.stack()
	settled := status == Complete || status == RolledBack
	switch {
	case status == InProgress:
		return nil
	case stage.Previous == "" && status == Absent, stage.Previous != "" && settled && n.e.Digest == stage.Previous:
		stage.Back = true
		n.undo(c)
	case stage.Previous == "" && status != Unknown && status != Stuck:
		// There is nothing to go back to, and to delete a stack is nothing that a rollback does.
		stage.Back, stage.Stays = true, true
		n.undo(c)
	case status == Stuck:
		n.stuck(c, wayOut+n.which()+c.said())
	case status == Unknown:
		n.stuck(c, "its status is unknown"+n.error())
	case c.Step == UndoSettling:
		n.stuck(c, fmt.Sprintf("it was not brought back: its stacks are %s with digest %q instead of %q", status, n.e.Digest, stage.Previous)+n.which()+c.said())
	default:
		n.step(c, Restoring)
	}
	return nil
}

func (n *next) stuck(c *Cell, why string) {
	c.Why = fmt.Sprintf("cell %s, stage %s: %s", c.Name, c.Stages[c.Stage].Name, why)
	n.step(c, UndoStuck)
}

// finishUndo ends a rollback when every touched cell is at the end of its way.
func (n *next) finishUndo() {
	if n.Status != IsRollingBack {
		return
	}
	var stuck []string
	for _, c := range n.Cells {
		if !c.touched() {
			continue
		}
		switch c.Step {
		case Undone, Stays:
		case UndoStuck:
			stuck = append(stuck, c.Why)
		default:
			return
		}
	}
	if len(stuck) > 0 {
		n.status(IsHalted, "not rolled back: "+strings.Join(stuck, "; "))
		return
	}
	n.status(IsRolledBack, n.Why)
}
