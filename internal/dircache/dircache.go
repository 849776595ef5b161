// Package dircache is what a router knows of the directory: the entries of tenants, near where they are
// needed.
//
// Of what a replica of the directory says, only a tenant that is served in the router's cell, or suspended,
// is taken as it is. Before a tenant is said to be unknown or of another cell that the replica sees so, or to
// be placing or moving, and after a shard refused it, the home region is asked. While that does not answer,
// the replica's word stands, and is marked.
package dircache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing"
)

// Directory answers for one tenant at a time. directory.ErrNotFound when it does not know the tenant; any
// other error says that it did not answer.
type Directory interface {
	Get(ctx context.Context, tenant string) (directory.Entry, error)
}

// Config is what a Cache is made of.
type Config struct {
	Cell      string    // the router's; a replica's word on other cells' tenants is not enough
	Directory Directory // consistent

	// Replica is asked first where it is not nil, as in a region that is not the directory's home. See the
	// package comment for what its word is good for.
	Replica Directory

	// LookUp is the time for one reading of an entry, 1 s by default. A directory that hangs must not hold what
	// other requests wait for. A replica and its home have that time each.
	LookUp time.Duration
}

// LookUp is the default time for one reading. It is ample: a consistent read takes milliseconds, and a new
// connection to another region a few round trips.
const LookUp = time.Second

// Cache is routing.Entries over a directory. It is safe for concurrent use.
type Cache struct{ config Config }

var _ routing.Entries = (*Cache)(nil)

// New checks a configuration.
func New(c Config) (*Cache, error) {
	if c.Cell == "" || c.Directory == nil {
		return nil, errors.New("a cache needs a cell and a directory")
	}
	if c.LookUp < 0 {
		return nil, fmt.Errorf("%v to look a tenant up: want more than nothing", c.LookUp)
	}
	if c.LookUp == 0 {
		c.LookUp = LookUp
	}
	return &Cache{c}, nil
}

// Entry implements routing.Entries.
func (c *Cache) Entry(ctx context.Context, tenant string) (routing.Known, error) {
	return c.first(ctx, tenant)
}

// Fresh implements routing.Entries.
func (c *Cache) Fresh(ctx context.Context, tenant string, _ uint64) (routing.Known, error) {
	return c.anew(ctx, tenant)
}
