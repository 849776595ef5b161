package dynamodir

import (
	"context"

	"cellwall.dev/cellwall/internal/directory"
)

// Replica is the directory as it is used in a region that has a replica of the global table. Relaxed
// reads, listings by an index, and the feed of changes are answered by the replica, without a trip: they
// may be stale, as MayBeStale says, usually by about a second, and without a bound while regions are cut
// off from each other. Strong reads, all other listings, and all writes go to the home region, and cost
// the trip there.
type Replica struct{ home, local *Table }

var _ directory.Home = (*Replica)(nil)

// NewReplica returns the directory of the table home, of which local is the replica.
func NewReplica(home, local *Table) *Replica { return &Replica{home, local} }

// MayBeStale says whether reads of that consistency may miss the latest changes.
func (r *Replica) MayBeStale(c directory.Consistency) bool { return r.local.MayBeStale(c) }

// Read implements directory.Home.
func (r *Replica) Read(ctx context.Context, c directory.Consistency, keys ...directory.Key) ([]directory.Record, error) {
	if c == directory.Relaxed {
		return r.local.Read(ctx, c, keys...)
	}
	return r.home.Read(ctx, c, keys...)
}

// Write implements directory.Home.
func (r *Replica) Write(ctx context.Context, b directory.Batch) error { return r.home.Write(ctx, b) }

// List implements directory.Home.
func (r *Replica) List(ctx context.Context, g directory.Range, after directory.Key, limit int) ([]directory.Record, error) {
	if g.Index != directory.NoIndex {
		return r.local.List(ctx, g, after, limit)
	}
	return r.home.List(ctx, g, after, limit)
}

// Changes implements directory.Home.
func (r *Replica) Changes(ctx context.Context, after directory.Cursor, limit int) ([]directory.Record, directory.Cursor, error) {
	return r.local.Changes(ctx, after, limit)
}
