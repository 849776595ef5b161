package directory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"cellwall.dev/cellwall/internal/placement"
)

// ShardState says whether a topology places tenants on a shard.
type ShardState string

const (
	InUse   ShardState = "active"  // tenants are placed on it
	Drained ShardState = "drained" // named, so that its id stays taken, and in no subset
)

// Shard is one shard of a topology.
type Shard struct {
	ID     string     `json:"id"`             // 1 to 16 bytes, never reused for another shard
	Zone   string     `json:"zone,omitempty"` // one of the cell's
	Weight int        `json:"weight"`         // at least 1
	State  ShardState `json:"state"`
}

// Topology is an immutable version of how a cell places its tenants.
type Topology struct {
	Cell       string           `json:"cell"`
	Version    uint64           `json:"version"` // rises by one with each that is published; the first is 1
	Scheme     placement.Scheme `json:"scheme"`
	KBySize    map[string]int   `json:"kBySize"`             // shards of a tenant by size class; "" is the default class and needed
	KeyVersion string           `json:"keyVersion"`          // of the cell's placement key, 1 to 16 bytes
	MaxShared  int              `json:"maxShared,omitempty"` // the most shards that two tenants share, where the scheme bounds it
	Slots      uint64           `json:"slots,omitempty"`     // number of slots, where the scheme places by slot
	Shards     []Shard          `json:"shards"`
	Published  time.Time        `json:"published"`
	Retired    bool             `json:"retired,omitempty"` // nobody is on it, and nobody comes to it

	Tenants int64 `json:"-"` // that are placed by it
}

// Errors of topologies. They come wrapped.
var (
	ErrUnknownTopology = errors.New("the cell has no topology of this version: publish it first")
	ErrRetired         = errors.New("this topology is retired: use a later version")
	ErrInUse           = errors.New("tenants are placed by this topology: migrate them first")
)

// Versions of a topology's record.
const (
	liveVersion    = 1
	retiredVersion = 2
)

// Check says what is wrong with a topology of a cell that has these zones, wrapping ErrInvalid.
func (t Topology) Check(zones []string) error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w: topology %d of cell %q: %s", ErrInvalid, t.Version, t.Cell, fmt.Sprintf(format, args...))
	}
	first := map[string]int{}
	for i, s := range t.Shards {
		switch at, twice := first[s.ID]; {
		case !name(s.ID):
			return invalid("shard %d has the id %q: want 1 to %d characters", i+1, s.ID, maxName)
		case twice:
			return invalid("positions %d and %d both name shard %q: two tenants that share no position would share that shard; name each once", at+1, i+1, s.ID)
		case s.Zone != "" && !slices.Contains(zones, s.Zone):
			return invalid("shard %q lies in zone %q, and the cell has %q", s.ID, s.Zone, zones)
		case s.State != InUse && s.State != Drained:
			return invalid("shard %q has state %q: want %s or %s", s.ID, s.State, InUse, Drained)
		}
		first[s.ID] = i
	}
	if _, ok := t.KBySize[""]; !ok {
		return invalid(`kBySize has no "", the default size class`)
	}
	for size := range t.KBySize {
		if size != "" && !name(size) {
			return invalid("size class %q: want a name of at most %d characters", size, maxName)
		}
	}
	switch {
	case !name(t.KeyVersion):
		return invalid("keyVersion %q: want 1 to %d characters", t.KeyVersion, maxName)
	case t.Slots > math.MaxInt64 || t.MaxShared < 0:
		return invalid("slots and maxShared: want whole numbers that are not negative")
	}
	if _, err := t.Placer([]byte{0}); err != nil { // any key finds what is wrong with the rest
		return invalid("%v", err)
	}
	return nil
}

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
// computes. A size class that the topology does not have, or a pin on a shard that it does not name, is
// ErrInvalid.
func (p *Placer) Subset(e Entry) ([]string, error) {
	if len(e.Pins) > 0 {
		for _, pin := range e.Pins {
			if !slices.ContainsFunc(p.topology.Shards, func(s Shard) bool { return s.ID == pin }) {
				return nil, fmt.Errorf("%w: tenant %q is pinned to %q, which is no shard of topology %d of cell %q",
					ErrInvalid, e.Tenant, pin, p.topology.Version, p.topology.Cell)
			}
		}
		return slices.Clone(e.Pins), nil
	}
	subsets, ok := p.bySize[e.Size]
	if !ok {
		return nil, fmt.Errorf("%w: size class %q is not in topology %d of cell %q: want one of %q",
			ErrInvalid, e.Size, p.topology.Version, p.topology.Cell, slices.Sorted(maps.Keys(p.topology.KBySize)))
	}
	var shards []string
	for _, i := range subsets.Append(nil, e.Tenant) {
		shards = append(shards, p.shards[i])
	}
	return shards, nil
}

