package directory

import (
	"fmt"
	"iter"
	"slices"

	"cellwall.dev/cellwall/internal/placement"
)

// Move is a tenant whose subset differs between two topologies, or whom one of them cannot place.
type Move struct {
	Tenant   string
	From, To []string // in preference order; To is empty for whoever stays because of Why
	Why      error    // a size class, pin or slot that a topology does not have: a migration leaves this tenant
}

// DiffSum counts what a change of topology moves. A seat is a tenant's membership of one shard.
type DiffSum struct {
	Tenants  int     // looked at
	Moving   int     // whose subset changes; another order alone is no change
	Left     int     // whom one of the topologies cannot place; they have no seats here
	Seats    int     // in the new topology
	Moved    int     // seats on shards that did not serve their tenant before
	Minimum  int     // seats that every scheme moves to give each shard as many as the new topology does
	Expected float64 // seats of tenants that are not pinned that a scheme moves at least, on average over keys, to give every shard its fair share
	Drained  int     // pinned tenants who stay on a shard that the new topology drains
}

// Diff tells who moves when the entries go from one topology to another, each by its own size class and
// pins, and passes every tenant that moves, and every one that cannot be placed, to each.
//
// The minimum is proved by the entries themselves: a shard that has more tenants afterwards got them from
// elsewhere, and a seat on a shard that the new topology does not use goes elsewhere. It is never above what
// moves. What is expected takes every shard to have its fair share of each tenant before and after, by
// weight: with k of n like shards k/n, and what a shard has more of afterwards must have moved there. A few
// tenants lie above or below that by chance.
//
// A tenant without a slot that comes to a topology which places by slot gets one when it is migrated. Until
// then its subset there is not known: it is counted as if slots were given out from the first on.
func Diff(from, to *Placer, entries iter.Seq2[Entry, error], each func(Move)) (DiffSum, error) {
	var sum DiffSum
	expected := map[string]float64{} // by size class
	gained := map[string]int{}       // seats by shard, less those before
	forced := 0
	given := uint64(0)
	for e, err := range entries {
		if err != nil {
			return sum, err
		}
		sum.Tenants++
		before, err := from.Subset(e)
		if err != nil {
			sum.Left++
			each(Move{Tenant: e.Tenant, Why: err})
			continue
		}
		after, err := to.next(e, &given)
		if err != nil {
			sum.Left++
			each(Move{Tenant: e.Tenant, From: before, Why: err})
			continue
		}
		moved, stay := 0, 0
		for _, s := range after {
			gained[s]++
			if !slices.Contains(before, s) {
				moved++
			}
		}
		for _, s := range before {
			gained[s]--
			if slices.Contains(to.shards, s) || slices.Contains(e.Pins, s) {
				stay++
			}
		}
		forced += max(0, len(after)-stay)
		sum.Seats += len(after)
		sum.Moved += moved
		if len(e.Pins) == 0 {
			least, known := expected[e.Size]
			if !known {
				least = placement.LeastMoved(from.fair(e.Size), to.fair(e.Size))
				expected[e.Size] = least
			}
			sum.Expected += least
		} else if len(to.topology.Drains(e.Pins)) > 0 {
			sum.Drained++
		}
		if moved > 0 || len(before) != len(after) {
			sum.Moving++
			each(Move{Tenant: e.Tenant, From: before, To: after})
		}
	}
	for _, more := range gained {
		sum.Minimum += max(0, more)
	}
	sum.Minimum = max(sum.Minimum, forced)
	return sum, nil
}

// next is the subset that the entry gets when it comes to the topology. given counts the slots that were
// taken to be given out.
func (p *Placer) next(e Entry, given *uint64) ([]string, error) {
	if p.Slots() == 0 {
		e.Slot = 0
	} else if e.Slot == 0 || e.Slot > p.Slots() {
		if *given == p.Slots() {
			return nil, fmt.Errorf("topology %d of cell %q: %w", p.topology.Version, p.topology.Cell, ErrNoSlot)
		}
		*given++
		e.Slot = *given
	}
	return p.Subset(e)
}

// Drains returns those of the shards that the topology names and places nobody on.
func (t Topology) Drains(shards []string) []string {
	var drained []string
	for _, s := range t.Shards {
		if s.State == Drained && slices.Contains(shards, s.ID) {
			drained = append(drained, s.ID)
		}
	}
	return drained
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
