package routing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
)

func TestRespondAsync(t *testing.T) {
	for name, c := range map[string]struct {
		method, path string
		prefer       []string
		queue        bool // the cell has one
		want         string
	}{
		"asked for":               {"POST", "/orders", []string{"respond-async"}, true, ViaQueue},
		"among others":            {"PUT", "/orders/1", []string{"wait=10, Respond-Async; x=1", "return=minimal"}, true, ViaQueue},
		"in a second header":      {"DELETE", "/orders/1", []string{"return=minimal", " respond-async "}, true, ViaQueue},
		"a question":              {"GET", "/orders/1", []string{"respond-async"}, true, ViaLambda},
		"with fan-out":            {"GET", "/all/x", []string{"respond-async"}, true, ViaLambda},
		"no queue":                {"POST", "/orders", []string{"respond-async"}, false, ViaLambda},
		"another preference":      {"POST", "/orders", []string{"respond-asynchronously", "x=respond-async"}, true, ViaLambda},
		"nothing asked":           {"POST", "/orders", nil, true, ViaLambda},
		"a queue's route already": {"POST", "/jobs/1", []string{"respond-async"}, true, ViaQueue},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var via string
			by := func(way string, status int) Transport {
				return sender(func(context.Context, Call, *Request) (*Response, error) {
					mu.Lock()
					defer mu.Unlock()
					via = way
					return &Response{Status: status, Header: http.Header{}}, nil
				})
			}
			config := testConfig(fixed{"acme": pinned("acme", "s01", "s02")}, by(ViaLambda, 200))
			config.Routes = []Route{{Path: "/all/*", Via: ViaLambda, Fanout: true}, {Path: "/*", Via: ViaLambda}}
			if c.queue {
				config.Routes = append([]Route{{Path: "/jobs/*", Via: ViaQueue}}, config.Routes...)
				config.Transports[ViaQueue] = by(ViaQueue, 202)
			}
			engine, err := New(config)
			if err != nil {
				t.Fatal(err)
			}
			resp := engine.Serve(t.Context(), "acme", &Request{Method: c.method, Path: c.path, Header: http.Header{"Prefer": c.prefer}})
			applied := ""
			if c.want == ViaQueue && c.path != "/jobs/1" {
				applied = PreferAsync
			}
			if via != c.want || resp.Header.Get("Preference-Applied") != applied {
				t.Errorf("went via %s, answered %d %v", via, resp.Status, resp.Header)
			}
		})
	}
}

// TestAsyncIsQueuedOnce: a request that waits in a queue by its client's wish is as little repeated as by a route.
func TestAsyncIsQueuedOnce(t *testing.T) {
	sent := 0
	config := testConfig(fixed{"acme": pinned("acme", "s01", "s02")}, sender(nil))
	config.IdempotencyKeys = true
	config.Transports[ViaQueue] = sender(func(context.Context, Call, *Request) (*Response, error) {
		sent++
		return nil, errors.New("connection reset")
	})
	engine, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{"Prefer": {PreferAsync}, HeaderIdempotencyKey: {`"k1"`}}
	if resp := engine.Serve(t.Context(), "acme", &Request{Method: "PUT", Path: "/orders/1", Header: header}); resp.Status != 502 || sent != 1 || resp.Header.Get("Preference-Applied") != "" {
		t.Errorf("answered %d %v, queued %d times", resp.Status, resp.Header, sent)
	}
}

