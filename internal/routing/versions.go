package routing

import (
	"context"
	"maps"
	"sync"
	"time"
)

// failedFor is how long a failed reading stands for those who ask next, so that a directory which is down
// is not asked by every request.
const failedFor = time.Second

// versions remembers values whose versions never change: each is read when somebody first asks for it, by
// one reading for all who ask meanwhile, and kept. A failure is not kept beyond failedFor. One of a reading that stood
// still, since its process was frozen as a Lambda environment is between invocations, is nobody's who asks later.
type versions[V any] struct {
	limit time.Duration    // for one reading
	now   func() time.Time // by the wall clock, as another may stand still with the process
	read  func(ctx context.Context, version uint64) (V, error)

	mu       sync.RWMutex
	known    map[uint64]V
	readings map[uint64]*reading[V] // under way, or failed
}

// reading is one reading. All but done is written before done is closed.
type reading[V any] struct {
	began time.Time
	done  chan struct{}
	value V
	err   error
	until time.Time // when the failure may be tried again
}

// stoodStill says of a reading that took, or takes, so much longer than it may that it was not let go on.
func (r *reading[V]) stoodStill(now time.Time, limit time.Duration) bool {
	if !r.until.IsZero() {
		now = r.until.Add(-failedFor)
	}
	return now.Sub(r.began) > 2*limit
}

func newVersions[V any](limit time.Duration, now func() time.Time, read func(context.Context, uint64) (V, error)) *versions[V] {
	wall := func() time.Time { return now().Round(0) }
	return &versions[V]{limit: limit, now: wall, read: read, known: map[uint64]V{}, readings: map[uint64]*reading[V]{}}
}

// get returns the version, and waits for as long as one reading may take when it has to be read.
func (v *versions[V]) get(ctx context.Context, version uint64) (V, error) {
	v.mu.RLock()
	value, ok := v.known[version]
	v.mu.RUnlock()
	if ok {
		return value, nil
	}
	ctx, cancel := context.WithTimeout(ctx, v.limit)
	defer cancel()
	r := v.reading(ctx, version)
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

// reading returns the reading of a version that stands, and begins one when there is none.
func (v *versions[V]) reading(ctx context.Context, version uint64) *reading[V] {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	maps.DeleteFunc(v.readings, func(_ uint64, r *reading[V]) bool {
		return r.err != nil && !now.Before(r.until) || r.stoodStill(now, v.limit)
	})
	if r := v.readings[version]; r != nil {
		return r
	}
	r := &reading[V]{began: now, done: make(chan struct{})}
	if value, ok := v.known[version]; ok { // it came between the two looks
		r.value = value
		close(r.done)
		return r
	}
	v.readings[version] = r
	// Others wait for it, too: it does not end because the first of them leaves.
	ctx = context.WithoutCancel(ctx)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, v.limit)
		defer cancel()
		value, err := v.guarded(ctx, version)
		v.mu.Lock()
		defer v.mu.Unlock()
		if r.value, r.err, r.until = value, err, v.now().Add(failedFor); err == nil {
			v.known[version] = value
			if v.readings[version] == r { // another has its place if it stood still
				delete(v.readings, version)
			}
		}
		close(r.done)
	}()
	return r
}

func (v *versions[V]) guarded(ctx context.Context, version uint64) (value V, err error) {
	defer Recovered("reading a topology or a key", &err)
	return v.read(ctx, version)
}
