package routing

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

// reader is Topologies made of a function.
type reader func(ctx context.Context, version uint64) (directory.Topology, error)

func (r reader) Topology(ctx context.Context, _ string, version uint64) (directory.Topology, error) {
	return r(ctx, version)
}

// naming is a Transport that answers with the shard's id.
var naming = sender(func(_ context.Context, call Call, _ *Request) (*Response, error) { return ok(call.Shard), nil })

// at is an active tenant that a version of the topology places.
func at(version uint64, tenant string) directory.Entry {
	e := pinned(tenant)
	e.Topology = version
	return e
}

// TestVersionsAreServedSideBySide: each tenant by the version that its entry names, which another shard
// list, another k or another key makes another subset.
func TestVersionsAreServedSideBySide(t *testing.T) {
	one, two := topology(1, eight...), topology(2, "s03", "s09", "s10", "s11")
	two.KBySize, two.KeyVersion = map[string]int{"": 3}, "2"
	keys := map[string][]byte{"1": []byte("test key"), "2": []byte("another key")}
	entries := fixed{}
	want := map[string][]string{}
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		entries["old-"+id], entries["new-"+id] = at(1, "old-"+id), at(2, "new-"+id)
		for tenant, top := range map[string]directory.Topology{"old-" + id: one, "new-" + id: two} {
			p, err := top.Placer(keys[top.KeyVersion])
			if err != nil {
				t.Fatal(err)
			}
			if want[tenant], err = p.Subset(entries[tenant]); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := testConfig(entries, naming)
	c.Topologies = published{1: one, 2: two}
	c.Keys = func(_ context.Context, cell, version string) ([]byte, error) {
		if cell != "eu-1" {
			t.Errorf("a key of cell %q was asked for", cell)
		}
		return keys[version], nil
	}
	c.Pick = random(t)
	e := newEngine(t, c)
	asked := map[string][]string{}
	for range 300 {
		for tenant := range entries {
			shard := string(e.Serve(t.Context(), tenant, get("/x")).Body)
			if !slices.Contains(asked[tenant], shard) {
				asked[tenant] = append(asked[tenant], shard)
			}
		}
	}
	for tenant, subset := range want {
		slices.Sort(subset)
		slices.Sort(asked[tenant])
		// A member of three is missed by 300 random picks with probability 1e-53.
		if !slices.Equal(subset, asked[tenant]) {
			t.Errorf("%s is served by %v, want %v", tenant, asked[tenant], subset)
		}
	}
}

// TestAMigratedTenantIsFollowed: the shard that let a tenant go says so, and the request goes to the subset
// of the version that the entry names now, which nobody asked for before.
func TestAMigratedTenantIsFollowed(t *testing.T) {
	before, after := at(1, "acme"), at(2, "acme")
	after.Epoch++
	reads := 0
	c := testConfig(lookup(func(string) (directory.Entry, error) {
		if reads++; reads == 1 {
			return before, nil
		}
		return after, nil
	}), sender(func(_ context.Context, call Call, _ *Request) (*Response, error) {
		if call.Epoch == before.Epoch {
			return &Response{Status: 421}, nil
		}
		return ok(call.Shard), nil
	}))
	c.Topologies = published{1: topology(1, eight[:4]...), 2: topology(2, eight[4:]...)}
	resp := newEngine(t, c).Serve(t.Context(), "acme", &Request{Method: "POST", Path: "/x"})
	if !slices.Contains(eight[4:], string(resp.Body)) {
		t.Errorf("answered %d %s", resp.Status, resp.Body)
	}
}

// TestWhatCannotBePlaced: nothing is done, and the client is told to ask again where that may help.
func TestWhatCannotBePlaced(t *testing.T) {
	rotated := topology(2, eight...)
	rotated.KeyVersion = "2"
	other := topology(3, eight...)
	other.Cell = "us-1"
	broken := topology(4)
	misplacing := topology(5, eight...)
	misplacing.KeyCheck = "0123456789abcdef"
	odd := at(1, "odd")
	odd.Size = "inside"
	slot := at(1, "slot")
	slot.Slot = 5
	nowhere := at(2, "nowhere")
	nowhere.Pins = []string{"s99"}
	for name, test := range map[string]struct {
		entry directory.Entry
		again string // Retry-After
	}{
		"unknown version":               {at(9, "acme"), "1"},
		"no version of the key":         {at(2, "acme"), "1"},
		"of another cell":               {at(3, "acme"), "1"},
		"a topology that places nobody": {at(4, "acme"), "1"},
		"another key than it places by": {at(5, "acme"), ""},
		"no topology, no pins":          {at(0, "acme"), ""},
		"size class":                    {odd, ""},
		"slot":                          {slot, ""},
		"pins of another topology":      {nowhere, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := testConfig(fixed{"acme": test.entry}, sender(func(context.Context, Call, *Request) (*Response, error) {
				t.Error("a shard was asked")
				return ok(""), nil
			}))
			c.Topologies = published{1: topology(1, eight...), 2: rotated, 3: other, 4: broken, 5: misplacing}
			var seen Outcome
			c.Observe = func(o Outcome) { seen = o }
			resp := newEngine(t, c).Serve(t.Context(), "acme", &Request{Method: "POST", Path: "/x"})
			wantProblem(t, resp, 503)
			if got := resp.Header.Get("Retry-After"); got != test.again || seen.Err == nil {
				t.Errorf("Retry-After %q, want %q; operators are told %v", got, test.again, seen.Err)
			}
		})
	}
}

