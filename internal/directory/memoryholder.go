package directory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
)

// MemoryHolder is a Holder that lives and dies with the process.
type MemoryHolder struct {
	mu    sync.Mutex
	items map[place]map[string]stay
}

var _ Forgetter = (*MemoryHolder)(nil)

// stay is what a shard keeps of a tenant: the epoch since which it holds it or, once that is gone, up to which
// it let go.
type stay struct {
	epoch uint64
	gone  bool
}

// NewMemoryHolder returns one in which nobody holds anybody.
func NewMemoryHolder() *MemoryHolder { return &MemoryHolder{items: map[place]map[string]stay{}} }

// Hold implements Holder.
func (m *MemoryHolder) Hold(ctx context.Context, cell, shard string, h Holding) error {
	return m.raise(ctx, place{cell, shard}, h.Tenant, stay{h.Epoch, false})
}

// Release implements Holder.
func (m *MemoryHolder) Release(ctx context.Context, cell, shard string, h Holding) error {
	return m.raise(ctx, place{cell, shard}, h.Tenant, stay{h.Epoch, true})
}

// raise puts a stay over one that is older. Of one epoch, the end comes after the beginning.
func (m *MemoryHolder) raise(ctx context.Context, p place, tenant string, next stay) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.items[p] == nil {
		m.items[p] = map[string]stay{}
	}
	have, ok := m.items[p][tenant]
	if !ok || have.epoch < next.epoch || have.epoch == next.epoch && next.gone {
		m.items[p][tenant] = next
	}
	return ctx.Err()
}

// Forget implements Forgetter.
func (m *MemoryHolder) Forget(ctx context.Context, cell, shard string, h Holding) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := (place{cell, shard}); m.items[p][h.Tenant].epoch <= h.Epoch {
		delete(m.items[p], h.Tenant)
	}
	return ctx.Err()
}

// Held implements Holder.
func (m *MemoryHolder) Held(ctx context.Context, cell, shard, tenant string) (Holding, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	have, ok := m.items[place{cell, shard}][tenant]
	if !ok || have.gone {
		return Holding{}, false, ctx.Err()
	}
	return Holding{tenant, have.epoch}, true, ctx.Err()
}

// Holdings implements Holder.
func (m *MemoryHolder) Holdings(ctx context.Context, cell, shard, after string, limit int) ([]Holding, error) {
	if limit < 1 {
		return nil, fmt.Errorf("list the tenants of shard %s/%s: limit %d: want at least 1", cell, shard, limit)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Holding
	for tenant, have := range m.items[place{cell, shard}] {
		if !have.gone && tenant > after {
			all = append(all, Holding{tenant, have.epoch})
		}
	}
	slices.SortFunc(all, func(a, b Holding) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return all[:min(limit, len(all))], ctx.Err()
}
