package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Schema names the form of State in JSON. Decode refuses any other.
const Schema = "cellwall.rollout/v1"

// Errors of New, Next and Decode.
var (
	// ErrInvalid means that a Spec, an Event or a State breaks a rule of its form.
	ErrInvalid = errors.New("not a valid rollout")
	// ErrFenced means that the event comes from a lease that is not the latest.
	ErrFenced = errors.New("somebody else has taken over this rollout")
	// ErrUnexpected means that the state does not wait for this event: a late or repeated answer, or a wish that
	// makes no sense here. It changes nothing.
	ErrUnexpected = errors.New("the rollout does not wait for this")
	// ErrNeedsOld means that a contract would take away a form that somebody still needs.
	ErrNeedsOld = errors.New("the old form is still needed")
)

// RefusedError says which wish makes no sense. errors.Is(err, ErrUnexpected).
type RefusedError struct {
	Kind   EventKind
	Status Status // of the rollout
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("cannot %s: the rollout is %s", strings.Replace(string(e.Kind), "rollback", "roll back", 1), e.Status)
}
func (e *RefusedError) Unwrap() error { return ErrUnexpected }

// Phase is the part of a change of schema or messages that a rollout carries.
type Phase string

const (
	Release  Phase = "release"  // no change of form
	Expand   Phase = "expand"   // adds the new form; both are read, the old one is written
	Migrate  Phase = "migrate"  // writes the new form
	Contract Phase = "contract" // takes the old form away
)

// Duration is a time.Duration that is text in JSON, such as 1h0m0s.
type Duration time.Duration

// MarshalText is the form of time.Duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// Spec is what a rollout is to do. It does not change once the rollout has begun.
type Spec struct {
	ID      string `json:"id"`
	Service string `json:"service"`
	Digest  string `json:"digest"` // of the assembly that every wave deploys
	Phase   Phase  `json:"phase"`
	Waves   []Wave `json:"waves"`
	// MinRequests that a cell must have served since a bake began before that bake may end; 0 asks for none.
	MinRequests int64 `json:"minRequests"`
	// Revert rolls back by itself after a halt.
	Revert bool `json:"revert,omitempty"`
	// NeedOld are the digests that need the old form; Running is what the cells run now. Both are asked of a
	// contract only.
	NeedOld []string  `json:"needOld,omitempty"`
	Running []Running `json:"running,omitempty"`
	Despite []Despite `json:"despite,omitempty"`
}

// Wave is the cells that are deployed together and then bake.
type Wave struct {
	// Batches are deployed one after another: the next begins when all cells of the last have baked, so that no more
	// cells than those of a batch are new and unproved at once. A cell's bake begins when the cell is deployed.
	Batches [][]PlannedCell `json:"batches"`
	Bake    Duration        `json:"bake"`
}

// PlannedCell is a cell with its stages, in order.
type PlannedCell struct {
	Name   string         `json:"name"`
	Stages []PlannedStage `json:"stages"`
	// Layout stands for which shards are in which stage, and where the cell lies, so that whoever goes on with another fleet's
	// file is found out; "" when nobody noted it. It decides nothing here.
	Layout string `json:"layout,omitempty"`
}

// PlannedStage is the stacks of a cell that are changed together. Bake is the watched wait before the next stage;
// with 0 it is one green look.
type PlannedStage struct {
	Name    string   `json:"name"`
	Bake    Duration `json:"bake"`
	Tenants *Tenants `json:"tenants,omitempty"` // nil when nobody counted them
}

// Tenants is what a stage means for the tenants of its cell, as counted when the rollout was planned. It decides nothing.
type Tenants struct {
	Of    int `json:"of"`         // the cell has
	Whole int `json:"allNew"`     // have all of their shards on the new version after this stage and those before it
	Twice int `json:"twoUnbaked"` // have two shards or more in this stage, which are new and not baked at once
}

// Running is one digest that a cell runs.
type Running struct {
	Cell   string `json:"cell"`
	Digest string `json:"digest"`
}

// Despite lets a wave begin although Alarm fires before it.
type Despite struct {
	Alarm   string `json:"alarm"`
	Because string `json:"because"`
	By      string `json:"by,omitempty"`
}

// check says what is wrong with a Spec, apart from what a contract needs.
func (p Spec) check() error {
	for _, f := range []struct{ name, value string }{{"id", p.ID}, {"service", p.Service}, {"digest", p.Digest}} {
		if f.value == "" {
			return fmt.Errorf("%w: it has no %s", ErrInvalid, f.name)
		}
	}
	if !slices.Contains([]Phase{Release, Expand, Migrate, Contract}, p.Phase) {
		return fmt.Errorf("%w: phase is %q; it must be release, expand, migrate or contract", ErrInvalid, p.Phase)
	}
	if p.MinRequests < 0 {
		return fmt.Errorf("%w: minRequests is %d; it must be at least 0", ErrInvalid, p.MinRequests)
	}
	if len(p.Waves) == 0 {
		return fmt.Errorf("%w: it has no waves", ErrInvalid)
	}
	seen := make(map[string]bool)
	for i, w := range p.Waves {
		if len(w.Batches) == 0 || w.Bake < 0 {
			return fmt.Errorf("%w: wave %d has no batches, or bakes for less than 0s", ErrInvalid, i+1)
		}
		for _, b := range w.Batches {
			if len(b) == 0 {
				return fmt.Errorf("%w: wave %d has a batch without cells", ErrInvalid, i+1)
			}
			for _, c := range b {
				if c.Name == "" || seen[c.Name] {
					return fmt.Errorf("%w: wave %d names cell %q, which is empty or was named before", ErrInvalid, i+1, c.Name)
				}
				seen[c.Name] = true
				if err := c.check(); err != nil {
					return err
				}
			}
		}
	}
	return checkDespite(p.Despite)
}

func (c PlannedCell) check() error {
	if len(c.Stages) == 0 {
		return fmt.Errorf("%w: cell %s has no stages", ErrInvalid, c.Name)
	}
	seen := make(map[string]bool)
	for _, s := range c.Stages {
		if s.Name == "" || seen[s.Name] || s.Bake < 0 {
			return fmt.Errorf("%w: stage %q of cell %s is empty, was named before, or bakes for less than 0s", ErrInvalid, s.Name, c.Name)
		}
		seen[s.Name] = true
	}
	return nil
}

func checkDespite(list []Despite) error {
	for _, d := range list {
		if d.Alarm == "" || d.Because == "" {
			return fmt.Errorf("%w: alarm %q is to be ignored without a reason; say --despite ALARM --because \"…\"", ErrInvalid, d.Alarm)
		}
	}
	return nil
}

// contract sees that nobody needs the old form any more.
func (p Spec) contract() error {
	if p.Phase != Contract {
		return nil
	}
	known := make(map[string]bool)
	for _, r := range p.Running {
		switch {
		case r.Digest == "":
			return fmt.Errorf("%w: it is not known what cell %s runs; read it first", ErrNeedsOld, r.Cell)
		case slices.Contains(p.NeedOld, r.Digest):
			return fmt.Errorf("%w: cell %s runs %s; roll out the phase migrate first", ErrNeedsOld, r.Cell, r.Digest)
		}
		known[r.Cell] = true
	}
	for _, w := range p.Waves {
		for _, b := range w.Batches {
			for _, c := range b {
				if !known[c.Name] {
					return fmt.Errorf("%w: it is not known what cell %s runs; read it first", ErrNeedsOld, c.Name)
				}
			}
		}
	}
	return nil
}
