package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// The changes that an operator makes by hand. expect is the epoch that the entry must have, 0 for
// whichever stands; ErrStale when it has another. Repeated under its operation id, a change is found done.

// Suspend has the tenant refused.
func (r *Residence) Suspend(ctx context.Context, tenant string, expect uint64, c Change) (Entry, error) {
	return r.edit(ctx, tenant, expect, c, func(e *Entry) error {
		if e.State == Suspended {
			return fmt.Errorf("%w: it is suspended already", ErrState)
		}
		e.State = Suspended
		return nil
	})
}

// Resume has a suspended tenant served again.
func (r *Residence) Resume(ctx context.Context, tenant string, expect uint64, c Change) (Entry, error) {
	return r.edit(ctx, tenant, expect, c, func(e *Entry) error {
		if e.State != Suspended {
			return fmt.Errorf("%w: it is %s, not %s", ErrState, e.State, Suspended)
		}
		e.State = Active
		return nil
	})
}

// Pin gives the tenant an explicit subset, in preference order: at least one shard of its topology.
func (r *Residence) Pin(ctx context.Context, tenant string, shards []string, expect uint64, c Change) (Entry, error) {
	return r.edit(ctx, tenant, expect, c, func(e *Entry) error {
		if len(shards) == 0 {
			return fmt.Errorf("%w: no shard to pin to; name one at least, or unpin the tenant", ErrInvalid)
		}
		e.Pins = slices.Clone(shards)
		return nil
	})
}

// Unpin gives the tenant the subset that the scheme computes.
func (r *Residence) Unpin(ctx context.Context, tenant string, expect uint64, c Change) (Entry, error) {
	return r.edit(ctx, tenant, expect, c, func(e *Entry) error {
		if len(e.Pins) == 0 {
			return fmt.Errorf("%w: it is not pinned", ErrState)
		}
		e.Pins = nil
		return nil
	})
}

// Resize changes what is expected of the tenant: its size class, and its load, which is reserved without
// regard to headroom, since the tenant is there.
func (r *Residence) Resize(ctx context.Context, tenant, size string, load Rate, expect uint64, c Change) (Entry, error) {
	return r.edit(ctx, tenant, expect, c, func(e *Entry) error {
		e.Size, e.Load = size, load
		return nil
	})
}

func (r *Residence) edit(ctx context.Context, tenant string, expect uint64, c Change, edit func(*Entry) error) (Entry, error) {
	fail := func(err error) (Entry, error) { return Entry{}, fmt.Errorf("change tenant %q: %w", tenant, err) }
	if err := c.check(); err != nil {
		return fail(err)
	}
	now, err := r.Get(ctx, tenant)
	if err != nil {
		return Entry{}, err
	}
	before, err := r.repeated(ctx, now, expect, c)
	switch {
	case err != nil:
		return fail(err)
	case before.Epoch > 0: // done before: what follows finds that, and finishes what is left of it
	case expect > 0 && now.Epoch != expect:
		return fail(fmt.Errorf("expected epoch %d, found %d: %w", expect, now.Epoch, ErrStale))
	default:
		before = now
	}
	after := before.Clone()
	if err := edit(&after); err != nil {
		return fail(err)
	}
	return r.Settle(ctx, before, after, c)
}

// repeated is the entry that this operation found, when it was done before: as the last change, or as
// the one that followed the epoch expected.
func (r *Residence) repeated(ctx context.Context, now Entry, expect uint64, c Change) (Entry, error) {
	epoch := now.Epoch
	if expect > 0 && expect < now.Epoch {
		epoch = expect + 1
	} else if now.Operation != c.Operation {
		return Entry{}, nil
	}
	lines, err := r.History(ctx, now.Tenant, epoch-1, 1)
	if err != nil || len(lines) == 0 || lines[0].After.Operation != c.Operation {
		return Entry{}, err
	}
	if lines[0].Before == nil {
		return Entry{}, fmt.Errorf("%w (%q)", ErrReused, c.Operation)
	}
	return *lines[0].Before, nil
}

// ErrHome means that a change of subset would leave state behind.
var ErrHome = errors.New("the tenants' state lies on their shards: each needs a move, not a migration")

// Migration is the way of a cell's tenants to another version of its topology.
type Migration struct {
	Cell     string
	To       uint64 // version
	Stateful bool   // the service's state lies on the shards; the migration is refused with ErrHome
}

// Migrated is what became of one page of tenants.
type Migrated struct {
	Moved   int // to the version, now or in an earlier attempt
	Skipped []Skipped
	Next    string // tenant after which the next page begins; "" when this was the last
}

// Skipped is a tenant that was left where it is.
type Skipped struct {
	Tenant string
	Why    error
}

// Migrate moves the tenants of one page, up to limit after the tenant named after, to the version. Begin
// with "" and go on with Next. It may miss tenants who came in the last moments: after the last page,
// begin again while the old topology has tenants. Placing and moving tenants are skipped, and whoever the
// new topology has no size class or pinned shard for.
func (r *Residence) Migrate(ctx context.Context, m Migration, after string, limit int, c Change) (Migrated, error) {
	fail := func(err error) (Migrated, error) {
		return Migrated{}, fmt.Errorf("migrate cell %q to topology %d: %w", m.Cell, m.To, err)
	}
	if err := c.check(); err != nil {
		return fail(err)
	}
	if m.Stateful {
		return fail(ErrHome)
	}
	to, err := r.Topology(ctx, m.Cell, m.To)
	if err != nil {
		return Migrated{}, err
	}
	if to.Retired {
		return fail(ErrRetired)
	}
	page, err := r.ListCell(ctx, m.Cell, after, limit)
	if err != nil {
		return fail(err)
	}
	var out Migrated
	for _, e := range page {
		err := r.migrate(ctx, e, to, c)
		switch {
		case err == nil:
			out.Moved++
		case errors.Is(err, ErrState), errors.Is(err, ErrInvalid), errors.Is(err, ErrStale), errors.Is(err, ErrNoSlot):
			out.Skipped = append(out.Skipped, Skipped{e.Tenant, err})
		default:
			return fail(err)
		}
	}
	if len(page) == limit {
		out.Next = page[limit-1].Tenant
	}
	return out, nil
}

// migrateTries is how often a tenant is tried that others change at the same time.
const migrateTries = 5

func (r *Residence) migrate(ctx context.Context, e Entry, to Topology, c Change) (err error) {
	for range migrateTries {
		if e.Cell != to.Cell || e.Topology == to.Version {
			return nil // it is elsewhere now, or there
		}
		next, t := e.Clone(), taking{}
		next.Topology = to.Version
		switch {
		case to.Slots == 0:
			next.Slot = 0
		case e.Slot == 0 || e.Slot > to.Slots:
			if next.Slot, t.slot, err = r.findSlot(ctx, to, c.At); err != nil {
				return err
			}
		}
		if e.State != Active && e.State != Suspended {
			return fmt.Errorf("tenant %q: %w: it is %s", e.Tenant, ErrState, e.State)
		}
		if _, err = r.settle(ctx, e, next, c, t); !errors.Is(err, ErrStale) && !errors.Is(err, ErrSlotTaken) {
			return err
		}
		var readErr error
		if e, readErr = r.Get(ctx, e.Tenant); readErr != nil {
			return readErr
		}
	}
	return err
}
