package localcell

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"cellwall.dev/cellwall/internal/adapter/httpdir"
	"cellwall.dev/cellwall/internal/adapter/shardhttp"
	"cellwall.dev/cellwall/internal/adapter/tokenverify"
	"cellwall.dev/cellwall/internal/dircache"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/handler"
	"cellwall.dev/cellwall/internal/identity"
	"cellwall.dev/cellwall/internal/localcell/jobqueue"
	"cellwall.dev/cellwall/internal/quarantine"
	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/internal/routing/health"
	"cellwall.dev/cellwall/internal/routing/limit"
	"cellwall.dev/cellwall/internal/routing/poison"
	"cellwall.dev/cellwall/internal/snapshot"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// For how long a local router and front door believe the directory's word: shorter than on AWS (60 s and 5 s),
// because the operator who changes a tenant sits and waits to see it. What a shard refuses is looked up at once.
const (
	entryTTL    = 2 * time.Second
	strangerTTL = 500 * time.Millisecond
)

// rememberTokens is how many verified tokens a local router remembers: those of 100,000 tenants and more, in about
// 64 MB once they are in use.
const rememberTokens = 1 << 18

// front is the router's engine with what it goes by.
type front struct {
	handler  http.Handler
	counters *counting
	snapshot *snapshot.Holder
	health   map[string]*health.Tracker // by way

	engine *routing.Engine
	cell   string
	cells  []string // of the fleet, whose dispatch queues lie in the same store
	queues *jobqueue.Client
	plan   QueuePlan
	watch  *poison.Watch
	told   *verdicts
	log    *slog.Logger
}

// newFront puts the same engine together that the router function on AWS runs.
func newFront(s routerSettings, keys directory.Keys, counters *counting, log *slog.Logger) (*front, error) {
	home, err := httpdir.NewClient(s.Directory, s.StoreSecret, &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute},
	})
	if err != nil {
		return nil, err
	}
	served := directory.Later(home) // the router starts while the directory is down
	f := &front{
		counters: counters, snapshot: snapshot.NewHolder(s.Plan.Cell), health: map[string]*health.Tracker{
			routing.ViaHTTP: health.New(health.Config{}), routing.ViaLambda: health.New(health.Config{}), routing.ViaQueue: health.New(health.Config{Queue: true}),
		},
		cell: s.Plan.Cell, cells: s.Cells, queues: jobqueue.NewClient(s.Store, s.StoreSecret), plan: s.Plan.Queue, log: log,
	}
	f.told = newVerdicts(s.Plan, f.queues, log)
	f.watch = poison.New(poison.Config{OnVerdict: func(v poison.Verdict) {
		// An error, though a warning on AWS: the local router logs nothing less.
		log.Error(quarantine.Message, "tenant", v.Tenant, "shards", v.Shards, "downs", v.Downs, "firm", v.Firm, "until", v.Until, "repeats", v.Repeats)
		counters.suspect(v.Tenant)
		f.told.say(v)
	}})
	believed := cmp.Or(s.Remember, entryTTL)
	entries, err := dircache.New(dircache.Config{Cell: s.Plan.Cell, Directory: served, Base: f.snapshot, TTL: believed, Negative: strangerTTL})
	if err != nil {
		return nil, err
	}
	if f.engine, err = f.newEngine(s, entries, f.snapshot.Topologies(served), f.snapshot.Keys(keys)); err != nil {
		return nil, err
	}
	tokens, err := tokenverify.New(tokenverify.Config{
		Issuer: s.Issuer, Audience: s.Plan.Audience, Claim: s.Plan.Claim,
		Fallback: f.snapshot.IssuerKeys, Remember: rememberTokens,
	})
	if err != nil {
		return nil, err
	}
	var callers identity.Source = identity.NewVerified(tokens)
	if s.FrontSecret != "" { // the token that a front door forwards is verified as anybody's
		if callers, err = identity.Behind(callers, identity.FrontDoors{Secret: s.FrontSecret}); err != nil {
			return nil, err
		}
	}
	agreement, err := identity.NewAgreement(s.Plan.Router.PathTenant, s.Plan.Router.BodyTenant)
	if err != nil {
		return nil, err
	}
	f.handler = handler.NewHTTP(handler.HTTPConfig{Router: f.engine, Identity: callers, Agreement: agreement, Log: log})
	return f, nil
}

// inFlight is how many requests a local router takes at once: what one process of a laptop serves in good time. A
// shard takes a quarter of it at most, so that one that is slow leaves room for the others.
const inFlight = 4096

func (f *front) newEngine(s routerSettings, entries routing.Entries, topologies routing.Topologies, keys directory.Keys) (*routing.Engine, error) {
	workers := shardhttp.New(func(shard string) (string, error) {
		if base, ok := s.Workers[shard]; ok {
			return base, nil
		}
		return "", fmt.Errorf("no process serves shard %q", shard)
	}, http.Header{shardkit.HeaderSecret: {s.WorkerSecret}})
	r := s.Plan.Router
	tenants, err := limit.NewTenants(limit.Config{Rate: r.TenantRate, Burst: r.TenantBurst, Concurrent: r.TenantConcurrency})
	if err != nil {
		return nil, err
	}
	transports := map[string]routing.Transport{
		routing.ViaHTTP:   workers,
		routing.ViaLambda: sliceWorkers{workers}, // the worker's HTTP main does what its Lambda main does
	}
	if s.Plan.Queue.On || slices.ContainsFunc(s.Plan.Routes, func(r routing.Route) bool { return r.Via == routing.ViaQueue }) {
		transports[routing.ViaQueue] = &queueTransport{f.queues, s.Plan.Cell}
	}
	return routing.New(routing.Config{
		Cell: s.Plan.Cell, Entries: entries, Topologies: topologies, Keys: keys, Routes: s.Plan.Routes,
		Transports: transports,
		Timeout:    requestLimit, AttemptTimeout: min(r.AttemptTimeout, requestLimit),
		State: r.State, IdempotencyKeys: r.IdempotencyKeys,
		Health: f.health, Tenants: tenants, Fanouts: limit.NewFanout(r.FanoutConcurrency),
		Shed: limit.NewShed(inFlight), Shards: limit.NewShards(limit.PerShard(inFlight)),
		Poison:  f.watch,
		Observe: f.counters.observe,
	})
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
