package dircache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing"
)

var errDown = errors.New("no route to host")

// world is a directory with all that ever stood in it, a replica of it that may be behind, and a snapshot that
// is older. Every entry differs from every other by its epoch.
type world struct {
	mu             sync.Mutex
	past           map[string][]stood // by tenant, oldest first
	near           map[string]directory.Entry
	base           map[string]directory.Entry
	taken          time.Time
	down           map[string]bool // "home", "near"
	slow           time.Duration   // how long home takes
	reads          int             // of home
	under          map[string]int  // readings of home under way, by tenant
	most           map[string]int  // most of them at once
	together, peak int             // readings of home under way, and the most of them
}

type stood struct {
	from  time.Time
	entry directory.Entry
}

func newWorld() *world {
	return &world{past: map[string][]stood{}, near: map[string]directory.Entry{}, down: map[string]bool{}, under: map[string]int{}, most: map[string]int{}}
}

// set changes a tenant's entry.
func (w *world) set(tenant, cell string, state directory.State) directory.Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := directory.Entry{Tenant: tenant, Cell: cell, State: state, Epoch: uint64(len(w.past[tenant]) + 1), Pins: []string{"s01", "s02"}}
	w.past[tenant] = append(w.past[tenant], stood{time.Now(), e})
	return e
}

func (w *world) current(tenant string) (directory.Entry, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.past[tenant]
	if len(p) == 0 {
		return directory.Entry{}, false
	}
	return p[len(p)-1].entry, true
}

func (w *world) snapshot() {
	all := map[string]directory.Entry{}
	for tenant := range w.past {
		all[tenant], _ = w.current(tenant)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.base, w.taken = all, time.Now()
}

// Entry implements Base.
func (w *world) Entry(tenant string) (directory.Entry, time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, ok := w.base[tenant]
	return e, w.taken, ok
}

// home is the directory itself.
type home struct{ *world }

func (h home) Get(ctx context.Context, tenant string) (directory.Entry, error) {
	h.mu.Lock()
	h.reads++
	h.under[tenant]++
	h.most[tenant] = max(h.most[tenant], h.under[tenant])
	h.together++
	h.peak = max(h.peak, h.together)
	slow, down := h.slow, h.down["home"]
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		h.under[tenant]--
		h.together--
		h.mu.Unlock()
	}()
	if slow > 0 {
		select {
		case <-ctx.Done():
			return directory.Entry{}, ctx.Err()
		case <-time.After(slow):
		}
	}
	if down {
		return directory.Entry{}, errDown
	}
	e, ok := h.current(tenant)
	if !ok {
		return e, fmt.Errorf("tenant %q: %w", tenant, directory.ErrNotFound)
	}
	return e, nil
}

// near is its replica.
type near struct{ *world }

func (n near) Get(_ context.Context, tenant string) (directory.Entry, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e, ok := n.world.near[tenant]
	switch {
	case n.down["near"]:
		return e, errDown
	case !ok:
		return e, fmt.Errorf("tenant %q: %w", tenant, directory.ErrNotFound)
	}
	return e, nil
}

func (n near) replicate() {
	for tenant := range n.past {
		e, _ := n.current(tenant)
		n.mu.Lock()
		n.world.near[tenant] = e
		n.mu.Unlock()
	}
}

func (w *world) readings() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reads
}

func (w *world) turn(what string, down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down[what] = down
}

func (w *world) takes(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow = d
}

// needer is what both kinds of tests are.
type needer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

func cacheOf(t needer, c Config) *Cache {
	t.Helper()
	cache, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return cache
}

// answer is one answer of Entry or Fresh, and when it was asked for and given.
type answer struct {
	tenant      string
	asked, told time.Time
	known       routing.Known
	err         error
}

// play lets a world and its cache live through random events, and shows each answer to check.
type play struct {
	world  *world
	cache  *Cache
	config Config
	events []string // by name, of those in do

	outages bool // there may be a snapshot and a replica
	check   func(p *play, a answer) error
}

var tenants = []string{"ann", "bob", "eve"}

func (p *play) run(t *testing.T) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		var wrong error
		var way any
		synctest.Test(t, func(*testing.T) {
			defer func() { way = recover() }() // rapid's own way out of a draw, which has to reach it
			wrong = p.life(rt)
		})
		if way != nil {
			panic(way)
		}
		if wrong != nil {
			rt.Fatal(wrong)
		}
	})
}

// life is one world from its beginning to its end.
func (p play) life(t *rapid.T) (wrong error) {
	p.world = newWorld()
	p.config.Directory = home{p.world}
	p.config.Cell = "eu-1"
	p.config.Single = rapid.Bool().Draw(t, "single")
	if p.outages && rapid.Bool().Draw(t, "base") {
		p.config.Base = p.world
	}
	if p.outages && rapid.Bool().Draw(t, "replica") {
		p.config.Replica = near{p.world}
	}
	p.cache = cacheOf(t, p.config)
	for range rapid.IntRange(1, 250).Draw(t, "events") {
		if wrong = p.do(t, rapid.SampledFrom(p.events).Draw(t, "event")); wrong != nil {
			break
		}
	}
	time.Sleep(5 * time.Second) // readings end
	synctest.Wait()
	return wrong
}

func (p *play) do(t *rapid.T, event string) error {
	tenant := rapid.SampledFrom(tenants).Draw(t, "tenant")
	switch event {
	case "change":
		p.world.set(tenant, rapid.SampledFrom([]string{"eu-1", "eu-1", "us-1"}).Draw(t, "cell"),
			rapid.SampledFrom([]directory.State{directory.Active, directory.Active, directory.Moving, directory.Placing, directory.Suspended}).Draw(t, "state"))
	case "entry", "fresh":
		a := answer{tenant: tenant, asked: time.Now()}
		if event == "entry" {
			a.known, a.err = p.cache.Entry(context.Background(), tenant)
		} else {
			than := uint64(0)
			if e, ok := p.world.current(tenant); ok && e.Epoch > 1 {
				than = e.Epoch - 1
			}
			a.known, a.err = p.cache.Fresh(context.Background(), tenant, than)
		}
		a.told = time.Now()
		return p.check(p, a)
	case "pass":
		time.Sleep(time.Duration(rapid.SampledFrom([]int{1, 50, 300, 900, 3000, 20_000, 70_000, 600_000}).Draw(t, "ms")) * time.Millisecond)
		synctest.Wait()
	case "snapshot":
		p.world.snapshot()
	case "replicate":
		near{p.world}.replicate()
	case "home":
		p.world.turn("home", rapid.Bool().Draw(t, "down"))
	case "near":
		p.world.turn("near", rapid.Bool().Draw(t, "down"))
	case "slow":
		p.world.takes(time.Duration(rapid.SampledFrom([]int{0, 20, 700, 5000}).Draw(t, "slow")) * time.Millisecond)
	}
	return nil
}

// was returns what stood at some time between two, by epoch; 0 is that there was no entry.
func (w *world) was(tenant string, from, to time.Time) map[uint64]directory.Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := map[uint64]directory.Entry{}
	p := w.past[tenant]
	if len(p) == 0 || !p[0].from.Before(from) {
		found[0] = directory.Entry{}
	}
	for i, s := range p {
		if !s.from.After(to) && (i+1 == len(p) || !p[i+1].from.Before(from)) {
			found[s.entry.Epoch] = s.entry
		}
	}
	return found
}
