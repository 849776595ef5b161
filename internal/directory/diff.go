package directory

import (
	"iter"
	"math"
	"slices"
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
// The minimum takes every tenant's seats to be spread evenly before and after: with k of n shards in use a
// tenant puts k/n on each, and what a shard has more of afterwards must have moved there.
func Diff(from, to *Placer, entries iter.Seq2[Entry, error], each func(Move)) (DiffSum, error) {
	var sum DiffSum
	for e, err := range entries {
		if err != nil {
			return sum, err
		}
		before, err := from.Subset(e)
		if err != nil {
			return sum, err
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
			sum.Minimum += minimum(from.shards, len(before), to.shards, len(after))
		}
		if moved > 0 || len(before) != len(after) {
			sum.Moving++
			each(Move{e.Tenant, before, after})
		}
	}
	return sum, nil
}

// minimum is the part of a tenant's k seats, even on all shards, that is new where it comes to lie.
func minimum(from []string, kFrom int, to []string, kTo int) float64 {
	var seats float64
	for _, s := range to {
		had := 0.0
		if slices.Contains(from, s) {
			had = float64(kFrom) / float64(len(from))
		}
		seats += math.Max(0, float64(kTo)/float64(len(to))-had)
	}
	return seats
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
