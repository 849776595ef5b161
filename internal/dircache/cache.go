package dircache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing"
)

// errUnknown is remembered of tenants that do not exist.
var errUnknown = fmt.Errorf("%w, as was found a moment ago", directory.ErrNotFound)

// Entry implements routing.Entries.
func (c *Cache) Entry(ctx context.Context, tenant string) (routing.Known, error) {
	now := c.now()
	if r := c.tenants.get(tenant); r != nil && c.good(r, now) {
		return c.tell(r, now)
	}
	return c.look(ctx, tenant, now)
}

// good says whether a record need not be looked up again yet. One that would be good for too long was made
// before the clock was set back.
func (c *Cache) good(r *record, now int64) bool {
	left := r.due.Load() - now
	return left > 0 && left <= c.horizon
}

// tell is what a record says.
func (c *Cache) tell(r *record, now int64) (routing.Known, error) {
	if !r.used.Load() {
		r.used.Store(true)
	}
	k := routing.Known{Age: time.Duration(max(0, now-r.read.Load())), Stale: r.near.Load() || r.expired(now)}
	if r.unknown() {
		return k, errUnknown
	}
	k.Entry, k.Memo = r.entry(), &r.memo
	return k, nil
}

// remembered returns what is remembered of a tenant, nil when nothing is.
func (c *Cache) remembered(tenant string) *record {
	if r := c.tenants.certain(tenant); r != nil {
		return r
	}
	return c.strangers.certain(tenant)
}

// look answers when what is remembered will not do as it is.
func (c *Cache) look(ctx context.Context, tenant string, now int64) (routing.Known, error) {
	if !directory.ValidTenant(tenant) {
		return routing.Known{}, fmt.Errorf("%q names no tenant: %w", tenant, directory.ErrNotFound)
	}
	r := c.under(tenant, c.remembered(tenant), now)
	if r != nil && c.good(r, now) {
		return c.tell(r, now)
	}
	a := asking{Cache: c, tenant: tenant, limit: c.config.LookUp, needed: r == nil || !r.servable()}
	if r != nil && c.ahead(r) && !r.expired(now) {
		if due := r.due.Load(); now >= due && r.due.CompareAndSwap(due, now+int64(a.limit)) {
			c.looks.begin(tenant, a.lookUp)
		}
		return c.tell(r, now)
	}
	if c.config.Single && !a.needed {
		if a.limit = c.config.Patience; c.replica != nil {
			a.limit /= 2
		}
	}
	switch {
	case r == nil || !r.kind.own:
		return a.stranger(ctx, r)
	case c.config.Single:
		return a.settle(ctx, a.first)
	}
	return a.wait(ctx, r, now)
}

// under puts the snapshot's word in the place of one that is older.
func (c *Cache) under(tenant string, r *record, now int64) *record {
	if c.config.Base == nil {
		return r
	}
	e, taken, ok := c.config.Base.Entry(tenant)
	if !ok || e.Tenant != tenant || e.Epoch == 0 {
		return r
	}
	read := min(taken.UnixNano(), now) // the keeper's clock may be ahead
	if r != nil && (e.Epoch < r.epoch || read <= r.read.Load()) && (e.Epoch <= r.epoch || r.unknown()) {
		return r
	}
	return c.learn(e, read, false)
}

// lookUp is a reading of its own, which nobody's leaving ends. Those that can do without it leave it when too
// many are under way, as when a directory answers again for which all have waited.
func (a asking) lookUp() (routing.Known, error) {
	if !a.needed {
		select {
		case a.refreshing <- struct{}{}:
			defer func() { <-a.refreshing }()
		default:
			if r := a.remembered(a.tenant); r != nil {
				now := a.now()
				a.postpone(r, now)
				return a.tell(r, now)
			}
		}
	}
	return a.settle(context.Background(), a.first)
}

// wait waits for a reading of somebody of whom something is known: with patience, where that would do.
func (a asking) wait(ctx context.Context, r *record, now int64) (routing.Known, error) {
	f, _ := a.looks.begin(a.tenant, a.lookUp)
	patience := a.config.Patience
	if a.needed {
		patience = a.longest()
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-f.done:
		return f.known, f.err
	case <-ctx.Done():
	case <-timer.C:
		// The next do not wait at all until the reading ends.
		if due := r.due.Load(); due <= now {
			r.due.CompareAndSwap(due, a.now()+int64(a.config.LookUp))
		}
	}
	return a.tell(r, a.now())
}

