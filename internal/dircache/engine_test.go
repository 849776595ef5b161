package dircache_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/dircache"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/internal/routing/health"
)

// sender is a Transport made of a function.
type sender func(ctx context.Context, call routing.Call, req *routing.Request) (*routing.Response, error)

func (s sender) Send(ctx context.Context, call routing.Call, req *routing.Request) (*routing.Response, error) {
	return s(ctx, call, req)
}

// naming is a Transport that answers with the shard's id.
var naming = sender(func(_ context.Context, call routing.Call, _ *routing.Request) (*routing.Response, error) {
	return ok(call.Shard), nil
})

func ok(body string) *routing.Response {
	return &routing.Response{Status: 200, Header: http.Header{"X-Service": {"orders"}}, Body: []byte(body)}
}

func get(path string) *routing.Request {
	return &routing.Request{Method: http.MethodGet, Path: path, Header: http.Header{}}
}

// fixed is a directory of entries that tests write directly.
type fixed map[string]directory.Entry

func (f fixed) Get(_ context.Context, tenant string) (directory.Entry, error) {
	e, ok := f[tenant]
	if !ok {
		return directory.Entry{}, fmt.Errorf("tenant %q: %w", tenant, directory.ErrNotFound)
	}
	return e, nil
}

// published is Topologies that tests write directly, by version.
type published map[uint64]directory.Topology

func (p published) Topology(_ context.Context, _ string, version uint64) (directory.Topology, error) {
	t, ok := p[version]
	if !ok {
		return directory.Topology{}, fmt.Errorf("topology %d: %w", version, directory.ErrUnknownTopology)
	}
	return t, nil
}

// topology is a version of cell eu-1 over these shards.
func topology(version uint64, shards ...string) directory.Topology {
	t := directory.Topology{Cell: "eu-1", Version: version, Scheme: "rendezvous/v1", KBySize: map[string]int{"": 2}, KeyVersion: "1"}
	for _, id := range shards {
		t.Shards = append(t.Shards, directory.Shard{ID: id, Weight: 1, State: directory.InUse})
	}
	return t
}

var eight = []string{"s01", "s02", "s03", "s04", "s05", "s06", "s07", "s08"}

// pinned is an active tenant of cell eu-1 with an explicit subset.
func pinned(tenant string, pins ...string) directory.Entry {
	return directory.Entry{Tenant: tenant, Cell: "eu-1", State: directory.Active, Epoch: 7, Pins: pins, Topology: 1}
}

// newCache is the cache of a router of cell eu-1.
func newCache(t testing.TB, c dircache.Config) *dircache.Cache {
	t.Helper()
	c.Cell = "eu-1"
	cache, err := dircache.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return cache
}

// testConfig is a cell of eight shards in which everything goes to one transport.
func testConfig(entries routing.Entries, transport routing.Transport) routing.Config {
	return routing.Config{
		Cell: "eu-1", Entries: entries, Topologies: published{1: topology(1, eight...)},
		Keys: func(_ context.Context, _, version string) ([]byte, error) {
			if version != "1" {
				return nil, errors.New("no such version")
			}
			return []byte("test key"), nil
		},
		Routes:     []routing.Route{{Path: "/*", Via: routing.ViaLambda}},
		Transports: map[string]routing.Transport{routing.ViaLambda: transport},
		Timeout:    5 * time.Second,
		Pick:       func(int) int { return 0 },
	}
}

func newEngine(t testing.TB, c routing.Config) *routing.Engine {
	t.Helper()
	e, err := routing.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// wantProblem fails unless resp is a problem document of that status.
func wantProblem(t *testing.T, resp *routing.Response, status int) {
	t.Helper()
	var p struct {
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}
	if err := json.Unmarshal(resp.Body, &p); err != nil || resp.Status != status || p.Status != status || p.Detail == "" {
		t.Errorf("answered %d with %s, %v, want a problem document of status %d", resp.Status, resp.Body, err, status)
	}
}

// shardsOf returns which shards were asked, in order.
func shardsOf(o routing.Outcome) []string {
	var shards []string
	for _, a := range o.Attempts {
		shards = append(shards, a.Shard)
	}
	return shards
}

// BenchmarkDecision is what the engine does to decide where a request goes, when everything is remembered: the
// tenant's entry, its subset, and the members in order.
func BenchmarkDecision(b *testing.B) {
	ctx := context.Background()
	for _, shards := range []int{16, 256} {
		top := topology(1)
		for i := range shards {
			top.Shards = append(top.Shards, directory.Shard{ID: fmt.Sprintf("s%03d", i+1), Weight: 1, State: directory.InUse})
		}
		placer, err := top.Placer([]byte("test key"))
		if err != nil {
			b.Fatal(err)
		}
		for _, tenants := range []int{1, 100_000} {
			b.Run(fmt.Sprintf("shards=%d,tenants=%d", shards, tenants), func(b *testing.B) {
				all, ids := fixed{}, make([]string, tenants)
				for i := range ids {
					ids[i] = fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(i)*2654435761, i)
					all[ids[i]] = pinned(ids[i])
				}
				cache := newCache(b, dircache.Config{Directory: all, TTL: 24 * time.Hour})
				tracker := health.New(health.Config{})
				var room [4]string
				decide := func(tenant string) int {
					known, err := cache.Entry(ctx, tenant)
					if err != nil {
						b.Fatal(err)
					}
					members, err := known.Memo.Members(func() ([]string, error) { return placer.Subset(known.Entry) })
					if err != nil {
						b.Fatal(err)
					}
					return len(tracker.Order(room[:0], members, true))
				}
				for _, id := range ids {
					decide(id)
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if decide(ids[i*7919%tenants]) != 2 {
						b.Fatal("a subset of another size")
					}
				}
			})
		}
	}
}