func decodeTopology(r Record) (Topology, error) {
	var t Topology
	if err := decode(r, &t); err != nil {
		return Topology{}, err
	}
	t.Tenants = r.Counters[tenantsCounter]
	return t, nil
}

// Topology returns one version of a cell's topology. ErrUnknownTopology when there is none.
func (d *Directory) Topology(ctx context.Context, cell string, version uint64) (Topology, error) {
	r, err := d.read(ctx, Strong, topologyKey(cell, version))
	switch {
	case err != nil:
		return Topology{}, fmt.Errorf("cell %q, topology %d: %w", cell, version, err)
	case r.Version == 0:
		return Topology{}, fmt.Errorf("cell %q, topology %d: %w", cell, version, ErrUnknownTopology)
	}
	return decodeTopology(r)
}

// Topologies returns up to limit topologies of a cell with versions above after, in their order.
func (d *Directory) Topologies(ctx context.Context, cell string, after uint64, limit int) ([]Topology, error) {
	records, err := d.home.List(ctx, Range{Family: famTopology, Part: cellPart + cell}, topologyKey(cell, after), limit)
	if err != nil {
		return nil, fmt.Errorf("topologies of cell %q: %w", cell, err)
	}
	topologies := make([]Topology, len(records))
	for i, r := range records {
		if topologies[i], err = decodeTopology(r); err != nil {
			return nil, err
		}
	}
	return topologies, nil
}

// Publish adds the next version of a cell's topology, which new tenants get from then on. t.Version
// must be one above the cell's; others are refused with ErrStale, unless this operation published it.
func (d *Directory) Publish(ctx context.Context, t Topology, c Change) (Topology, error) {
	t.Published, t.Retired, t.Tenants = c.At.UTC(), false, 0
	_, err := d.changeCell(ctx, t.Cell, fmt.Sprintf("publish topology %d", t.Version), c, func(cell Cell) (Cell, []Op, error) {
		switch {
		case cell.version == 0:
			return Cell{}, nil, ErrUnknownCell
		case t.Version != cell.Topology+1:
			return Cell{}, nil, fmt.Errorf("the cell's topology has version %d, so that the next is %d and not %d: %w", cell.Topology, cell.Topology+1, t.Version, ErrStale)
		}
		if err := t.Check(cell.Zones); err != nil {
			return Cell{}, nil, err
		}
		cell.Topology = t.Version
		return cell, []Op{Put(topologyKey(t.Cell, t.Version), 0, encode(t))}, nil
	})
	if err != nil {
		return Topology{}, err
	}
	return d.Topology(ctx, t.Cell, t.Version)
}

// Retire closes a topology for good. ErrInUse while tenants are placed by it, or when it is the cell's
// newest, which new tenants get.
func (d *Directory) Retire(ctx context.Context, cell string, version uint64, c Change) (Topology, error) {
	t, err := d.Topology(ctx, cell, version)
	if err != nil || t.Retired {
		return t, err
	}
	var now Cell
	_, err = d.changeCell(ctx, cell, fmt.Sprintf("retire topology %d", version), c, func(cell Cell) (Cell, []Op, error) {
		if now = cell; cell.Topology == version {
			return Cell{}, nil, fmt.Errorf("topology %d is the newest, which new tenants get: publish another first: %w", version, ErrInUse)
		}
		t.Retired = true
		put := Put(topologyKey(cell.Name, version), liveVersion, encode(t))
		put.Deltas = []Delta{{tenantsCounter, 0, 0, 0}} // nobody is on it
		return cell, []Op{put}, nil
	})
	switch t, readErr := d.Topology(ctx, cell, version); {
	case err == nil:
		return t, readErr
	case errors.Is(err, ErrRetired) && readErr == nil && t.Retired:
		return t, nil
	case errors.Is(err, ErrRetired) && readErr == nil:
		return Topology{}, fmt.Errorf("retire topology %d of cell %q: %d tenants are left on it: %w", version, now.Name, t.Tenants, ErrInUse)
	}
	return Topology{}, err
}

// topologyOps counts the tenants of each topology. Whoever comes to one needs it live.
func topologyOps(before, after Entry) []Op {
	if before.Epoch > 0 && before.Cell == after.Cell && before.Topology == after.Topology {
		return nil
	}
	var ops []Op
	if before.Epoch > 0 && before.Topology > 0 {
		ops = append(ops, Require(topologyKey(before.Cell, before.Topology), AnyVersion, Delta{tenantsCounter, -1, 0, math.MaxInt64}))
	}
	if after.Topology > 0 {
		ops = append(ops, Require(topologyKey(after.Cell, after.Topology), liveVersion, Delta{tenantsCounter, 1, 0, math.MaxInt64}))
	}
	return ops
}
