package rollout

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Status is where a rollout is; the diagram stands in the package comment.
type Status string

const (
	IsRunning     Status = "running"
	IsPaused      Status = "paused"
	IsHalted      Status = "halted"
	IsRollingBack Status = "rolling-back"
	IsRolledBack  Status = "rolled-back"
	IsAborted     Status = "aborted"
	IsDone        Status = "done"
)

// Over says that another rollout of the service may begin. A halted one is not over: it is rolled back or aborted first.
func (s Status) Over() bool { return s == IsRolledBack || s == IsAborted || s == IsDone }

// Step is where a cell is; the diagram stands in the package comment.
type Step string

const (
	Waiting   Step = "waiting"
	Looking   Step = "looking" // for alarms that fire before the wave
	Seen      Step = "looked"
	Reading   Step = "reading"
	WasRead   Step = "read"
	Preparing Step = "preparing"
	Ready     Step = "prepared"
	Executing Step = "executing"
	Settling  Step = "settling"
	Proving   Step = "proving" // the stage's own bake
	Baking    Step = "baking"  // the wave's bake
	Done      Step = "done"
	Broken    Step = "failed"

	UndoReading  Step = "undo-reading"
	Restoring    Step = "restoring"
	UndoSettling Step = "undo-settling"
	Undone       Step = "undone"
	Stays        Step = "stays" // rolled back, but for a stage of which no digest before is known
	UndoStuck    Step = "stuck" // needs a hand; Why says which
)

var statuses = []Status{IsRunning, IsPaused, IsHalted, IsRollingBack, IsRolledBack, IsAborted, IsDone}
var steps = []Step{Waiting, Looking, Seen, Reading, WasRead, Preparing, Ready, Executing, Settling, Proving, Baking, Done, Broken,
	UndoReading, Restoring, UndoSettling, Undone, Stays, UndoStuck}

// State is a rollout as it stands: a plain value, made by New, Next and Decode alone.
type State struct {
	Schema  string    `json:"schema"`
	Spec    Spec      `json:"spec"`
	Status  Status    `json:"status"`
	Why     string    `json:"why,omitempty"` // it is paused, halted, rolling back or aborted
	Fencing uint64    `json:"fencing"`
	Holder  string    `json:"holder,omitempty"`
	Started time.Time `json:"started"`
	Updated time.Time `json:"updated"` // the last event that changed something
	Cells   []Cell    `json:"cells"`   // in the order of the plan
	Despite []Despite `json:"despite,omitempty"`
	Wish    string    `json:"wish,omitempty"` // the latest that was taken: Event.Wish
}

// Cell is a cell as it stands.
type Cell struct {
	Name    string    `json:"name"`
	Wave    int       `json:"wave"`  // from 0
	Batch   int       `json:"batch"` // within the wave, from 0
	Step    Step      `json:"step"`
	Stage   int       `json:"stage"`            // that Step speaks of, from 0
	Stages  []Stage   `json:"stages"`           // as planned
	First   bool      `json:"first,omitempty"`  // of the stage that is executing: it was never executed before
	Changed time.Time `json:"changed,omitzero"` // first executed
	From    time.Time `json:"from,omitzero"`    // alarms count from here: its first change, or the end of what was not its fault
	Since   time.Time `json:"since,omitzero"`   // proving or baking; zero until a whole look begins a bake that had a hole
	Before  []string  `json:"before,omitempty"` // alarms for which this rollout is not to blame
	Why     string    `json:"why,omitempty"`    // it is failed or stuck, or what its last command said
}

// Stage is a stage of a cell as it stands.
type Stage struct {
	Name     string `json:"name"`
	Read     bool   `json:"read,omitempty"`     // Previous is known
	Previous string `json:"previous,omitempty"` // the digest before this rollout; "" when there was none, or several
	WentBack string `json:"wentBack,omitempty"` // Event.WentBack of the read that Previous is from
	Touched  bool   `json:"touched,omitempty"`  // Execute was told, whether it was performed or not
	Back     bool   `json:"back,omitempty"`     // the rollback is through with it
	Stays    bool   `json:"stays,omitempty"`    // because there is no Previous
}

// New is a rollout that has not begun: nothing is due before its first Taken. ErrInvalid when spec breaks a rule,
// ErrNeedsOld when it is a contract and a cell needs the old form.
func New(spec Spec, at time.Time) (State, error) {
	if err := spec.check(); err != nil {
		return State{}, err
	}
	if err := spec.contract(); err != nil {
		return State{}, err
	}
	s := State{Schema: Schema, Spec: spec, Status: IsRunning, Started: at, Updated: at, Despite: slices.Clone(spec.Despite)}
	s.Cells = planned(spec)
	return s, nil
}

