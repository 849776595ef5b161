package keeper

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/snapshot"
)

// gauge is a source of loads and of the key's age.
type gauge struct {
	requests map[string]float64
	made     time.Time
	asked    []string
	down     error
}

func (g *gauge) Requests(_ context.Context, shards []string) (map[string]float64, error) {
	g.asked = shards
	return g.requests, g.down
}

func (g *gauge) keyMade(context.Context) (time.Time, error) { return g.made, g.down }

func (w *world) measuring(g *gauge) *Keeper {
	w.t.Helper()
	c := w.config()
	c.Loads, c.KeyMade = g, g.keyMade
	k, err := New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	return k
}

// is compares a measure, -1 for one that is not known.
func is(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	have := -1.0
	if got != nil {
		have = *got
	}
	if math.Abs(have-want) > 1e-9 {
		t.Errorf("%s is %v, want %v", what, have, want)
	}
}

// TestMeasured: what stands grows old while a source is down, the store is, or the keeper's key service is; and is
// as new as the run where nothing is.
func TestMeasured(t *testing.T) {
	w := newWorld(t)
	w.drained = nil
	g := &gauge{requests: map[string]float64{"s01": 300, "s02": 100}, made: w.now.Add(-36 * time.Hour)}
	k := w.measuring(g)
	run := func() Measures {
		t.Helper()
		o, _ := k.Write(t.Context(), Options{})
		m, err := k.Measure(t.Context(), o)
		if err != nil {
			t.Error(err)
		}
		return m
	}
	all := func(m Measures, snapshot, directory, health float64) {
		t.Helper()
		is(t, "snapshot", m.SnapshotAge, snapshot)
		is(t, "directory", m.DirectoryAge, directory)
		is(t, "health", m.HealthAge, health)
	}
	// Before the first snapshot nothing is told of one, and the run that could not write it is an error.
	w.store.putErr = errDown
	if _, err := k.Write(t.Context(), Options{}); err == nil {
		t.Error("nothing was written, and that is no error")
	}
	all(run(), -1, -1, -1)
	w.store.putErr = nil
	m := run()
	all(m, 0, 0, 0)
	is(t, "key", m.KeyAge, 1.5)
	is(t, "variation", m.LoadVariation, 50)
	for _, down := range []struct {
		part              string
		directory, health float64
	}{{partEntries, 60, 0}, {partTopologies, 60, 0}, {partTargets, 0, 60}, {partThrottles, 0, 60}, {partQueues, 0, 60}, {partDrains, 0, 60}, {partIssuer, 0, 0}} {
		w.down = map[string]bool{}
		run()
		w.now = w.now.Add(time.Minute)
		w.down[down.part] = true
		all(run(), 0, down.directory, down.health)
	}
	w.down = map[string]bool{}
	run()
	w.now = w.now.Add(10 * time.Minute)
	w.store.putErr = errDown
	all(run(), 600, 600, 600)
	// What stands cannot be told when it cannot be read, and the key still is.
	w.store.putErr, w.ring.down = nil, errDown
	all(run(), -1, -1, -1)
	is(t, "key", run().KeyAge, 1.5+w.now.Sub(g.made.Add(36*time.Hour)).Hours()/24)
}

// TestMeasuredFrontDoor: a front door's snapshot has entries, and neither topologies nor health that could be old.
func TestMeasuredFrontDoor(t *testing.T) {
	c := newCells(t)
	k, err := ForFrontDoor(c.config("eu-1", "eu-2"))
	if err != nil {
		t.Fatal(err)
	}
	run := func(snapshot, directory float64) {
		t.Helper()
		o, _ := k.Write(t.Context(), Options{})
		m, err := k.Measure(t.Context(), o)
		if err != nil || m.HealthAge != nil || m.KeyAge != nil || m.LoadVariation != nil {
			t.Errorf("%+v, %v", m, err)
		}
		is(t, "snapshot", m.SnapshotAge, snapshot)
		is(t, "directory", m.DirectoryAge, directory)
	}
	run(0, 0)
	c.now = c.now.Add(time.Minute)
	c.down[partIssuer] = true
	run(0, 0)
	c.now = c.now.Add(time.Minute)
	c.down[partEntries+" of eu-2"] = true
	run(0, 60)
	c.now = c.now.Add(time.Minute)
	c.store.putErr = errDown
	run(60, 120)
}

