package directory

import (
	"context"
	"fmt"
	"slices"
)

// The changes that an operator makes by hand. expect is the epoch that the entry must have, 0 for
// whichever stands; ErrStale when it has another. Repeated under its operation id, however much later, a change
// is found done, whatever stands by then; what an interruption left undone at the shards is finished.

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
	now, done, err := r.standing(ctx, tenant, c)
	if err != nil {
		return fail(err)
	}
	if done == nil {
		stands, err := r.attempt(ctx, now, expect, c, edit)
		if err == nil || stands.Epoch > 0 {
			return stands, err
		}
		// An earlier attempt may have come through after the look at what it left.
		var lookErr error
		if now, done, lookErr = r.standing(ctx, tenant, c); lookErr != nil || done == nil {
			return Entry{}, err
		}
	}
	return r.again(ctx, now, *done, expect, c, edit)
}

// attempt makes a change by hand that was not made before.
func (r *Residence) attempt(ctx context.Context, now Entry, expect uint64, c Change, edit func(*Entry) error) (Entry, error) {
	if expect > 0 && now.Epoch != expect {
		return Entry{}, fmt.Errorf("change tenant %q: expected epoch %d, found %d: %w", now.Tenant, expect, now.Epoch, ErrStale)
	}
	after := now.Clone()
	if err := edit(&after); err != nil {
		return Entry{}, fmt.Errorf("change tenant %q: %w", now.Tenant, err)
	}
	return r.Settle(ctx, now, after, c)
}

// again tells the success of a change by hand that the history has, and finishes what is left of it. ErrReused
// when the line is another change's.
func (r *Residence) again(ctx context.Context, now Entry, done Logged, expect uint64, c Change, edit func(*Entry) error) (Entry, error) {
	fail := func(err error) (Entry, error) { return Entry{}, fmt.Errorf("change tenant %q: %w", now.Tenant, err) }
	reused := errReused(c.Operation, done.After.Epoch)
	if done.Before == nil || done.By != c.By || expect > 0 && expect != done.Before.Epoch {
		return fail(reused)
	}
	after := done.Before.Clone()
	after.Epoch, after.Operation = done.After.Epoch, c.Operation
	if err := edit(&after); err != nil || !after.wrote(done.After) { // an edit that was never possible there
		return fail(reused)
	}
	if err := r.finish(ctx, now.Tenant, *done.Before, done.After); err != nil {
		return done.After, err
	}
	return done.After, nil
}
