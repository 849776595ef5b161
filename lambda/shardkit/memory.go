package shardkit

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Memory is Items that live and die with the process, for tests and for services without a store.
type Memory struct {
	everybody bool
	mu        sync.RWMutex
	epochs    map[string]uint64 // of those that are held
	left      map[string]uint64 // up to which others were let go
	items     map[string]map[string][]byte
}

var _ Items = (*Memory)(nil)

// NewMemory returns an empty Memory, which holds nobody.
func NewMemory() *Memory {
	return &Memory{epochs: map[string]uint64{}, left: map[string]uint64{}, items: map[string]map[string][]byte{}}
}

// NewUnchecked returns an empty Memory that says that everybody is held, always: for a service that has
// no store to keep in whom its shards hold. Nothing is checked then.
func NewUnchecked() *Memory {
	m := NewMemory()
	m.everybody = true
	return m
}

// Hold has the shard hold the tenant from this epoch on. A higher one that is there stays, and so does that the
// shard let go of the tenant at this epoch or a higher one.
func (m *Memory) Hold(tenant string, epoch uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if left, gone := m.left[tenant]; gone && left >= epoch {
		return
	}
	delete(m.left, tenant)
	m.epochs[tenant] = max(m.epochs[tenant], epoch)
}

// Release has the shard let go of the tenant, unless it holds it at a higher epoch.
func (m *Memory) Release(tenant string, epoch uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.epochs[tenant] <= epoch {
		delete(m.epochs, tenant)
		m.left[tenant] = max(m.left[tenant], epoch)
	}
}

// held is Held under the lock.
func (m *Memory) held(tenant string) (uint64, bool) {
	epoch, ok := m.epochs[tenant]
	return epoch, ok || m.everybody
}

// Held implements Items.
func (m *Memory) Held(ctx context.Context, tenant string) (uint64, bool, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	epoch, ok := m.held(tenant)
	return epoch, ok, ctx.Err()
}

// Get implements Items.
func (m *Memory) Get(ctx context.Context, tenant, key string) ([]byte, bool, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	value, found := m.items[tenant][key]
	return bytes.Clone(value), found, ctx.Err()
}

// List implements Items.
func (m *Memory) List(ctx context.Context, tenant, prefix string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	keys := slices.Sorted(maps.Keys(m.items[tenant]))
	return slices.DeleteFunc(keys, func(k string) bool { return !strings.HasPrefix(k, prefix) }), ctx.Err()
}

// Write implements Items.
func (m *Memory) Write(ctx context.Context, tenant string, epoch uint64, writes ...Write) error {
	if err := Check(writes...); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil { // only now: it may have waited long for the others
		return err
	}
	if since, ok := m.held(tenant); !ok || since > epoch {
		return fmt.Errorf("write: %w", ErrNotHeld)
	}
	if m.items[tenant] == nil {
		m.items[tenant] = map[string][]byte{}
	}
	for _, w := range writes {
		if w.Delete {
			delete(m.items[tenant], w.Key)
			continue
		}
		m.items[tenant][w.Key] = append([]byte{}, w.Value...)
	}
	return nil
}