// planned is the cells of a spec, before anything happened to them.
func planned(spec Spec) []Cell {
	var cells []Cell
	for w, wave := range spec.Waves {
		for b, batch := range wave.Batches {
			for _, p := range batch {
				c := Cell{Name: p.Name, Wave: w, Batch: b, Step: Waiting}
				for _, stage := range p.Stages {
					c.Stages = append(c.Stages, Stage{Name: stage.Name})
				}
				cells = append(cells, c)
			}
		}
	}
	return cells
}

// Decode reads a state from JSON and sees that its parts belong together. ErrInvalid when they do not, or when it is
// of another schema.
func Decode(text []byte) (State, error) {
	var head struct{ Schema string }
	if err := json.Unmarshal(text, &head); err != nil {
		return State{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if head.Schema != Schema {
		return State{}, fmt.Errorf("%w: its schema is %q; this version of cellwall reads %s", ErrInvalid, head.Schema, Schema)
	}
	var s State
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return State{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return s, s.check()
}

func (s State) check() error {
	if err := s.Spec.check(); err != nil {
		return err
	}
	if err := checkDespite(s.Despite); err != nil {
		return err
	}
	if !slices.Contains(statuses, s.Status) {
		return fmt.Errorf("%w: its status is %q", ErrInvalid, s.Status)
	}
	plan := planned(s.Spec)
	if len(plan) != len(s.Cells) {
		return fmt.Errorf("%w: it has %d cells and plans %d", ErrInvalid, len(s.Cells), len(plan))
	}
	for i, c := range s.Cells {
		p := plan[i]
		same := c.Name == p.Name && c.Wave == p.Wave && c.Batch == p.Batch && slices.Contains(steps, c.Step) &&
			c.Stage >= 0 && c.Stage < len(p.Stages) &&
			slices.EqualFunc(c.Stages, p.Stages, func(a, b Stage) bool { return a.Name == b.Name })
		if !same {
			return fmt.Errorf("%w: cell %d (%s) is not what its plan says", ErrInvalid, i+1, c.Name)
		}
	}
	return nil
}

// clone shares no memory with s that Next writes to.
func (s State) clone() State {
	s.Cells = slices.Clone(s.Cells)
	for i := range s.Cells {
		c := &s.Cells[i]
		c.Stages = slices.Clone(c.Stages)
		c.Before = slices.Clone(c.Before)
	}
	s.Despite = slices.Clone(s.Despite)
	return s
}

// touched says that a stage of the cell was executed.
func (c *Cell) touched() bool {
	return slices.ContainsFunc(c.Stages, func(s Stage) bool { return s.Touched })
}

// watched says that the gate of the cell is judged: from its first change on, until the rollout ends.
func (c *Cell) watched() bool {
	return c.touched() || c.Step == Proving || c.Step == Baking || c.Step == Done
}

// May says that the command may begin in this state: it is awaited, and what would change a cell is still wanted. A pause
// takes that back for what was told and has not begun. The driver asks immediately before the first change.
func May(s State, c Command) bool {
	if (c.Kind == Prepare || c.Kind == Execute) && s.Status != IsRunning {
		return false
	}
	return slices.ContainsFunc(Due(s), c.same)
}

// Due is all that the state waits for, in the order of its cells. It is empty before the first Taken.
func Due(s State) []Command {
	due := make([]Command, 0, len(s.Cells)+1)
	for i := range s.Cells {
		due = s.due(due, &s.Cells[i])
	}
	return due
}

// due adds what is due of one cell: two commands at most.
func (s *State) due(due []Command, c *Cell) []Command {
	if s.Fencing == 0 {
		return due
	}
	stage := &c.Stages[c.Stage]
	told := Command{Fencing: s.Fencing, Cell: c.Name, Stage: stage.Name}
	forward := s.Status == IsRunning || s.Status == IsPaused
	switch {
	case forward && c.Step == Preparing:
		told.Kind, told.Digest = Prepare, s.Spec.Digest
	case forward && c.Step == Executing:
		told.Kind, told.Digest = Execute, s.Spec.Digest
	case forward && (c.Step == Reading || c.Step == Settling),
		s.Status == IsHalted && c.touched() && (c.Step == Reading || c.Step == Settling),
		s.Status == IsRollingBack && (c.Step == UndoReading || c.Step == UndoSettling):
		told.Kind = AskRead
	case s.Status == IsRollingBack && c.Step == Restoring:
		told.Kind, told.Digest = Restore, stage.Previous
	}
	if told.Kind == AskRead && s.Status != IsRollingBack {
		told.WentBack = stage.WentBack
	}
	if told.Kind != "" {
		due = append(due, told)
	}
	if forward && (c.Step == Looking || c.Step == Seen || c.watched()) {
		due = append(due, Command{Kind: Look, Fencing: s.Fencing, Cell: c.Name, Since: c.Since, From: c.From})
	}
	return due
}
