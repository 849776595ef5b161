package snapshot

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

// Holder has the current snapshot of a process, or none yet. It is safe for concurrent use; what it returns
// is shared and must not be changed.
type Holder struct {
	cell    string
	current atomic.Pointer[Snapshot]
}

// NewHolder returns a Holder of a cell's snapshots, which has none.
func NewHolder(cell string) *Holder { return &Holder{cell: cell} }

// Take puts a snapshot in the place of an older one. ErrCell and ErrOlder leave what is there.
func (h *Holder) Take(s *Snapshot) error {
	if s.Cell != h.cell {
		return fmt.Errorf("take the snapshot of cell %q: %w: it is of %q", h.cell, ErrCell, s.Cell)
	}
	for {
		held := h.current.Load()
		if held != nil && s.Generation <= held.Generation {
			return fmt.Errorf("take snapshot %d of cell %q: %w: that is %d", s.Generation, h.cell, ErrOlder, held.Generation)
		}
		if h.current.CompareAndSwap(held, s) {
			return nil
		}
	}
}

// Snapshot is the current snapshot, nil when there is none.
func (h *Holder) Snapshot() *Snapshot { return h.current.Load() }

// Generation is the current snapshot's, 0 when there is none.
func (h *Holder) Generation() uint64 {
	if s := h.current.Load(); s != nil {
		return s.Generation
	}
	return 0
}

// Age is how long ago the keeper wrote the current snapshot; ok is false when there is none.
func (h *Holder) Age(now time.Time) (age time.Duration, ok bool) {
	s := h.current.Load()
	if s == nil {
		return 0, false
	}
	return max(0, now.Sub(s.Taken)), true
}

// Entry returns a tenant's entry, and when it was read from the directory. That a snapshot has none does not
// mean that the directory has none. It allocates nothing.
func (h *Holder) Entry(tenant string) (e directory.Entry, taken time.Time, ok bool) {
	s := h.current.Load()
	if s == nil {
		return directory.Entry{}, time.Time{}, false
	}
	e, ok = s.Entries.Lookup(tenant)
	return e, s.Times.Entries, ok
}

// Topology returns a version of the cell's topology.
func (h *Holder) Topology(version uint64) (directory.Topology, bool) {
	s := h.current.Load()
	if s == nil {
		return directory.Topology{}, false
	}
	i := slices.IndexFunc(s.Topologies, func(t directory.Topology) bool { return t.Version == version })
	if i < 0 {
		return directory.Topology{}, false
	}
	return s.Topologies[i], true
}

// Key returns a version of the cell's placement key.
func (h *Holder) Key(version string) (Secret, bool) {
	s := h.current.Load()
	if s == nil {
		return nil, false
	}
	key, ok := s.Keys[version]
	return key, ok
}

// IssuerKeys returns the token issuer's JWKS, and when it was read there.
func (h *Holder) IssuerKeys() (jwks json.RawMessage, taken time.Time, ok bool) {
	s := h.current.Load()
	if s == nil || len(s.IssuerKeys) == 0 {
		return nil, time.Time{}, false
	}
	return s.IssuerKeys, s.Times.Issuer, true
}

// Suspects are the tenants whose requests take down one shard after another, for poison.Watch.Hold.
func (h *Holder) Suspects() []Suspect {
	if s := h.current.Load(); s != nil {
		return s.Suspects
	}
	return nil
}

// forgotten is how much older than its snapshot what a source said of health may be: a source that is down
// for longer says nothing any more. Drains are orders, not observations, and stand until they are taken back.
const forgotten = 5 * time.Minute

// Health returns what is known of the shards. taken is when the oldest of what it tells was observed; a
// source that has been down for more than 5 minutes when the snapshot was written is left out of it, as if it
// had said nothing. Drains are always in it.
func (h *Holder) Health() (taken time.Time, reports []Report, ok bool) {
	s := h.current.Load()
	if s == nil {
		return time.Time{}, nil, false
	}
	taken = s.Taken
	live := func(at time.Time) bool {
		if at.IsZero() || s.Taken.Sub(at) > forgotten {
			return false
		}
		if at.Before(taken) {
			taken = at
		}
		return true
	}
	targets, throttles, queues := live(s.Times.Targets), live(s.Times.Throttles), live(s.Times.Queues)
	reports = slices.Clone(s.Health)
	for i := range reports {
		r := &reports[i]
		if !targets {
			r.Healthy, r.Targets = 0, 0
		}
		if !throttles {
			r.Throttled = 0
		}
		if !queues {
			r.QueueAge = 0
		}
	}
	return taken, reports, true
}
