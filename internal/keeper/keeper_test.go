package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/snapshot"
)

func TestEverythingIsIn(t *testing.T) {
	w := newWorld(t)
	s, out := w.write(Options{})
	if out.Err() != nil || out.Tenants != 30 || out.Bytes != len(w.store.object) || out.Generation != s.Generation || s.Generation != uint64(w.now.UnixMilli()) || !s.Taken.Equal(w.now) {
		t.Errorf("%+v of snapshot %+v", out, s)
	}
	for _, tenant := range w.tenants {
		got, ok := s.Entries.Lookup(tenant.Tenant)
		if diff := cmp.Diff(tenant.Serving(), got); !ok || diff != "" {
			t.Errorf("%s: %s", tenant.Tenant, diff)
		}
	}
	if len(s.Topologies) != 1 || s.Topologies[0].Tenants != 0 || !bytes.Equal(s.Keys["1"], w.keys["1"]) || string(s.IssuerKeys) != w.jwks {
		t.Errorf("%+v", s)
	}
	want := []snapshot.Report{{Shard: "s01", Healthy: 1, Targets: 2, Throttled: 4}, {Shard: "s02", Healthy: 3, Targets: 3, QueueAge: time.Minute, Drained: true}}
	if diff := cmp.Diff(want, s.Health); diff != "" || !slices.Equal(w.asked, []string{"s01", "s02"}) {
		t.Errorf("asked for %q: %s", w.asked, diff)
	}
	all := snapshot.Times{Entries: w.now, Topologies: w.now, Keys: w.now, Issuer: w.now, Targets: w.now, Throttles: w.now, Queues: w.now, Drained: w.now, Suspects: w.now}
	if len(s.Suspects) != 1 || s.Suspects[0] != w.suspects[0] {
		t.Errorf("suspects %+v", s.Suspects)
	}
	if s.Times != all {
		t.Errorf("times %+v", s.Times)
	}
	// A second run of the same is the same but for its number and times, and no slower clock takes it back.
	first := s
	w.now = w.now.Add(-time.Hour)
	s, _ = w.write(Options{})
	if s.Generation != first.Generation+1 || s.Entries.Len() != 30 {
		t.Errorf("generation %d after %d", s.Generation, first.Generation)
	}
}

func TestManyPages(t *testing.T) {
	w := newWorld(t)
	w.tenants = nil
	for i := range 2*page + 5 {
		w.tenants = append(w.tenants, w.entry(fmt.Sprintf("t-%05d", i), 1))
	}
	if s, _ := w.write(Options{}); s.Entries.Len() != 2*page+5 || !slices.Equal(w.listLimits, []int{page, page, page}) {
		t.Errorf("%d entries, listed by %v", s.Entries.Len(), w.listLimits)
	}
}

// A cell without instances, slices or queues, and with another way to verify tokens, has no such parts.
func TestFewSources(t *testing.T) {
	w := newWorld(t)
	c := w.config()
	c.Issuer, c.Targets, c.Throttles, c.Queues, c.Suspects = nil, nil, nil, nil, nil
	k, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := k.Write(t.Context(), Options{}); err != nil || !out.Written || len(out.Parts) != 4 {
		t.Fatalf("%+v, %v", out, err)
	}
	if s := w.stands(); !s.Times.Issuer.IsZero() || !s.Times.Targets.IsZero() || s.IssuerKeys != nil || s.Health[0] != (snapshot.Report{Shard: "s01"}) {
		t.Errorf("%+v", s)
	}
}

