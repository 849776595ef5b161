package rollout

import (
	"fmt"
	"slices"
	"time"
)

// answer takes the answer to a command. One that is not awaited is ErrUnexpected; answers to Prepare, Execute and
// Restore are awaited whatever became of the rollout meanwhile.
func (n *next) answer(c *Cell) error {
	stage := c.Stages[c.Stage].Name
	late := func() error {
		return fmt.Errorf("%w: %s of cell %s, stage %q, while that is %s in %q and the rollout %s", ErrUnexpected, n.e.Kind, c.Name, n.e.Stage, c.Step, stage, n.Status)
	}
	if n.e.Kind != Looked && n.e.Stage != stage {
		return late()
	}
	forward := n.Status == IsRunning || n.Status == IsPaused
	switch {
	case n.e.Kind == Looked && forward && (c.Step == Looking || c.Step == Seen):
		return n.baseline(c)
	case n.e.Kind == Looked && forward && c.watched():
		return n.watch(c)
	case n.e.Kind == Read && c.Step == Reading:
		return n.read(c)
	case n.e.Kind == Read && c.Step == Settling:
		return n.settle(c)
	case n.e.Kind == Read && n.Status == IsRollingBack && (c.Step == UndoReading || c.Step == UndoSettling):
		return n.undoRead(c)
	case n.e.Untouched && (n.e.Kind == Prepared && c.Step == Preparing || n.e.Kind == Executed && c.Step == Executing):
		n.notBegun(c)
	case n.e.Kind == Prepared && c.Step == Preparing && n.e.Error != "":
		n.fail(c, "could not be prepared: "+n.e.Error)
	case n.e.Kind == Prepared && c.Step == Preparing:
		n.step(c, Ready)
	case n.e.Kind == Executed && c.Step == Executing && n.Status == IsRollingBack:
		n.undo(c)
	case n.e.Kind == Executed && c.Step == Executing:
		c.Why = n.e.Error
		n.step(c, Settling)
	case n.e.Kind == Restored && c.Step == Restoring && n.e.Untouched:
		n.step(c, UndoReading)
	case n.e.Kind == Restored && c.Step == Restoring:
		c.Why = n.e.Error
		n.step(c, UndoSettling)
	default:
		return late()
	}
	return nil
}

// notBegun takes back what was told and was not performed. A stage that this rollout never changed is as it was; one that an
// earlier holder was told to change may not be. What fires in a cell that is as it was is looked at anew.
func (n *next) notBegun(c *Cell) {
	if c.First {
		c.Stages[c.Stage].Touched = false
	}
	c.First = false
	n.step(c, Reading)
	if !c.touched() {
		c.Changed, c.From = time.Time{}, time.Time{}
		n.step(c, Looking)
	}
	if n.Status == IsRollingBack {
		n.undo(c)
	}
}

// said is what the command before this read said, for a reason that is given to people.
func (c *Cell) said() string {
	if c.Why == "" {
		return ""
	}
	return " (it was said: " + c.Why + ")"
}

// fail halts for the stage of a cell. A cell that fails on a rollback's way is not asked for.
func (n *next) fail(c *Cell, why string) {
	why = fmt.Sprintf("cell %s, stage %s: %s", c.Name, c.Stages[c.Stage].Name, why)
	c.Why = why
	n.step(c, Broken)
	n.halt(why)
}

// stack is the status that was read, and Unknown for whatever is none.
func (n *next) stack() StackStatus {
	switch n.e.Stack {
	case Complete, RolledBack, InProgress, Failed, Stuck, Absent:
		if n.e.Error == "" {
			return n.e.Stack
		}
	}
	return Unknown
}

// read takes what a stage was before its change, or what has become of it when another controller began it.
func (n *next) read(c *Cell) error {
	stage := &c.Stages[c.Stage]
	status := n.stack()
	ours := status == Complete && n.e.Digest == n.Spec.Digest
	switch {
	case status == InProgress: // somebody's change; it is read again until it settles
		return nil
	case status == Stuck:
		n.fail(c, wayOut+n.which())
	case status == Unknown:
		n.fail(c, "its status is unknown"+n.error())
	case status == Failed, status == RolledBack && stage.Touched:
		n.fail(c, "the deployment failed: its stacks are "+string(status)+n.which())
	case ours:
		n.before(stage)
		n.prove(c)
	case n.Spec.Phase == Contract && !stage.Touched && status != Absent && (n.e.Digest == "" || slices.Contains(n.Spec.NeedOld, n.e.Digest)):
		n.fail(c, fmt.Sprintf("it runs %q now, which needs the old form or is not known to do without", n.e.Digest))
	default:
		n.before(stage)
		n.step(c, WasRead)
	}
	return nil
}

// before keeps what was read last before the change: what the rollback leads to. Days may lie between two reads, and
// somebody else's change with them.
func (n *next) before(stage *Stage) {
	if stage.Touched {
		return
	}
	stage.Read, stage.Previous, stage.WentBack = true, "", n.e.WentBack
	if n.stack() != Absent {
		stage.Previous = n.e.Digest
	}
}

// settle judges an execution that was answered, by the stack alone.
func (n *next) settle(c *Cell) error {
	switch status := n.stack(); {
	case status == InProgress:
	case status == Complete && n.e.Digest == n.Spec.Digest:
		n.prove(c)
	case status == Complete:
		n.fail(c, fmt.Sprintf("it was skipped: its stacks are complete with digest %q instead of %q", n.e.Digest, n.Spec.Digest)+c.said())
	case status == Stuck:
		n.fail(c, wayOut+n.which()+c.said())
	default:
		n.fail(c, "the deployment failed: its stacks are "+string(status)+n.which()+n.error()+c.said())
	}
	return nil
}

// wayOut is what to do about a stack that CloudFormation could not roll back.
const wayOut = "a stack is in UPDATE_ROLLBACK_FAILED: repair what it names, call aws cloudformation continue-update-rollback (--resources-to-skip as the last resort), then rollout rollback"

// which names the stacks that a read found not as they should be.
func (n *next) which() string {
	if n.e.Why == "" {
		return ""
	}
	return ": " + n.e.Why
}

func (n *next) error() string {
	if n.e.Error == "" {
		return ""
	}
	return ": " + n.e.Error
}

func (n *next) prove(c *Cell) {
	n.step(c, Proving)
	c.Since, c.First, c.Why = n.e.At, false, ""
	if c.From.IsZero() { // it was ours before
		c.From = n.e.At
	}
}

// baked goes on from a bake that ended green.
func (n *next) baked(c *Cell) {
	switch {
	case c.Step == Baking:
		n.step(c, Done)
	case c.Stage+1 < len(c.Stages):
		c.Stage++
		n.step(c, Reading)
	default:
		n.step(c, Baking)
		c.Since = n.e.At
	}
}

// bake is how long the cell's present bake lasts, and how many requests it needs at least. A stage without a bake
// needs no requests: one green look is all that it asks for.
func (n *next) bake(c *Cell) (time.Duration, int64) {
	wave := n.Spec.Waves[c.Wave]
	if c.Step == Baking {
		return time.Duration(wave.Bake), n.Spec.MinRequests
	}
	for _, p := range wave.Batches[c.Batch] {
		if p.Name == c.Name && p.Stages[c.Stage].Bake > 0 {
			return time.Duration(p.Stages[c.Stage].Bake), n.Spec.MinRequests
		}
	}
	return 0, 0
}
