// Package roster keeps one record for each shard that a router has asked, to be found without a lock.
//
// # Guarantees
//
// Each is held by the test of the same name.
//
//  1. Same: equal names get the same record for as long as the roster lives, whoever asks at the same time.
//  2. Bounded: there are never more records than the roster was made for. A name that comes later gets nil.
//  3. NoAllocations: finding a record that is there allocates nothing and takes no lock.
package roster

import (
	"sync"
	"sync/atomic"
)

// Shards is how many shards a router remembers by default: several times what one cell has. Ids of shards
// are never used again, so that a router which lives through many topologies meets more than are there now.
const Shards = 4096

// Roster maps names to records. It is safe for concurrent use; what a record holds guards itself.
//
// The map is copied for each new name, which comes to as many copies as there are shards in the life of a
// router, and so read by everybody without a lock.
type Roster[T any] struct {
	most  int
	made  func() *T
	mu    sync.Mutex // held to add
	names atomic.Pointer[map[string]*T]
}

// New returns a roster for at most so many names, which gets its records from made.
func New[T any](most int, made func() *T) *Roster[T] {
	r := &Roster[T]{most: most, made: made}
	r.names.Store(&map[string]*T{})
	return r
}

// Find returns the name's record, or nil when there is none.
func (r *Roster[T]) Find(name string) *T { return (*r.names.Load())[name] }

// Get returns the name's record, and makes it when it is new; nil when the roster is full.
func (r *Roster[T]) Get(name string) *T {
	if t := r.Find(name); t != nil {
		return t
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old := *r.names.Load()
	if t := old[name]; t != nil || len(old) >= r.most {
		return t
	}
	names := make(map[string]*T, len(old)+1)
	for k, v := range old {
		names[k] = v
	}
	t := r.made()
	names[name] = t
	r.names.Store(&names)
	return t
}

// All calls do for each record, in no order.
func (r *Roster[T]) All(do func(name string, t *T)) {
	for k, v := range *r.names.Load() {
		do(k, v)
	}
}