// TestSourcesFailAlone changes everything at every source and lets one after the other, and all, be down.
func TestSourcesFailAlone(t *testing.T) {
	parts := []string{partEntries, partTopologies, partKeys, partIssuer, partTargets, partThrottles, partQueues, partDrains, partSuspects}
	cases := [][]string{parts}
	for _, p := range parts {
		cases = append(cases, []string{p})
	}
	for _, down := range cases {
		w := newWorld(t)
		before, _ := w.write(Options{})
		then := w.now
		w.now = w.now.Add(time.Minute)
		w.tenants[0].Epoch = 9
		w.keys["2"] = bytes.Repeat([]byte{0xb2}, 32)
		w.tops = append(w.tops, w.topology(2, "2"))
		w.jwks = `{"keys":[{"kid":"b"}]}`
		w.targets = map[string]Count{"s01": {2, 2}}
		w.throttles = map[string]float64{"s02": 8}
		w.ages = nil
		w.drained = []directory.Drain{{Shard: "s01"}}
		w.suspects = []snapshot.Suspect{{Tenant: "tenant-02", Until: then.Add(time.Hour)}}
		for _, p := range down {
			w.down[p] = true
		}
		s, out := w.write(Options{})
		is := func(part string) bool { return slices.Contains(down, part) }
		at := func(part string, got time.Time) {
			t.Helper()
			want := w.now
			if is(part) {
				want = then
			}
			if !got.Equal(want) {
				t.Errorf("%v down: %s was taken at %v, want %v", down, part, got, want)
			}
			i := slices.IndexFunc(out.Parts, func(p Part) bool { return p.Name == part })
			if i < 0 || (out.Parts[i].Err != nil) != is(part) || !out.Parts[i].Taken.Equal(want) {
				t.Errorf("%v down: told %+v", down, out.Parts)
			}
		}
		at(partEntries, s.Times.Entries)
		at(partTopologies, s.Times.Topologies)
		at(partKeys, s.Times.Keys)
		at(partIssuer, s.Times.Issuer)
		at(partTargets, s.Times.Targets)
		at(partThrottles, s.Times.Throttles)
		at(partQueues, s.Times.Queues)
		at(partDrains, s.Times.Drained)
		at(partSuspects, s.Times.Suspects)
		if len(s.Suspects) != 1 || (s.Suspects[0] == before.Suspects[0]) != is(partSuspects) {
			t.Errorf("%v down: suspects %+v", down, s.Suspects)
		}
		if got := w.epoch(s, "tenant-00"); (got == 5) != is(partEntries) || s.Entries.Len() != 30 {
			t.Errorf("%v down: epoch %d, %d entries", down, got, s.Entries.Len())
		}
		if (len(s.Topologies) == 1) != is(partTopologies) {
			t.Errorf("%v down: %d topologies", down, len(s.Topologies))
		}
		if _, second := s.Keys["2"]; second == (is(partKeys) || is(partTopologies)) || !bytes.Equal(s.Keys["1"], before.Keys["1"]) {
			t.Errorf("%v down: keys %v", down, s.Keys)
		}
		if (string(s.IssuerKeys) == string(before.IssuerKeys)) != is(partIssuer) || len(s.IssuerKeys) == 0 {
			t.Errorf("%v down: issuer's keys %s", down, s.IssuerKeys)
		}
		want := []snapshot.Report{{Shard: "s01", Healthy: 2, Targets: 2, Drained: true}, {Shard: "s02", Throttled: 8}}
		for i := range want {
			if is(partTargets) {
				want[i].Healthy, want[i].Targets = before.Health[i].Healthy, before.Health[i].Targets
			}
			if is(partThrottles) {
				want[i].Throttled = before.Health[i].Throttled
			}
			if is(partQueues) {
				want[i].QueueAge = before.Health[i].QueueAge
			}
			if is(partDrains) {
				want[i].Drained = before.Health[i].Drained
			}
		}
		if diff := cmp.Diff(want, s.Health); diff != "" {
			t.Errorf("%v down:\n%s", down, diff)
		}
		if err := out.Err(); !errors.Is(err, errDown) || !strings.Contains(err.Error(), down[0]) {
			t.Errorf("%v down: told %v", down, err)
		}
		// And all is new again when they answer.
		w.down = map[string]bool{}
		if s, out := w.write(Options{}); out.Err() != nil || w.epoch(s, "tenant-00") != 9 || len(s.Topologies) != 2 || len(s.Keys) != 2 || s.Times.Entries != w.now {
			t.Errorf("%v was down and answers again: %+v, %v", down, s, out.Err())
		}
	}
}

func TestFirstIsWhole(t *testing.T) {
	for _, p := range []string{partEntries, partTopologies, partKeys} {
		w := newWorld(t)
		w.down[p] = true
		if out, err := w.keeper().Write(t.Context(), Options{}); !errors.Is(err, ErrFirst) || !errors.Is(err, errDown) || w.store.puts != 0 {
			t.Errorf("%s down: %+v, %v", p, out, err)
		}
	}
	w := newWorld(t)
	for _, p := range []string{partIssuer, partTargets, partThrottles, partQueues, partDrains, partSuspects} {
		w.down[p] = true
	}
	if s, out := w.write(Options{}); s.Entries.Len() != 30 || out.Err() == nil || !s.Times.Issuer.IsZero() || !s.Times.Targets.IsZero() {
		t.Errorf("the others down: %+v, %v", s, out.Err())
	}
	empty := newWorld(t)
	empty.tenants, empty.tops = nil, nil
	if s, out := empty.write(Options{}); s.Entries.Len() != 0 || out.Err() != nil {
		t.Errorf("a new cell: %+v, %v", s, out.Err())
	}
}

