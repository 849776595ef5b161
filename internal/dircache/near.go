package dircache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing"
)

// source is a directory and the gates before it: one for those who can do without, one for those who cannot.
type source struct {
	directory      Directory
	spare, needing gate
}

func (c *Cache) newSource(d Directory) *source {
	return &source{directory: d, spare: gate{spread: c.spread}, needing: gate{spread: c.spread}}
}

func (s *source) get(ctx context.Context, tenant string) (entry directory.Entry, err error) {
	defer routing.Recovered("reading an entry", &err)
	return s.directory.Get(ctx, tenant)
}

// asking is one look-up of one tenant.
type asking struct {
	*Cache
	tenant string
	limit  time.Duration // for each source
	needed bool          // nothing is known that would do
}

// read asks a source for the tenant's entry.
func (a asking) read(ctx context.Context, from *source) (directory.Entry, error) {
	mine, other := &from.spare, &from.needing
	if a.needed {
		mine, other = other, mine
	}
	probe, err := mine.enter(a.now())
	if err != nil {
		return directory.Entry{}, err
	}
	try, cancel := context.WithTimeout(ctx, a.limit)
	defer cancel()
	entry, err := from.get(try, a.tenant)
	if err == nil && (entry.Tenant != a.tenant || entry.Epoch == 0) {
		err = fmt.Errorf("asked for tenant %q, got epoch %d of %q", a.tenant, entry.Epoch, entry.Tenant)
	}
	switch {
	case answered(err):
		mine.answered()
		other.answered()
	case ctx.Err() != nil:
		mine.left(probe)
	default:
		mine.failed(a.now(), probe, err)
		// One that was not waited for may be slow and no more, which whoever needs it can wait for.
		if a.limit == a.config.LookUp || !errors.Is(err, context.DeadlineExceeded) {
			other.failed(a.now(), false, err)
		}
	}
	return entry, err
}

// answered says whether a directory answered, if only that it does not know the tenant.
func answered(err error) bool { return err == nil || errors.Is(err, directory.ErrNotFound) }

// first reads the tenant's entry from what is nearest and may be believed.
func (a asking) first(ctx context.Context) (routing.Known, error) {
	if a.replica == nil {
		return a.fromHome(ctx)
	}
	near, err := a.nearby(ctx)
	if err == nil && (a.config.Cell == "" || near.Cell == a.config.Cell) && near.State != directory.Placing && near.State != directory.Moving {
		return near, nil
	}
	k, err := a.confirmed(ctx, func() (routing.Known, error) { return near, err })
	k.ReplicaErr = near.ReplicaErr
	return k, err
}

// anew reads the entry after a shard refused its tenant, which a replica may learn too late. While the home
// region does not answer, the replica is asked again: it may know by then.
func (a asking) anew(ctx context.Context) (routing.Known, error) {
	if a.replica == nil {
		return a.fromHome(ctx)
	}
	return a.confirmed(ctx, func() (routing.Known, error) { return a.nearby(ctx) })
}

// fromHome asks the directory itself.
func (a asking) fromHome(ctx context.Context) (routing.Known, error) {
	entry, err := a.read(ctx, a.home)
	k := routing.Known{Entry: entry}
	if !answered(err) {
		k.HomeErr = err
	}
	return k, err
}

// nearby asks the replica.
func (a asking) nearby(ctx context.Context) (routing.Known, error) {
	entry, err := a.read(ctx, a.replica)
	k := routing.Known{Entry: entry, Stale: true}
	if !answered(err) {
		k.ReplicaErr = err
	}
	return k, err
}

// confirmed asks the home region, and settles for something else when that does not answer.
func (a asking) confirmed(ctx context.Context, otherwise func() (routing.Known, error)) (routing.Known, error) {
	k, err := a.fromHome(ctx)
	if answered(err) {
		return k, err
	}
	other, otherErr := otherwise()
	other.HomeErr = err
	return other, otherErr
}

// Topologies returns the topologies of the home region with a replica in front. A replica that has one is
// right: versions do not change. One that hangs leaves half of the limit to the home region. near may be nil.
func Topologies(near, home routing.Topologies, limit time.Duration) routing.Topologies {
	if near == nil {
		return home
	}
	return topologies{near, home, limit}
}

type topologies struct {
	near, home routing.Topologies
	limit      time.Duration
}

// Topology implements routing.Topologies.
func (t topologies) Topology(ctx context.Context, cell string, version uint64) (directory.Topology, error) {
	try, cancel := context.WithTimeout(ctx, t.limit/2)
	defer cancel()
	near, nearErr := t.near.Topology(try, cell, version)
	if nearErr == nil {
		return near, nil
	}
	top, err := t.home.Topology(ctx, cell, version)
	if err != nil {
		return top, fmt.Errorf("%w; and the replica: %w", err, nearErr)
	}
	return top, nil
}
