package directory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cellwall.dev/cellwall/internal/placement"
)

// Placer computes subsets by a topology.
type Placer struct {
	topology Topology
	placer   *placement.Placer
	shards   []string // ids, parallel to the shards of placer
	bySize   map[string]placement.Subsets
}

// Placer prepares the topology under the cell's placement key of version t.KeyVersion. ErrKey when that is
// not the one of which the topology has the fingerprint.
func (t Topology) Placer(key []byte) (*Placer, error) {
	if err := t.CheckKey(key); err != nil {
		return nil, err
	}
	return t.prepare(key)
}

// shape is the topology under no cell's key: all but who gets which subset.
func (t Topology) shape() (*Placer, error) { return t.prepare([]byte{0}) }

func (t Topology) prepare(key []byte) (*Placer, error) {
	p := &Placer{topology: t, bySize: map[string]placement.Subsets{}}
	var shards []placement.Shard
	for _, s := range t.inUse() {
		shards = append(shards, placement.Shard{ID: s.position(), Zone: s.Zone, Weight: s.Weight})
		p.shards = append(p.shards, s.ID)
	}
	placer, err := placement.New(placement.Config{
		Scheme: t.Scheme, Key: key, Shards: shards,
		MaxShared: t.MaxShared, MaxPerTenant: t.maxPerTenant(),
	})
	if err != nil {
		return nil, err
	}
	for _, size := range slices.Sorted(maps.Keys(t.KBySize)) {
		if p.bySize[size], err = placer.PerTenant(t.KBySize[size]); err != nil {
			return nil, fmt.Errorf("size class %q: %w", size, err)
		}
	}
	p.placer = placer
	return p, nil
}

// inUse is the shards that place tenants. One that has the position of another shard in the list, which is
// drained, stands in that one's place, because hmac/v1 knows a shard by its place alone.
func (t Topology) inUse() []Shard {
	place := map[string]int{}
	for i, s := range t.Shards {
		place[s.ID] = i
	}
	at := func(s Shard) int {
		if i, named := place[s.position()]; named {
			return i
		}
		return place[s.ID]
	}
	shards := slices.DeleteFunc(slices.Clone(t.Shards), func(s Shard) bool { return s.State != InUse })
	slices.SortStableFunc(shards, func(a, b Shard) int { return cmp.Compare(at(a), at(b)) })
	return shards
}

// Format writes what the Placer is, whatever the verb, and nothing of its key.
func (p Placer) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "topology %d of cell %q, %v", p.topology.Version, p.topology.Cell, p.placer)
}

// Slots is the number of slots that the topology has, 0 when its scheme does not place by slot.
func (p *Placer) Slots() uint64 { return p.placer.Slots() }

// Anew says whether going to the other topology draws all subsets anew, as hmac/v1 with another number of
// shards does (placement.Anew).
func (p *Placer) Anew(to *Placer) bool { return placement.Anew(p.placer, to.placer) }

// Anew says whether going to the other topology draws all subsets anew: by another key, or as Placer.Anew has
// it. ErrInvalid when the scheme of either refuses its shards.
func (t Topology) Anew(to Topology) (bool, error) {
	if t.KeyVersion != to.KeyVersion || t.KeyCheck != "" && to.KeyCheck != "" && t.KeyCheck != to.KeyCheck {
		return true, nil
	}
	from, err := t.shape()
	if err != nil {
		return false, fmt.Errorf("%w: topology %d of cell %q: %w", ErrInvalid, t.Version, t.Cell, err)
	}
	next, err := to.shape()
	if err != nil {
		return false, fmt.Errorf("%w: topology %d of cell %q: %w", ErrInvalid, to.Version, to.Cell, err)
	}
	return from.Anew(next), nil
}

// maxPerTenant is the largest k of the size classes, 0 without any.
func (t Topology) maxPerTenant() int {
	most := 0
	for _, k := range t.KBySize {
		most = max(most, k)
	}
	return most
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
	at, err := p.bySize[e.Size].Append(room[:0], placement.Tenant{ID: e.Tenant, Slot: e.Slot})
	if err != nil {
		return nil, fmt.Errorf("%w: tenant %q by topology %d of cell %q: %w", ErrInvalid, e.Tenant, p.topology.Version, p.topology.Cell, err)
	}
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
		var named []string
		for _, size := range slices.Sorted(maps.Keys(t.KBySize)) {
			if size != "" {
				named = append(named, strconv.Quote(size))
			}
		}
		if named == nil {
			return invalid("has no size class %q: it has none but the default, which an empty size is", e.Size)
		}
		return invalid("has no size class %q: want none, for the default, or one of %s", e.Size, strings.Join(named, ", "))
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

// takes is fits, of an entry that is to be written: where the scheme places by slot it has one.
func (t Topology) takes(e Entry) error {
	if t.Slots > 0 && e.Slot == 0 {
		return fmt.Errorf("%w: topology %d of cell %q places by slot, and tenant %q has none: give it one from 1 to %d that is free", ErrInvalid, t.Version, t.Cell, e.Tenant, t.Slots)
	}
	return t.fits(e)
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
	return t.takes(e)
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