// TestPinsNeedNoKey: they are served while the key cannot be read, and without a topology at all.
func TestPinsNeedNoKey(t *testing.T) {
	none := pinned("none", "s05", "s06")
	none.Topology = 0
	c := testConfig(fixed{"some": pinned("some", "s99", "s05"), "none": none}, naming)
	c.Keys = func(context.Context, string, string) ([]byte, error) { return nil, errors.New("no route") }
	e := newEngine(t, c)
	for tenant, want := range map[string]string{"some": "s05", "none": "s06"} { // Pick is 0: of two the last
		if resp := e.Serve(t.Context(), tenant, get("/x")); string(resp.Body) != want {
			t.Errorf("%s is answered %d %s, want shard %s", tenant, resp.Status, resp.Body, want)
		}
	}
	if none.Pins[0] != "s05" || none.Pins[1] != "s06" {
		t.Errorf("the entry's pins were reordered: %v", none.Pins)
	}
}

// TestATopologyIsReadOnce, however many ask for it first, and its key too.
func TestATopologyIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entries := fixed{"old": at(1, "old"), "new": at(2, "new")}
		var reads, keys atomic.Int32
		c := testConfig(entries, naming)
		c.Topologies = reader(func(_ context.Context, version uint64) (directory.Topology, error) {
			reads.Add(1)
			time.Sleep(c.LookUp / 2)
			return topology(version, eight...), nil
		})
		c.Keys = func(ctx context.Context, cell, version string) ([]byte, error) {
			keys.Add(1)
			return testKey(ctx, cell, version)
		}
		c.LookUp = time.Second
		e := newEngine(t, c)
		var wg sync.WaitGroup
		for range 50 {
			for tenant := range entries {
				wg.Go(func() {
					if resp := e.Serve(t.Context(), tenant, get("/x")); resp.Status != 200 {
						t.Errorf("%s is answered %d %s", tenant, resp.Status, resp.Body)
					}
				})
			}
		}
		wg.Wait()
		time.Sleep(24 * time.Hour)
		for tenant := range entries {
			e.Serve(t.Context(), tenant, get("/x"))
		}
		if reads.Load() != 2 || keys.Load() != 2 {
			t.Errorf("two topologies were read %d times, their keys %d times", reads.Load(), keys.Load())
		}
	})
}

