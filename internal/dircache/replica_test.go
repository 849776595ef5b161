package dircache_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"cellwall.dev/cellwall/internal/dircache"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing"
)

// region is the directory of one region: entries, topologies, or nothing while it is down. It counts what it
// is asked.
type region struct {
	fixed
	published
	down   error
	hangs  bool
	looks  int
	places int
}

func (r *region) Get(ctx context.Context, tenant string) (directory.Entry, error) {
	r.looks++
	if err := r.fails(ctx); err != nil {
		return directory.Entry{}, err
	}
	return r.fixed.Get(ctx, tenant)
}

func (r *region) Topology(ctx context.Context, cell string, version uint64) (directory.Topology, error) {
	r.places++
	if err := r.fails(ctx); err != nil {
		return directory.Topology{}, err
	}
	return r.published.Topology(ctx, cell, version)
}

func (r *region) fails(ctx context.Context) error {
	if r.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return r.down
}

// holders is a Transport on which a tenant is held by one shard at one epoch.
func holders(shard string, epoch uint64) sender {
	return func(_ context.Context, call routing.Call, _ *routing.Request) (*routing.Response, error) {
		if call.Shard != shard || call.Epoch != epoch {
			return &routing.Response{Status: http.StatusMisdirectedRequest}, nil
		}
		return ok(call.Shard), nil
	}
}

// entryWith is pinned, with some of it changed.
func entryWith(change func(*directory.Entry)) directory.Entry {
	e := pinned("acme", "s01")
	change(&e)
	return e
}

