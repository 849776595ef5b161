package keeper

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"cellwall.dev/cellwall/internal/snapshot"
)

// fleet reads the entries of all cells. The directory never deletes one. So a tenant that the last snapshot has and
// that is listed nowhere changed its cell between two listings, to one that had been listed already, and stays where
// it was until the next run; the cell that it left answers 421, upon which the directory is asked.
func (r *round) fleet(ctx context.Context) error {
	r.next.Entries = r.last.Entries
	b := snapshot.NewFleetBuilder(r.cells)
	for _, cell := range r.cells {
		if err := r.list(ctx, cell, b); err != nil {
			return fmt.Errorf("list the tenants of cell %s: %w", cell, err)
		}
	}
	entries, err := b.Entries()
	if err != nil {
		return err
	}
	if r.last.Entries != nil && !r.force {
		if entries, err = r.withMissing(entries); err != nil {
			return err
		}
	}
	r.next.Entries = entries
	return nil
}

// withMissing adds those that only the last snapshot has. ErrShrunk when that is most of a cell.
func (r *round) withMissing(listed *snapshot.Entries) (*snapshot.Entries, error) {
	had, missing, sum := map[string]int{}, map[string]int{}, 0
	for e := range r.last.Entries.All() {
		if !slices.Contains(r.cells, e.Cell) {
			continue // the fleet has no such cell any more
		}
		had[e.Cell]++
		if _, ok := listed.Lookup(e.Tenant); !ok {
			missing[e.Cell]++
			sum++
		}
	}
	if sum == 0 {
		return listed, nil
	}
	for _, cell := range slices.Sorted(maps.Keys(missing)) {
		if had[cell] >= manyTenants && had[cell]-missing[cell] < had[cell]/2 {
			return nil, fmt.Errorf("%w: of %d tenants that cell %s had, %d are in no cell", ErrShrunk, had[cell], cell, missing[cell])
		}
	}
	b := snapshot.NewFleetBuilder(r.cells)
	for e := range listed.All() {
		if err := b.Add(e); err != nil {
			return nil, err
		}
	}
	for e := range r.last.Entries.All() {
		if _, ok := listed.Lookup(e.Tenant); !ok && slices.Contains(r.cells, e.Cell) {
			if err := b.Add(e); err != nil {
				return nil, err
			}
		}
	}
	return b.Entries()
}
