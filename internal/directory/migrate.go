package directory

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// ErrHome means that a change of subset would leave state behind.
var ErrHome = errors.New("the tenants' state lies on their shards: each needs a move, not a migration")

// Migration is the way of a cell's tenants to another version of its topology.
type Migration struct {
	Cell     string
	To       uint64 // version
	Stateful bool   // the service's state lies on the shards; the migration is refused with ErrHome
}

// Migrated is what became of one page of tenants. Skipped and Failed are in the page's order.
type Migrated struct {
	Moved   int    // to the version, now or in an earlier attempt
	Skipped []Left // whose entry, or what the version has, does not allow it
	Failed  []Left // of whom it is not known whether all was done; a repetition finds out and finishes it
	Next    string // tenant after which the next page begins; "" when this was the last
}

// Left is a tenant who was not migrated, or not wholly.
type Left struct {
	Tenant string
	Why    error
}

// migratedAtOnce is how many tenants of a page are migrated at the same time. Each tells its shards by
// several requests, which wait for the network; more of them would meet at the topologies' counters.
const migratedAtOnce = 16

// Migrate moves the tenants of one page, up to limit after the tenant named after, to the version, several
// at a time. Begin with "" and go on with Next. It may miss tenants who came in the last moments: after the
// last page, begin again while the old topology has tenants. Placing and moving tenants are skipped, and
// whoever the new topology has no size class, pinned shard or slot for. One that fails does not keep the
// others.
//
// When ctx ends, no other tenant is begun, and those that were are finished; what was done comes back
// beside the cause. A page may be repeated. Whoever came to the version by their last change and is still
// held where they left, because that was interrupted, is let go there then; Reconcile finds the others.
func (r *Residence) Migrate(ctx context.Context, m Migration, after string, limit int, c Change) (Migrated, error) {
	fail := func(err error) (Migrated, error) {
		return Migrated{}, fmt.Errorf("migrate cell %q to topology %d: %w", m.Cell, m.To, err)
	}
	if err := c.check(); err != nil {
		return fail(err)
	}
	if m.Stateful {
		return fail(ErrHome)
	}
	to, err := r.Topology(ctx, m.Cell, m.To)
	if err != nil {
		return Migrated{}, err
	}
	if to.Retired {
		return fail(ErrRetired)
	}
	page, err := r.ListCell(ctx, m.Cell, after, limit)
	if err != nil {
		return fail(err)
	}
	live, err := r.live(ctx, m.Cell)
	if err != nil {
		return fail(err)
	}
	type result struct {
		begun, on bool
		err       error
	}
	results := make([]result, len(page))
	var g errgroup.Group
	g.SetLimit(migratedAtOnce)
	for i, e := range page {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			if ctx.Err() == nil {
				// A tenant that is begun is finished: the home and the holder bound how long that takes.
				on, err := r.migrate(context.WithoutCancel(ctx), e, to, live, c)
				results[i] = result{true, on, err}
			}
			return nil
		})
	}
	_ = g.Wait() // nobody returns an error
	var out Migrated
	all := true
	for i, got := range results {
		left := Left{page[i].Tenant, got.err}
		switch {
		case !got.begun:
			all = false
		case got.err == nil && got.on:
			out.Moved++
		case got.err == nil: // left the cell
		case (refused(got.err) || errors.Is(got.err, ErrNoSlot)) && !errors.Is(got.err, errLeftHeld):
			out.Skipped = append(out.Skipped, left)
		default:
			out.Failed = append(out.Failed, left)
		}
	}
	if !all {
		_, err := fail(context.Cause(ctx))
		return out, err
	}
	if len(page) == limit {
		out.Next = page[limit-1].Tenant
	}
	return out, nil
}

// live is the versions of a cell's topology that are not retired.
func (r *Residence) live(ctx context.Context, cell string) (map[uint64]bool, error) {
	const page = 100
	live := map[uint64]bool{}
	for after := uint64(0); ; {
		topologies, err := r.Topologies(ctx, cell, after, page)
		if err != nil {
			return nil, err
		}
		for _, t := range topologies {
			after, live[t.Version] = t.Version, !t.Retired
		}
		if len(topologies) < page {
			return live, nil
		}
	}
}

// migrateTries is how often a tenant is tried that others change, or whose slot others take, at the same
// time. More than are migrated at once: a race for a slot that is lost is one that another won.
const migrateTries = 2 * migratedAtOnce

// migrate says whether the tenant is on the version now; without an error it else left the cell.
func (r *Residence) migrate(ctx context.Context, e Entry, to Topology, live map[uint64]bool, c Change) (on bool, err error) {
	var tried []place // where it was held for tries that were lost
	for range migrateTries {
		switch {
		case e.Cell != to.Cell:
			return false, r.vain(ctx, e, tried)
		case e.Topology == to.Version:
			return true, errors.Join(r.vain(ctx, e, tried), r.leave(ctx, e, live))
		case e.State != Active && e.State != Suspended:
			return false, errors.Join(fmt.Errorf("tenant %q: %w: it is %s", e.Tenant, ErrState, e.State), r.vain(ctx, e, tried))
		}
		next := e.Clone()
		next.Topology = to.Version
		switch {
		case to.Slots == 0:
			next.Slot = 0
		case e.Slot == 0 || e.Slot > to.Slots:
			if next.Slot, _, err = r.findSlot(ctx, to, c.At); err != nil {
				return false, errors.Join(err, r.vain(ctx, e, tried))
			}
		}
		if _, err = r.settle(ctx, e, next, c, tried); !errors.Is(err, ErrStale) && !errors.Is(err, ErrSlotTaken) {
			return true, err
		}
		// Lost to another change, or for a slot: with the next try, all that was held for this one is let go.
		if at, heldErr := r.held(ctx, next); heldErr == nil {
			tried = append(tried, at...)
		}
		var readErr error
		if e, readErr = r.Get(ctx, e.Tenant); readErr != nil {
			return false, readErr
		}
	}
	return false, err
}

// leave has the shards let go that the tenant left by its last change, when that was a migration which
// stopped before it was through. What was missed before that, and where a topology is retired by now,
// Reconcile finds.
func (r *Residence) leave(ctx context.Context, e Entry, live map[uint64]bool) error {
	if e.State == Placing {
		return nil
	}
	lines, err := r.History(ctx, e.Tenant, e.Epoch-1, 1)
	if err != nil || len(lines) == 0 || lines[0].After.Epoch != e.Epoch || lines[0].Before == nil {
		return err
	}
	before := *lines[0].Before
	if before.Cell != e.Cell || before.Topology == e.Topology || before.Topology > 0 && !live[before.Topology] {
		return nil
	}
	return r.finishFrom(ctx, e, before)
}