// TestPlace: where a job goes that came back, or that a shard sent.
func TestPlace(t *testing.T) {
	down := errors.New("the directory is down")
	entry := func(change func(*directory.Entry)) getter {
		e := pinned("acme", "s03", "s05", "s08")
		change(&e)
		return fixed{"acme": e}
	}
	job := Job{ID: "j1", Tenant: "acme", Epoch: 3, Shard: "s01", Method: "POST", Path: "/jobs/1"}
	for name, c := range map[string]struct {
		dir getter
		err error
	}{
		"unknown":   {fixed{}, directory.ErrNotFound},
		"elsewhere": {entry(func(e *directory.Entry) { e.Cell = "us-1" }), ErrElsewhere},
		"moving":    {entry(func(e *directory.Entry) { e.State = directory.Moving }), nil},
		"placing":   {entry(func(e *directory.Entry) { e.State = directory.Placing }), nil},
		"suspended": {entry(func(e *directory.Entry) { e.State = directory.Suspended }), nil},
		"down":      {lookup(func(string) (directory.Entry, error) { return directory.Entry{}, down }), down},
		"no place":  {entry(func(e *directory.Entry) { e.Pins = []string{"s99"} }), directory.ErrInvalid},
	} {
		engine, err := New(testConfig(c.dir, sender(nil)))
		if err != nil {
			t.Fatal(err)
		}
		if placed, err := engine.Place(t.Context(), job); err == nil || c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("%s: placed in %s, %v; want %v", name, placed.Shard, err, c.err)
		} else if there := new(ElsewhereError); errors.Is(err, ErrElsewhere) && (!errors.As(err, &there) || there.Cell != "us-1") {
			t.Errorf("%s: %v does not say where", name, err)
		}
	}

	engine, err := New(testConfig(entry(func(*directory.Entry) {}), sender(nil)))
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	for range 3 { // each that does not hold the tenant gives it back
		placed, err := engine.Place(t.Context(), job)
		if err != nil || placed.Epoch != 7 || placed.ID != job.ID || placed.Path != job.Path {
			t.Fatalf("placed %+v, %v", placed, err)
		}
		asked = append(asked, placed.Shard)
		job = placed
		job.Dispatches++
	}
	slices.Sort(asked)
	if !slices.Equal(asked, []string{"s03", "s05", "s08"}) {
		t.Errorf("three dispatches go to %q, want to every member", asked)
	}
}

// TestPlaceBoundsHops: a job that too many led to is placed nowhere; the last that may be is.
func TestPlaceBoundsHops(t *testing.T) {
	engine, err := New(testConfig(fixed{"acme": pinned("acme", "s03")}, sender(nil)))
	if err != nil {
		t.Fatal(err)
	}
	job := Job{ID: "j1", Tenant: "acme", Epoch: 3, From: "acme", Hops: MaxHops, Method: "POST", Path: "/jobs/1"}
	if placed, err := engine.Place(t.Context(), job); err != nil || placed.Hops != MaxHops {
		t.Errorf("placed %+v, %v", placed, err)
	}
	job.Hops++
	if placed, err := engine.Place(t.Context(), job); !errors.Is(err, ErrHops) {
		t.Errorf("placed %+v, %v", placed, err)
	}
}

// TestPlaceSpreads: jobs that come back do not all meet one shard.
func TestPlaceSpreads(t *testing.T) {
	engine, err := New(testConfig(fixed{"acme": pinned("acme", "s03", "s05", "s08")}, sender(nil)))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for i := range 300 {
		placed, err := engine.Place(t.Context(), Job{ID: fmt.Sprint("job-", i), Tenant: "acme", Method: "POST", Path: "/"})
		if err != nil {
			t.Fatal(err)
		}
		seen[placed.Shard]++
	}
	for _, shard := range []string{"s03", "s05", "s08"} {
		if seen[shard] < 60 {
			t.Errorf("300 jobs go to %v", seen)
		}
	}
}

// TestPlaceAtHome: with state home a job goes where its resource is, however often it came back.
func TestPlaceAtHome(t *testing.T) {
	config := testConfig(fixed{"acme": pinned("acme", "s03", "s05", "s08")}, sender(nil))
	config.State = StateHome
	config.Routes = []Route{{Path: "/orders/*", Via: ViaLambda}}
	engine, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"1", "2", "3", "4", "5"} {
		for dispatches := range 3 {
			job := Job{ID: "j" + key, Tenant: "acme", Method: "POST", Path: "/orders/" + key + "/pay", Dispatches: dispatches}
			if placed, err := engine.Place(t.Context(), job); err != nil || placed.Shard != home("acme", key, []string{"s03", "s05", "s08"}) {
				t.Errorf("%s: %s, %v", job.Path, placed.Shard, err)
			}
		}
	}
	if _, err := engine.Place(t.Context(), Job{ID: "j", Tenant: "acme", Method: "POST", Path: "/other"}); err == nil {
		t.Error("a job without a route is placed")
	}
}
