// Package directory is the small, strongly consistent table tenant → (cell, state, epoch, size class,
// pins), changed only by compare-and-set on the epoch.
//
// The rules of a change are stated once, by Created and Replaced, so that every home of the directory
// (memory, a file, DynamoDB) only stores what they decide. The contract suite directorytest runs against
// each of them.
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
	Tenant    string    `json:"tenant"`         // 1 to 128 bytes of UTF-8
	Cell      string    `json:"cell"`           // the cell that serves it
	State     State     `json:"state"`          // where it is in its life
	Epoch     uint64    `json:"epoch"`          // set by the Store: rises by one with each change; the first is 1
	Size      string    `json:"size,omitempty"` // size class; empty is the default one
	Pins      []string  `json:"pins,omitempty"` // explicit subset, in preference order; empty when computed
	Topology  uint64    `json:"topology"`       // version of the cell's topology that places the tenant
	Updated   time.Time `json:"updated"`        // when the change was asked for, UTC; set by the caller
	Operation string    `json:"operation"`      // id of the change that wrote this entry, 1 to 128 bytes
}

// Errors of every Store. They come wrapped; test with errors.Is.
var (
	ErrNotFound = errors.New("tenant is not in the directory")
	ErrExists   = errors.New("tenant is in the directory already")
	ErrStale    = errors.New("the entry's epoch has moved on")
	ErrInvalid  = errors.New("not a valid directory entry")
)

// Store is one home of the directory. Implementations are safe for concurrent use, and an Entry that
// goes in or comes out shares no memory with the store.
//
// Every write names its operation, so that a write whose answer was lost on the way may be repeated as
// it was: the second time it is recognised and its success reported again. That holds until another
// change follows; from then on the repetition is ErrExists or ErrStale, and Get tells what stands.
type Store interface {
	// Get returns the entry as of now, consistently. ErrNotFound when there is none.
	Get(ctx context.Context, tenant string) (Entry, error)
	// Create writes the first entry of a tenant with epoch 1 and returns it; e.Epoch is not looked at.
	// ErrExists when there is one already, unless this operation wrote it. ErrInvalid as Check says.
	Create(ctx context.Context, e Entry) (Entry, error)
	// CompareAndSet replaces the entry whose epoch is expect, gives it epoch expect+1 and returns it;
	// e.Epoch is not looked at. ErrStale when the epoch differs, unless this operation wrote it;
	// ErrNotFound when there is no entry. ErrInvalid as Check says.
	CompareAndSet(ctx context.Context, expect uint64, e Entry) (Entry, error)
	// List returns up to limit entries that come after the tenant named after, "" for the beginning, in
	// an order that is the store's own and does not change. Fewer than limit means the end. An entry
	// that exists during the whole of a listing is returned exactly once. limit is at least 1.
	List(ctx context.Context, after string, limit int) ([]Entry, error)
}
