// Package snapshot is what a cell's router needs to know, in one sealed object: tenants' entries,
// topologies, placement keys, the issuer's keys, and what is known of the shards' health. The keeper
// writes it; a router starts from it and serves by it while the directory, the secret store or the
// issuer is down.
//
// A front door's is named Fleet in place of a cell. It says in which cell each tenant of the fleet is, and has the
// issuer's keys, and nothing by which cells place.
//
//	sealed, err := snapshot.Seal(ctx, sealer, s)             // the keeper
//	h := snapshot.NewHolder("eu-1")
//	r := snapshot.NewRefresher(snapshot.RefreshConfig{...})  // a router
//	err = r.Start(ctx, time.Second)                          // at its start; an error is no reason to stop
//	r.Beside(ctx)                                            // on Lambda: at the start of each invocation
//	go r.Run(ctx)                                            // locally
//	e, taken, ok := h.Entry(tenant)
//	keys := h.Keys(secretStore.Key)
//
// # Guarantees
//
// Each is held by the test of the same name.
//
//  1. RoundTrip: what was sealed opens as it was, entries in the form of directory.Entry.Serving; of a front
//     door's, tenant, cell, state and epoch.
//  2. OneEncoding: equal snapshots encode to equal bytes, and what decodes encodes to the bytes it came from.
//  3. OnlyTheCells: a cell's snapshot has entries and topologies of its own cell alone; a front door's has
//     entries of the cells that it lists, and neither topologies, placement keys, health nor suspects.
//  4. Refuses: what is another cell's, older than what is held, unsigned, signed by another key, malformed,
//     cut short, put together from parts, from the future or older than MaxAge is refused, and what is
//     held stays.
//  5. NeverBack: the generation that a Holder has never falls.
//  6. NoAllocations: looking up an entry allocates nothing, while no more than 65,536 different pinned
//     subsets are in the snapshot.
//  7. Silent: no error, log record or formatted value of this package shows a key.
//
// # What a replayed object can do
//
// Whoever can write to the bucket, and nothing else, can put an earlier snapshot of the cell back. A router
// that holds a later one refuses it. One that starts cold takes it, since it has nothing to compare with,
// unless it is older than MaxAge, until the keeper's next run: that numbers its snapshots by the time, and
// so above all of them. Meanwhile such a router knows what was true then. It asks the directory first while
// that answers. When it does not, a tenant that has moved since is sent to shards that no longer hold it,
// which answer 421: nothing is served wrongly, and the tenant is not served. A tenant who was suspended
// since would be served again, and a key that the issuer took back since would be believed, for tokens that
// are not yet expired. Hence the bucket is versioned, and only the keeper may write to it.
package snapshot

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/routing/health"
)

// Bounds of a snapshot. A router of 512 MB holds one of MaxBytes while it opens the next.
const (
	MaxBytes   = 160 << 20 // of a sealed snapshot: a million tenants with ids of 128 bytes, or 3.8 million with ids of 36
	maxMeta    = 8 << 20   // of all that is not entries
	maxEntries = 4_000_000
	maxShards  = 65_536 // ids of shards that entries or reports name
)

const (
	// MaxSkew is how far the keeper's clock may be ahead of a router's.
	MaxSkew = 5 * time.Minute
	// MaxAge is the age from which a router does not begin with a snapshot. One that it has, it keeps.
	MaxAge = 7 * 24 * time.Hour
)

// Fleet is what a front door's snapshot has in the place of a cell's name. No cell may be called so.
const Fleet = names.Global

// Errors of this package. They come wrapped.
var (
	ErrMalformed = errors.New("this is no snapshot, or a damaged one")
	ErrForged    = errors.New("the snapshot's signature or seal is not the keeper's")
	ErrCell      = errors.New("the snapshot is another cell's")
	ErrOlder     = errors.New("the snapshot is not newer than the one that is held")
	ErrFuture    = errors.New("the snapshot is from the future: set the clocks of keeper and router")
	ErrTooOld    = errors.New("the snapshot is too old to begin with: see why the keeper does not write")
	ErrInvalid   = errors.New("not valid in a snapshot")
)

// Snapshot is what a router knows from the keeper. It is not changed once it is built.
type Snapshot struct {
	Cell       string
	Generation uint64    // rises with each snapshot of the cell; at least 1
	Taken      time.Time // when the keeper wrote it
	Times      Times     // when each part was read at its source
	Entries    *Entries
	Topologies []directory.Topology // by version
	Keys       map[string]Secret    // the cell's placement keys, by version
	IssuerKeys json.RawMessage      // JWKS of the token issuer; nil when it was never read
	Health     []Report             // by shard
	Suspects   []Suspect            // by tenant
}

// Suspect is a tenant whose requests take down one shard after another, so that no router sends them to another
// member until then.
type Suspect struct {
	Tenant string    `json:"tenant"`
	Until  time.Time `json:"until"` // UTC
}

// Times says when each part was read at its source; zero when it never was. A part whose source was down
// keeps what it had, and its time.
type Times struct {
	Entries, Topologies, Keys, Issuer   time.Time
	Targets, Throttles, Queues, Drained time.Time // of the fields of Health
	Suspects                            time.Time
}

