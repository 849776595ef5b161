package routing

import (
	"context"
	"errors"
	"fmt"

	"cellwall.dev/cellwall/internal/directory"
)

// read asks for the tenant's entry, for as long as one look-up may take.
func (s *serving) read(ctx context.Context, from Directory) (directory.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.LookUp)
	defer cancel()
	return from.Get(ctx, s.out.Tenant)
}

// answered says whether a directory answered, if only that it does not know the tenant.
func answered(err error) bool { return err == nil || errors.Is(err, directory.ErrNotFound) }

// entry reads the tenant's entry for the first time.
func (s *serving) entry(ctx context.Context) (directory.Entry, error) {
	if s.config.Replica == nil {
		return s.read(ctx, s.config.Directory)
	}
	near, err := s.nearby(ctx)
	if err == nil && near.Cell == s.config.Cell && near.State != directory.Placing && near.State != directory.Moving {
		return near, nil
	}
	return s.confirm(ctx, func() (directory.Entry, error) { return near, err })
}

// follow reads the entry anew after a shard refused its tenant, which a replica may learn too late. While
// the home region does not answer, the replica is asked again: it may know by then.
func (s *serving) follow(ctx context.Context) (directory.Entry, error) {
	if s.config.Replica == nil {
		return s.read(ctx, s.config.Directory)
	}
	return s.confirm(ctx, func() (directory.Entry, error) { return s.nearby(ctx) })
}

// nearby asks the replica.
func (s *serving) nearby(ctx context.Context) (directory.Entry, error) {
	entry, err := s.read(ctx, s.config.Replica)
	s.out.MayBeStale = true
	if !answered(err) {
		s.out.ReplicaErr = err
	}
	return entry, err
}

// confirm asks the home region, and settles for something else when that does not answer.
func (s *serving) confirm(ctx context.Context, otherwise func() (directory.Entry, error)) (directory.Entry, error) {
	entry, err := s.read(ctx, s.config.Directory)
	if answered(err) {
		s.out.MayBeStale = false
		return entry, err
	}
	s.out.HomeErr = err
	return otherwise()
}

// topology reads a version of the cell's topology. A replica that has it is right: versions do not change.
// One that hangs leaves half of the time to the home region.
func (c Config) topology(ctx context.Context, version uint64) (directory.Topology, error) {
	if c.Replica == nil {
		return c.Topologies.Topology(ctx, c.Cell, version)
	}
	try, cancel := context.WithTimeout(ctx, c.LookUp/2)
	defer cancel()
	near, nearErr := c.Replica.Topology(try, c.Cell, version)
	if nearErr == nil {
		return near, nil
	}
	t, err := c.Topologies.Topology(ctx, c.Cell, version)
	if err != nil {
		return t, fmt.Errorf("%w; and the replica: %w", err, nearErr)
	}
	return t, nil
}
