package quarantine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
	"cellwall.dev/cellwall/internal/routing/poison"
)

var begin = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// world is cell eu-1 with the shards s01 to s08, of which s07 and s08 are the quarantine.
type world struct {
	t      *testing.T
	now    time.Time
	home   *counted
	holder *countedHolder
	res    *directory.Residence
	events []Event
}

// fuse counts writes; after is the one at which the process is gone.
type fuse struct {
	mu     sync.Mutex
	writes int
	after  int // 0: never
	early  bool
}

var errGone = errors.New("the process is gone")

// burn does a write, unless the process is gone: before it, or before its answer came.
func (f *fuse) burn(do func() error) error {
	f.mu.Lock()
	f.writes++
	n := f.writes
	f.mu.Unlock()
	if f.after == 0 || n < f.after {
		return do()
	}
	if n == f.after && !f.early {
		_ = do()
	}
	return errGone
}

type counted struct {
	directory.Home
	*fuse
	keys      map[directory.Key]bool // that were written
	meanwhile func(write int)        // done before each write, but for those that it makes itself
}

func (c *counted) Write(ctx context.Context, b directory.Batch) error {
	if do := c.meanwhile; do != nil {
		c.meanwhile = nil
		do(c.writes + 1)
		c.meanwhile = do
	}
	return c.burn(func() error {
		c.mu.Lock()
		for _, o := range b.Ops {
			c.keys[o.Key] = true
		}
		c.mu.Unlock()
		return c.Home.Write(ctx, b)
	})
}

type countedHolder struct {
	directory.Holder
	*fuse
}

func (c *countedHolder) Hold(ctx context.Context, cell, shard string, h directory.Holding) error {
	return c.burn(func() error { return c.Holder.Hold(ctx, cell, shard, h) })
}

func (c *countedHolder) Release(ctx context.Context, cell, shard string, h directory.Holding) error {
	return c.burn(func() error { return c.Holder.Release(ctx, cell, shard, h) })
}

func newWorld(t *testing.T, tenants ...string) *world {
	t.Helper()
	f := &fuse{}
	w := &world{t: t, now: begin, home: &counted{Home: directory.NewMemory(), fuse: f}, holder: &countedHolder{directory.NewMemoryHolder(), f}}
	w.home.keys = map[directory.Key]bool{}
	d := directorytest.Fill(t, w.home)
	w.res = directory.NewResidence(d, w.holder, func(context.Context, string, string) ([]byte, error) {
		return []byte("a placement key of 32 bytes here"), nil
	})
	if _, err := d.CloseCell(t.Context(), "us-1", w.change("close us-1")); err != nil {
		t.Fatal(err)
	}
	for _, tenant := range tenants {
		w.signUp(directory.SignUp{Tenant: tenant, Load: 1000})
	}
	clear(w.home.keys)
	return w
}

func (w *world) change(operation string) directory.Change {
	return directory.Change{Operation: operation, By: "ann", At: w.now}
}

func (w *world) signUp(s directory.SignUp) directory.Entry {
	w.t.Helper()
	e, err := w.res.SignUp(w.t.Context(), s, w.change("add "+s.Tenant))
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// keeper is a new one's quarantine, of these shards.
func (w *world) keeper(shards ...string) *Quarantine {
	w.t.Helper()
	q, err := New(Config{Cell: "eu-1", Shards: shards, Residence: w.res, Now: func() time.Time { return w.now }})
	if err != nil {
		w.t.Fatal(err)
	}
	return q
}

// take has a new keeper hear verdicts.
func (w *world) take(verdicts ...Verdict) Outcome {
	w.t.Helper()
	o, err := w.keeper("s07", "s08").Take(w.t.Context(), verdicts)
	if err != nil {
		w.t.Fatal(err)
	}
	w.events = append(w.events, o.Events...)
	return o
}

func (w *world) run() Outcome {
	w.t.Helper()
	return w.take()
}

func (w *world) entry(tenant string) directory.Entry {
	w.t.Helper()
	e, err := w.res.Get(w.t.Context(), tenant)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// elsewhere is a tenant none of whose shards is of the quarantine.
func (w *world) elsewhere() string {
	w.t.Helper()
	for e, err := range directory.Pages(func(after string, limit int) ([]directory.Entry, error) {
		return w.res.ListCell(w.t.Context(), "eu-1", after, limit)
	}) {
		if err != nil {
			w.t.Fatal(err)
		}
		subset, err := w.res.Subset(w.t.Context(), e)
		if err != nil {
			w.t.Fatal(err)
		}
		if !slices.Contains(subset, "s07") && !slices.Contains(subset, "s08") {
			return e.Tenant
		}
	}
	w.t.Fatal("everybody lives in the quarantine")
	return ""
}

// whole sees that a tenant is held exactly where its entry says.
func (w *world) whole(tenant string) {
	w.t.Helper()
	e := w.entry(tenant)
	subset, err := w.res.Subset(w.t.Context(), e)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range 8 {
		shard := fmt.Sprintf("s%02d", i+1)
		_, held, err := w.holder.Held(w.t.Context(), "eu-1", shard, tenant)
		if err != nil {
			w.t.Fatal(err)
		}
		if held != slices.Contains(subset, shard) {
			w.t.Errorf("%s is held by %s: %t; its subset is %v, epoch %d", tenant, shard, held, subset, e.Epoch)
		}
	}
}

// firmly is a verdict of one router that is firm by itself.
func (w *world) firmly(tenant string) Verdict {
	return Verdict{Environment: "router", At: w.now, Verdict: poison.Verdict{
		Tenant: tenant, Shards: []string{"s01", "s02"}, Downs: 3, Chance: 1e-8, Firm: true, Until: w.now.Add(5 * time.Minute)}}
}

// says is the first verdict of one environment.
func (w *world) says(environment, tenant string, chance float64) Verdict {
	return Verdict{Environment: environment, At: w.now, Verdict: poison.Verdict{
		Tenant: tenant, Shards: []string{"s01", "s02"}, Downs: 1, Chance: chance, Until: w.now.Add(time.Minute)}}
}

func whats(events []Event) (all []string) {
	for _, e := range events {
		all = append(all, e.What)
	}
	return all
}
