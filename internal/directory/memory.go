package directory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
)

// memoryFeed is how many changes a Memory remembers for its feed.
const memoryFeed = 10_000

// Memory is a Home that lives and dies with the process. Its order of listing is by bytes of Part, then Sort.
type Memory struct {
	mu       sync.RWMutex
	records  map[Key]Record
	families map[string][]Key // sorted
	feed     []Key            // of the latest changes
	dropped  int              // changes before feed
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{records: map[Key]Record{}, families: map[string][]Key{}}
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Part, b.Part), cmp.Compare(a.Sort, b.Sort))
}

// Read implements Home.
func (m *Memory) Read(ctx context.Context, _ Consistency, keys ...Key) ([]Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	records := make([]Record, len(keys))
	for i, k := range keys {
		records[i] = m.records[k].Clone()
		records[i].Key = k
	}
	return records, nil
}

// Write implements Home.
func (m *Memory) Write(ctx context.Context, b Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.Check(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	after, err := b.Apply(func(k Key) (Record, error) {
		r := m.records[k].Clone()
		r.Key = k
		return r, nil
	})
	if err != nil {
		return err
	}
	for _, r := range after {
		m.put(r.Clone())
	}
	return nil
}

func (m *Memory) put(r Record) {
	old, exists := m.records[r.Key]
	if !exists {
		keys := m.families[r.Family()]
		at, _ := slices.BinarySearchFunc(keys, r.Key, compareKeys)
		m.families[r.Family()] = slices.Insert(keys, at, r.Key)
	}
	m.records[r.Key] = r
	if r.Version == old.Version || !Announced(r.Key) {
		return
	}
	m.feed = append(m.feed, r.Key)
	if len(m.feed) > 2*memoryFeed {
		m.dropped += len(m.feed) - memoryFeed
		m.feed = slices.Clone(m.feed[len(m.feed)-memoryFeed:])
	}
}

// List implements Home.
func (m *Memory) List(ctx context.Context, r Range, after Key, limit int) ([]Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := CheckRange(r, limit); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	keys := m.families[r.Family]
	begin := after
	if compareKeys(begin, Key{Part: r.Part}) < 0 {
		begin = Key{Part: r.Part}
	}
	at, found := slices.BinarySearchFunc(keys, begin, compareKeys)
	if found && begin == after {
		at++
	}
	records := []Record{}
	for ; at < len(keys) && len(records) < limit; at++ {
		if r.Part != "" && keys[at].Part != r.Part {
			break
		}
		if rec := m.records[keys[at]]; r.Match(rec) {
			records = append(records, rec.Clone())
		}
	}
	return records, nil
}

// Changes implements Home.
func (m *Memory) Changes(ctx context.Context, after Cursor, limit int) ([]Record, Cursor, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	end := m.dropped + len(m.feed)
	if after == "" {
		return nil, Cursor(strconv.Itoa(end)), nil
	}
	at, err := strconv.Atoi(string(after))
	switch {
	case err != nil || at < 0 || limit < 1:
		return nil, "", fmt.Errorf("changes after %q, at most %d: %w", after, limit, ErrInvalid)
	case at < m.dropped || at > end:
		return nil, "", fmt.Errorf("changes after %q: %w", after, ErrCursor)
	}
	records := []Record{}
	for ; at < end && len(records) < limit; at++ {
		records = append(records, m.records[m.feed[at-m.dropped]].Clone())
	}
	return records, Cursor(strconv.Itoa(at)), nil
}
