package directory

import (
	"context"
	"fmt"
	"slices"
)

// The changes that an operator makes by hand. expect is the epoch that the entry must have, 0 for
// whichever stands; ErrStale when it has another. Repeated under its operation id, however much later, a change
// is found done, whatever stands by then, and what an interruption left undone at the shards is finished.

// Suspend has the tenant refused. Its subset stays, so that no shard need be told and no key is needed.
func (d *Directory) Suspend(ctx context.Context, tenant string, expect uint64, c Change) (Entry, error) {
	return d.byHand(ctx, tenant, expect, c, verb{
		edit: func(e *Entry) error {
			if e.State == Suspended {
				return fmt.Errorf("%w: it is suspended already", ErrState)
			}
			e.State = Suspended
			return nil
		},
		write:  d.Replace,
		finish: func(context.Context, string, Entry, Entry) error { return nil },
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
	return r.byHand(ctx, tenant, expect, c, verb{edit, r.Settle, r.finish})
}

// verb is what one kind of change by hand does.
type verb struct {
	edit   func(*Entry) error // refuses what it cannot be made of
	write  func(ctx context.Context, before, after Entry, c Change) (Entry, error)
	finish func(ctx context.Context, tenant string, before, after Entry) error // what writing may have left undone
}

func (d *Directory) byHand(ctx context.Context, tenant string, expect uint64, c Change, v verb) (Entry, error) {
	fail := func(err error) (Entry, error) { return Entry{}, fmt.Errorf("change tenant %q: %w", tenant, err) }
	if err := c.check(); err != nil {
		return fail(err)
	}
	now, done, err := d.standing(ctx, tenant, c)
	if err != nil {
		return fail(err)
	}
	if done == nil {
		stands, err := v.make(ctx, now, expect, c)
		if err == nil || stands.Epoch > 0 {
			return stands, err
		}
		// An earlier attempt may have come through after the look at what it left.
		var lookErr error
		if _, done, lookErr = d.standing(ctx, tenant, c); lookErr != nil || done == nil {
			return Entry{}, err
		}
	}
	if !v.did(*done, expect, c) {
		return fail(errReused(c.Operation, done.After.Epoch))
	}
	return done.After, v.finish(ctx, tenant, *done.Before, done.After)
}

// make makes a change that was not made before.
func (v verb) make(ctx context.Context, now Entry, expect uint64, c Change) (Entry, error) {
	fail := func(err error) (Entry, error) { return Entry{}, fmt.Errorf("change tenant %q: %w", now.Tenant, err) }
	if expect > 0 && now.Epoch != expect {
		return fail(fmt.Errorf("expected epoch %d, found %d: %w", expect, now.Epoch, ErrStale))
	}
	after := now.Clone()
	if err := v.edit(&after); err != nil {
		return fail(err)
	}
	return v.write(ctx, now, after, c)
}

// did says whether a line of the history, which names the operation, is of the very same change.
func (v verb) did(line Logged, expect uint64, c Change) bool {
	if line.Before == nil || line.By != c.By || expect > 0 && expect != line.Before.Epoch {
		return false
	}
	after := line.Before.Clone()
	if v.edit(&after) != nil { // it was never possible there
		return false
	}
	after.Epoch, after.Operation = line.After.Epoch, c.Operation
	return after.wrote(line.After)
}
