package show

import (
	"fmt"
	"strings"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// Kinds of Event.
const (
	Begun   = "begun"  // the rollout is in the journal
	Driven  = "taken"  // By drives it from here on
	Changed = "status" // Status is new, for the reason Why
	Moved   = "cell"   // Cell is at Step of Stage
	// The others are wishes that were granted, named as in rollout.EventKind: pause, resume, abort, rollback.
)

// Event is one thing that a rollout's journal tells. Its JSON form is what --json prints, one a line: keys stay,
// further ones may come.
type Event struct {
	Time    time.Time         `json:"time"`
	Rollout string            `json:"rollout"`
	Seq     uint64            `json:"seq"` // of the journal's record; several events may come of one
	Kind    string            `json:"kind"`
	Status  rollout.Status    `json:"status"` // of the rollout, after the record
	Cell    string            `json:"cell,omitempty"`
	Wave    int               `json:"wave,omitempty"` // of the cell, from 1
	Stage   string            `json:"stage,omitempty"`
	Step    rollout.Step      `json:"step,omitempty"`
	By      string            `json:"by,omitempty"`
	Why     string            `json:"why,omitempty"`
	Digest  string            `json:"digest,omitempty"` // of begun
	Phase   rollout.Phase     `json:"phase,omitempty"`  // of begun
	Cells   int               `json:"cells,omitempty"`  // of begun
	Waves   int               `json:"waves,omitempty"`  // of begun
	Despite []rollout.Despite `json:"despite,omitempty"`
	// Tenants of the cell, when a stage of it has just reached the new version and they were counted.
	Tenants *rollout.Tenants `json:"tenants,omitempty"`
}

// Replay follows the journal of one rollout.
type Replay struct {
	spec    rollout.Spec
	started time.Time
	state   rollout.State
	seq     uint64
}

// NewReplay follows a journal from its beginning. of is any state of the rollout: its plan is the same in all.
func NewReplay(of rollout.State) *Replay { return &Replay{spec: of.Spec, started: of.Started} }

// Seq is the last record that was taken.
func (p *Replay) Seq() uint64 { return p.seq }

// State is the rollout after that record.
func (p *Replay) State() rollout.State { return p.state }

// Take is what the next record of the journal tells. The record needs no state. An error means that this version of
// the engine does not go where the journal's went: Jump goes on.
func (p *Replay) Take(r run.Record) ([]Event, error) {
	if r.Seq != p.seq+1 {
		return nil, fmt.Errorf("the journal goes on with record %d after %d", r.Seq, p.seq)
	}
	if r.Event == nil {
		state := r.State
		if state.Schema == "" {
			var err error
			if state, err = rollout.New(p.spec, p.started); err != nil {
				return nil, err
			}
		}
		p.seq, p.state = r.Seq, state
		return []Event{p.begun()}, nil
	}
	state := r.State
	if state.Schema == "" {
		var err error
		if state, _, err = rollout.Next(p.state, *r.Event); err != nil {
			return nil, fmt.Errorf("record %d of the journal: %w", r.Seq, err)
		}
	}
	return p.moveTo(r.Seq, state, r.Event), nil
}

// Jump goes to a record and its state, and tells what is different there.
func (p *Replay) Jump(r run.Record) []Event {
	if p.seq == 0 {
		p.seq, p.state = r.Seq, r.State
		events := []Event{p.begun()}
		fresh, err := rollout.New(r.State.Spec, r.State.Started)
		if err == nil {
			p.state = fresh
			events = append(events, p.moveTo(r.Seq, r.State, nil)...)
		}
		return events
	}
	return p.moveTo(r.Seq, r.State, nil)
}

func (p *Replay) begun() Event {
	s := p.state
	return Event{Time: s.Started, Rollout: s.Spec.ID, Seq: p.seq, Kind: Begun, Status: s.Status, Digest: s.Spec.Digest,
		Phase: s.Spec.Phase, Cells: len(s.Cells), Waves: len(s.Spec.Waves), Despite: s.Spec.Despite}
}

// moveTo tells what the event led to: itself when somebody wished it, then cells, then the rollout.
func (p *Replay) moveTo(seq uint64, after rollout.State, e *rollout.Event) []Event {
	before := p.state
	p.seq, p.state = seq, after
	base := Event{Time: after.Updated, Rollout: after.Spec.ID, Seq: seq, Status: after.Status}
	if e != nil {
		base.Time = e.At
	}
	var out []Event
	if e != nil {
		switch e.Kind {
		case rollout.Taken, rollout.Pause, rollout.Resume, rollout.Abort, rollout.Rollback:
			wish := base
			wish.Kind, wish.By, wish.Why, wish.Despite = string(e.Kind), e.By, e.Why, e.Despite
			out = append(out, wish)
		}
	}
	for i, c := range after.Cells {
		if i < len(before.Cells) && before.Cells[i].Step == c.Step && before.Cells[i].Stage == c.Stage {
			continue
		}
		cell := base
		cell.Kind, cell.Cell, cell.Wave, cell.Stage, cell.Step = Moved, c.Name, c.Wave+1, c.Stages[c.Stage].Name, c.Step
		cell.Tenants = stageTenants(after, c)
		if c.Step == rollout.Broken || c.Step == rollout.UndoStuck {
			cell.Why = c.Why
		}
		out = append(out, cell)
	}
	if before.Status != after.Status || before.Why != after.Why {
		status := base
		status.Kind, status.Why = Changed, after.Why
		out = append(out, status)
	}
	return out
}

// Line is the event for people, on one line, without its time.
func (e Event) Line() string {
	who := ""
	if e.By != "" {
		who = " by " + clean(e.By)
	}
	why := ""
	if e.Why != "" {
		why = ": " + clean(e.Why)
	}
	switch e.Kind {
	case Begun:
		line := fmt.Sprintf("rollout %s begins: %s, %d cells in %d waves", clean(e.Rollout), clean(e.Digest), e.Cells, e.Waves)
		if e.Phase != rollout.Release {
			line += ", phase " + clean(string(e.Phase))
		}
		return line + despite(e.Despite)
	case Driven:
		return "driven" + who
	case Changed:
		return "the rollout is " + clean(string(e.Status)) + why
	case Moved:
		line := fmt.Sprintf("wave %d, cell %s: %s", e.Wave, clean(e.Cell), clean(string(e.Step)))
		switch e.Step {
		case rollout.Waiting, rollout.Looking, rollout.Seen, rollout.Baking, rollout.Done, rollout.Undone, rollout.Stays:
			return line
		case rollout.Broken, rollout.UndoStuck:
			return fmt.Sprintf("wave %d, cell %s: %s: %s", e.Wave, clean(e.Cell), clean(string(e.Step)),
				clean(strings.TrimPrefix(e.Why, "cell "+e.Cell+", ")))
		}
		return line + " " + clean(e.Stage) + tenantsText(e.Tenants)
	}
	return clean(e.Kind) + who + why + despite(e.Despite)
}

// despite says which alarms are passed over and why.
func despite(list []rollout.Despite) string {
	var parts []string
	for _, d := range list {
		parts = append(parts, fmt.Sprintf("despite %s, because %s", clean(d.Alarm), clean(d.Because)))
	}
	if len(parts) == 0 {
		return ""
	}
	return "; " + cleanTo(strings.Join(parts, "; "), 4*maxText)
}
