package routersim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/quarantine"
	"cellwall.dev/cellwall/internal/routing/poison"
)

// keeper hears the verdicts of all routers of a world, a few seconds late, as a log subscription is.
type keeper struct {
	w         *world
	q         *quarantine.Quarantine
	suspected int
	pinned    map[string]time.Duration
	failed    error
}

const (
	logDelay     = 5 * time.Second
	refreshDelay = 90 * time.Second // until the last environment has the snapshot that holds a suspect, at most
)

func newKeeper(w *world) *keeper {
	k := &keeper{w: w, pinned: map[string]time.Duration{}}
	var ids []string
	for i := range w.reserved {
		ids = append(ids, fmt.Sprint("s", shards-w.reserved+i))
	}
	q, err := quarantine.New(quarantine.Config{Cell: "eu-1", Shards: ids, Residence: &residence{w: w, note: directory.Note{}}, Now: func() time.Time { return epoch.Add(w.now) }})
	if err != nil {
		panic(err) // of a constant configuration
	}
	k.q = q
	return k
}

func (k *keeper) hear(environment int, v poison.Verdict) {
	heard := quarantine.Verdict{Verdict: v, Environment: fmt.Sprint(environment), At: epoch.Add(k.w.now)}
	k.w.after(logDelay, func() {
		o, err := k.q.Take(context.Background(), []quarantine.Verdict{heard})
		if err != nil {
			k.failed = err
		}
		for _, e := range o.Events {
			switch e.What {
			case quarantine.Suspected:
				k.suspected++
				for _, p := range k.w.processes {
					k.w.after(time.Duration(k.w.rng.Int64N(int64(refreshDelay))), func() { p.watch.Hold(e.Tenant, e.Until) })
				}
			case quarantine.Pinned:
				k.pinned[e.Tenant] = k.w.now
			}
		}
	})
}

// residence is the directory, as far as it is needed: every tenant is in eu-1, by the subset that the world gave it.
type residence struct {
	quarantine.Residence
	w    *world
	note directory.Note
	pins map[string][]string
}

func (r *residence) Get(_ context.Context, tenant string) (directory.Entry, error) {
	e := directory.Entry{Tenant: tenant, Cell: "eu-1", State: directory.Active, Epoch: 1, Topology: 1, Pins: r.pins[tenant]}
	if len(e.Pins) > 0 {
		e.Epoch = 2
	}
	return e, nil
}

func (r *residence) Cell(context.Context, string) (directory.Cell, error) {
	return directory.Cell{Name: "eu-1"}, nil
}

func (r *residence) Topology(context.Context, string, uint64) (directory.Topology, error) {
	t := directory.Topology{Cell: "eu-1", Version: 1}
	for _, id := range r.w.names {
		t.Shards = append(t.Shards, directory.Shard{ID: id})
	}
	return t, nil
}

func (r *residence) Subset(_ context.Context, e directory.Entry) ([]string, error) {
	return r.w.subsets[slices.Index(r.w.ids, e.Tenant)], nil
}

func (r *residence) Pin(ctx context.Context, tenant string, to []string, _ uint64, _ directory.Change) (directory.Entry, error) {
	if r.pins == nil {
		r.pins = map[string][]string{}
	}
	r.pins[tenant] = to
	r.w.subsets[slices.Index(r.w.ids, tenant)] = to
	return r.Get(ctx, tenant)
}

func (r *residence) ReadNote(context.Context, string, string) (directory.Note, error) {
	return r.note, nil
}

func (r *residence) WriteNote(_ context.Context, _, _ string, was directory.Note, body []byte, _ string) (directory.Note, error) {
	r.note = directory.Note{Version: was.Version + 1, Body: body}
	return r.note, nil
}

// TestQuarantine: a poisonous tenant comes to quarantine, and then no request of anybody else fails.
func TestQuarantine(t *testing.T) {
	skipUnderRace(t)
	const (
		begin = 3 * time.Minute
		end   = 20 * time.Minute
	)
	seeds := max(1, *runs)
	t.Logf("seeds 1 to %d; median and most", seeds)
	t.Log("| its requests | form | in quarantine after | its requests until then | others' requests that failed a minute, until then | afterwards | innocents pinned |")
	for _, c := range []struct {
		name     string
		how      poisonous
		collapse time.Duration
		hidden   string // form in which it is not found, as in TestPoisonIsFound
	}{
		{"kill the shard for 2 s", kills, 2 * time.Second, "50 environments"},
		{"kill their slice's environment", kills, 0, ""},
		{"hang", hangs, 0, ""},
	} {
		for _, form := range forms {
			if form.name == c.hidden {
				continue
			}
			var delays, asked, before, after []float64
			innocents := 0
			for seed := range seeds {
				w := &world{rng: rand.New(rand.NewPCG(seed+1, 2)), rate: form.rate, lambda: form.lambda, collapse: c.collapse, reserved: 2}
				k := newKeeper(w)
				bad, suffered, later := 0, 0, 0
				settled := func(at time.Duration) bool {
					pinned, there := k.pinned["t0"]
					return there && at > pinned+10*time.Second
				}
				w.poison = func(tenant int, at time.Duration) poisonous {
					if tenant != 0 || at < begin {
						return harmless
					}
					return c.how
				}
				w.observe = func(r request) {
					_, there := k.pinned["t0"]
					switch {
					case r.tenant == 0 && r.at >= begin && !there:
						bad++
					case r.tenant != 0 && !r.answered && settled(r.at):
						later++
					case r.tenant != 0 && !r.answered:
						suffered++
					}
				}
				w.onVerdict = func(_ time.Duration, environment int, v poison.Verdict) { k.hear(environment, v) }
				w.run(end)
				pinned, there := k.pinned["t0"]
				if !there || k.failed != nil {
					t.Errorf("%s, %s, seed %d: in quarantine %t, %v", c.name, form.name, seed+1, there, k.failed)
					continue
				}
				innocents += len(k.pinned) - 1
				delays, asked = append(delays, (pinned-begin).Seconds()), append(asked, float64(bad))
				before = append(before, float64(suffered)/(pinned-begin).Minutes())
				after = append(after, float64(later))
				if later > 0 || len(k.pinned) > 1 {
					t.Errorf("%s, %s, seed %d: with the tenant in quarantine %d requests of others failed, and %d innocents are there", c.name, form.name, seed+1, later, len(k.pinned)-1)
				}
			}
			if len(delays) > 0 {
				t.Logf("| %s | %s | %s s | %s | %s | %s | %d |", c.name, form.name, spread(delays), spread(asked), spread(before), spread(after), innocents)
			}
		}
	}
}