// TestMeasureNever: a part that was never read is no new one.
func TestMeasureNever(t *testing.T) {
	w := newWorld(t)
	w.down[partThrottles] = true
	k := w.measuring(&gauge{made: w.now})
	o, err := k.Write(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, _ := k.Measure(t.Context(), o)
	is(t, "health", m.HealthAge, snapshot.MaxAge.Seconds())
}

// TestMeasureFails: what cannot be measured is left out and told, and nothing else is.
func TestMeasureFails(t *testing.T) {
	w := newWorld(t)
	w.drained = nil
	k := w.measuring(&gauge{down: errDown})
	o, err := k.Write(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := k.Measure(t.Context(), o)
	if !errors.Is(err, errDown) || m.KeyAge != nil || m.LoadVariation != nil {
		t.Errorf("%+v, %v", m, err)
	}
	is(t, "snapshot", m.SnapshotAge, 0)
	// Nobody is asked who was not given.
	o, err = w.keeper().Write(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := w.keeper().Measure(t.Context(), o); err != nil || m.KeyAge != nil || m.LoadVariation != nil {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestCompared: loads are compared of the shards that all topologies in use place tenants on, and of no others.
func TestCompared(t *testing.T) {
	shard := func(id string, weight int, state directory.ShardState) directory.Shard {
		return directory.Shard{ID: id, Weight: weight, State: state}
	}
	w := newWorld(t)
	k := w.measuring(&gauge{})
	k.c.Quarantine = []string{"s05"}
	s := &snapshot.Snapshot{
		Topologies: []directory.Topology{
			{Version: 1, Retired: true, Shards: []directory.Shard{shard("s09", 1, directory.InUse)}},
			{Version: 2, Shards: []directory.Shard{shard("s01", 1, directory.InUse), shard("s02", 1, directory.InUse), shard("s03", 1, directory.InUse), shard("s04", 1, directory.InUse), shard("s05", 1, directory.InUse)}},
			{Version: 3, Shards: []directory.Shard{shard("s01", 2, directory.InUse), shard("s02", 1, directory.InUse), shard("s03", 1, directory.Drained), shard("s04", 1, directory.InUse), shard("s05", 1, directory.InUse), shard("s06", 1, directory.InUse)}},
		},
		Health: []snapshot.Report{{Shard: "s04", Drained: true}},
	}
	if got := fmt.Sprint(k.comparable(s)); got != "map[s01:2 s02:1]" {
		t.Errorf("compared are %s", got)
	}
	if got := k.comparable(&snapshot.Snapshot{}); len(got) != 0 {
		t.Errorf("without a topology: %v", got)
	}
}

// TestVariation against closed forms: even loads, one shard with everything, and two shards.
func TestVariation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 64).Draw(t, "shards")
		each := float64(rapid.IntRange(enoughRequests, 1e6).Draw(t, "requests"))
		even, one, weights, weighted := map[string]float64{}, map[string]float64{"s1": each * float64(n)}, map[string]int{}, map[string]int{}
		for i := range n {
			id := fmt.Sprint("s", i)
			weights[id], weighted[id] = 1, rapid.IntRange(1, 1000).Draw(t, "weight")
			even[id] = each * float64(weighted[id])
		}
		for what, c := range map[string]struct {
			requests map[string]float64
			weights  map[string]int
			want     float64
		}{"even by weight": {even, weighted, 0}, "one has all": {one, weights, 100 * math.Sqrt(float64(n-1))}} {
			if got, ok := Variation(c.requests, c.weights); !ok || math.Abs(got-c.want) > 1e-6*(1+c.want) {
				t.Errorf("%s of %d: %v, %t; want %v", what, n, got, ok, c.want)
			}
		}
		a, b := float64(rapid.IntRange(100, 1e6).Draw(t, "a")), float64(rapid.IntRange(100, 1e6).Draw(t, "b"))
		want := 100 * math.Abs(a-b) / (a + b) // of two
		if got, ok := Variation(map[string]float64{"x": a, "y": b, "elsewhere": 1e9}, map[string]int{"x": 1, "y": 1}); !ok || math.Abs(got-want) > 1e-6*(1+want) {
			t.Errorf("%v and %v: %v, %t; want %v", a, b, got, ok, want)
		}
	})
	for what, requests := range map[string]map[string]float64{"nothing": {}, "too few": {"x": 199}, "no number": {"x": math.NaN()}, "no end": {"x": math.Inf(1)}} {
		if v, ok := Variation(requests, map[string]int{"x": 1, "y": 1}); ok {
			t.Errorf("%s: %v", what, v)
		}
	}
	if v, ok := Variation(map[string]float64{"x": 1e6}, map[string]int{"x": 1}); ok {
		t.Errorf("one shard: %v", v)
	}
}

// TestLoadsOfWhom: who is asked for loads are the compared.
func TestLoadsOfWhom(t *testing.T) {
	w := newWorld(t)
	w.drained = nil
	g := &gauge{requests: map[string]float64{"s01": 150, "s02": 50}}
	k := w.measuring(g)
	o, err := k.Write(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := k.Measure(t.Context(), o)
	if err != nil || !slices.Equal(g.asked, []string{"s01", "s02"}) {
		t.Errorf("asked for %v, %v", g.asked, err)
	}
	is(t, "variation", m.LoadVariation, 50)
}
