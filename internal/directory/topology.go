package directory

import (
	"context"
	"errors"
	"fmt"
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

	// Position is the name by which the scheme knows the shard, the id when it is empty. A shard that takes
	// over the position of one that is drained or gone, in the same zone and with the same weight, takes over
	// its tenants, and nobody else moves.
	Position string `json:"position,omitempty"`
}

func (s Shard) position() string {
	if s.Position != "" {
		return s.Position
	}
	return s.ID
}

// Topology is an immutable version of how a cell places its tenants.
type Topology struct {
	Cell       string           `json:"cell"`
	Version    uint64           `json:"version"` // rises by one with each that is published; the first is 1
	Scheme     placement.Scheme `json:"scheme"`
	KBySize    map[string]int   `json:"kBySize"`             // shards of a tenant by size class; "" is the default class and needed
	KeyVersion string           `json:"keyVersion"`          // of the cell's placement key, 1 to 16 bytes
	KeyCheck   string           `json:"keyCheck,omitempty"`  // fingerprint of that key (KeyCheck), when it was at hand
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
		case s.Position != "" && !name(s.Position):
			return invalid("shard %q has the position %q: want 1 to %d characters", s.ID, s.Position, maxName)
		}
		first[s.ID] = i
	}
	holder := map[string]string{}
	for _, s := range t.Shards {
		if s.State != InUse {
			continue
		}
		if other, taken := holder[s.position()]; taken {
			return invalid("shards %q and %q both have the position %q: a position belongs to one shard in use; drain one of them, or write another", other, s.ID, s.position())
		}
		holder[s.position()] = s.ID
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
	case t.KeyCheck != "" && !isKeyCheck(t.KeyCheck):
		return invalid("keyCheck %q: want %d hexadecimal digits, or none", t.KeyCheck, 2*keyCheckBytes)
	case t.Slots > math.MaxInt64 || t.MaxShared < 0:
		return invalid("slots and maxShared: want whole numbers that are not negative")
	}
	p, err := t.shape()
	if err != nil {
		return invalid("%v", err)
	}
	if p.Slots() != t.Slots {
		return invalid("slots is %d: %s with these shards has %d, write that", t.Slots, t.Scheme, p.Slots())
	}
	return nil
}

// WithSlots is the topology with as many slots as its scheme has with these shards: none where it does not
// place by slot. ErrInvalid when the scheme refuses the shards.
func (t Topology) WithSlots() (Topology, error) {
	p, err := t.shape()
	if err != nil {
		return Topology{}, fmt.Errorf("%w: topology %d of cell %q: %w", ErrInvalid, t.Version, t.Cell, err)
	}
	t.Slots = p.Slots()
	return t, nil
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
	return d.topology(ctx, Strong, cell, version)
}

func (d *Directory) topology(ctx context.Context, c Consistency, cell string, version uint64) (Topology, error) {
	r, err := d.read(ctx, c, topologyKey(cell, version))
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
