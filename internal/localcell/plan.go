package localcell

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/placement"
	"cellwall.dev/cellwall/internal/routing"
)

// keyBytes is the length of a placement key, the same as on AWS.
const keyBytes = 32

// Plan is what a supervisor runs: one cell of a fleet, as far as it matters on one machine.
type Plan struct {
	Cell       string          `json:"cell"`
	Audience   string          `json:"audience"`
	Claim      string          `json:"claim"`
	HealthPath string          `json:"healthPath"`
	Routes     []routing.Route `json:"routes"`
	Worker     string          `json:"worker"` // absolute path of the service's executable
	Topology   Topology        `json:"topology"`
}

// Topology is an immutable version of how a cell places its tenants. The directory's entries name it.
type Topology struct {
	Cell       string         `json:"cell"`
	Version    uint64         `json:"version"`
	Scheme     string         `json:"scheme"`
	KBySize    map[string]int `json:"kBySize"` // "" is the default class
	KeyVersion string         `json:"keyVersion"`
	Shards     []string       `json:"shards"`            // ids, in the order of the fleet
	Zones      []string       `json:"zones,omitempty"`   // of the shards, parallel
	Weights    []int          `json:"weights,omitempty"` // of the shards, parallel; 1 each without
	MaxShared  int            `json:"maxShared,omitempty"`
}

// NewPlan takes the named cell out of the fleet; without a name, the first that is not for internal
// tenants only. worker is the absolute path of the service's executable.
func NewPlan(f *fleet.Fleet, cell, worker string) (Plan, error) {
	i := slices.IndexFunc(f.Cells, func(c fleet.Cell) bool {
		return c.Name == cell || cell == "" && c.Tenants != "internal"
	})
	if cell == "" && i < 0 {
		i = 0 // all are internal
	}
	if i < 0 {
		names := []string{}
		for _, c := range f.Cells {
			names = append(names, c.Name)
		}
		return Plan{}, fmt.Errorf("cell %q is not in the fleet, which has %q", cell, names)
	}
	c := f.Cells[i]
	p := Plan{
		Cell: c.Name, Audience: f.Auth.Audience, Claim: f.Auth.Claim, HealthPath: "/healthz", Worker: worker,
		Topology: Topology{
			Cell: c.Name, Version: 1, Scheme: f.Placement.Scheme, MaxShared: f.Placement.MaxShared, KeyVersion: "1", Shards: c.Shards.IDs(),
			KBySize: map[string]int{"": f.Placement.PerTenant},
		},
	}
	for _, s := range c.Shards {
		p.Topology.Zones = append(p.Topology.Zones, s.Zone)
		p.Topology.Weights = append(p.Topology.Weights, s.Weight)
	}
	for size, s := range f.Placement.Sizes {
		p.Topology.KBySize[size] = s.PerTenant
	}
	if f.Shard.HTTP != nil {
		p.HealthPath = f.Shard.HTTP.HealthPath
	}
	for _, r := range f.Routes {
		p.Routes = append(p.Routes, routing.Route{Path: r.Path, Via: r.Via})
	}
	return p, nil
}

// ErrTopology means that the cell on disk places its tenants otherwise than the fleet says now.
var ErrTopology = errors.New("the cell on disk places its tenants differently")

// settle keeps the topology of a new cell, and makes sure that an old one's is the same: a changed one
// would look for tenants' data where it is not.
func (d Dir) settle(t Topology) error {
	var kept Topology
	err := d.readJSON(fileTopology, &kept)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d.writeJSON(fileTopology, t)
	case err != nil:
		return err
	case kept.equal(t):
		return nil
	}
	return fmt.Errorf("%w: in %s lies %s; the fleet now says %s", ErrTopology, d, kept, t)
}

func (t Topology) equal(o Topology) bool {
	return t.Cell == o.Cell && t.Version == o.Version && t.Scheme == o.Scheme && t.KeyVersion == o.KeyVersion &&
		t.MaxShared == o.MaxShared && maps.Equal(t.KBySize, o.KBySize) && slices.Equal(t.placed(), o.placed())
}

// placed is what placement knows of the shards.
func (t Topology) placed() []placement.Shard {
	shards := make([]placement.Shard, len(t.Shards))
	for i, id := range t.Shards {
		shards[i] = placement.Shard{ID: id, Weight: 1}
		if i < len(t.Zones) { // plans of tests have none
			shards[i].Zone = t.Zones[i]
		}
		if i < len(t.Weights) {
			shards[i].Weight = t.Weights[i]
		}
	}
	return shards
}

