package runtest

import (
	"context"
	"errors"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// ErrDead is what the ports of a dead driver say. Nobody hears it.
var ErrDead = errors.New("this process is dead")

// Mortal is the ports of one driver, who dies at one of their calls: from then on nothing that it does has an effect.
type Mortal struct {
	Leases  run.Leases
	Journal run.Journal
	Wishes  run.Wishes
	Stacks  run.Stacks
	Gate    run.Gate
	// Die is the number of the call at which it dies, from 1; 0 is never. After says that the call is still performed and
	// its answer is lost.
	Die   int
	After bool
	// Kill is called when it dies, and ends the driver's context.
	Kill func()
	// Stalls is how long it stands still at that call, and all calls after it, instead of dying: a process without a
	// network, that wakes up later and knows nothing of it.
	Stalls time.Duration

	mu    sync.Mutex
	calls int
	dead  bool
	wakes time.Time
}

// Calls is how many there were.
func (m *Mortal) Calls() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

// Dead says that it has died.
func (m *Mortal) Dead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

// call performs a call, unless it is the last one.
func (m *Mortal) call(f func() error) error {
	m.mu.Lock()
	m.calls++
	dies := m.calls == m.Die && !m.dead
	if m.Stalls > 0 {
		if dies {
			m.wakes = time.Now().Add(m.Stalls)
		}
		wakes := m.wakes
		m.mu.Unlock()
		time.Sleep(time.Until(wakes))
		return f()
	}
	if dies && !m.After {
		m.die()
	}
	if m.dead {
		m.mu.Unlock()
		return ErrDead
	}
	m.mu.Unlock()
	err := f()
	m.mu.Lock()
	defer m.mu.Unlock()
	if dies {
		m.die()
	}
	if m.dead {
		return ErrDead
	}
	return err
}

func (m *Mortal) die() {
	m.dead = true
	if m.Kill != nil {
		m.Kill()
	}
}

func value[T any](m *Mortal, f func() (T, error)) (T, error) {
	var v T
	err := m.call(func() (err error) {
		v, err = f()
		return err
	})
	return v, err
}

func (m *Mortal) Take(ctx context.Context, service, holder string, now time.Time, ttl time.Duration) (run.Lease, error) {
	return value(m, func() (run.Lease, error) { return m.Leases.Take(ctx, service, holder, now, ttl) })
}

func (m *Mortal) Keep(ctx context.Context, l run.Lease, now time.Time, ttl time.Duration) (run.Lease, error) {
	return value(m, func() (run.Lease, error) { return m.Leases.Keep(ctx, l, now, ttl) })
}

func (m *Mortal) Free(ctx context.Context, l run.Lease) error {
	return m.call(func() error { return m.Leases.Free(ctx, l) })
}

func (m *Mortal) Holder(ctx context.Context, service string) (run.Lease, bool, error) {
	var is bool
	l, err := value(m, func() (l run.Lease, err error) {
		l, is, err = m.Leases.Holder(ctx, service)
		return l, err
	})
	return l, is, err
}

func (m *Mortal) Append(ctx context.Context, l run.Lease, r run.Record) error {
	return m.call(func() error { return m.Journal.Append(ctx, l, r) })
}

func (m *Mortal) Latest(ctx context.Context, service string) (run.Record, error) {
	return value(m, func() (run.Record, error) { return m.Journal.Latest(ctx, service) })
}

func (m *Mortal) Last(ctx context.Context, service, id string) (run.Record, error) {
	return value(m, func() (run.Record, error) { return m.Journal.Last(ctx, service, id) })
}

func (m *Mortal) Wish(ctx context.Context, service string, w run.Wish) error {
	return m.call(func() error { return m.Wishes.Wish(ctx, service, w) })
}

func (m *Mortal) Wished(ctx context.Context, service, id string) ([]run.Wish, error) {
	return value(m, func() ([]run.Wish, error) { return m.Wishes.Wished(ctx, service, id) })
}

func (m *Mortal) Answer(ctx context.Context, service string, w run.Wish) error {
	return m.call(func() error { return m.Wishes.Answer(ctx, service, w) })
}

func (m *Mortal) Read(ctx context.Context, cell, stage, wentBack string) (run.Reading, error) {
	return value(m, func() (run.Reading, error) { return m.Stacks.Read(ctx, cell, stage, wentBack) })
}

func (m *Mortal) Prepare(ctx context.Context, cell, stage, digest string, fencing uint64) error {
	return m.call(func() error { return m.Stacks.Prepare(ctx, cell, stage, digest, fencing) })
}

// Execute asks for the permit and then counts once more: it may die between the permit and the change.
func (m *Mortal) Execute(ctx context.Context, cell, stage, digest string, fencing uint64, permit func(context.Context) error) error {
	return m.call(func() error {
		return m.Stacks.Execute(ctx, cell, stage, digest, fencing, m.permit(permit))
	})
}

func (m *Mortal) Restore(ctx context.Context, cell, stage, digest string, fencing uint64, permit func(context.Context) error) error {
	return m.call(func() error {
		return m.Stacks.Restore(ctx, cell, stage, digest, fencing, m.permit(permit))
	})
}

func (m *Mortal) permit(permit func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error { return m.call(func() error { return permit(ctx) }) }
}

func (m *Mortal) Look(ctx context.Context, cell string, since, from time.Time, unreached []string) (rollout.Observation, error) {
	return value(m, func() (rollout.Observation, error) { return m.Gate.Look(ctx, cell, since, from, unreached) })
}
