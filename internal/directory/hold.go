package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Holding is an item in a shard's own store: the shard holds the tenant, since this epoch of its entry.
// A request with a lower epoch is out of date there.
type Holding struct {
	Tenant string `json:"tenant"`
	Epoch  uint64 `json:"epoch"`
}

// Holder reaches the shards' own stores. Implementations are safe for concurrent use.
type Holder interface {
	// Hold writes the item, or raises its epoch. An item with this epoch or a higher one is left alone.
	Hold(ctx context.Context, cell, shard string, h Holding) error
	// Release removes the item unless its epoch is above h.Epoch. It is no error when there is none.
	Release(ctx context.Context, cell, shard string, h Holding) error
	// Held returns the item, consistently; ok is false when there is none.
	Held(ctx context.Context, cell, shard, tenant string) (h Holding, ok bool, err error)
	// Holdings returns up to limit items after the tenant, as Store.List has it.
	Holdings(ctx context.Context, cell, shard, after string, limit int) ([]Holding, error)
}

// ManyHolder is a Holder that takes many holdings of a shard at once.
type ManyHolder interface {
	Holder
	// HoldMany is Hold for each. With an error, some may be written.
	HoldMany(ctx context.Context, cell, shard string, many []Holding) error
}

// maxHoldMany is how many shards are told at the same time whom they hold.
const maxHoldMany = 32

// Keys gives the placement key of a cell by its version.
type Keys func(ctx context.Context, cell, version string) ([]byte, error)

// Residence is the directory with the shards' stores: it keeps entries and holdings in step. Each of its
// changes may be repeated after it failed half-way.
type Residence struct {
	*Directory
	holder  Holder
	keys    Keys
	placers sync.Map // Key of the topology to *Placer
}

// NewResidence returns the residence of these parts.
func NewResidence(d *Directory, h Holder, k Keys) *Residence {
	return &Residence{Directory: d, holder: h, keys: k}
}

// Subset returns the shards that serve the tenant by its entry, in preference order. It is empty when
// the entry has no topology.
func (r *Residence) Subset(ctx context.Context, e Entry) ([]string, error) {
	if e.Topology == 0 {
		return slices.Clone(e.Pins), nil
	}
	p, err := r.placer(ctx, e.Cell, e.Topology)
	if err != nil {
		return nil, err
	}
	return p.Subset(e)
}

// placer is remembered: neither topologies nor versions of keys change.
func (r *Residence) placer(ctx context.Context, cell string, version uint64) (*Placer, error) {
	at := topologyKey(cell, version)
	if p, ok := r.placers.Load(at); ok {
		return p.(*Placer), nil
	}
	t, err := r.known(ctx, cell, version)
	if err != nil {
		return nil, err
	}
	key, err := r.keys(ctx, cell, t.KeyVersion)
	if err != nil {
		return nil, fmt.Errorf("placement key %q of cell %q: %w", t.KeyVersion, cell, err)
	}
	p, err := t.Placer(key)
	if err == nil {
		r.placers.Store(at, p)
	}
	return p, err
}

// SignUp places a tenant, has every shard of its subset hold it, and turns it active. After a failure
// the tenant may be left in state placing: repeat SignUp under the same operation id, or Complete it.
func (r *Residence) SignUp(ctx context.Context, s SignUp, c Change) (Entry, error) {
	e, err := r.Place(ctx, s, c)
	if err != nil {
		return Entry{}, err
	}
	var now Entry
	err = untilFree(ctx, func() (err error) { now, err = r.Get(ctx, s.Tenant); return err })
	if err != nil {
		return Entry{}, err
	}
	if now.State != Placing {
		return now, nil // a repetition, after all was done
	}
	return r.complete(ctx, e, c)
}

// Complete finishes a sign-up that was interrupted. ErrState unless the tenant is placing.
func (r *Residence) Complete(ctx context.Context, tenant string, c Change) (Entry, error) {
	e, err := r.Get(ctx, tenant)
	if err != nil {
		return Entry{}, err
	}
	if e.State != Placing {
		return Entry{}, fmt.Errorf("complete the sign-up of tenant %q: %w: it is %s", tenant, ErrState, e.State)
	}
	return r.complete(ctx, e, c)
}

func (r *Residence) complete(ctx context.Context, placing Entry, c Change) (Entry, error) {
	active := placing.Clone()
	active.State = Active
	e, err := r.Settle(ctx, placing, active, c)
	if errors.Is(err, ErrStale) { // another completed it
		if now, err := r.Get(ctx, placing.Tenant); err == nil && now.State != Placing {
			return now, nil
		}
	}
	return e, err
}