func TestUpwards(t *testing.T) {
	t.Run("an unreadable one is replaced", func(t *testing.T) {
		w := newWorld(t)
		first, _ := w.write(Options{})
		for name, object := range map[string][]byte{
			"damaged": []byte("what is this"), "cut": w.store.object[:80],
			"forged": append(bytes.Clone(w.store.object[:len(w.store.object)-1]), 0),
		} {
			w.store.object = object
			w.now = w.now.Add(time.Minute)
			s, out := w.write(Options{})
			if !snapshot.Refused(out.Unreadable) || out.Err() == nil || s.Generation <= first.Generation {
				t.Errorf("%s: generation %d, %v", name, s.Generation, out.Err())
			}
			first = s
		}
		w.store.object = []byte("what is this")
		w.down[partEntries] = true
		if _, err := w.keeper().Write(t.Context(), Options{}); !errors.Is(err, ErrFirst) {
			t.Errorf("unreadable, and the directory down: %v", err)
		}
	})
	t.Run("who cannot read does not write", func(t *testing.T) {
		w := newWorld(t)
		w.write(Options{})
		puts := w.store.puts
		w.ring.down = errDown
		if _, err := w.keeper().Write(t.Context(), Options{}); !errors.Is(err, errDown) || w.store.puts != puts {
			t.Errorf("key service down: %v", err)
		}
		w.ring.down = nil
		w.store.getErr = errDown
		if _, err := w.keeper().Write(t.Context(), Options{}); !errors.Is(err, errDown) || w.store.puts != puts {
			t.Errorf("bucket down: %v", err)
		}
		w.store.getErr, w.store.putErr = nil, errDown
		if _, err := w.keeper().Write(t.Context(), Options{}); !errors.Is(err, errDown) {
			t.Errorf("bucket takes nothing: %v", err)
		}
	})
	t.Run("an old one that was put back", func(t *testing.T) {
		w := newWorld(t)
		w.write(Options{})
		old := w.store.object
		w.now = w.now.Add(time.Minute)
		newest, _ := w.write(Options{})
		w.store.object = old
		w.store.version++
		w.now = w.now.Add(time.Minute)
		if s, _ := w.write(Options{}); s.Generation <= newest.Generation {
			t.Errorf("generation %d after %d", s.Generation, newest.Generation)
		}
	})
	t.Run("one of two writes", func(t *testing.T) {
		w := newWorld(t)
		w.write(Options{})
		slow := w.keeper()
		once := sync.Once{}
		w.store.afterGet = func() {
			once.Do(func() { // another keeper passes while the slow one reads
				w.store.afterGet = nil
				w.now = w.now.Add(time.Second)
				w.tenants[0].Epoch = 6
				w.write(Options{})
			})
		}
		out, err := slow.Write(t.Context(), Options{})
		if err != nil || out.Written {
			t.Errorf("the slow one: %+v, %v", out, err)
		}
		if got := w.epoch(w.stands(), "tenant-00"); got != 6 {
			t.Errorf("epoch %d stands", got)
		}
	})
	t.Run("many at once", func(t *testing.T) {
		w := newWorld(t)
		w.write(Options{})
		highest, written := uint64(0), 0
		for range 20 {
			var mu sync.Mutex
			var wg sync.WaitGroup
			for range 4 {
				k := w.keeper()
				k.c.Targets, k.c.Directory, k.lists = nil, sober{w}, sober{w} // which keep notes, for one user alone
				wg.Go(func() {
					out, err := k.Write(context.Background(), Options{})
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						t.Error(err)
					}
					if out.Written {
						written++
					}
				})
			}
			wg.Wait()
			if g := w.stands().Generation; g <= highest {
				t.Fatalf("generation %d after %d", g, highest)
			} else {
				highest = g
			}
		}
		if written != w.store.puts-1 || written < 20 {
			t.Errorf("%d told that they had written, and %d had", written, w.store.puts-1)
		}
	})
}

// sober is a world's directory without its notes.
type sober struct{ *world }

func (s sober) ListCell(context.Context, string, string, int) ([]directory.Entry, error) {
	return s.tenants, nil
}

