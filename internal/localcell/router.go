package localcell

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"cellwall.dev/cellwall/internal/adapter/httpdir"
	"cellwall.dev/cellwall/internal/adapter/shardhttp"
	"cellwall.dev/cellwall/internal/adapter/tokenverify"
	"cellwall.dev/cellwall/internal/dircache"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/handler"
	"cellwall.dev/cellwall/internal/localcell/loopback"
	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// requestLimit is the time for one request, both attempts together. It is shorter than the router's on
// AWS, because somebody sits and waits; a shard that hangs costs half of it.
const requestLimit = 10 * time.Second

// routerSettings is the router process's file.
type routerSettings struct {
	Plan         Plan              `json:"plan"`
	Issuer       string            `json:"issuer"`
	Store        string            `json:"store"`
	StoreSecret  string            `json:"storeSecret"`  // for reads of entries and topologies
	WorkerSecret string            `json:"workerSecret"` // shown to the workers
	AdminSecret  string            `json:"adminSecret"`  // the operator's
	Workers      map[string]string `json:"workers"`      // address by shard
}

// writeRouterSettings fixes the workers' addresses and tells the router.
func (s *supervisor) writeRouterSettings() error {
	settings := routerSettings{
		Plan: s.plan, Issuer: s.running.Issuer, Store: s.running.Store, StoreSecret: s.store.Router,
		WorkerSecret: s.routerSecret, AdminSecret: s.running.Secret, Workers: map[string]string{},
	}
	for shard, w := range s.workers {
		w.fix()
		settings.Workers[shard] = w.url()
	}
	return s.dir.writeJSON(fileRouter, settings)
}

// RunRouter is the router process: the routing engine behind the listener that tenants use, and its
// counters behind another, for the operator. It returns when ctx has ended.
func RunRouter(ctx context.Context, d Dir) error {
	var settings routerSettings
	if err := d.readJSON(fileRouter, &settings); err != nil {
		return fmt.Errorf("the router's settings: %w", err)
	}
	public, err := inheritListener(firstInherited)
	if err != nil {
		return err
	}
	admin, err := inheritListener(firstInherited + 1)
	if err != nil {
		return err
	}
	counters := newCounting(settings.Plan.Shards())
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	keys := func(_ context.Context, cell, version string) ([]byte, error) { return d.Key(cell, version) }
	front, err := newFront(settings, keys, counters, log)
	if err != nil {
		return err
	}
	// Whichever server ends first, for want of a socket, ends the other.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	adminEnded := make(chan error, 1)
	go func() {
		defer cancel()
		adminEnded <- loopback.Serve(ctx, admin, adminHandler(counters, settings.AdminSecret))
	}()
	err = loopback.Serve(ctx, public, front)
	cancel()
	if adminErr := <-adminEnded; err == nil {
		err = adminErr
	}
	return err
}

// newFront puts the same engine together that the router function on AWS runs.
func newFront(s routerSettings, keys directory.Keys, counters *counting, log *slog.Logger) (http.Handler, error) {
	home, err := httpdir.NewClient(s.Store, s.StoreSecret, &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute},
	})
	if err != nil {
		return nil, err
	}
	workers := shardhttp.New(func(shard string) (string, error) {
		if base, ok := s.Workers[shard]; ok {
			return base, nil
		}
		return "", fmt.Errorf("no process serves shard %q", shard)
	}, http.Header{shardkit.HeaderSecret: {s.WorkerSecret}})
	served := &lookup{home: home}
	entries, err := dircache.New(dircache.Config{Cell: s.Plan.Cell, Directory: served})
	if err != nil {
		return nil, err
	}
	engine, err := routing.New(routing.Config{
		Cell: s.Plan.Cell, Entries: entries, Topologies: served, Keys: keys, Routes: s.Plan.Routes,
		Transports: map[string]routing.Transport{
			routing.ViaHTTP:   workers,
			routing.ViaLambda: workers, // the worker's HTTP main does what its Lambda main does
			routing.ViaQueue:  noQueue{},
		},
		Timeout: requestLimit,
		Observe: counters.observe,
	})
	if err != nil {
		return nil, err
	}
	tokens, err := tokenverify.New(s.Issuer, s.Plan.Audience, s.Plan.Claim)
	if err != nil {
		return nil, err
	}
	return handler.NewHTTP(engine, tokens, log), nil
}

// lookup opens the directory with the first request, so that the router starts while the store is down.
type lookup struct {
	home directory.Home
	dir  atomic.Pointer[directory.Directory]
}

// Get implements dircache.Directory.
func (l *lookup) Get(ctx context.Context, tenant string) (directory.Entry, error) {
	d, err := l.open(ctx)
	if err != nil {
		return directory.Entry{}, err
	}
	return d.Get(ctx, tenant)
}

// Topology implements routing.Topologies.
func (l *lookup) Topology(ctx context.Context, cell string, version uint64) (directory.Topology, error) {
	d, err := l.open(ctx)
	if err != nil {
		return directory.Topology{}, err
	}
	return d.Topology(ctx, cell, version)
}

func (l *lookup) open(ctx context.Context) (*directory.Directory, error) {
	if d := l.dir.Load(); d != nil {
		return d, nil
	}
	d, err := directory.Open(ctx, l.home)
	if err == nil {
		l.dir.Store(d)
	}
	return d, err
}

// noQueue answers for routes that go through a queue, of which a local cell has none.
type noQueue struct{}

func (noQueue) Send(context.Context, routing.Call, *routing.Request) (*routing.Response, error) {
	return routing.Problem(http.StatusNotImplemented, "this path is served through a queue, and a local cell has none"), nil
}

// adminHandler is the operator's way to the router.
func adminHandler(counters *counting, secret string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /v1/counters", loopback.Require(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		loopback.Answer(w, http.StatusOK, counters.snapshot())
	}), secret))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return loopback.Only(mux)
}
