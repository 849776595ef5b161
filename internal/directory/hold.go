package directory

import (
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
	// Hold writes the item, or raises its epoch. An item with this epoch or a higher one is left alone, and so
	// is a shard that let go of the tenant at this epoch or a higher one: that stay is over, however late the
	// word of its beginning comes.
	Hold(ctx context.Context, cell, shard string, h Holding) error
	// Release removes the item unless its epoch is above h.Epoch, and remembers that the shard let go up to
	// h.Epoch, also when there was no item.
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

// Forgetter is a Holder that can be told that a tenant was never there.
type Forgetter interface {
	Holder
	// Forget removes the item, and what is remembered of letting go, unless its epoch is above h.Epoch. The
	// shard can hold the tenant at any epoch then. It is for tenants whom the directory does not have.
	Forget(ctx context.Context, cell, shard string, h Holding) error
}

// maxHoldMany is how many shards are told at the same time whom they hold.
const maxHoldMany = 32

// Keys gives the placement key of a cell by its version.
type Keys func(ctx context.Context, cell, version string) ([]byte, error)

// Residence is the directory with the shards' stores: it keeps entries and holdings in step. Each of its
// changes may be repeated after it failed half-way, and Reconcile finds what nobody repeated.
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
