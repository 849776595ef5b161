package directory

import (
	"context"
	"errors"
	"fmt"
	"math"
)

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

// Named returns the shards that topologies of a cell name which are not retired, with the versions that
// name each. None of them can be taken out of the fleet.
func (d *Directory) Named(ctx context.Context, cell string) (map[string][]uint64, error) {
	const page = 100
	named := map[string][]uint64{}
	for after := uint64(0); ; {
		topologies, err := d.Topologies(ctx, cell, after, page)
		if err != nil {
			return nil, err
		}
		for _, t := range topologies {
			after = t.Version
			if t.Retired {
				continue
			}
			for _, s := range t.Shards {
				named[s.ID] = append(named[s.ID], t.Version)
			}
		}
		if len(topologies) < page {
			return named, nil
		}
	}
}
