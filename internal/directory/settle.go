package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// A change from epoch n to n+1 has the shards that come hold the tenant at n+1 before it is decided. Two rules
// keep changes at the same time from each other's holdings.
//
// A shard that is not in the subset of an entry of epoch n may let go up to n, at any time and however late:
// whoever needs it afterwards came by a later change, which held it above n. So a release needs no look at
// what others do, only an entry that stood.
//
// What is held in vain, by a change that lost or ended half-way, is above every epoch at which the tenant was
// there: no request that a router sends for an older entry is taken under it. It is let go when an entry that
// stood since says where, and else by Reconcile.

// Settle is Replace for a change that may change the subset: the shards of after's subset that are not in
// before's hold the tenant before the entry changes, and those that only before's has let go afterwards.
// Whatever can be checked is checked first, so that a refused change seldom holds anything. When the letting
// go fails, the entry is changed and returned beside the error.
func (r *Residence) Settle(ctx context.Context, before, after Entry, c Change) (Entry, error) {
	return r.settle(ctx, before, after, c, nil)
}

// settle is Settle; tried is where earlier attempts of the change had the tenant held, which are let go too.
func (r *Residence) settle(ctx context.Context, before, after Entry, c Change, tried []place) (Entry, error) {
	if before.Epoch == 0 {
		return Entry{}, fmt.Errorf("change tenant %q: %w: the entry before was never read", after.Tenant, ErrInvalid)
	}
	after, _, err := r.draft(ctx, before, after, c, taking{})
	if err != nil {
		return Entry{}, err
	}
	old, err := r.held(ctx, before)
	if err != nil {
		return Entry{}, err
	}
	next, err := r.held(ctx, after)
	if err != nil {
		return Entry{}, err
	}
	come := without(next, old)
	seen, err := r.look(ctx, before, after, c, len(come) > 0)
	if err != nil {
		return Entry{}, fmt.Errorf("change tenant %q: %w", after.Tenant, err)
	}
	if seen.decided {
		come = nil // what follows tells how; it cannot succeed anew
	}
	if err := r.hold(ctx, come, Holding{after.Tenant, after.Epoch}); err != nil {
		return Entry{}, err
	}
	stands, err := r.replace(ctx, before, after, c, seen.taking)
	switch {
	case refused(err):
		return Entry{}, errors.Join(err, r.vain(ctx, after, slices.Concat(come, tried)))
	case err != nil:
		return Entry{}, err
	}
	leave := without(slices.Concat(old, tried), next)
	return stands, r.release(ctx, leave, Holding{stands.Tenant, stands.Epoch})
}

// seen is what was found before a change.
type seen struct {
	taking
	decided bool // the epoch is taken, by this operation or by another
}

// look reads what a change depends on beside the entry, by one Read: whether its epoch is taken, whether
// the topology that it comes to is live, and whether the slot that it takes is free. It asks nothing when the
// change comes to neither, unless it is told to.
func (d *Directory) look(ctx context.Context, before, after Entry, c Change, always bool) (seen, error) {
	comes := after.Topology > 0 && (before.Cell != after.Cell || before.Topology != after.Topology)
	takes := takesSlot(before, after)
	if !always && !comes && !takes {
		return seen{}, nil
	}
	keys := []Key{logKey(after.Tenant, after.Epoch)}
	if comes {
		keys = append(keys, topologyKey(after.Cell, after.Topology))
	}
	if takes {
		keys = append(keys, slotKey(after.Cell, after.Slot))
	}
	records, err := d.home.Read(ctx, Strong, keys...)
	if err != nil {
		return seen{}, err
	}
	if records[0].Version > 0 {
		return seen{decided: true}, nil
	}
	if comes {
		if err := live(records[1]); err != nil {
			return seen{}, err
		}
	}
	if !takes {
		return seen{}, nil
	}
	version, err := vacant(records[len(records)-1], after.Tenant, c.At)
	return seen{taking: taking{slot: version}, decided: version == occupied}, err
}

// live says whether tenants may come to the topology of a record.
func live(r Record) error {
	if r.Version == liveVersion {
		return nil
	}
	return besides(r, Op{Key: r.Key})
}

func (r *Residence) hold(ctx context.Context, at []place, h Holding) error {
	for _, p := range at {
		if err := r.holder.Hold(ctx, p.cell, p.shard, h); err != nil {
			return fmt.Errorf("tenant %q: have shard %s/%s hold it: %w", h.Tenant, p.cell, p.shard, err)
		}
	}
	return nil
}

