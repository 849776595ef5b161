package directory

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"strings"
)

// published begins what a publication did, followed by the topology's digest.
const published = "publish topology "

// Publish adds the next version of a cell's topology, which new tenants get from then on. t.Version
// must be one above the cell's; others are refused with ErrStale. When this operation published the same
// topology before, whatever its version, that one is returned.
func (d *Directory) Publish(ctx context.Context, t Topology, c Change) (Topology, error) {
	t.Published, t.Retired, t.Tenants = c.At.UTC(), false, 0
	cell, err := d.changeCell(ctx, t.Cell, published+t.digest(), c, func(cell Cell) (Cell, []Op, error) {
		switch {
		case cell.version == 0:
			return Cell{}, nil, ErrUnknownCell
		case t.Version != cell.Topology+1:
			return Cell{}, nil, fmt.Errorf("the cell's topology has version %d, so that the next is %d and not %d: %w", cell.Topology, cell.Topology+1, t.Version, ErrStale)
		}
		if err := t.Check(cell.Zones); err != nil {
			return Cell{}, nil, err
		}
		cell.Topology, cell.Did = t.Version, fmt.Sprintf("publish topology %d", t.Version)
		return cell, []Op{Put(topologyKey(t.Cell, t.Version), 0, encode(t))}, nil
	})
	if err != nil {
		return Topology{}, err
	}
	return d.Topology(ctx, t.Cell, cell.Topology)
}

// digest names how a topology places, without its version, its times and what it remembers of the key.
func (t Topology) digest() string {
	places := Topology{
		Cell: t.Cell, Scheme: t.Scheme, KBySize: t.KBySize, KeyVersion: t.KeyVersion,
		MaxShared: t.MaxShared, Slots: t.Slots, Shards: t.Shards,
	}
	return fmt.Sprintf("%x", sha256.Sum256(encode(places)))
}

// Published is the version of the topology that the operation published in the cell, 0 when it published
// none. ErrReused when it changed the cell otherwise.
func (d *Directory) Published(ctx context.Context, cell, operation string) (uint64, error) {
	fail := func(err error) (uint64, error) { return 0, fmt.Errorf("cell %q: %w", cell, err) }
	done, err := d.didBefore(ctx, cell, operation)
	if err != nil {
		return fail(err)
	}
	if done.Version == 0 {
		return 0, nil
	}
	if !strings.HasPrefix(done.Did, published) {
		return fail(fmt.Errorf("%w (%q): %s", ErrReused, operation, done.Did))
	}
	left, err := d.cellAt(ctx, cell, done.Version)
	if err != nil {
		return fail(err)
	}
	return left.Topology, nil
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
