package dynamodir

import (
	"context"
	"errors"
	"fmt"

	"cellwall.dev/cellwall/internal/directory"
)

// ErrNoHome means that the home region was needed where there is no way to it.
var ErrNoHome = errors.New("there is no way to the directory's home region from here")

// Replica is the directory as it is used in a region that has a replica of the global table. Relaxed
// reads, listings by an index, and the feed of changes are answered by the replica, without a trip: they
// may be stale, as MayBeStale says, usually by about a second, and without a bound while regions are cut
// off from each other. Strong reads, all other listings, and all writes go to the home region, and cost
// the trip there. A replica never answers in its place, not even by a consistent read, which is consistent in
// the replica's own region alone.
type Replica struct{ home, local *Table }

var _ directory.Lagging = (*Replica)(nil)

// NewReplica returns the directory of the table home, of which local is the replica. Where home is nil, since
// there is no way to it, whatever needs it fails with ErrNoHome.
func NewReplica(home, local *Table) *Replica { return &Replica{home, local} }

// MayBeStale says whether reads of that consistency may miss the latest changes.
func (r *Replica) MayBeStale(c directory.Consistency) bool { return c == directory.Relaxed }

func (r *Replica) noHome(doing string) error {
	if r.home != nil {
		return nil
	}
	return fmt.Errorf("%s the directory: %w", doing, ErrNoHome)
}

// Read implements directory.Home.
func (r *Replica) Read(ctx context.Context, c directory.Consistency, keys ...directory.Key) ([]directory.Record, error) {
	if c == directory.Relaxed {
		return r.local.Read(ctx, c, keys...)
	}
	if err := r.noHome("read"); err != nil {
		return nil, err
	}
	return r.home.Read(ctx, c, keys...)
}

// Write implements directory.Home.
func (r *Replica) Write(ctx context.Context, b directory.Batch) error {
	if err := r.noHome("write"); err != nil {
		return err
	}
	return r.home.Write(ctx, b)
}

// List implements directory.Home.
func (r *Replica) List(ctx context.Context, g directory.Range, after directory.Key, limit int) ([]directory.Record, error) {
	if g.Index != directory.NoIndex {
		return r.local.List(ctx, g, after, limit)
	}
	if err := r.noHome("list"); err != nil {
		return nil, err
	}
	return r.home.List(ctx, g, after, limit)
}

// Changes implements directory.Home.
func (r *Replica) Changes(ctx context.Context, after directory.Cursor, limit int) ([]directory.Record, directory.Cursor, error) {
	return r.local.Changes(ctx, after, limit)
}
