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
	items map[place]map[string]uint64
}

// NewMemoryHolder returns one in which nobody holds anybody.
func NewMemoryHolder() *MemoryHolder { return &MemoryHolder{items: map[place]map[string]uint64{}} }

// Hold implements Holder.
func (m *MemoryHolder) Hold(ctx context.Context, cell, shard string, h Holding) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := place{cell, shard}
	if m.items[p] == nil {
		m.items[p] = map[string]uint64{}
	}
	m.items[p][h.Tenant] = max(m.items[p][h.Tenant], h.Epoch)
	return ctx.Err()
}

// Release implements Holder.
func (m *MemoryHolder) Release(ctx context.Context, cell, shard string, h Holding) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := (place{cell, shard}); m.items[p][h.Tenant] <= h.Epoch {
		delete(m.items[p], h.Tenant)
	}
	return ctx.Err()
}

// Held implements Holder.
func (m *MemoryHolder) Held(ctx context.Context, cell, shard, tenant string) (Holding, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	epoch, ok := m.items[place{cell, shard}][tenant]
	return Holding{tenant, epoch}, ok, ctx.Err()
}

// Holdings implements Holder.
func (m *MemoryHolder) Holdings(ctx context.Context, cell, shard, after string, limit int) ([]Holding, error) {
	if limit < 1 {
		return nil, fmt.Errorf("list the tenants of shard %s/%s: limit %d: want at least 1", cell, shard, limit)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Holding
	for tenant, epoch := range m.items[place{cell, shard}] {
		if tenant > after {
			all = append(all, Holding{tenant, epoch})
		}
	}
	slices.SortFunc(all, func(a, b Holding) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return all[:min(limit, len(all))], ctx.Err()
}
