package shardkit

import (
	"bytes"
	"container/heap"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is Items that live and die with the process, for tests and for services without a store.
type Memory struct {
	everybody bool
	mu        sync.RWMutex
	epochs    map[string]uint64 // of those that are held
	left      map[string]uint64 // up to which others were let go
	items     map[string]map[string]kept
	ends      ends
}

// kept is an item; ends is 0 when it does not expire.
type kept struct {
	value []byte
	ends  int64 // Unix seconds
}

func (k kept) over(now int64) bool { return k.ends > 0 && k.ends <= now }

var _ Items = (*Memory)(nil)

// NewMemory returns an empty Memory, which holds nobody.
func NewMemory() *Memory {
	return &Memory{epochs: map[string]uint64{}, left: map[string]uint64{}, items: map[string]map[string]kept{}}
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
	item, found := m.items[tenant][key]
	if !found || item.over(time.Now().Unix()) {
		return nil, false, ctx.Err()
	}
	return bytes.Clone(item.value), true, ctx.Err()
}

// List implements Items.
func (m *Memory) List(ctx context.Context, tenant, prefix string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	now := time.Now().Unix()
	keys := slices.Sorted(maps.Keys(m.items[tenant]))
	return slices.DeleteFunc(keys, func(k string) bool {
		return !strings.HasPrefix(k, prefix) || m.items[tenant][k].over(now)
	}), ctx.Err()
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
	m.sweep(time.Now().Unix())
	for _, w := range writes {
		is, found := m.items[tenant][w.Key]
		if found && w.Absent || w.Was != nil && !(found && bytes.Equal(is.value, w.Was)) {
			return fmt.Errorf("write: %w", ErrChanged)
		}
	}
	if m.items[tenant] == nil {
		m.items[tenant] = map[string]kept{}
	}
	for _, w := range writes {
		if w.Delete {
			delete(m.items[tenant], w.Key)
			continue
		}
		m.items[tenant][w.Key] = kept{append([]byte{}, w.Value...), w.Expires}
		if w.Expires > 0 {
			heap.Push(&m.ends, end{w.Expires, tenant, w.Key})
		}
	}
	return nil
}

// sweep deletes what has expired.
func (m *Memory) sweep(now int64) {
	for len(m.ends) > 0 && m.ends[0].at <= now {
		e := heap.Pop(&m.ends).(end)
		if m.items[e.tenant][e.key].over(now) { // it may be another by now
			delete(m.items[e.tenant], e.key)
		}
	}
}

// end is when an item expires that was written so.
type end struct {
	at          int64
	tenant, key string
}

// ends is a heap.Interface, the next end first.
type ends []end

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].at < e[j].at }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(end)) }
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	(*e)[len(*e)-1] = end{} // do not keep its strings
	*e = (*e)[:len(*e)-1]
	return last
}
