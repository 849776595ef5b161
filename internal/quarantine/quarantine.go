package quarantine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/snapshot"
)

// Residence is what is used of the directory; *directory.Residence is one. Without a quarantine, only Get, ReadNote
// and WriteNote are.
type Residence interface {
	Notes
	Get(ctx context.Context, tenant string) (directory.Entry, error)
	Cell(ctx context.Context, name string) (directory.Cell, error)
	Topology(ctx context.Context, cell string, version uint64) (directory.Topology, error)
	Subset(ctx context.Context, e directory.Entry) ([]string, error)
	Pin(ctx context.Context, tenant string, shards []string, expect uint64, c directory.Change) (directory.Entry, error)
	LetGo(ctx context.Context, tenant, cell string, shards []string, expect uint64) error
}

// Notes is where the state lies.
type Notes interface {
	ReadNote(ctx context.Context, cell, note string) (directory.Note, error)
	WriteNote(ctx context.Context, cell, note string, was directory.Note, body []byte, operation string) (directory.Note, error)
}

// Config configures a Quarantine. Cell and Residence are needed.
type Config struct {
	Cell      string
	Shards    []string // of the quarantine; with none, tenants are suspected and not pinned
	Stateful  bool     // shards keep tenants' state (state.mode home), so that nobody can be pinned without a move
	Residence Residence
	Now       func() time.Time // default time.Now
}

// Quarantine is a cell's. It remembers nothing from call to call, and is safe for concurrent use.
type Quarantine struct{ c Config }

// New returns a Quarantine.
func New(c Config) (*Quarantine, error) {
	if c.Cell == "" || c.Residence == nil {
		return nil, errors.New("a quarantine needs a cell and its directory")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Shards = slices.Clone(c.Shards)
	return &Quarantine{c}, nil
}

// What became of a tenant.
const (
	Suspected = "suspected"  // all routers hold it
	Pinned    = "pinned"     // to quarantine
	LeftAlone = "left alone" // a suspect, and not pinned
	Released  = "released"   // it is no longer where it was pinned to
	Unknown   = "unknown"    // a verdict on a tenant that the cell does not have
)

// Event is what became of a tenant. It is for operators.
type Event struct {
	What   string
	Tenant string
	Shards []string  // that went down under it, or to which it is pinned
	Until  time.Time // of a suspect: the end of its hold
	Why    string
}

// Outcome is what a call did, and what stands then.
type Outcome struct {
	Events      []Event
	Suspects    int // that all routers hold
	Quarantined int // tenants that are pinned to quarantine by verdicts
}

// maxTenants is on how many tenants one call of Take hears verdicts. There is room for fewer suspects.
const maxTenants = 2 * maxSuspects

// Take hears verdicts, and does what is to be done then, as Run. Verdicts that were taken before change nothing, so
// that a call that failed may be repeated.
func (q *Quarantine) Take(ctx context.Context, verdicts []Verdict) (Outcome, error) {
	var events []Event
	here := map[string]bool{}
	var known []Verdict
	for _, v := range verdicts {
		ours, asked := here[v.Tenant]
		if !asked {
			if len(here) == maxTenants {
				continue
			}
			e, err := q.c.Residence.Get(ctx, v.Tenant)
			if err != nil && !errors.Is(err, directory.ErrNotFound) {
				return Outcome{}, q.failed(err)
			}
			ours = err == nil && e.Cell == q.c.Cell
			here[v.Tenant] = ours
			if !ours {
				events = append(events, Event{What: Unknown, Tenant: v.Tenant, Why: "the cell has no such tenant"})
			}
		}
		if ours {
			known = append(known, v)
		}
	}
	var heard []Event
	_, err := q.edit(ctx, func(s *state, now time.Time) {
		heard = nil
		s.expire(now)
		for _, v := range known {
			if x, anew := s.hear(v, now); anew {
				heard = append(heard, Event{What: Suspected, Tenant: x.Tenant, Shards: slices.Clone(x.Shards), Until: x.Until})
			}
		}
	})
	if err != nil {
		return Outcome{Events: events}, q.failed(err)
	}
	o, err := q.Run(ctx)
	o.Events = slices.Concat(events, heard, o.Events)
	return o, err
}

// Run pins who is to be pinned, finishes what was left undone, and forgets what is over. With an error, the rest was
// done as far as it could be.
func (q *Quarantine) Run(ctx context.Context) (Outcome, error) {
	s, err := q.edit(ctx, func(s *state, now time.Time) { s.expire(now) })
	if err != nil {
		return Outcome{}, q.failed(err)
	}
	r := &run{Quarantine: q}
	for _, p := range s.Pins {
		r.follow(ctx, p)
	}
	if len(q.c.Shards) > 0 {
		for _, x := range s.Suspects {
			if x.Firm && s.live(x.Tenant) < 0 {
				r.pin(ctx, x)
			}
		}
	}
	if s, err = q.read(ctx); err != nil {
		r.errs = append(r.errs, err)
	}
	o := Outcome{Events: r.events}
	for _, x := range s.Suspects {
		if x.Until.After(q.c.Now()) {
			o.Suspects++
		}
	}
	for _, p := range s.Pins {
		if p.Done && !p.Gone {
			o.Quarantined++
		}
	}
	return o, q.failed(errors.Join(r.errs...))
}

// Suspects are the tenants that all routers are to hold now.
func (q *Quarantine) Suspects(ctx context.Context) ([]snapshot.Suspect, error) {
	s, err := q.read(ctx)
	if err != nil {
		return nil, q.failed(err)
	}
	var held []snapshot.Suspect
	for _, x := range s.Suspects {
		if x.Until.After(q.c.Now()) {
			held = append(held, snapshot.Suspect{Tenant: x.Tenant, Until: x.Until.UTC()})
		}
	}
	return held, nil
}

func (q *Quarantine) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("quarantine of cell %q: %w", q.c.Cell, err)
}

// note is the name of the state's.
const note = "quarantine"

func readState(ctx context.Context, notes Notes, cell string) (state, directory.Note, error) {
	was, err := notes.ReadNote(ctx, cell, note)
	var s state
	if err == nil && was.Version > 0 {
		err = json.Unmarshal(was.Body, &s)
	}
	return s, was, err
}

func (q *Quarantine) read(ctx context.Context) (state, error) {
	s, _, err := readState(ctx, q.c.Residence, q.c.Cell)
	return s, err
}

// tries is how often a note is edited that others are editing, too.
const tries = 20

// edit changes the note, again as long as others are faster, and returns it as it stands then. Nothing is written
// that is as it was.
func (q *Quarantine) edit(ctx context.Context, change func(*state, time.Time)) (state, error) {
	for try := 1; ; try++ {
		s, was, err := readState(ctx, q.c.Residence, q.c.Cell)
		if err != nil {
			return state{}, err
		}
		before, err := json.Marshal(s) // a home may give JSON back in another form
		if err != nil {
			return state{}, err
		}
		change(&s, q.c.Now().UTC().Round(0))
		body, err := json.Marshal(s)
		if err != nil || bytes.Equal(body, before) {
			return s, err
		}
		// Equal edits of one version are one, whoever makes them.
		operation := fmt.Sprintf("%s %d %s", note, was.Version+1, hashed(string(body)))
		_, err = q.c.Residence.WriteNote(ctx, q.c.Cell, note, was, body, operation)
		if !errors.Is(err, directory.ErrStale) || try == tries {
			return s, err
		}
	}
}
