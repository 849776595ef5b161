// Package dircache is what a router knows of the directory: the entries of tenants, remembered where they are
// needed, so that requests cost no look-up and go on when the directory does not.
//
// A Cache answers from memory, from the keeper's snapshot (Base), from a replica, or by asking. Its two forms
// are that of a router process, in which requests share readings and entries are read anew in the background
// before they expire, and that of a Lambda environment (Config.Single), which is frozen between requests:
// whatever is read there is read on a request's time, and what it remembers and limits is its own.
//
// Of what a replica of the directory says, only a tenant that is served in the router's cell, or suspended,
// is taken as it is. Before a tenant is said to be unknown or of another cell that the replica sees so, or to
// be placing or moving, and after a shard refused it, the home region is asked. While that does not answer,
// the replica's word stands, and is marked.
//
// # Guarantees
//
// Each is held by the test of the same name.
//
//  1. Monotone: the epoch that is told of a tenant never falls for as long as the tenant is remembered. What
//     is remembered is forgotten only for want of memory, or when the directory itself says that the tenant
//     is none.
//  2. Young: while the directory answers, no entry is told that is older than Config.TTL, none that is placing
//     or moving and older than Unsettled, and no tenant is said to be unknown, or of another cell, by a word
//     older than Config.Negative. A snapshot's entry is as old as the snapshot.
//  3. LastKnown: while the directory does not answer, a remembered tenant, or one of the snapshot, is told by
//     the higher epoch of the two, however old it is, with its age. Of a tenant that is in neither nobody says
//     that it does not exist.
//  4. OneReading: a tenant is looked up once at a time, however many ask (local form), and read afresh once at
//     a time beside that.
//  5. Sparing: after failures in a row, a directory is asked by one reading at a time of those that need it and
//     one of those that can do without, with pauses that grow to half a minute, until it answers. Then no more
//     than RefreshesAtOnce of those that can do without ask at a time.
//  6. Strangers: however many tenants are asked for that do not exist, they cause at most a burst of readings
//     and a rate after it (LimitsOf), and no other tenant is forgotten for them.
//  7. Bounded: records weigh no more than Config.Memory.
//  8. Fresh: what Fresh returns is of a higher epoch than the caller's, or was read consistently after it
//     asked; or else reading was not worth it, since the same question brought no news a moment ago or too
//     many did.
//  9. Patient: a directory that is slow delays a request of a remembered tenant that it would serve by at most
//     Config.Patience (local form: and none that comes often).
package dircache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing"
)

// Directory answers for one tenant at a time. directory.ErrNotFound when it does not know the tenant; any
// other error says that it did not answer.
type Directory interface {
	Get(ctx context.Context, tenant string) (directory.Entry, error)
}

// Base is a snapshot of the directory's entries that is at hand. What it has was true at the time taken.
type Base interface {
	Entry(tenant string) (e directory.Entry, taken time.Time, ok bool)
}

// Config is what a Cache is made of. Directory is needed.
type Config struct {
	Directory Directory // consistent

	// Cell is the router's own: entries of other cells are no entries of use, and are kept like those of tenants
	// that do not exist. "" is of a front door, which is there for all.
	Cell string

	// Replica is asked first where it is not nil, as in a region that is not the directory's home. See the
	// package comment for what its word is good for.
	Replica Directory

	// Base lies beneath what is remembered, where it is not nil.
	Base Base

	// Single is the form of a Lambda environment, which serves one request at a time.
	Single bool

	// LookUp is the time for one reading of an entry, 1 s by default. A directory that hangs must not hold what
	// other requests wait for. A replica and its home have that time each.
	LookUp time.Duration
	// Patience is for how long a request waits for the directory whose tenant could be served by an entry that
	// has expired, 100 ms by default, at most LookUp.
	Patience time.Duration

	TTL      time.Duration // for how long an entry needs no confirmation, 60 s by default
	Negative time.Duration // the same of a tenant that does not exist or lives in another cell, 5 s by default

	// Memory is about how many bytes all records may take, in the heap and live; the garbage collector's room is
	// on top. 272 MiB by default, which a million tenants fit in however unevenly they fall into parts, and with Single 64 MiB.
	Memory int64

	Now    func() time.Time // default time.Now
	Jitter func() float64   // from 0 up to 1, default random; called by many at once
}

const (
	// LookUp is the default time for one reading. It is ample: a consistent read takes milliseconds, and a new
	// connection to another region a few round trips.
	LookUp = time.Second

	// Unsettled is for how long an entry that is placing or moving is believed, so that its end is seen soon.
	Unsettled = time.Second

	// RefreshesAtOnce is how many readings of tenants that are remembered may be under way in a router process.
	RefreshesAtOnce = 64

	again = 4 * time.Second // until a tenant for whom the directory did not answer is looked up again, at most
)

// Cache is routing.Entries over a directory. It is safe for concurrent use.
type Cache struct {
	config        Config
	horizon       int64   // no record is good for longer
	home, replica *source // replica is nil without one

	tenants   *table // who is served here, or was
	strangers *table // who does not exist, or lives in another cell
	shared    shared
	nobody    *kind             // of tenants that do not exist
	learning  [parts]sync.Mutex // by part of tenants: one record of a tenant takes another's place at a time

	looks, afresh      flights
	refreshing         chan struct{} // holds one of each reading that somebody can do without
	unknown, unchanged *budget       // of looks at strangers, and of readings afresh
}

var _ routing.Entries = (*Cache)(nil)

// New checks a configuration.
func New(c Config) (*Cache, error) {
	if c.Directory == nil {
		return nil, errors.New("a cache of entries needs a directory")
	}
	memory := int64(272 << 20)
	if c.Single {
		memory = 64 << 20
	}
	for _, d := range []struct {
		of    string
		is    *time.Duration
		usual time.Duration
	}{
		{"LookUp", &c.LookUp, LookUp}, {"Patience", &c.Patience, 100 * time.Millisecond},
		{"TTL", &c.TTL, time.Minute}, {"Negative", &c.Negative, 5 * time.Second},
	} {
		if *d.is == 0 {
			*d.is = d.usual
		}
		if *d.is < 0 {
			return nil, fmt.Errorf("a cache of entries with %s %v: want more than nothing", d.of, *d.is)
		}
	}
	c.Patience = min(c.Patience, c.LookUp)
	if c.Memory == 0 {
		c.Memory = memory
	}
	if c.Memory < 1<<20 {
		return nil, fmt.Errorf("a cache of entries in %d bytes: want at least a mebibyte", c.Memory)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Jitter == nil {
		c.Jitter = rand.Float64
	}
	l := LimitsOf(c.Single)
	cache := &Cache{
		config: c,
		// Strangers have a sixteenth for themselves.
		tenants: newTable(c.Memory - c.Memory/16), strangers: newTable(c.Memory / 16),
		shared: shared{kinds: map[names]*kind{}, pins: map[string]string{}},
		looks:  flights{by: map[string]*flight{}}, afresh: flights{by: map[string]*flight{}},
		unknown: newBudget(l), unchanged: newBudget(l), refreshing: make(chan struct{}, RefreshesAtOnce),
		horizon: int64(max(c.TTL, c.Negative, c.LookUp, again)),
	}
	cache.nobody = &kind{life: int64(c.Negative)}
	cache.home = cache.newSource(c.Directory)
	if c.Replica != nil {
		cache.replica = cache.newSource(c.Replica)
	}
	return cache, nil
}

func (c *Cache) now() int64 { return c.config.Now().UnixNano() }