// TestATopologyThatHangs costs a request one look-up's time, those that come meanwhile no more, and the
// next ones nothing until it is tried again. Tenants of versions that are known are served.
func TestATopologyThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads, works atomic.Int32
		c := testConfig(fixed{"old": at(1, "old"), "new": at(2, "new")}, naming)
		c.Topologies = reader(func(ctx context.Context, version uint64) (directory.Topology, error) {
			if version == 2 {
				if reads.Add(1); works.Load() == 0 {
					<-ctx.Done()
					return directory.Topology{}, ctx.Err()
				}
			}
			return topology(version, eight...), nil
		})
		c.LookUp = 300 * time.Millisecond
		e := newEngine(t, c)
		serve := func(tenant string, status int, took time.Duration) {
			t.Helper()
			start := time.Now()
			resp := e.Serve(t.Context(), tenant, get("/x"))
			if d := time.Since(start); resp.Status != status || d != took { // by the bubble's clock
				t.Errorf("%s is answered %d after %v, want %d after %v", tenant, resp.Status, d, status, took)
			}
			if status == 503 && resp.Header.Get("Retry-After") != "1" {
				t.Errorf("Retry-After %q", resp.Header.Get("Retry-After"))
			}
		}
		serve("old", 200, 0)
		var wg sync.WaitGroup
		wg.Go(func() { serve("new", 503, c.LookUp) })
		time.Sleep(c.LookUp / 3)
		wg.Go(func() { serve("new", 503, c.LookUp-c.LookUp/3) })
		serve("old", 200, 0)
		wg.Wait()
		serve("new", 503, 0)
		works.Store(1)
		time.Sleep(failedFor)
		serve("new", 200, 0)
		if n := reads.Load(); n != 2 {
			t.Errorf("the topology was read %d times, want 2", n)
		}
	})
}

// TestAReadingOutlivesItsFirstAsker: a client that leaves does not fail the others who wait.
func TestAReadingOutlivesItsFirstAsker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testConfig(fixed{"acme": at(1, "acme")}, naming)
		c.Topologies = reader(func(ctx context.Context, version uint64) (directory.Topology, error) {
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
			}
			return topology(version, eight...), ctx.Err()
		})
		e := newEngine(t, c)
		leaving, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { wantProblem(t, e.Serve(leaving, "acme", get("/x")), 503) })
		synctest.Wait()
		wg.Go(func() {
			if resp := e.Serve(t.Context(), "acme", get("/x")); resp.Status != 200 {
				t.Errorf("the other is answered %d %s", resp.Status, resp.Body)
			}
		})
		synctest.Wait()
		leave()
		wg.Wait()
	})
}

// TestAReadingThatPanics has failed, in a goroutine where a panic would end the process.
func TestAReadingThatPanics(t *testing.T) {
	c := testConfig(fixed{"acme": at(1, "acme")}, naming)
	c.Topologies = reader(func(context.Context, uint64) (directory.Topology, error) { panic("a fault of the adapter") })
	var seen Outcome
	c.Observe = func(o Outcome) { seen = o }
	resp := newEngine(t, c).Serve(t.Context(), "acme", get("/x"))
	wantProblem(t, resp, 503)
	if seen.Err == nil || !strings.Contains(seen.Err.Error(), "a fault of the adapter") || !strings.Contains(seen.Err.Error(), "places_test.go") {
		t.Errorf("operators are told %v, want what and where", seen.Err)
	}
}

// TestFailuresAreForgotten: what could not be read takes no room for longer than its failure stands, and what
// could be read, only for its value.
func TestFailuresAreForgotten(t *testing.T) {
	c := newClock()
	v := newVersions(time.Second, c.now, func(context.Context, uint64) (int, error) { return 0, errors.New("down") })
	for version := range uint64(1000) {
		if _, err := v.get(t.Context(), version); err == nil {
			t.Fatal("no error")
		}
		c.pass(failedFor / 10)
	}
	if n := len(v.readings); n > 11 {
		t.Errorf("%d failures are remembered", n)
	}
	c.pass(failedFor)
	v.read = func(context.Context, uint64) (int, error) { return 7, nil }
	for range 2 {
		if value, err := v.get(t.Context(), 1); value != 7 || err != nil {
			t.Errorf("after the failures: %d, %v", value, err)
		}
	}
	if len(v.readings) > 0 || len(v.known) != 1 {
		t.Errorf("%d readings and %d values are remembered, want one value", len(v.readings), len(v.known))
	}
}
