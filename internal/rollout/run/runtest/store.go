// Package runtest has what a driver of rollouts is tested with: a store in memory, and cells whose deployments fail, lie,
// last, and are changed by somebody else. All of it may be used by several drivers at once.
package runtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// Store is leases, journal, histories and wishes in memory. Records are kept as JSON, as other stores keep them.
type Store struct {
	mu       sync.Mutex
	leases   map[string]run.Lease
	free     map[string]bool
	order    map[string][]string // of a service: ids, oldest first
	records  map[string][][]byte // by service and id
	wishes   map[string][]run.Wish
	appended int
}

// NewStore is an empty one.
func NewStore() *Store {
	return &Store{leases: make(map[string]run.Lease), free: make(map[string]bool), order: make(map[string][]string),
		records: make(map[string][][]byte), wishes: make(map[string][]run.Wish)}
}

// Take implements run.Leases.
func (s *Store) Take(_ context.Context, service, holder string, now time.Time, ttl time.Duration) (run.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, is := s.leases[service]
	if is && !s.free[service] && now.Before(last.Until) {
		return run.Lease{}, fmt.Errorf("store: %w", &run.TakenError{Holder: last.Holder, Until: last.Until})
	}
	l := run.Lease{Service: service, Holder: holder, Fencing: last.Fencing + 1, Until: now.Add(ttl)}
	s.leases[service], s.free[service] = l, false
	return l, nil
}

// Keep implements run.Leases.
func (s *Store) Keep(_ context.Context, l run.Lease, now time.Time, ttl time.Duration) (run.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.leases[l.Service]
	if last.Fencing != l.Fencing || s.free[l.Service] || !now.Before(last.Until) {
		return run.Lease{}, fmt.Errorf("store: %w", run.ErrLost)
	}
	l.Until = now.Add(ttl)
	s.leases[l.Service] = l
	return l, nil
}

// Free implements run.Leases.
func (s *Store) Free(_ context.Context, l run.Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.leases[l.Service]; last.Fencing == l.Fencing && !s.free[l.Service] {
		last.Until = time.Time{}
		s.leases[l.Service], s.free[l.Service] = last, true
	}
	return nil
}

// Holder implements run.Leases.
func (s *Store) Holder(_ context.Context, service string) (run.Lease, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, is := s.leases[service]
	return l, is, nil
}

// Append implements run.Journal.
func (s *Store) Append(_ context.Context, l run.Lease, r run.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := r.State.Spec.ID
	if s.leases[l.Service].Fencing != l.Fencing || s.free[l.Service] {
		return fmt.Errorf("store: %w", run.ErrLost)
	}
	key := l.Service + "/" + id
	if uint64(len(s.records[key]))+1 != r.Seq {
		return fmt.Errorf("store: %w", run.ErrStale)
	}
	if r.Seq == 1 {
		if latest, err := s.latest(l.Service); err == nil && !latest.State.Status.Over() {
			return fmt.Errorf("store: %w", run.ErrStale)
		}
		s.order[l.Service] = append(s.order[l.Service], id)
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	s.records[key] = append(s.records[key], text)
	s.appended++
	return nil
}

// Latest implements run.Journal.
func (s *Store) Latest(_ context.Context, service string) (run.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest(service)
}

func (s *Store) latest(service string) (run.Record, error) {
	ids := s.order[service]
	if len(ids) == 0 {
		return run.Record{}, fmt.Errorf("store: %w", run.ErrNone)
	}
	return s.last(service, ids[len(ids)-1])
}

func (s *Store) last(service, id string) (run.Record, error) {
	records := s.records[service+"/"+id]
	if len(records) == 0 {
		return run.Record{}, fmt.Errorf("store: %w", run.ErrNone)
	}
	return decode(records[len(records)-1])
}

func decode(text []byte) (run.Record, error) {
	var r struct {
		Seq   uint64
		Event *rollout.Event
		State json.RawMessage
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return run.Record{}, err
	}
	state, err := rollout.Decode(r.State)
	return run.Record{Seq: r.Seq, Event: r.Event, State: state}, err
}

// Last implements run.Journal.
func (s *Store) Last(_ context.Context, service, id string) (run.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last(service, id)
}

// Rollouts implements run.Histories.
func (s *Store) Rollouts(_ context.Context, service string, limit int) ([]rollout.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var states []rollout.State
	for _, id := range slices.Backward(s.order[service]) {
		r, err := s.last(service, id)
		if err != nil {
			return nil, err
		}
		if states = append(states, r.State); len(states) == limit {
			break
		}
	}
	return states, nil
}

// Events implements run.Histories.
func (s *Store) Events(_ context.Context, service, id string, after uint64, limit int) ([]run.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.records[service+"/"+id]) == 0 {
		return nil, fmt.Errorf("store: %w", run.ErrNone)
	}
	var records []run.Record
	for _, text := range s.records[service+"/"+id] {
		r, err := decode(text)
		if err != nil {
			return nil, err
		}
		if r.Seq > after && len(records) < limit {
			records = append(records, run.Record{Seq: r.Seq, Event: r.Event})
		}
	}
	return records, nil
}

// Wish implements run.Wishes.
func (s *Store) Wish(_ context.Context, service string, w run.Wish) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wishes[service] = append(s.wishes[service], w)
	return nil
}

// Wished implements run.Wishes.
func (s *Store) Wished(_ context.Context, service, id string) ([]run.Wish, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.wishes[service]), func(w run.Wish) bool { return w.Rollout != id }), nil
}

// Answer implements run.Wishes.
func (s *Store) Answer(_ context.Context, service string, w run.Wish) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wishes[service] = slices.DeleteFunc(s.wishes[service], func(o run.Wish) bool { return o.ID == w.ID })
	return nil
}

// Appended is the number of records of all rollouts.
func (s *Store) Appended() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.appended
}