func (t *Times) all() [9]*time.Time {
	return [...]*time.Time{&t.Entries, &t.Topologies, &t.Keys, &t.Issuer, &t.Targets, &t.Throttles, &t.Queues, &t.Drained, &t.Suspects}
}

// Report is what is known of one shard from outside of the router, as the router's tracker takes it.
type Report = health.Report

// check says what is wrong with a snapshot, and puts its lists in order.
func (s *Snapshot) check() error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w: snapshot of cell %q: %s", ErrInvalid, s.Cell, fmt.Sprintf(format, args...))
	}
	switch {
	case !shortName(s.Cell):
		return invalid("a cell's name has 1 to %d bytes", maxName)
	case s.Generation == 0:
		return invalid("generation 0: the first is 1")
	case s.Entries == nil || s.Entries.cell != s.Cell:
		return invalid("its entries are missing, or another cell's")
	case !moment(s.Taken) || s.Taken.IsZero():
		return invalid("taken at %v: want a time from 1970 on", s.Taken)
	case (s.Cell == Fleet) != (len(s.Entries.cells) > 0):
		return invalid("it lists the cells %q: that of a front door lists at least one, and no other does", s.Entries.cells)
	case s.Cell == Fleet && len(s.Topologies)+len(s.Keys)+len(s.Health)+len(s.Suspects) > 0:
		return invalid("a front door's has nothing by which cells place")
	}
	for i, cell := range s.Entries.cells {
		if !shortName(cell) || cell == Fleet || i > 0 && cell <= s.Entries.cells[i-1] {
			return invalid("it lists cell %q, which is no name of one, or stands in the wrong place", cell)
		}
	}
	for _, t := range s.Times.all() {
		if !moment(*t) {
			return invalid("a part read at %v: want a time from 1970 on, or none", *t)
		}
	}
	for i, t := range s.Topologies {
		switch {
		case t.Cell != s.Cell:
			return invalid("topology %d of cell %q is in it", t.Version, t.Cell)
		case i > 0 && t.Version <= s.Topologies[i-1].Version:
			return invalid("topologies %d and %d are not in order", s.Topologies[i-1].Version, t.Version)
		}
	}
	if len(s.IssuerKeys) > 0 && s.IssuerKeys[0] != '{' {
		return invalid("the issuer's keys are no JSON object")
	}
	for version, key := range s.Keys {
		if !shortName(version) || len(key) == 0 || len(key) > maxKey {
			return invalid("version %q of the placement key has %d bytes: want 1 to %d, and a version of at most %d", version, len(key), maxKey, maxName)
		}
	}
	for i, r := range s.Health {
		switch {
		case !shortName(r.Shard):
			return invalid("a report of shard %q", r.Shard)
		case i > 0 && r.Shard <= s.Health[i-1].Shard:
			return invalid("reports of shards %q and %q are not in order", s.Health[i-1].Shard, r.Shard)
		case r.Healthy < 0 || r.Targets < 0 || r.QueueAge < 0 || !(r.Throttled >= 0):
			return invalid("the report of shard %q has a number below 0", r.Shard)
		}
	}
	for i, x := range s.Suspects {
		switch {
		case !directory.ValidTenant(x.Tenant):
			return invalid("a suspect of %d bytes", len(x.Tenant))
		case i > 0 && x.Tenant <= s.Suspects[i-1].Tenant:
			return invalid("suspects %q and %q are not in order", s.Suspects[i-1].Tenant, x.Tenant)
		case !moment(x.Until) || x.Until.IsZero() || x.Until.Location() != time.UTC:
			return invalid("suspect %q is held until %v: want a time from 1970 on, in UTC", x.Tenant, x.Until)
		}
	}
	return nil
}

const maxKey = 1024 // bytes of a placement key; those that AWS makes have 32

// sorted gives a snapshot's lists their order.
func (s Snapshot) sorted() Snapshot {
	s.Topologies = slices.SortedFunc(slices.Values(s.Topologies), func(a, b directory.Topology) int { return cmp.Compare(a.Version, b.Version) })
	s.Health = slices.SortedFunc(slices.Values(s.Health), func(a, b Report) int { return cmp.Compare(a.Shard, b.Shard) })
	s.Suspects = slices.SortedFunc(slices.Values(s.Suspects), func(a, b Suspect) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return s
}

// moment says whether a time is zero or can be written.
func moment(t time.Time) bool { return t.IsZero() || t.After(time.Unix(0, 0)) && t.Year() < 2262 }

// Secret is a key. Formatting, logging and marshalling it shows its length alone.
type Secret []byte

func (s Secret) String() string { return fmt.Sprintf("(key of %d bytes)", len(s)) }

// Format implements fmt.Formatter, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue implements slog.LogValuer: a handler writes byte slices out without asking them.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON implements json.Marshaler.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// plain is the keys as bytes, for the encoding alone.
func plain(keys map[string]Secret) map[string][]byte {
	m := make(map[string][]byte, len(keys))
	for version, key := range maps.All(keys) {
		m[version] = key
	}
	return m
}
