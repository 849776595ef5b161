package directory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"cellwall.dev/cellwall/internal/placement"
)

// Placer computes subsets by a topology.
type Placer struct {
	topology Topology
	shards   []string
	bySize   map[string]placement.Subsets
}

// Placer prepares the topology under the cell's placement key of version t.KeyVersion.
func (t Topology) Placer(key []byte) (*Placer, error) {
	p := &Placer{topology: t, bySize: map[string]placement.Subsets{}}
	var shards []placement.Shard
	for _, s := range t.Shards {
		if s.State == InUse {
			shards = append(shards, placement.Shard{ID: s.ID, Zone: s.Zone, Weight: s.Weight})
			p.shards = append(p.shards, s.ID)
		}
	}
	placer, err := placement.New(t.Scheme, key, shards)
	if err != nil {
		return nil, err
	}
	for _, size := range slices.Sorted(maps.Keys(t.KBySize)) {
		if p.bySize[size], err = placer.PerTenant(t.KBySize[size]); err != nil {
			return nil, fmt.Errorf("size class %q: %w", size, err)
		}
	}
	return p, nil
}

// Subset returns the shards that serve the tenant, in preference order: its pins, or what the scheme
// computes. ErrInvalid when the topology lacks the size class or a pinned shard.
func (p *Placer) Subset(e Entry) ([]string, error) {
	if err := p.topology.fits(e); err != nil {
		return nil, err
	}
	if len(e.Pins) > 0 {
		return slices.Clone(e.Pins), nil
	}
	var room [8]int // of most subsets; the router comes here with every request
	at := p.bySize[e.Size].Append(room[:0], e.Tenant)
	shards := make([]string, len(at))
	for i, n := range at {
		shards[i] = p.shards[n]
	}
	return shards, nil
}

// fits says whether the topology has what the entry names: its size class, pins and slot.
func (t Topology) fits(e Entry) error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w: topology %d of cell %q %s", ErrInvalid, t.Version, t.Cell, fmt.Sprintf(format, args...))
	}
	if _, ok := t.KBySize[e.Size]; !ok {
		return invalid("has no size class %q: want one of %q", e.Size, slices.Sorted(maps.Keys(t.KBySize)))
	}
	for _, pin := range e.Pins {
		if !slices.ContainsFunc(t.Shards, func(s Shard) bool { return s.ID == pin }) {
			return invalid("has no shard %q to pin to", pin)
		}
	}
	if e.Slot > t.Slots {
		return invalid("has %d slots, and not number %d", t.Slots, e.Slot)
	}
	return nil
}

// fits says whether the entry's topology has what it names. That the topology and the cell are there and
// open to it, the batch asks again.
func (d *Directory) fits(ctx context.Context, e Entry) error {
	if e.Topology == 0 {
		if e.Slot > 0 {
			return fmt.Errorf("%w: slot %d without a topology", ErrInvalid, e.Slot)
		}
		return nil
	}
	t, err := d.known(ctx, e.Cell, e.Topology)
	if errors.Is(err, ErrUnknownTopology) {
		if _, err := d.Cell(ctx, e.Cell); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return t.fits(e)
}

// known is Topology, remembered; whether it is retired and how many are on it may be out of date.
func (d *Directory) known(ctx context.Context, cell string, version uint64) (Topology, error) {
	k := topologyKey(cell, version)
	if t, ok := d.topologies.Load(k); ok {
		return t.(Topology), nil
	}
	t, err := d.Topology(ctx, cell, version)
	if err == nil {
		d.topologies.Store(k, t)
	}
	return t, err
}
