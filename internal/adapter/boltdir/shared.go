package boltdir

import (
	"context"
	"errors"
	"fmt"

	"cellwall.dev/cellwall/internal/boltfile"
	"cellwall.dev/cellwall/internal/directory"
)

// Shared is a directory.Home on a file that several processes use: it has the file open only while it reads or writes.
// That costs an opening each time, which is nothing for a few requests a second. While another process has the file open
// for longer than two seconds, everything is directory.ErrBusy, which wraps boltfile.ErrLocked, too.
type Shared struct {
	path string
	turn chan struct{} // of this process: a second one would be refused its own file
}

var _ directory.Home = (*Shared)(nil)

// Share returns the home on the file at path, after it was opened once. The errors are those of Open.
func Share(path string) (*Shared, error) {
	d, err := Open(path)
	if err != nil {
		return nil, err
	}
	return &Shared{path, make(chan struct{}, 1)}, d.Close()
}

// with does something with the open file.
func (s *Shared) with(ctx context.Context, do func(*Dir) error) (err error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	d, err := Open(s.path)
	if errors.Is(err, boltfile.ErrLocked) {
		return fmt.Errorf("%w: %w", directory.ErrBusy, err)
	}
	if err != nil {
		return err
	}
	// What do returned stands: a batch that was acknowledged is on disk, however the file is closed.
	defer func() { err = errors.Join(err, d.Close()) }()
	return do(d)
}

// Read implements directory.Home.
func (s *Shared) Read(ctx context.Context, c directory.Consistency, keys ...directory.Key) (records []directory.Record, err error) {
	err = s.with(ctx, func(d *Dir) error {
		records, err = d.Read(ctx, c, keys...)
		return err
	})
	return records, err
}

// Write implements directory.Home.
func (s *Shared) Write(ctx context.Context, b directory.Batch) error {
	if err := b.Check(); err != nil {
		return err
	}
	return s.with(ctx, func(d *Dir) error { return d.Write(ctx, b) })
}

// List implements directory.Home.
func (s *Shared) List(ctx context.Context, r directory.Range, after directory.Key, limit int) (records []directory.Record, err error) {
	err = s.with(ctx, func(d *Dir) error {
		records, err = d.List(ctx, r, after, limit)
		return err
	})
	return records, err
}

// Changes implements directory.Home.
func (s *Shared) Changes(ctx context.Context, after directory.Cursor, limit int) (records []directory.Record, next directory.Cursor, err error) {
	err = s.with(ctx, func(d *Dir) error {
		records, next, err = d.Changes(ctx, after, limit)
		return err
	})
	return records, next, err
}
