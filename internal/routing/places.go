package routing

import (
	"context"
	"fmt"
	"slices"

	"cellwall.dev/cellwall/internal/directory"
)

// places tells which shards serve a tenant, by the topology that its entry names. Topologies and versions
// of keys never change, so that each is read once and serves beside the others for as long as the router
// runs; there are as many as were published while it did.
type places struct {
	topologies *versions[*directory.Topology]
	placers    *versions[*directory.Placer]
}

func newPlaces(c Config) places {
	topologies := newVersions(c.LookUp, c.Now, func(ctx context.Context, version uint64) (*directory.Topology, error) {
		t, err := c.Topologies.Topology(ctx, c.Cell, version)
		if err != nil {
			return nil, err
		}
		if t.Cell != c.Cell || t.Version != version {
			// It would misplace tenants for as long as the router runs.
			return nil, fmt.Errorf("asked for topology %d of cell %q, got topology %d of %q", version, c.Cell, t.Version, t.Cell)
		}
		return &t, nil
	})
	placers := newVersions(c.LookUp, c.Now, func(ctx context.Context, version uint64) (*directory.Placer, error) {
		t, err := topologies.get(ctx, version)
		if err != nil {
			return nil, err
		}
		key, err := c.Keys(ctx, c.Cell, t.KeyVersion)
		if err != nil {
			return nil, fmt.Errorf("placement key %q of topology %d: %w", t.KeyVersion, version, err)
		}
		return t.Placer(key)
	})
	return places{topologies, placers}
}

// subset returns the shards that serve the tenant, at least one; it may be the entry's own slice.
// directory.ErrInvalid when the entry does not fit its topology; any other error says that the topology or
// its key could not be read.
//
// Pins need no key. One that the topology does not name is passed over. An entry without a topology is
// served by its pins alone.
func (p places) subset(ctx context.Context, e directory.Entry) ([]string, error) {
	switch {
	case len(e.Pins) == 0 && e.Topology == 0:
		return nil, fmt.Errorf("%w: the entry has neither a topology nor pins", directory.ErrInvalid)
	case len(e.Pins) == 0:
		placer, err := p.placers.get(ctx, e.Topology)
		if err != nil {
			return nil, err
		}
		return placer.Subset(e)
	case e.Topology == 0:
		return e.Pins, nil
	}
	t, err := p.topologies.get(ctx, e.Topology)
	if err != nil {
		return nil, err
	}
	members := make([]string, 0, len(e.Pins))
	for _, pin := range e.Pins {
		if slices.ContainsFunc(t.Shards, func(s directory.Shard) bool { return s.ID == pin }) {
			members = append(members, pin)
		}
	}
	if len(members) == 0 {
		return nil, fmt.Errorf("%w: topology %d names none of the pinned shards %q", directory.ErrInvalid, e.Topology, e.Pins)
	}
	return members, nil
}