func TestNoGoingBack(t *testing.T) {
	w := newWorld(t)
	w.write(Options{})
	// A listing that lags behind.
	w.tenants[3].Epoch, w.tenants[4].Epoch = 2, 6
	s, out := w.write(Options{})
	if w.epoch(s, "tenant-03") != 5 || w.epoch(s, "tenant-04") != 6 || out.Err() != nil {
		t.Errorf("epochs %d, %d, %v", w.epoch(s, "tenant-03"), w.epoch(s, "tenant-04"), out.Err())
	}
	// One that lost tenants: half is believed, less is not, until somebody says so.
	w.tenants = w.tenants[:15]
	if s, out := w.write(Options{}); s.Entries.Len() != 15 || out.Err() != nil {
		t.Errorf("half: %d entries, %v", s.Entries.Len(), out.Err())
	}
	w = newWorld(t)
	w.write(Options{})
	then := w.now
	w.now = w.now.Add(time.Minute)
	w.tenants = w.tenants[:14]
	s, out = w.write(Options{})
	if s.Entries.Len() != 30 || !errors.Is(out.Err(), ErrShrunk) || !s.Times.Entries.Equal(then) || !s.Times.Topologies.Equal(w.now) {
		t.Errorf("less than half: %d entries of %v, %v", s.Entries.Len(), s.Times.Entries, out.Err())
	}
	w.tenants = nil
	if s, out = w.write(Options{}); s.Entries.Len() != 30 || !errors.Is(out.Err(), ErrShrunk) {
		t.Errorf("none: %d entries, %v", s.Entries.Len(), out.Err())
	}
	w.tops = nil
	if s, out = w.write(Options{}); len(s.Topologies) != 1 || len(s.Keys) != 1 || !errors.Is(out.Err(), ErrShrunk) {
		t.Errorf("no topology: %d, %v", len(s.Topologies), out.Err())
	}
	if s, out = w.write(Options{Force: true}); s.Entries.Len() != 0 || len(s.Topologies) != 0 || out.Err() != nil {
		t.Errorf("forced: %d entries, %v", s.Entries.Len(), out.Err())
	}
	// A small cell may empty.
	w = newWorld(t)
	w.tenants = w.tenants[:manyTenants-1]
	w.write(Options{})
	w.tenants = nil
	if s, out := w.write(Options{}); s.Entries.Len() != 0 || out.Err() != nil {
		t.Errorf("a small cell: %d entries, %v", s.Entries.Len(), out.Err())
	}
	// A restored directory counts again from lower epochs, which is taken when it is asked for.
	w = newWorld(t)
	w.write(Options{})
	w.tenants[0].Epoch = 1
	if s, _ := w.write(Options{Force: true}); w.epoch(s, "tenant-00") != 1 {
		t.Errorf("forced: epoch %d", w.epoch(s, "tenant-00"))
	}
}

func TestKeysFit(t *testing.T) {
	w := newWorld(t)
	w.write(Options{})
	right := w.keys["1"]
	w.keys["1"] = bytes.Repeat([]byte{0xee}, 32)
	s, out := w.write(Options{})
	if !bytes.Equal(s.Keys["1"], right) || !errors.Is(out.Err(), directory.ErrKey) {
		t.Errorf("another key: %v", out.Err())
	}
	first := newWorld(t)
	first.keys["1"] = bytes.Repeat([]byte{0xee}, 32)
	if _, err := first.keeper().Write(t.Context(), Options{}); !errors.Is(err, directory.ErrKey) || !errors.Is(err, ErrFirst) {
		t.Errorf("another key at first: %v", err)
	}
	// The key of a retired topology may be gone.
	w = newWorld(t)
	old := w.topology(2, "gone")
	old.Retired = true
	old.Shards = append(old.Shards, directory.Shard{ID: "s09", Weight: 1, State: directory.InUse})
	w.tops = append(w.tops, old)
	if s, out := w.write(Options{}); out.Err() != nil || len(s.Keys) != 1 || len(s.Topologies) != 2 || len(s.Health) != 2 {
		t.Errorf("retired: %+v, %v", s, out.Err())
	}
}

