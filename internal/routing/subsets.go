package routing

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"

	"cellwall.dev/cellwall/internal/directory"
)

// subsets remembers the members of the tenants that were served last, because computing them takes tens of
// microseconds in a large cell. What it remembers never turns wrong: topologies are immutable, and it is asked
// with everything of an entry that places its tenant. The number of tenants is bounded; beyond it, any one is
// forgotten for a new one.
//
// It is split, so that requests on many processors rarely wait for one lock.
type subsets struct {
	places places
	seed   maphash.Seed
	parts  [subsetParts]subsetPart
}

const (
	subsetParts = 64
	partTenants = 2048 // per part: 131,072 in all, about 30 MB with two members each
)

type subsetPart struct {
	mu    sync.RWMutex
	known map[string]placed
}

// placed is what placed a tenant, and where. Nobody changes the slices.
type placed struct {
	topology, slot uint64
	size           string
	pins, members  []string
}

func newSubsets(p places) *subsets { return &subsets{places: p, seed: maphash.MakeSeed()} }

// of returns the members of an entry's subset, at least one, which nobody may change. Errors as places.subset.
func (s *subsets) of(ctx context.Context, e directory.Entry) ([]string, error) {
	part := &s.parts[maphash.String(s.seed, e.Tenant)%subsetParts]
	part.mu.RLock()
	p, ok := part.known[e.Tenant]
	part.mu.RUnlock()
	if ok && p.topology == e.Topology && p.slot == e.Slot && p.size == e.Size && slices.Equal(p.pins, e.Pins) {
		return p.members, nil
	}
	members, err := s.places.subset(ctx, e)
	if err != nil {
		return nil, err
	}
	part.mu.Lock()
	defer part.mu.Unlock()
	if part.known == nil {
		part.known = map[string]placed{}
	}
	if _, ok := part.known[e.Tenant]; !ok && len(part.known) >= partTenants {
		for other := range part.known {
			delete(part.known, other)
			break
		}
	}
	part.known[e.Tenant] = placed{e.Topology, e.Slot, e.Size, e.Pins, members}
	return members, nil
}
