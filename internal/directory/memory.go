package directory

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Memory is a Store that lives and dies with the process. Its order of listing is by bytes of the id.
type Memory struct {
	mu      sync.RWMutex
	entries map[string]Entry
	tenants []string // sorted keys of entries
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory { return &Memory{entries: map[string]Entry{}} }

// Get implements Store.
func (m *Memory) Get(ctx context.Context, tenant string) (Entry, error) {
	if err := ctx.Err(); err != nil {
		return Entry{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	e, ok := m.entries[tenant]
	if !ok {
		return Entry{}, fmt.Errorf("tenant %q: %w", tenant, ErrNotFound)
	}
	return e.Clone(), nil
}

// Create implements Store.
func (m *Memory) Create(ctx context.Context, e Entry) (Entry, error) {
	return m.change(ctx, e.Tenant, func(current *Entry) (Entry, bool, error) { return Created(current, e) })
}

// CompareAndSet implements Store.
func (m *Memory) CompareAndSet(ctx context.Context, expect uint64, e Entry) (Entry, error) {
	return m.change(ctx, e.Tenant, func(current *Entry) (Entry, bool, error) { return Replaced(current, expect, e) })
}

func (m *Memory) change(ctx context.Context, tenant string, decide func(*Entry) (Entry, bool, error)) (Entry, error) {
	if err := ctx.Err(); err != nil {
		return Entry{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var current *Entry
	if e, ok := m.entries[tenant]; ok {
		current = &e
	}
	after, write, err := decide(current)
	if err != nil || !write {
		return after, err
	}
	if current == nil {
		at, _ := slices.BinarySearch(m.tenants, tenant)
		m.tenants = slices.Insert(m.tenants, at, tenant)
	}
	m.entries[tenant] = after
	return after.Clone(), nil
}

// List implements Store.
func (m *Memory) List(ctx context.Context, after string, limit int) ([]Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if limit < 1 {
		return nil, fmt.Errorf("list the directory: limit %d: want at least 1", limit)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	at, found := slices.BinarySearch(m.tenants, after)
	if found {
		at++
	}
	page := m.tenants[at:min(at+limit, len(m.tenants))]
	entries := make([]Entry, len(page))
	for i, tenant := range page {
		entries[i] = m.entries[tenant].Clone()
	}
	return entries, nil
}
