package directory

import "context"

// Nearby is a directory as relaxed reads show it: what a replica in the reader's region has, without a trip.
// It may be behind, in everything but what a topology says of placement, which never changes.
type Nearby struct{ d *Directory }

// Nearby returns the directory as relaxed reads show it.
func (d *Directory) Nearby() Nearby { return Nearby{d} }

// Get returns the tenant's entry as it stands or stood. ErrNotFound when none has arrived.
func (n Nearby) Get(ctx context.Context, tenant string) (Entry, error) {
	return n.d.Lookup(ctx, Relaxed, tenant)
}

// Topology returns one version of a cell's topology. ErrUnknownTopology when it has not arrived.
func (n Nearby) Topology(ctx context.Context, cell string, version uint64) (Topology, error) {
	return n.d.topology(ctx, Relaxed, cell, version)
}