// refused says whether a change is known not to have happened.
func refused(err error) bool {
	for _, is := range []error{ErrStale, ErrState, ErrInvalid, ErrSlotTaken, ErrRetired, ErrUnknownTopology, ErrUnknownCell, ErrReused, ErrNotFound} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// errLeftHeld means that a tenant may be held where it is not.
var errLeftHeld = errors.New("shards may hold the tenant where it is not: reconcile the cell")

// vain lets go of a tenant where a change held it that was refused. While the entry stands that was to be
// changed, others may be about to succeed it with the same shards: nothing is let go then.
func (r *Residence) vain(ctx context.Context, lost Entry, at []place) error {
	if len(at) == 0 {
		return nil
	}
	now, err := r.Get(ctx, lost.Tenant)
	if err == nil && now.Epoch < lost.Epoch {
		return nil
	}
	if err == nil {
		err = r.letGo(ctx, now, at)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errLeftHeld, err)
	}
	return nil
}

// LetGo has shards of a cell let go of a tenant where a change held it that was given up: those that the entry
// which stands does not need. expect is the epoch that the change was made of: ErrStale while that stands, since
// others may be about to succeed it with the same shards.
func (r *Residence) LetGo(ctx context.Context, tenant, cell string, shards []string, expect uint64) error {
	now, err := r.Get(ctx, tenant)
	if err == nil && now.Epoch <= expect {
		err = ErrStale
	}
	if err == nil {
		var at []place
		for _, s := range shards {
			at = append(at, place{cell, s})
		}
		err = r.letGo(ctx, now, at)
	}
	if err != nil {
		return fmt.Errorf("let go of tenant %q: %w", tenant, err)
	}
	return nil
}

// letGo has shards let go of a tenant who, by an entry that stood, is not there.
func (r *Residence) letGo(ctx context.Context, stood Entry, from []place) error {
	needed, err := r.held(ctx, stood)
	if err != nil {
		return err
	}
	return r.release(ctx, without(from, needed), Holding{stood.Tenant, stood.Epoch})
}

func (r *Residence) release(ctx context.Context, from []place, h Holding) error {
	var errs []error
	for _, p := range from {
		if err := r.holder.Release(ctx, p.cell, p.shard, h); err != nil {
			errs = append(errs, fmt.Errorf("tenant %q: have shard %s/%s let go: %w", h.Tenant, p.cell, p.shard, err))
		}
	}
	return errors.Join(errs...)
}

// finish has the shards let go that should have after a change which was found done, by the entry that stands.
// Where it came from a topology that is retired, nothing is asked: its shards may be gone.
func (r *Residence) finish(ctx context.Context, tenant string, before, after Entry) error {
	now, err := r.Get(ctx, tenant)
	if err != nil {
		return err
	}
	for _, e := range []Entry{before, after} {
		if e.Topology > 0 && (e.Cell != now.Cell || e.Topology != now.Topology) {
			t, err := r.Topology(ctx, e.Cell, e.Topology)
			if err != nil {
				return err
			}
			if t.Retired {
				continue
			}
		}
		if err := r.finishFrom(ctx, now, e); err != nil {
			return err
		}
	}
	return nil
}

// finishFrom has the shards of an older entry let go that hold the tenant yet, and are not the present one's.
func (r *Residence) finishFrom(ctx context.Context, now, older Entry) error {
	at, err := r.held(ctx, older)
	if err != nil {
		return err
	}
	needed, err := r.held(ctx, now)
	if err != nil {
		return err
	}
	for _, p := range without(at, needed) {
		_, ok, err := r.holder.Held(ctx, p.cell, p.shard, now.Tenant)
		if err == nil && ok {
			err = r.release(ctx, []place{p}, Holding{now.Tenant, now.Epoch})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type place struct{ cell, shard string }

// held is where the tenant is held by its entry: nowhere while it is placing.
func (r *Residence) held(ctx context.Context, e Entry) ([]place, error) {
	if e.State == Placing {
		return nil, nil
	}
	subset, err := r.Subset(ctx, e)
	if err != nil {
		return nil, err
	}
	places := make([]place, len(subset))
	for i, s := range subset {
		places[i] = place{e.Cell, s}
	}
	return places, nil
}

func without(a, b []place) []place {
	return slices.DeleteFunc(slices.Clone(a), func(p place) bool { return slices.Contains(b, p) })
}
