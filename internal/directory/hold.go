package directory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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

// Keys gives the placement key of a cell by its version.
type Keys func(ctx context.Context, cell, version string) ([]byte, error)

// Residence is the directory with the shards' stores: it keeps entries and holdings in step. Each of its
// changes may be repeated after it failed half-way.
type Residence struct {
	*Directory
	holder Holder
	keys   Keys
}

// NewResidence returns the residence of these parts.
func NewResidence(d *Directory, h Holder, k Keys) *Residence { return &Residence{d, h, k} }

// Subset returns the shards that serve the tenant by its entry, in preference order. It is empty when
// the entry has no topology.
func (r *Residence) Subset(ctx context.Context, e Entry) ([]string, error) {
	if e.Topology == 0 {
		return slices.Clone(e.Pins), nil
	}
	t, err := r.Topology(ctx, e.Cell, e.Topology)
	if err != nil {
		return nil, err
	}
	key, err := r.keys(ctx, e.Cell, t.KeyVersion)
	if err != nil {
		return nil, fmt.Errorf("placement key %q of cell %q: %w", t.KeyVersion, e.Cell, err)
	}
	p, err := t.Placer(key)
	if err != nil {
		return nil, err
	}
	return p.Subset(e)
}

// SignUp places a tenant, has every shard of its subset hold it, and turns it active. After a failure
// the tenant may be left in state placing: repeat SignUp under the same operation id, or Complete it.
func (r *Residence) SignUp(ctx context.Context, s SignUp, c Change) (Entry, error) {
	e, err := r.Place(ctx, s, c)
	if err != nil {
		return Entry{}, err
	}
	if now, err := r.Get(ctx, s.Tenant); err != nil {
		return Entry{}, err
	} else if now.State != Placing {
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
	for _, p := range come {
		if err := r.holder.Hold(ctx, p.cell, p.shard, hold); err != nil {
			return Entry{}, fmt.Errorf("tenant %q: have shard %s/%s hold it: %w", after.Tenant, p.cell, p.shard, err)
		}
	}
	stands, err := r.Replace(ctx, before, after, c)
	if errors.Is(err, ErrStale) || errors.Is(err, ErrState) || errors.Is(err, ErrInvalid) {
		// Another change may have come to the same shards, at an epoch not below this one's.
		return Entry{}, errors.Join(err, r.undo(ctx, after.Tenant, come, hold))
	}
	if err != nil {
		return Entry{}, err
	}
	return stands, r.release(ctx, leave, Holding{after.Tenant, before.Epoch})
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

// MemoryHolder is a Holder that lives and dies with the process.
type MemoryHolder struct {
	mu    sync.Mutex
	items map[place]map[string]uint64
}

// NewMemoryHolder returns one in which nobody holds anybody.
func NewMemoryHolder() *MemoryHolder { return &MemoryHolder{items: map[place]map[string]uint64{}} }

// Hold implements Holder.
func (m *MemoryHolder) Hold(ctx context.Context, cell, shard string, h Holding) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := place{cell, shard}
	if m.items[p] == nil {
		m.items[p] = map[string]uint64{}
	}
	m.items[p][h.Tenant] = max(m.items[p][h.Tenant], h.Epoch)
	return ctx.Err()
}

// Release implements Holder.
func (m *MemoryHolder) Release(ctx context.Context, cell, shard string, h Holding) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := (place{cell, shard}); m.items[p][h.Tenant] <= h.Epoch {
		delete(m.items[p], h.Tenant)
	}
	return ctx.Err()
}

// Held implements Holder.
func (m *MemoryHolder) Held(ctx context.Context, cell, shard, tenant string) (Holding, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	epoch, ok := m.items[place{cell, shard}][tenant]
	return Holding{tenant, epoch}, ok, ctx.Err()
}

// Holdings implements Holder.
func (m *MemoryHolder) Holdings(ctx context.Context, cell, shard, after string, limit int) ([]Holding, error) {
	if limit < 1 {
		return nil, fmt.Errorf("list the tenants of shard %s/%s: limit %d: want at least 1", cell, shard, limit)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Holding
	for tenant, epoch := range m.items[place{cell, shard}] {
		if tenant > after {
			all = append(all, Holding{tenant, epoch})
		}
	}
	slices.SortFunc(all, func(a, b Holding) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return all[:min(limit, len(all))], ctx.Err()
}
