package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
)

// Errors of a Store. They come wrapped.
var (
	// ErrTaken means that another holder's lease has not run out. It comes as a *TakenError.
	ErrTaken = errors.New("another holder drives the rollouts of this service")
	// ErrLost means that the lease is not the latest any more, or has run out: nothing was written.
	ErrLost = errors.New("the lease on the rollouts of this service is lost")
	// ErrNone means that there is no such rollout.
	ErrNone = errors.New("there is no such rollout")
	// ErrStale means that the journal goes on after the record that was given: nothing was written.
	ErrStale = errors.New("the journal has gone on meanwhile")
)

// ErrNotNow is of a Driver: the service's latest rollout is another, or is not in a state for this.
var ErrNotNow = errors.New("the rollouts of this service are not in a state for this")

// ErrSilent is of a Driver: the holder of a lease that has not run out gave no sign of life for as long as one lasts.
var ErrSilent = errors.New("the holder of the lease gives no sign of life")

// TakenError says who holds the lease. errors.Is(err, ErrTaken).
type TakenError struct {
	Holder string
	Until  time.Time // by the holder's clock
}

func (e *TakenError) Error() string {
	return fmt.Sprintf("%v: %s, until %s", ErrTaken, e.Holder, e.Until.UTC().Format(time.RFC3339))
}
func (e *TakenError) Unwrap() error { return ErrTaken }

// Lease is the right to drive the rollouts of one service. Numbers of one service only rise, whatever became of the
// leases before.
type Lease struct {
	Service string    `json:"service"`
	Holder  string    `json:"holder"`
	Fencing uint64    `json:"fencing"` // from 1
	Until   time.Time `json:"until"`   // by the holder's clock
}

// Leases gives the lease of a service to one holder at a time.
type Leases interface {
	// Take takes the lease for the time to live, from now. *TakenError while another holds it.
	Take(ctx context.Context, service, holder string, now time.Time, ttl time.Duration) (Lease, error)
	// Keep proves that the lease is the latest, and prolongs it from now. ErrLost when it is not, or has run out.
	Keep(ctx context.Context, l Lease, now time.Time, ttl time.Duration) (Lease, error)
	// Free gives it back. A lease that is not the latest is no error.
	Free(ctx context.Context, l Lease) error
	// Holder is the latest lease, whether it has run out or not; false when there never was one.
	Holder(ctx context.Context, service string) (Lease, bool, error)
}

// Record is one transition: the event, and the state that it led to. The first has no event.
type Record struct {
	Seq   uint64         `json:"seq"` // from 1, without gaps
	Event *rollout.Event `json:"event,omitempty"`
	State rollout.State  `json:"state"`
}

// Journal keeps the transitions of rollouts.
type Journal interface {
	// Append writes the next transition: r.Seq is one more than the last of that rollout. In one step with it the lease is
	// proved to be the latest (ErrLost), the journal to end there (ErrStale), and, for a first record, the service's
	// latest rollout to be over (ErrStale). Only that rollout goes on: one that another came after is ErrStale, too.
	Append(ctx context.Context, l Lease, r Record) error
	// Latest is the last record of the service's latest rollout. ErrNone.
	Latest(ctx context.Context, service string) (Record, error)
	// Last is the last record of a rollout. ErrNone.
	Last(ctx context.Context, service, id string) (Record, error)
}

// Histories reads what was.
type Histories interface {
	// Rollouts are the rollouts of a service as they stand, the newest first, up to limit.
	Rollouts(ctx context.Context, service string, limit int) ([]rollout.State, error)
	// Events are the transitions of a rollout with a Seq after that one, oldest first, up to limit. Their states are empty.
	Events(ctx context.Context, service, id string, after uint64, limit int) ([]Record, error)
}

// Wish is what somebody wants of a rollout that another process drives.
type Wish struct {
	ID      string            `json:"id"`
	Rollout string            `json:"rollout"`
	Kind    rollout.EventKind `json:"kind"` // Pause, Resume, Abort or Rollback
	By      string            `json:"by,omitempty"`
	Why     string            `json:"why,omitempty"`
	At      time.Time         `json:"at"`
	Despite []rollout.Despite `json:"despite,omitempty"`
}

// Wishes are left for whoever drives, who takes them in the order in which they came.
type Wishes interface {
	Wish(ctx context.Context, service string, w Wish) error
	// Wished are the wishes of a rollout that nobody has answered, oldest first.
	Wished(ctx context.Context, service, id string) ([]Wish, error)
	// Answer takes a wish away. One that is gone is no error.
	Answer(ctx context.Context, service string, w Wish) error
}

// Reading is a stage as it was read.
type Reading struct {
	Stack    rollout.StackStatus // the worst of its stacks
	Digest   string              // that all of them run: "" when they differ or it is none that is known
	Why      string              // which of them are neither complete nor absent, for people
	WentBack string              // which of them are rolled back, and by which change, in the adapter's own words; "" when none is
}

// Stacks deploys the stages of cells. Each method may be repeated, also by another process, and may take long; ctx ends it.
type Stacks interface {
	// Read reads the stage's stacks. A stack that wentBack names, as an earlier Reading said it, and that was not changed since is
	// Complete. An error is an unknown status.
	Read(ctx context.Context, cell, stage, wentBack string) (Reading, error)
	// Prepare makes the change that would bring the stage to the digest, and performs none of it.
	Prepare(ctx context.Context, cell, stage, digest string, fencing uint64) error
	// Execute performs what Prepare made for this fencing number, and returns when the stacks have settled. permit is called
	// immediately before the first change; its error, wrapped, means that nothing was changed.
	Execute(ctx context.Context, cell, stage, digest string, fencing uint64, permit func(context.Context) error) error
	// Restore brings the stage back to the digest: Prepare and Execute in one, as fast as can be.
	Restore(ctx context.Context, cell, stage, digest string, fencing uint64, permit func(context.Context) error) error
}

// Gate observes cells.
type Gate interface {
	// Look observes a cell. since and from are Command.Since and Command.From; unreached are the cells of the rollout that it
	// has not changed yet. An error is missing data.
	Look(ctx context.Context, cell string, since, from time.Time, unreached []string) (rollout.Observation, error)
}
