package sample

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Memory is a Store that dies with its process.
type Memory struct {
	mu    sync.RWMutex
	items map[string]map[string][]byte
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory { return &Memory{items: map[string]map[string][]byte{}} }

// Put implements Store.
func (m *Memory) Put(ctx context.Context, pk, sk string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.items[pk] == nil {
		m.items[pk] = map[string][]byte{}
	}
	m.items[pk][sk] = slices.Clone(value)
	return nil
}

// Get implements Store.
func (m *Memory) Get(_ context.Context, pk, sk string) ([]byte, bool, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	value, found := m.items[pk][sk]
	return slices.Clone(value), found, nil
}

// List implements Store.
func (m *Memory) List(_ context.Context, pk string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Sorted(maps.Keys(m.items[pk])), nil
}
