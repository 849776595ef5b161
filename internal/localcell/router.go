package localcell

import (
	"context"
	"crypto/subtle"
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
	"cellwall.dev/cellwall/internal/identity"
	"cellwall.dev/cellwall/internal/localcell/jobqueue"
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
	StoreSecret  string            `json:"storeSecret"`           // for reads of entries and topologies, and for queues
	WorkerSecret string            `json:"workerSecret"`          // shown to the workers
	AdminSecret  string            `json:"adminSecret"`           // the operator's
	FrontSecret  string            `json:"frontSecret,omitempty"` // by which a front door shows that it is one
	Workers      map[string]string `json:"workers"`               // address by shard
}

// writeRouterSettings fixes the workers' addresses, and tells the routers and the front door.
func (s *supervisor) writeRouterSettings(frontSecret string) error {
	if !s.layout.FrontDoor {
		frontSecret = ""
	}
	front := frontSettings{
		Issuer: s.running.Issuer, Store: s.running.Store, StoreSecret: s.store.Router, Secret: frontSecret,
		Audience: s.layout.Cells[0].Audience, Claim: s.layout.Cells[0].Claim, Cells: map[string]string{},
	}
	for _, m := range s.members {
		settings := routerSettings{
			Plan: m.plan, Issuer: s.running.Issuer, Store: s.running.Store, StoreSecret: s.store.Router,
			WorkerSecret: m.secret, AdminSecret: s.running.Secret, FrontSecret: frontSecret, Workers: map[string]string{},
		}
		for _, d := range s.doors {
			if d.cell == m {
				d.fix()
				settings.Workers[d.shard] = d.url()
			}
		}
		if err := s.dir.writeJSON(s.layout.settings(m.plan.Cell, fileRouter), settings); err != nil {
			return err
		}
		front.Cells[m.plan.Cell] = m.router
	}
	if !s.layout.FrontDoor {
		return nil
	}
	return s.dir.writeJSON(fileFrontDoor, front)
}

// RunRouter is the router process of a cell, of the only one when that is "": the routing engine behind the
// listener that tenants use, and its counters behind another, for the operator. It returns when ctx has ended.
func RunRouter(ctx context.Context, d Dir, cell string) error {
	file := fileRouter
	if cell != "" {
		file = cell + "." + fileRouter
	}
	var settings routerSettings
	if err := d.readJSON(file, &settings); err != nil {
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
			routing.ViaLambda: sliceWorkers{workers}, // the worker's HTTP main does what its Lambda main does
			routing.ViaQueue:  &queueTransport{jobqueue.NewClient(s.Store, s.StoreSecret), s.Plan.Cell},
		},
		Timeout: requestLimit,
		Observe: counters.observe,
	})
	if err != nil {
		return nil, err
	}
	tokens, err := tokenverify.New(tokenverify.Config{Issuer: s.Issuer, Audience: s.Plan.Audience, Claim: s.Plan.Claim})
	if err != nil {
		return nil, err
	}
	return handler.NewHTTP(handler.HTTPConfig{
		Router: behindFrontDoor{engine, s.FrontSecret}, Identity: identity.NewVerified(tokens), Log: log,
	}), nil
}

// sliceWorkers speaks with workers as with Lambda slices, of which it has one thing that HTTP has not: an answer by
// which the concurrency is used up and nothing was done. A gate gives it.
type sliceWorkers struct{ workers routing.Transport }

func (t sliceWorkers) Send(ctx context.Context, call routing.Call, req *routing.Request) (*routing.Response, error) {
	resp, err := t.workers.Send(ctx, call, req)
	if err == nil && resp.Status == http.StatusTooManyRequests && resp.Header.Get(headerErrorType) == throttledType {
		if resp.Stream != nil {
			resp.Stream.Close()
		}
		return nil, fmt.Errorf("shard %s: %w", call.Shard, routing.ErrThrottled)
	}
	return resp, err
}

// behindFrontDoor tells the engine which requests a front door sends. Whoever does not show its secret is
// a client like any other; the token that a front door forwards is verified as anybody's.
type behindFrontDoor struct {
	engine *routing.Engine
	secret string // "" for no front door
}

func (b behindFrontDoor) Serve(ctx context.Context, tenant string, req *routing.Request) *routing.Response {
	if shown := req.Header.Values(headerFrontDoor); b.secret != "" && len(shown) == 1 && subtle.ConstantTimeCompare([]byte(shown[0]), []byte(b.secret)) == 1 {
		behind := *req
		behind.FrontDoor = true
		req = &behind
	}
	return b.engine.Serve(ctx, tenant, req)
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

// adminHandler is the operator's way to the router.
func adminHandler(counters *counting, secret string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /v1/counters", loopback.Require(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		loopback.Answer(w, http.StatusOK, counters.snapshot())
	}), secret))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return loopback.Only(mux)
}
