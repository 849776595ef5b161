//go:build linux

package main

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/adapter/shardhttp"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/handler"
	"cellwall.dev/cellwall/internal/identity"
	"cellwall.dev/cellwall/internal/routing"
)

// known is a directory in which everybody is active.
type known struct{ memo routing.Memo }

func (k *known) Entry(_ context.Context, tenant string) (routing.Known, error) {
	e := directory.Entry{Tenant: tenant, Cell: cell, State: directory.Active, Epoch: 1, Topology: 1}
	return routing.Known{Entry: e, Memo: &k.memo}, nil
}

func (k *known) Fresh(ctx context.Context, tenant string, _ uint64) (routing.Known, error) {
	return k.Entry(ctx, tenant)
}

type published struct{ shards int }

func (p published) Topology(context.Context, string, uint64) (directory.Topology, error) {
	return topology(p.shards), nil
}

// ignored is a client that takes an answer and forgets it.
type ignored struct{ header http.Header }

func (i ignored) Header() http.Header       { return i.header }
func (ignored) WriteHeader(int)             {}
func (ignored) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkHandlers is a request without the connection that it came by: handler, engine and transport beside the
// ReverseProxy, before a worker in the same process, whose processor time is in both.
func BenchmarkHandlers(b *testing.B) {
	workers := startWorkers(b, 16)
	by := map[string]string{}
	for i, address := range workers {
		by[shardName(i)] = "http://" + address
	}
	engine, err := routing.New(routing.Config{
		Cell: cell, Entries: &known{}, Topologies: published{16}, Timeout: 10 * time.Second,
		Keys:       func(context.Context, string, string) ([]byte, error) { return placementKey, nil },
		Routes:     []routing.Route{{Path: "/*", Via: routing.ViaHTTP}},
		Transports: map[string]routing.Transport{routing.ViaHTTP: shardhttp.New(func(shard string) (string, error) { return by[shard], nil }, nil)},
	})
	if err != nil {
		b.Fatal(err)
	}
	for _, proxy := range []struct {
		name    string
		handler http.Handler
	}{
		{nameCellwall, handler.NewHTTP(handler.HTTPConfig{Router: engine, Identity: identity.NewVerified(words{}), Log: slog.New(slog.DiscardHandler)})},
		{nameReverse, checked(words{}, newProxies(workers))},
	} {
		b.Run(proxy.name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			b.ReportAllocs()
			before, err := cpuOf(os.Getpid())
			if err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			for range b.N {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/orders/42", http.NoBody)
				if err != nil {
					b.Fatal(err)
				}
				r.RemoteAddr = "127.0.0.1:1234"
				r.Header = http.Header{"Authorization": {"Bearer word-of-t000001"}, "Accept": {"application/json"}, "User-Agent": {"load"}, "X-Tenant": {"t000001"}}
				proxy.handler.ServeHTTP(ignored{http.Header{}}, r)
			}
			b.StopTimer()
			after, err := cpuOf(os.Getpid())
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(after-before)/float64(b.N), "cpu-ns/op")
		})
	}
}
