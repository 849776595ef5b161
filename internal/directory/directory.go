// Package directory is the small, strongly consistent table tenant → (cell, state, epoch, size class,
// pins), changed only by compare-and-set on the epoch.
package directory

import (
	"context"
	"errors"
	"time"
)

// State is where a tenant is in its life.
type State string

const (
	Active    State = "active"    // served
	Suspended State = "suspended" // refused
	Moving    State = "moving"    // reads served, writes held
)

// Entry is what the directory knows of one tenant.
type Entry struct {
	Tenant    string    `json:"tenant"`              // 1 to 128 bytes of UTF-8
	Cell      string    `json:"cell"`                // the cell that serves it
	State     State     `json:"state"`               //
	Epoch     uint64    `json:"epoch"`               // rises by one with each change; the first is 1
	Size      string    `json:"size,omitempty"`      // size class; empty is the default one
	Pins      []string  `json:"pins,omitempty"`      // explicit subset, in preference order; empty when computed
	Topology  uint64    `json:"topology"`            // version of the cell's topology that places the tenant
	Updated   time.Time `json:"updated"`             // UTC
	Operation string    `json:"operation,omitempty"` // id of the change that wrote this entry
}

// Errors of every Store. They come wrapped; test with errors.Is.
var (
	ErrNotFound = errors.New("tenant is not in the directory")
	ErrExists   = errors.New("tenant is in the directory already")
	ErrStale    = errors.New("the entry's epoch has moved on")
	ErrInvalid  = errors.New("not a valid directory entry")
)

// Store is one home of the directory. Implementations are safe for concurrent use.
type Store interface {
	// Get returns the entry as of now, consistently. ErrNotFound when there is none.
	Get(ctx context.Context, tenant string) (Entry, error)
	// Create writes the first entry of a tenant with epoch 1. ErrExists when there is one, unless it
	// was written by the same operation, whose success is then reported again.
	Create(ctx context.Context, e Entry) (Entry, error)
	// CompareAndSet replaces the entry whose epoch is expect and gives it epoch expect+1. ErrStale when
	// the epoch differs, unless the entry was written by the same operation.
	CompareAndSet(ctx context.Context, expect uint64, e Entry) (Entry, error)
	// List returns up to limit entries with tenant > after, in byte order of the tenant id.
	List(ctx context.Context, after string, limit int) ([]Entry, error)
}
