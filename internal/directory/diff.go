package directory

import (
	"fmt"
	"iter"
	"slices"

	"cellwall.dev/cellwall/internal/placement"
)

// Move is a tenant whose subset differs between two topologies.
type Move struct {
	Tenant   string
	From, To []string // in preference order
}

// DiffSum counts what a change of topology moves. A seat is a tenant's membership of one shard.
type DiffSum struct {
	Tenants int     // looked at
	Moving  int     // whose subset changes; another order alone is no change
	Seats   int     // in the new topology
	Moved   int     // seats on shards that did not serve their tenant before
	Minimum float64 // seats that no scheme could leave, if every shard in use is to have its fair share
}

// Diff tells who moves when the entries go from one topology to another, each by its own size class and
// pins, and passes every tenant that moves to each. An entry that either topology cannot place is an
// error.
//
// The minimum takes every shard to have its fair share of each tenant before and after, by weight: with k of
// n like shards k/n, and what a shard has more of afterwards must have moved there.
//
// A tenant without a slot that comes to a topology which places by slot gets one when it is migrated. Until
// then its subset there is not known: it is counted as if slots were given out from the first on.
func Diff(from, to *Placer, entries iter.Seq2[Entry, error], each func(Move)) (DiffSum, error) {
	var sum DiffSum
	minima := map[string]float64{} // by size class
	given := uint64(0)
	for e, err := range entries {
		if err != nil {
			return sum, err
		}
		before, err := from.Subset(e)
		if err != nil {
			return sum, err
		}
		if to.Slots() == 0 {
			e.Slot = 0
		} else if e.Slot == 0 || e.Slot > to.Slots() {
			if given++; given > to.Slots() {
				return sum, fmt.Errorf("tenant %q: topology %d of cell %q: %w", e.Tenant, to.topology.Version, to.topology.Cell, ErrNoSlot)
			}
			e.Slot = given
		}
		after, err := to.Subset(e)
		if err != nil {
			return sum, err
		}
		moved := 0
		for _, s := range after {
			if !slices.Contains(before, s) {
				moved++
			}
		}
		sum.Tenants++
		sum.Seats += len(after)
		sum.Moved += moved
		if len(e.Pins) == 0 {
			least, known := minima[e.Size]
			if !known {
				least = placement.LeastMoved(from.fair(e.Size), to.fair(e.Size))
				minima[e.Size] = least
			}
			sum.Minimum += least
		}
		if moved > 0 || len(before) != len(after) {
			sum.Moving++
			each(Move{e.Tenant, before, after})
		}
	}
	return sum, nil
}

// fair is the shards' fair shares of a tenant of the size class, by id.
func (p *Placer) fair(size string) map[string]float64 {
	shares := map[string]float64{}
	for i, share := range p.bySize[size].Fair() {
		shares[p.shards[i]] = share
	}
	return shares
}

// Pages is every entry of a listing that comes in pages, such as List or ListCell.
func Pages(list func(after string, limit int) ([]Entry, error)) iter.Seq2[Entry, error] {
	const page = 1000
	return func(yield func(Entry, error) bool) {
		for after := ""; ; {
			entries, err := list(after, page)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
				after = e.Tenant
			}
			if len(entries) < page {
				return
			}
		}
	}
}