// TestReplicaFirst: what a router beside a replica asks whom, what it answers, and whether it says that the
// answer may be stale. The shard s01 holds the tenant at epoch 7 and s05 at 8, whatever the replica knows.
func TestReplicaFirst(t *testing.T) {
	down := errors.New("inside: no route to host")
	active := pinned("acme", "s01")
	moved := entryWith(func(e *directory.Entry) { e.Pins, e.Epoch = []string{"s05"}, 8 })
	gone := entryWith(func(e *directory.Entry) { e.Cell, e.Epoch = "us-1", 8 })
	away := entryWith(func(e *directory.Entry) { e.Cell, e.Epoch = "us-1", 6 })
	placing := entryWith(func(e *directory.Entry) { e.State, e.Epoch = directory.Placing, 6 })
	moving := entryWith(func(e *directory.Entry) { e.State, e.Epoch = directory.Moving, 6 })
	suspended := entryWith(func(e *directory.Entry) { e.State, e.Epoch = directory.Suspended, 6 })
	held := holders("s01", 7)
	heldAfter := holders("s05", 8)
	for name, test := range map[string]struct {
		near, home []directory.Entry // of the tenant, none or one
		nearDown   error
		homeDown   error
		shards     sender
		method     string

		status               int
		stale                bool
		nearLooks, homeLooks int
		nearErr, homeErr     bool
	}{
		"active here":                   {near: []directory.Entry{active}, shards: held, status: 200, stale: true, nearLooks: 1},
		"active here, home down":        {near: []directory.Entry{active}, homeDown: down, shards: held, status: 200, stale: true, nearLooks: 1},
		"suspended":                     {near: []directory.Entry{suspended}, home: []directory.Entry{active}, shards: held, status: 403, stale: true, nearLooks: 1},
		"signed up a moment ago":        {home: []directory.Entry{active}, shards: held, status: 200, nearLooks: 1, homeLooks: 1},
		"unknown everywhere":            {status: 404, nearLooks: 1, homeLooks: 1},
		"unknown, home down":            {homeDown: down, status: 404, stale: true, nearLooks: 1, homeLooks: 1, homeErr: true},
		"came to this cell":             {near: []directory.Entry{away}, home: []directory.Entry{active}, shards: held, status: 200, nearLooks: 1, homeLooks: 1},
		"lives elsewhere":               {near: []directory.Entry{away}, home: []directory.Entry{away}, status: 404, nearLooks: 1, homeLooks: 1},
		"lives elsewhere, home down":    {near: []directory.Entry{away}, homeDown: down, status: 404, stale: true, nearLooks: 1, homeLooks: 1, homeErr: true},
		"placed":                        {near: []directory.Entry{placing}, home: []directory.Entry{active}, shards: held, status: 200, nearLooks: 1, homeLooks: 1},
		"placing":                       {near: []directory.Entry{placing}, home: []directory.Entry{placing}, status: 503, nearLooks: 1, homeLooks: 1},
		"placing, home down":            {near: []directory.Entry{placing}, homeDown: down, status: 503, stale: true, nearLooks: 1, homeLooks: 1, homeErr: true},
		"moved, a write":                {near: []directory.Entry{moving}, home: []directory.Entry{active}, shards: held, method: "PUT", status: 200, nearLooks: 1, homeLooks: 1},
		"moving, a write, home down":    {near: []directory.Entry{moving}, homeDown: down, method: "PUT", status: 503, stale: true, nearLooks: 4, homeLooks: 3, homeErr: true},
		"refused by the shard, moved":   {near: []directory.Entry{active}, home: []directory.Entry{moved}, shards: heldAfter, method: "POST", status: 200, nearLooks: 1, homeLooks: 1},
		"refused by the shard, gone":    {near: []directory.Entry{active}, home: []directory.Entry{gone}, shards: heldAfter, status: 404, nearLooks: 1, homeLooks: 1},
		"refused by the shard, no news": {near: []directory.Entry{active}, home: []directory.Entry{active}, shards: heldAfter, status: 503, nearLooks: 1, homeLooks: 1},
		"refused by the shard, home down": {near: []directory.Entry{active}, homeDown: down, shards: heldAfter, status: 503, stale: true,
			nearLooks: 2, homeLooks: 1, homeErr: true},
		"replica down":              {nearDown: down, home: []directory.Entry{active}, shards: held, status: 200, nearLooks: 1, homeLooks: 1, nearErr: true},
		"replica down, unknown":     {nearDown: down, status: 404, nearLooks: 1, homeLooks: 1, nearErr: true},
		"nothing is known anywhere": {nearDown: down, homeDown: down, status: 503, stale: true, nearLooks: 1, homeLooks: 1, nearErr: true, homeErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				place := func(entries []directory.Entry, down error) *region {
					r := &region{fixed: fixed{}, published: published{1: topology(1, eight...)}, down: down}
					for _, e := range entries {
						r.fixed["acme"] = e
					}
					return r
				}
				near, home := place(test.near, test.nearDown), place(test.home, test.homeDown)

				shards := test.shards
				if shards == nil {
					shards = func(context.Context, routing.Call, *routing.Request) (*routing.Response, error) {
						t.Error("a shard was asked")
						return ok(""), nil
					}
				}
				c := testConfig(newCache(t, dircache.Config{Directory: home, Replica: near}), shards)
				var seen routing.Outcome
				c.Observe = func(o routing.Outcome) { seen = o }
				req := get("/x")
				if test.method != "" {
					req.Method = test.method
				}
				resp := newEngine(t, c).Serve(t.Context(), "acme", req)
				if resp.Status != test.status || seen.Status != test.status {
					t.Errorf("status %d, want %d: %s", resp.Status, test.status, resp.Body)
				}
				if test.status != 200 {
					wantProblem(t, resp, test.status)
				}
				if seen.Stale != test.stale {
					t.Errorf("may be stale: %t, want %t", seen.Stale, test.stale)
				}
				if near.looks != test.nearLooks || home.looks != test.homeLooks {
					t.Errorf("%d looks at the replica and %d at home, want %d and %d", near.looks, home.looks, test.nearLooks, test.homeLooks)
				}
				if (seen.ReplicaErr != nil) != test.nearErr || (seen.HomeErr != nil) != test.homeErr {
					t.Errorf("operators are told of the replica: %v, of home: %v", seen.ReplicaErr, seen.HomeErr)
				}
			})
		})
	}
}

