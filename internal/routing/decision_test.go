//go:build unix

package routing_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"syscall"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/dircache"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing"
)

// everybody is a directory in which all tenants are active, by topology 1 of a cell of so many shards.
type everybody struct{ shards int }

func (everybody) Get(_ context.Context, tenant string) (directory.Entry, error) {
	return directory.Entry{Tenant: tenant, Cell: "eu-1", State: directory.Active, Epoch: 1, Topology: 1}, nil
}

func (e everybody) Topology(_ context.Context, cell string, version uint64) (directory.Topology, error) {
	t := directory.Topology{Cell: cell, Version: version, Scheme: "rendezvous/v1", KBySize: map[string]int{"": 2}, KeyVersion: "1"}
	for i := range e.shards {
		t.Shards = append(t.Shards, directory.Shard{ID: fmt.Sprintf("s%03d", i), Weight: 1, State: directory.InUse})
	}
	return t, nil
}

// nowhere is a transport that is not asked.
type nowhere struct{}

func (nowhere) Send(context.Context, routing.Call, *routing.Request) (*routing.Response, error) {
	return nil, routing.ErrNotSent
}

// BenchmarkWholeDecision is the decision about a request as a router makes it: the tenant's entry out of the cache,
// its subset, and the order of that by health. cpu-ns/op is processor time, which other work on the machine does not
// add to as it does to the clock.
func BenchmarkWholeDecision(b *testing.B) {
	for _, shards := range []int{16, 256} {
		for _, tenants := range []int{1, 100_000} {
			b.Run(fmt.Sprintf("shards=%d/tenants=%d", shards, tenants), func(b *testing.B) { decide(b, shards, tenants) })
		}
	}
}

func decide(b *testing.B, shards, tenants int) {
	all := everybody{shards}
	entries, err := dircache.New(dircache.Config{Cell: "eu-1", Directory: all, TTL: 24 * time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	engine, err := routing.New(routing.Config{
		Cell: "eu-1", Entries: entries, Topologies: all, Timeout: time.Minute,
		Keys:   func(context.Context, string, string) ([]byte, error) { return make([]byte, 32), nil },
		Routes: []routing.Route{{Path: "/*", Via: routing.ViaHTTP}}, Transports: map[string]routing.Transport{routing.ViaHTTP: nowhere{}},
	})
	if err != nil {
		b.Fatal(err)
	}
	d := engine.NewDecision(&routing.Request{Method: http.MethodGet, Path: "/orders/42", Header: http.Header{}})
	names := make([]string, tenants)
	for i, n := range rand.New(rand.NewPCG(1, 2)).Perm(tenants) { // asked for in an order that memory is not in
		names[n] = fmt.Sprintf("t%06d", i)
	}
	ask := func(tenant string) {
		if order, err := d.Members(b.Context(), tenant); err != nil || len(order) != 2 {
			b.Fatalf("tenant %s: %q, %v", tenant, order, err)
		}
	}
	for _, tenant := range names {
		ask(tenant)
	}
	b.ReportAllocs()
	b.ResetTimer()
	before := processorTime(b)
	for i := range b.N {
		ask(names[i%tenants])
	}
	b.StopTimer()
	b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