// Settle is Replace for a change that may change the subset: the shards of after's subset hold the
// tenant before the entry changes, and those that only before's subset has let go afterwards. What was
// held in vain is let go when the change is refused. When the letting go fails, the entry is changed and
// returned beside the error.
func (r *Residence) Settle(ctx context.Context, before, after Entry, c Change) (Entry, error) {
	return r.settle(ctx, before, after, c, taking{})
}

func (r *Residence) settle(ctx context.Context, before, after Entry, c Change, t taking) (Entry, error) {
	if before.Epoch == 0 {
		return Entry{}, fmt.Errorf("change tenant %q: %w: the entry before was never read", after.Tenant, ErrInvalid)
	}
	old, err := r.held(ctx, before)
	if err != nil {
		return Entry{}, err
	}
	after = after.Clone()
	after.Epoch = before.Epoch + 1
	next, err := r.held(ctx, after)
	if err != nil {
		return Entry{}, err
	}
	come, leave := without(next, old), without(old, next)
	hold := Holding{after.Tenant, after.Epoch}
	if err := r.hold(ctx, come, hold); err != nil {
		return Entry{}, err
	}
	// Those that stay hold it already, unless it came by Create alone.
	if err := r.hold(ctx, without(next, come), Holding{after.Tenant, before.Epoch}); err != nil {
		return Entry{}, err
	}
	stands, err := r.replace(ctx, before, after, c, t)
	if refused(err) {
		// Another change may have come to the same shards, at an epoch not below this one's. Those that
		// were taken to stay are let go, too: the tenant may have left them before they held it again.
		return Entry{}, errors.Join(err, r.undo(ctx, after.Tenant, next, hold))
	}
	if err != nil {
		return Entry{}, err
	}
	return stands, r.release(ctx, leave, Holding{after.Tenant, before.Epoch})
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
	for _, is := range []error{ErrStale, ErrState, ErrInvalid, ErrReused, ErrSlotTaken, ErrRetired, ErrUnknownTopology, ErrUnknownCell} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// undo lets go of a tenant where it was held in vain, unless what stands needs it.
func (r *Residence) undo(ctx context.Context, tenant string, come []place, h Holding) error {
	now, err := r.Get(ctx, tenant)
	if err != nil {
		return err
	}
	needed, err := r.held(ctx, now)
	if err != nil {
		return err
	}
	return r.release(ctx, without(come, needed), h)
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

// Enrol is Directory.Enrol after every shard of the tenants' subsets holds them.
func (r *Residence) Enrol(ctx context.Context, entries []Entry, c Change) (Enrolled, error) {
	if err := r.holdAll(ctx, entries); err != nil {
		return Enrolled{}, err
	}
	done, err := r.Directory.Enrol(ctx, entries, c)
	for _, e := range done.Differ { // held in vain, where it is not its place
		at, heldErr := r.held(ctx, e)
		if heldErr == nil {
			heldErr = r.undo(ctx, e.Tenant, at, Holding{e.Tenant, 1})
		}
		err = errors.Join(err, heldErr)
	}
	return done, err
}

// holdAll has the shards hold tenants who are to come, those of one shard at once where the holder can.
func (r *Residence) holdAll(ctx context.Context, entries []Entry) error {
	byPlace := map[place][]Holding{}
	many, atOnce := r.holder.(ManyHolder)
	for _, e := range entries {
		at, err := r.held(ctx, e)
		if err == nil && !atOnce {
			err = r.hold(ctx, at, Holding{e.Tenant, 1})
		}
		if err != nil {
			return fmt.Errorf("enrol tenant %q: %w", e.Tenant, err)
		}
		for _, p := range at {
			byPlace[p] = append(byPlace[p], Holding{e.Tenant, 1})
		}
	}
	if !atOnce {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxHoldMany)
	for p, holdings := range byPlace {
		g.Go(func() error {
			if err := many.HoldMany(ctx, p.cell, p.shard, holdings); err != nil {
				return fmt.Errorf("enrol: have shard %s/%s hold %d tenants: %w", p.cell, p.shard, len(holdings), err)
			}
			return nil
		})
	}
	return g.Wait()
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

// finish brings the shards in step with the entry that stands, after a change from before to after that was
// found done.
func (r *Residence) finish(ctx context.Context, tenant string, before, after Entry) error {
	now, err := r.Get(ctx, tenant)
	if err != nil {
		return err
	}
	needed, err := r.held(ctx, now)
	if err != nil {
		return err
	}
	if now.Epoch == after.Epoch {
		if err := r.hold(ctx, needed, Holding{tenant, now.Epoch}); err != nil {
			return err
		}
	}
	for _, e := range []Entry{before, after} {
		at, err := r.held(ctx, e)
		if err == nil {
			err = r.release(ctx, without(at, needed), Holding{tenant, e.Epoch})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