// TestTheReplicaCatchesUp: home is down, but the change that the shard has seen arrives meanwhile.
func TestTheReplicaCatchesUp(t *testing.T) {
	moved := entryWith(func(e *directory.Entry) { e.Pins, e.Epoch = []string{"s05"}, 8 })
	near := &region{fixed: fixed{"acme": pinned("acme", "s01")}, published: published{1: topology(1, eight...)}}
	home := &region{down: errors.New("inside: no route to host")}
	shards := holders("s05", 8)
	c := testConfig(newCache(t, dircache.Config{Directory: home, Replica: near}), sender(func(ctx context.Context, call routing.Call, req *routing.Request) (*routing.Response, error) {
		near.fixed["acme"] = moved
		return shards(ctx, call, req)
	}))
	c.Topologies = dircache.Topologies(near, home, dircache.LookUp)
	var seen routing.Outcome
	c.Observe = func(o routing.Outcome) { seen = o }
	resp := newEngine(t, c).Serve(t.Context(), "acme", &routing.Request{Method: "POST", Path: "/x"})
	if resp.Status != 200 || !slices.Equal(shardsOf(seen), []string{"s01", "s05"}) || !seen.Stale || seen.HomeErr == nil {
		t.Errorf("answered %d, %+v", resp.Status, seen)
	}
}

// TestTopologiesFromTheReplica: one that it has is not asked for at home; one that has not arrived is, and
// what neither has is told to be asked for again.
func TestTopologiesFromTheReplica(t *testing.T) {
	for name, test := range map[string]struct {
		near, home published
		nearDown   bool
		homeDown   bool
		status     int
		homePlaces int
	}{
		"arrived":                               {published{1: topology(1, eight...)}, nil, false, true, 200, 0},
		"not arrived":                           {published{}, published{1: topology(1, eight...)}, false, false, 200, 1},
		"replica down":                          {nil, published{1: topology(1, eight...)}, true, false, 200, 1},
		"nowhere":                               {published{}, published{}, false, false, 503, 1},
		"not arrived, home down":                {published{}, nil, false, true, 503, 1},
		"the replica's is another":              {published{1: topology(2, eight...)}, published{1: topology(1, eight...)}, false, false, 503, 0},
		"neither the one nor the other answers": {nil, nil, true, true, 503, 1},
	} {
		t.Run(name, func(t *testing.T) {
			near, home := &region{published: test.near}, &region{published: test.home}
			if test.nearDown {
				near.down = errors.New("inside: replica")
			}
			if test.homeDown {
				home.down = errors.New("inside: home")
			}
			entries := fixed{"acme": pinned("acme")}
			c := testConfig(newCache(t, dircache.Config{Directory: entries, Replica: entries}), naming)
			c.Topologies = dircache.Topologies(near, home, dircache.LookUp)
			resp := newEngine(t, c).Serve(t.Context(), "acme", get("/x"))
			if resp.Status != test.status || home.places != test.homePlaces {
				t.Errorf("answered %d after %d questions to home, want %d after %d: %s", resp.Status, home.places, test.status, test.homePlaces, resp.Body)
			}
			if test.status == 503 && resp.Header.Get("Retry-After") != "1" {
				t.Errorf("Retry-After %q", resp.Header.Get("Retry-After"))
			}
		})
	}
}

// TestAHomeRegionThatHangs costs a request one look-up, and a replica that hangs another; a topology takes
// one for both.
func TestAHomeRegionThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := published{1: topology(1, eight...)}
		for name, test := range map[string]struct {
			near, home *region
			tenant     string
			status     int
			took       time.Duration
		}{
			"an unknown tenant": {near: &region{published: all}, home: &region{hangs: true}, tenant: "mallory", status: 404, took: time.Second},
			"the tenant's own":  {near: &region{fixed: fixed{"acme": pinned("acme")}, published: all}, home: &region{hangs: true}, tenant: "acme", status: 200},
			"both":              {near: &region{hangs: true}, home: &region{hangs: true}, tenant: "acme", status: 503, took: 2 * time.Second},
			"the replica": {near: &region{hangs: true}, home: &region{fixed: fixed{"acme": pinned("acme")}, published: all}, tenant: "acme", status: 200,
				took: time.Second + time.Second/2}, // the entry, then the topology
		} {
			c := testConfig(newCache(t, dircache.Config{Directory: test.home, Replica: test.near}), naming)
			c.Topologies = dircache.Topologies(test.near, test.home, dircache.LookUp)
			start := time.Now()
			resp := newEngine(t, c).Serve(t.Context(), test.tenant, get("/x"))
			if took := time.Since(start); resp.Status != test.status || took != test.took { // by the bubble's clock
				t.Errorf("%s: answered %d after %v, want %d after %v", name, resp.Status, took, test.status, test.took)
			}
		}
	})
}
