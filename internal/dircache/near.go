package dircache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing"
)

// read asks for the tenant's entry, for as long as one look-up may take.
func (c *Cache) read(ctx context.Context, from Directory, tenant string) (directory.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.LookUp)
	defer cancel()
	return from.Get(ctx, tenant)
}

// answered says whether a directory answered, if only that it does not know the tenant.
func answered(err error) bool { return err == nil || errors.Is(err, directory.ErrNotFound) }

// first reads the tenant's entry from what is nearest and may be believed.
func (c *Cache) first(ctx context.Context, tenant string) (routing.Known, error) {
	if c.config.Replica == nil {
		return c.home(ctx, tenant)
	}
	near, err := c.nearby(ctx, tenant)
	if err == nil && near.Cell == c.config.Cell && near.State != directory.Placing && near.State != directory.Moving {
		return near, nil
	}
	k, homeErr := c.confirm(ctx, tenant, func() (routing.Known, error) { return near, err })
	k.ReplicaErr = near.ReplicaErr
	return k, homeErr
}

// anew reads the entry after a shard refused its tenant, which a replica may learn too late. While the home
// region does not answer, the replica is asked again: it may know by then.
func (c *Cache) anew(ctx context.Context, tenant string) (routing.Known, error) {
	if c.config.Replica == nil {
		return c.home(ctx, tenant)
	}
	return c.confirm(ctx, tenant, func() (routing.Known, error) { return c.nearby(ctx, tenant) })
}

// home asks the directory itself.
func (c *Cache) home(ctx context.Context, tenant string) (routing.Known, error) {
	entry, err := c.read(ctx, c.config.Directory, tenant)
	k := routing.Known{Entry: entry}
	if !answered(err) {
		k.HomeErr = err
	}
	return k, err
}

// nearby asks the replica.
func (c *Cache) nearby(ctx context.Context, tenant string) (routing.Known, error) {
	entry, err := c.read(ctx, c.config.Replica, tenant)
	k := routing.Known{Entry: entry, Stale: true}
	if !answered(err) {
		k.ReplicaErr = err
	}
	return k, err
}

// confirm asks the home region, and settles for something else when that does not answer.
func (c *Cache) confirm(ctx context.Context, tenant string, otherwise func() (routing.Known, error)) (routing.Known, error) {
	k, err := c.home(ctx, tenant)
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