// longest is the time for a reading of a replica and of its home, and once more to wait for it to begin.
func (a asking) longest() time.Duration { return 3 * a.config.LookUp }

// stranger looks up somebody of whom nothing is known, or that it is none of the router's tenants, within the
// budget for such.
func (a asking) stranger(ctx context.Context, r *record) (routing.Known, error) {
	ctx, cancel := context.WithTimeout(ctx, a.longest())
	defer cancel()
	f := a.looks.join(a.tenant)
	if f == nil {
		if err := a.unknown.enter(ctx, a.now); err != nil {
			return a.otherwise(r, err)
		}
		read := func(ctx context.Context) (routing.Known, error) {
			k, err := a.settle(ctx, a.first)
			a.unknown.leave(a.now(), errors.Is(err, directory.ErrNotFound) || err == nil && !a.isOwn(k.Cell))
			return k, err
		}
		if a.config.Single {
			return read(ctx)
		}
		var mine bool
		f, mine = a.looks.begin(a.tenant, func() (routing.Known, error) { return read(context.Background()) })
		if !mine {
			a.unknown.leave(a.now(), false)
		}
	}
	select {
	case <-f.done:
		return f.known, f.err
	case <-ctx.Done():
		return a.otherwise(r, ctx.Err())
	}
}

// otherwise is what is said when the directory was not asked: what is known, or why nobody knows.
func (a asking) otherwise(r *record, why error) (routing.Known, error) {
	if r == nil || r.unknown() && r.expired(a.now()) {
		return routing.Known{}, fmt.Errorf("look up tenant %q: %w", a.tenant, why)
	}
	return a.tell(r, a.now())
}

// Fresh implements routing.Entries.
func (c *Cache) Fresh(ctx context.Context, tenant string, than uint64) (routing.Known, error) {
	if !directory.ValidTenant(tenant) {
		return routing.Known{}, fmt.Errorf("%q names no tenant: %w", tenant, directory.ErrNotFound)
	}
	asked := c.now()
	a := asking{Cache: c, tenant: tenant, limit: c.config.LookUp, needed: true}
	if r := c.remembered(tenant); r != nil && asked < r.quiet.Load() && !r.expired(asked) {
		return c.tell(r, asked)
	}
	for first := true; ; first = false {
		if now, r := c.now(), c.remembered(tenant); r != nil && r.epoch > than && !r.expired(now) {
			return c.tell(r, now)
		}
		f, mine, err := a.readAnew(ctx)
		if err != nil {
			return a.otherwise(c.remembered(tenant), err)
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return a.otherwise(c.remembered(tenant), ctx.Err())
		}
		if mine || !first || f.err != nil || f.known.Epoch > than {
			return f.known, f.err
		}
		// It began before the shard refused the tenant, and may have missed why. The next one will not.
	}
}

// readAnew returns a reading afresh that is under way, or begins one within the budget for such.
func (a asking) readAnew(ctx context.Context) (f *flight, mine bool, err error) {
	if f = a.afresh.join(a.tenant); f != nil {
		return f, false, nil
	}
	if err = a.unchanged.enter(ctx, a.now); err != nil {
		return nil, false, err
	}
	read := func(ctx context.Context) (routing.Known, error) {
		before := a.remembered(a.tenant)
		k, err := a.settle(ctx, a.anew)
		news := err == nil && (before == nil || k.Epoch > before.epoch)
		if r := a.remembered(a.tenant); r != nil && !news {
			r.quiet.Store(a.now() + a.spread(min(firstQuiet<<min(r.idle.Add(1)-1, 10), lastQuiet)))
		}
		a.unchanged.leave(a.now(), !news)
		return k, err
	}
	if a.config.Single {
		f = &flight{done: make(chan struct{})}
		f.known, f.err = read(ctx)
		close(f.done)
		return f, true, nil
	}
	f, mine = a.afresh.begin(a.tenant, func() (routing.Known, error) { return read(context.Background()) })
	if !mine {
		a.unchanged.leave(a.now(), false)
	}
	return f, mine, nil
}

// After a reading afresh brought no news, for how long the same question is answered without another, doubled
// each time.
const (
	firstQuiet = 100 * time.Millisecond
	lastQuiet  = 5 * time.Second
)
