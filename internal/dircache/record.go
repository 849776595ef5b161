package dircache

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing"
)

// record is what is remembered of one tenant: one version of its entry, or, with epoch 0, that there is none.
// What the entry says does not change; what is known about it does. A million of them lie in memory: what
// tenants have in common is shared.
type record struct {
	hash     uint64 // of tenant, as its table has it
	tenant   string
	kind     *kind
	pins     *[]string // nil without
	epoch    uint64
	topology uint64
	slot     uint64
	memo     routing.Memo

	read  atomic.Int64  // when who said so was asked, in nanoseconds since 1970: at that time it was true, or later
	due   atomic.Int64  // when to look again
	quiet atomic.Int64  // until when reading afresh is not worth it
	idle  atomic.Uint32 // how many times in a row reading afresh brought no news
	near  atomic.Bool   // a replica's word, which the home region did not confirm
	used  atomic.Bool   // asked for since the table's hand came by
}

// kind is what many entries have in common, and what follows from it.
type kind struct {
	names

	own     bool  // the cell's router is there for the tenant
	settled bool  // of a state that lasts
	life    int64 // how old it may become before it has to be confirmed
}

type names struct {
	cell  string
	state directory.State
	size  string
}

// unknown says that the tenant is known not to exist.
func (r *record) unknown() bool { return r.epoch == 0 }

// entry is the entry as a router needs it. Its Pins are everybody's.
func (r *record) entry() directory.Entry {
	e := directory.Entry{
		Tenant: r.tenant, Cell: r.kind.cell, State: r.kind.state, Epoch: r.epoch, Size: r.kind.size,
		Topology: r.topology, Slot: r.slot,
	}
	if r.pins != nil {
		e.Pins = *r.pins
	}
	return e
}

// perRecord is a record's own size, what its memo remembers of two members, and its share of the slots, of which
// there are up to 3.2 for each.
const perRecord = int64(unsafe.Sizeof(record{})) + 64 + 8*16/5

// weight is about how many bytes a record takes. The allocator rounds sizes up by an eighth on average.
func (r *record) weight() int64 {
	w := perRecord + int64(len(r.tenant)) + 8
	if r.pins != nil {
		w += 24 + 16*int64(len(*r.pins))
	}
	return w
}

// shared keeps what many records have in common once. What exceeds its bounds, which no fleet does, is kept
// with each record.
type shared struct {
	mu    sync.Mutex
	kinds map[names]*kind
	pins  map[string]string
}

// Bounds of shared: cells by states by size classes, and shards of all cells.
const (
	mostKinds = 4096
	mostPins  = 65536
)

// record makes a record of an entry. None of its memory is the entry's, whose strings may be pieces of
// something large.
func (c *Cache) record(e directory.Entry) *record {
	r := &record{tenant: strings.Clone(e.Tenant), epoch: e.Epoch, topology: e.Topology, slot: e.Slot}
	s := &c.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	n := names{e.Cell, e.State, e.Size}
	if r.kind = s.kinds[n]; r.kind == nil {
		r.kind = c.kind(names{strings.Clone(e.Cell), directory.State(strings.Clone(string(e.State))), strings.Clone(e.Size)})
		if len(s.kinds) < mostKinds {
			s.kinds[r.kind.names] = r.kind
		}
	}
	if len(e.Pins) > 0 {
		pins := slices.Clone(e.Pins)
		for i, p := range pins {
			name, ok := s.pins[p]
			if !ok {
				name = strings.Clone(p)
				if len(s.pins) < mostPins {
					s.pins[name] = name
				}
			}
			pins[i] = name
		}
		r.pins = &pins
	}
	return r
}

// isOwn says whether a router of this cell is there for tenants of that one.
func (c *Cache) isOwn(cell string) bool { return c.config.Cell == "" || cell == c.config.Cell }

func (c *Cache) kind(n names) *kind {
	k := &kind{names: n, own: c.isOwn(n.cell)}
	k.settled = n.state != directory.Moving && n.state != directory.Placing
	switch {
	case !k.own:
		k.life = int64(c.config.Negative)
	case !k.settled:
		k.life = int64(min(c.config.TTL, Unsettled))
	default:
		k.life = int64(c.config.TTL)
	}
	return k
}

// servable says whether a tenant would be served by this record. Whoever would be refused by it has more to
// gain from waiting for a better one.
func (r *record) servable() bool {
	return r.kind.own && (r.kind.state == directory.Active || r.kind.state == directory.Moving)
}

// expired says whether a record is older than it may be. One from the future was made before the clock was set
// back.
func (r *record) expired(now int64) bool {
	age := now - r.read.Load()
	return age >= r.kind.life || age <= -r.kind.life
}

// confirm notes that the record was true at the time read.
func (c *Cache) confirm(r *record, read int64, near bool) {
	share := 0.8 + 0.2*c.config.Jitter()
	if c.ahead(r) {
		// Whoever asks for it often has it read again before its time, and nobody waits for that.
		share -= 0.2
	}
	r.near.Store(near)
	r.read.Store(read)
	r.due.Store(read + int64(share*float64(r.kind.life)))
}

// ahead says whether a record is looked up anew before it expires, beside the requests.
func (c *Cache) ahead(r *record) bool { return !c.config.Single && r.kind.own && r.kind.settled }

// postpone notes that the directory did not say: it is asked for this tenant again in a while.
func (c *Cache) postpone(r *record, now int64) { r.due.Store(now + c.spread(again)) }

// spread is a duration between a half and all of d.
func (c *Cache) spread(d time.Duration) int64 {
	return int64((0.5 + 0.5*c.config.Jitter()) * float64(d))
}
