package directory

import (
	"context"
	"sync/atomic"
)

// Later is Open for a process that must start while the home does not answer: the format is checked by the
// first request that reads, lists or writes anything, and by others until one was answered. A relaxed read
// checks by a relaxed read, and so waits for nobody but the replica that it is of.
func Later(home Home) *Directory { return &Directory{home: &unopened{Home: home}} }

// unopened is a home whose format was not checked yet.
type unopened struct {
	Home
	opened atomic.Bool
}

func (u *unopened) check(ctx context.Context, c Consistency) error {
	if u.opened.Load() {
		return nil
	}
	records, err := u.Home.Read(ctx, c, formatKey)
	if err == nil {
		err = checkFormat(records[0])
	}
	if err == nil && records[0].Version > 0 { // one that is empty may be another version's by the next request
		u.opened.Store(true)
	}
	return err
}

// Read implements Home.
func (u *unopened) Read(ctx context.Context, c Consistency, keys ...Key) ([]Record, error) {
	if err := u.check(ctx, c); err != nil {
		return nil, err
	}
	return u.Home.Read(ctx, c, keys...)
}

// Write implements Home.
func (u *unopened) Write(ctx context.Context, b Batch) error {
	if err := u.check(ctx, Strong); err != nil {
		return err
	}
	return u.Home.Write(ctx, b)
}

// List implements Home.
func (u *unopened) List(ctx context.Context, r Range, after Key, limit int) ([]Record, error) {
	if err := u.check(ctx, Strong); err != nil {
		return nil, err
	}
	return u.Home.List(ctx, r, after, limit)
}

// Changes implements Home.
func (u *unopened) Changes(ctx context.Context, after Cursor, limit int) ([]Record, Cursor, error) {
	if err := u.check(ctx, Strong); err != nil {
		return nil, "", err
	}
	return u.Home.Changes(ctx, after, limit)
}