func TestBadSources(t *testing.T) {
	w := newWorld(t)
	w.write(Options{})
	w.targets, w.throttles, w.ages = map[string]Count{"s01": {-1, -2}, "s99": {1, 1}}, map[string]float64{"s01": -4}, map[string]time.Duration{"s01": -1}
	w.jwks = `["no object"]`
	s, out := w.write(Options{})
	if diff := cmp.Diff([]snapshot.Report{{Shard: "s01"}, {Shard: "s02", Drained: true}}, s.Health); diff != "" || len(out.Parts) != 9 || out.Err() == nil || string(s.IssuerKeys) != `{"keys":[{"kid":"a"}]}` {
		t.Errorf("%s\n%v", diff, out.Err())
	}
	w.jwks = `{"keys":[` // cut short
	if s, out := w.write(Options{}); out.Err() == nil || string(s.IssuerKeys) != `{"keys":[{"kid":"a"}]}` {
		t.Errorf("%s, %v", s.IssuerKeys, out.Err())
	}
	w.tenants = append(w.tenants, directory.Entry{Tenant: "zz", Cell: "eu-2", State: directory.Active, Epoch: 1})
	if s, out := w.write(Options{}); s.Entries.Len() != 30 || !errors.Is(out.Err(), snapshot.ErrInvalid) {
		t.Errorf("another cell's tenant: %d, %v", s.Entries.Len(), out.Err())
	}
}

func TestNeedsItsParts(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("a keeper of nothing")
	}
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		outs, errs := 0, 0
		go w.keeper().Run(ctx, 2*time.Second, func(o Outcome, err error) {
			if err != nil {
				errs++
				return
			}
			outs++
		})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if outs != 3 || errs != 0 {
			t.Errorf("%d runs, %d failed", outs, errs)
		}
		w.store.mu.Lock()
		w.store.putErr = errDown
		w.store.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if outs != 3 || errs != 1 {
			t.Errorf("%d runs, %d failed", outs, errs)
		}
		cancel()
		synctest.Wait()
		time.Sleep(time.Minute)
		if outs != 3 || errs != 1 {
			t.Errorf("it went on: %d runs, %d failed", outs, errs)
		}
	})
}

func TestOutcomeIsLogged(t *testing.T) {
	w := newWorld(t)
	w.down[partIssuer] = true
	_, out := w.write(Options{})
	said := &bytes.Buffer{}
	slog.New(slog.NewJSONHandler(said, nil)).Info("kept", "snapshot", out)
	for _, want := range []string{`"tenants":30`, `"written":true`, "issuer's keys", errDown.Error()} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%s lacks %s", said, want)
		}
	}
	if strings.Contains(said.String(), "a1a1") || strings.Contains(said.String(), "oaGh") {
		t.Errorf("a key is in %s", said)
	}
}

// stranger is a world whose directory does not know the cell.
type stranger struct{ *world }

func (s stranger) Cell(context.Context, string) (directory.Cell, error) {
	return directory.Cell{}, fmt.Errorf("cell %q: %w", cell, directory.ErrUnknownCell)
}

// TestBeforeTheDirectory: a cell that the directory does not know yet has nothing old and nothing that fails; when
// it knows it, the snapshot says so; and a directory that knows it no longer has lost it.
func TestBeforeTheDirectory(t *testing.T) {
	w := newWorld(t)
	topologies, tenants := w.tops, w.tenants
	w.tops, w.tenants = nil, nil
	c := w.config()
	c.Directory = stranger{w}
	k, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		o, err := k.Write(t.Context(), Options{})
		if err != nil || o.Err() != nil || !o.Unknown || o.Tenants != 0 {
			t.Fatalf("%+v, %v, %v", o, err, o.Err())
		}
		m, err := k.Measure(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		is(t, "snapshot", m.SnapshotAge, 0)
		is(t, "directory", m.DirectoryAge, 0)
		is(t, "health", m.HealthAge, 0)
		w.now = w.now.Add(time.Minute)
	}
	w.tops, w.tenants = topologies, tenants
	if o, err := w.keeper().Write(t.Context(), Options{}); err != nil || o.Err() != nil || o.Unknown || o.Tenants != len(tenants) {
		t.Errorf("%+v, %v, %v", o, err, o.Err())
	}
	w.now = w.now.Add(time.Minute)
	o, err := k.Write(t.Context(), Options{})
	if err != nil || !errors.Is(o.Err(), directory.ErrUnknownCell) || o.Unknown {
		t.Errorf("a directory that forgot the cell: %+v, %v, %v", o, err, o.Err())
	}
	// Nor is one that does not answer a directory that knows nothing.
	w = newWorld(t)
	w.tops, w.tenants, w.down[partDrains] = nil, nil, true
	if o, err := w.keeper().Write(t.Context(), Options{}); err != nil || !errors.Is(o.Err(), errDown) || o.Unknown {
		t.Errorf("a directory that is down: %+v, %v, %v", o, err, o.Err())
	}
}