func (t Topology) String() string {
	k := fmt.Sprint(t.KBySize[""])
	for _, size := range slices.Sorted(maps.Keys(t.KBySize)) {
		if size != "" {
			k += fmt.Sprintf(", %s %d", size, t.KBySize[size])
		}
	}
	return fmt.Sprintf("cell %s, %s, %s of %d shards a tenant (%s)", t.Cell, t.Scheme, k, len(t.Shards), strings.Join(t.Shards, " "))
}

// placementKey returns the cell's placement key, and makes it when there is none.
func (d Dir) placementKey(version string) ([]byte, error) {
	keys := map[string]string{}
	err := d.readJSON(filePlacementKey, &keys)
	if errors.Is(err, fs.ErrNotExist) {
		key := make([]byte, keyBytes)
		rand.Read(key) // never fails (crypto/rand)
		keys[version] = hex.EncodeToString(key)
		data, err := json.Marshal(keys)
		if err != nil {
			return nil, fmt.Errorf("placement key: %w", err)
		}
		return key, d.write(filePlacementKey, append(data, '\n'))
	}
	if err != nil {
		return nil, fmt.Errorf("placement key: %w", err)
	}
	key, err := hex.DecodeString(keys[version])
	if err != nil || len(key) != keyBytes {
		// Neither error nor message may show the key.
		return nil, fmt.Errorf("%w: placement key: %s holds no %d bytes in hex under version %q", ErrDamaged, d.file(filePlacementKey), keyBytes, version)
	}
	return key, nil
}

// Placement computes subsets the way the cell's router does, for its operator.
type Placement struct {
	shards  []string
	classes map[string]placement.Subsets
}

// Placement reads the topology and the key of the cell in d.
func (d Dir) Placement() (*Placement, error) {
	var t Topology
	if err := d.readJSON(fileTopology, &t); err != nil {
		return nil, fmt.Errorf("the cell's topology: %w", err)
	}
	if _, err := d.read(filePlacementKey); err != nil { // do not make one
		return nil, fmt.Errorf("placement key: %w", err)
	}
	key, err := d.placementKey(t.KeyVersion)
	if err != nil {
		return nil, err
	}
	most := 0
	for _, k := range t.KBySize {
		most = max(most, k)
	}
	placer, err := placement.New(placement.Config{
		Scheme: placement.Scheme(t.Scheme), Key: key, Shards: t.placed(), MaxShared: t.MaxShared, MaxPerTenant: most,
	})
	if err != nil {
		return nil, err
	}
	p := &Placement{shards: t.Shards, classes: map[string]placement.Subsets{}}
	for size, k := range t.KBySize {
		if p.classes[size], err = placer.PerTenant(k); err != nil {
			return nil, fmt.Errorf("size class %q: %w", size, err)
		}
	}
	return p, nil
}

// Shards are the ids of the cell's shards.
func (p *Placement) Shards() []string { return p.shards }

// Subset is the tenant's shards: its pins, or what the scheme computes for its size class. It is empty
// when the class is not declared or the slot is none of the topology's, as then the router serves nobody
// either.
func (p *Placement) Subset(e directory.Entry) []string {
	if len(e.Pins) > 0 {
		return e.Pins
	}
	class, ok := p.classes[e.Size]
	if !ok {
		return nil
	}
	indices, err := class.Append(nil, placement.Tenant{ID: e.Tenant, Slot: e.Slot})
	if err != nil {
		return nil
	}
	var ids []string
	for _, i := range indices {
		ids = append(ids, p.shards[i])
	}
	return ids
}

// Key is one version of the placement key of the cell in d, for its operator. It makes none.
func (d Dir) Key(cell, version string) ([]byte, error) {
	var t Topology
	if err := d.readJSON(fileTopology, &t); err != nil {
		return nil, fmt.Errorf("the cell's topology: %w", err)
	}
	if t.Cell != cell {
		return nil, fmt.Errorf("placement key: in %s lies cell %q, not %q", d, t.Cell, cell)
	}
	if _, err := d.read(filePlacementKey); err != nil {
		return nil, fmt.Errorf("placement key: %w", err)
	}
	return d.placementKey(version)
}
