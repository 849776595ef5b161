package directory

import (
	"context"
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
	again := false
	before, err := r.repeated(ctx, now, expect, c)
	switch {
	case err != nil:
		return fail(err)
	case before.Epoch > 0: // done before: what follows finds that, and finishes what is left of it
		again = true
	case expect > 0 && now.Epoch != expect:
		return fail(fmt.Errorf("expected epoch %d, found %d: %w", expect, now.Epoch, ErrStale))
	default:
		before = now
	}
	reused := fmt.Errorf("%w (%q)", ErrReused, c.Operation)
	after := before.Clone()
	if err := edit(&after); err != nil {
		if again { // this change was never possible there
			err = reused
		}
		return fail(err)
	}
	if again && !Step(before.State, after.State) {
		return fail(reused)
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
