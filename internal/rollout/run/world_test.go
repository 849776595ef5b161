package run_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
	"cellwall.dev/cellwall/internal/rollout/run/runtest"
)

const (
	older = "sha256:old"
	newer = "sha256:new"
)

// stride is 1, so that every call and record has its turn; under the race detector one in 23, since all lasts ten times
// as long there.
var stride = map[bool]int{false: 1, true: 23}[underRace]

// spec is a canary, then two cells, and one more when these have baked.
func spec(id string) rollout.Spec {
	cell := func(name string) rollout.PlannedCell {
		return rollout.PlannedCell{Name: name, Stages: []rollout.PlannedStage{{Name: "core"}, {Name: "zone-a", Bake: rollout.Duration(10 * time.Second)}}}
	}
	return rollout.Spec{ID: id, Service: "orders", Digest: newer, Phase: rollout.Release, MinRequests: 100, Waves: []rollout.Wave{
		{Bake: rollout.Duration(20 * time.Second), Batches: [][]rollout.PlannedCell{{cell("canary")}}},
		{Bake: rollout.Duration(10 * time.Second), Batches: [][]rollout.PlannedCell{{cell("eu"), cell("us")}, {cell("ap")}}},
	}}
}

// setting is a store and a world in which drivers come and go.
type setting struct {
	t     *testing.T
	store *runtest.Store
	world *runtest.World
}

func newSetting(t *testing.T) *setting {
	w := runtest.NewWorld(run.Wall{}, spec("r1"), older)
	w.Lasts = 12 * time.Second
	return &setting{t: t, store: runtest.NewStore(), world: w}
}

func (s *setting) mortal() *runtest.Mortal {
	return &runtest.Mortal{Leases: s.store, Journal: s.store, Wishes: s.store, Stacks: s.world, Gate: s.world}
}

// driver is a driver with these ports, whose lease and patience let it wait for a dead one.
func (s *setting) driver(name string, m *runtest.Mortal, with ...func(*run.Config)) *run.Driver {
	s.t.Helper()
	c := run.Config{Service: "orders", Holder: name, Leases: m, Journal: m, Wishes: m, Stacks: m, Gate: m, TTL: 15 * time.Second, Patience: time.Minute}
	for _, f := range with {
		f(&c)
	}
	d, err := run.New(c)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// watcher is an observer that remembers, and does something at some records.
type watcher struct {
	mu       sync.Mutex
	records  []run.Record
	seen     []rollout.Event
	troubles []error
	on       func(run.Record)
}

func (w *watcher) Recorded(r run.Record) {
	w.mu.Lock()
	w.records = append(w.records, r)
	w.mu.Unlock()
	if w.on != nil {
		w.on(r)
	}
}

func (w *watcher) Seen(e rollout.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, e)
}

func (w *watcher) Trouble(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.troubles = append(w.troubles, err)
}

func (w *watcher) observe(c *run.Config) { c.Observer = w }

// end begins a rollout, or takes it over, and fails the test when that does not lead to the status.
func (s *setting) end(d *run.Driver, want rollout.Status) {
	s.t.Helper()
	state, err := d.Resume(context.Background(), "r1", run.Wish{})
	switch {
	case errors.Is(err, run.ErrNone):
		state, err = d.Start(context.Background(), spec("r1"))
	case errors.Is(err, rollout.ErrUnexpected) && state.Status == want:
		err = nil // it had come to its end
	}
	if err != nil || state.Status != want {
		s.t.Fatalf("it ends %s (%s), %v; want %s", state.Status, state.Why, err, want)
	}
}

// all fails the test unless every stage runs the digest.
func (s *setting) all(digest string) {
	s.t.Helper()
	for at, runs := range s.world.Digests() {
		if runs != digest {
			s.t.Errorf("%s runs %s, not %s", at, runs, digest)
		}
	}
}

// once fails the test unless each stage was changed to the digest once, and in the order of the waves.
func (s *setting) once(digest string) {
	s.t.Helper()
	count := make(map[string]int)
	first := make(map[string]time.Time)
	for _, e := range s.world.Executed() {
		if e.Digest == digest {
			count[e.Cell+"/"+e.Stage]++
		}
		if _, known := first[e.Cell]; !known {
			first[e.Cell] = e.At
		}
	}
	for at := range s.world.Digests() {
		if count[at] != 1 {
			s.t.Errorf("%s was changed %d times", at, count[at])
		}
	}
	for _, pair := range [][2]string{{"canary", "eu"}, {"canary", "us"}, {"eu", "ap"}, {"us", "ap"}} {
		if !first[pair[0]].Before(first[pair[1]]) {
			s.t.Errorf("%s began at %v, and %s at %v", pair[0], first[pair[0]], pair[1], first[pair[1]])
		}
	}
}

func text(s rollout.State) string { return fmt.Sprintf("%s (%s)", s.Status, s.Why) }

// changes is all that a deployment may do; the first works.
var changes = []runtest.Change{runtest.Works, runtest.Fails, runtest.Hides, runtest.Skips, runtest.Sticks, runtest.Panics}

const (
	fails  = runtest.Fails
	sticks = runtest.Sticks
)
