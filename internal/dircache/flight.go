package dircache

import (
	"sync"

	"cellwall.dev/cellwall/internal/routing"
)

// flight is one reading for all who wait for it. All but done is written before done is closed.
type flight struct {
	done  chan struct{}
	known routing.Known
	err   error
}

// flights are the readings under way, at most one of a tenant.
type flights struct {
	mu sync.Mutex
	by map[string]*flight
}

// join returns the reading of the tenant that is under way, or nil.
func (f *flights) join(tenant string) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.by[tenant]
}

// begin returns the reading of the tenant that is under way, or has read called in a goroutine of its own: it
// does not end because the first who waits for it leaves.
func (f *flights) begin(tenant string, read func() (routing.Known, error)) (fl *flight, mine bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl = f.by[tenant]; fl != nil {
		return fl, false
	}
	fl = &flight{done: make(chan struct{})}
	f.by[tenant] = fl
	go func() {
		fl.known, fl.err = read()
		f.mu.Lock()
		delete(f.by, tenant)
		f.mu.Unlock()
		close(fl.done)
	}()
	return fl, true
}
