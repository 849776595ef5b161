// Command router is a cell's routing function: the cell's API and the fleet's front doors before it, the shards
// of the cell behind. It consumes the cell's dispatch queue as well.
package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"cellwall.dev/cellwall/internal/adapter/dynamodir"
	"cellwall.dev/cellwall/internal/adapter/secretkey"
	"cellwall.dev/cellwall/internal/adapter/shardhttp"
	"cellwall.dev/cellwall/internal/adapter/shardlambda"
	"cellwall.dev/cellwall/internal/adapter/shardqueue"
	"cellwall.dev/cellwall/internal/dircache"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/handler"
	"cellwall.dev/cellwall/internal/identity"
	"cellwall.dev/cellwall/internal/routerenv"
	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/internal/routing/health"
	"cellwall.dev/cellwall/internal/routing/limit"
	"cellwall.dev/cellwall/internal/routing/poison"
	"cellwall.dev/cellwall/internal/snapshot"
	"cellwall.dev/cellwall/internal/telemetry"
	_ "cellwall.dev/cellwall/lambda/internal/collectlater"
)

// timeout is for one request. An HTTP API gives up after 30 seconds.
const timeout = 28 * time.Second

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	function, begin, err := router(context.Background(), log)
	if err != nil {
		log.Error("router does not start", "err", err.Error())
		os.Exit(1)
	}
	answer := handler.Lambda(function)
	lambda.Start(func(ctx context.Context, payload json.RawMessage) (io.Reader, error) {
		begin(ctx)
		return answer(ctx, payload)
	})
}

// router makes the cell's router, and what to call when an invocation begins.
func router(ctx context.Context, log *slog.Logger) (function *handler.Dispatching, begin func(context.Context), err error) {
	env, err := routerenv.Parse(os.Getenv)
	if err != nil {
		return nil, nil, err
	}
	clients := newClients()
	held := snapshot.NewHolder(env.Cell)
	trackers := map[string]*health.Tracker{}
	for _, via := range []string{routing.ViaLambda, routing.ViaHTTP, routing.ViaQueue} {
		trackers[via] = health.New(health.Config{Lambda: true, Queue: via == routing.ViaQueue})
	}
	requests := telemetry.New(telemetry.Config{Service: env.Service, Cell: env.Cell, HashTenants: env.Rules.HashTenants, Metrics: true, Out: os.Stdout})
	watch := poison.New(poison.Config{Lambda: true, OnVerdict: requests.Verdict})
	// The snapshot is on its way while the rest is made.
	begin, settled, err := follow(ctx, clients, env, held, trackers, watch, log)
	if err != nil {
		return nil, nil, err
	}
	keys := secretkey.New(clients.secrets(), env.KeySecret)
	tables := dynamodir.Tables{Name: env.Directory, Region: env.DirectoryRegion, HomeRegion: env.HomeRegion, Home: env.Home}
	home, near := tables.Reader(clients.directory)
	topologies, entryConfig := routing.Topologies(home), dircache.Config{Cell: env.Cell, Directory: home, Base: held, Single: true}
	if near != nil {
		topologies = dircache.Topologies(near, home, dircache.LookUp)
		entryConfig.Replica = near
	}
	entries, err := dircache.New(entryConfig)
	if err != nil {
		return nil, nil, err
	}
	// Each environment lets its share of a tenant's rate through; see limit.Config for what that is worth.
	tenants, err := limit.NewTenants(limit.Config{Rate: float64(env.Rules.TenantRate), Burst: env.Rules.TenantBurst, Environments: env.Rules.Reserved})
	if err != nil {
		return nil, nil, err
	}
	cell := names.ForFleet(env.Service).Cell(env.Cell).Generation(env.Generation)
	queues := shardqueue.New(clients.queues(), func(shard string) string { return cell.Shard(shard).Queue() })
	transports := map[string]routing.Transport{
		routing.ViaLambda: shardlambda.New(clients.slices(), func(shard string) string { return cell.Shard(shard).WorkerAlias() }),
		routing.ViaHTTP: shardhttp.New(
			func(shard string) (string, error) { return "http://" + cell.Shard(shard).Host(), nil }, http.Header{}),
	}
	if env.Rules.Queue { // a client may prefer one that shards have
		transports[routing.ViaQueue] = queues
	}
	engine, err := routing.New(routing.Config{
		Cell:            env.Cell,
		Entries:         entries,
		Topologies:      held.Topologies(topologies),
		Keys:            held.Keys(func(ctx context.Context, _, version string) ([]byte, error) { return keys.Key(ctx, version) }),
		Health:          trackers,
		Routes:          env.Routes,
		Transports:      transports,
		Timeout:         timeout,
		AttemptTimeout:  time.Duration(env.Rules.AttemptTimeout),
		State:           env.Rules.State,
		IdempotencyKeys: env.Rules.IdempotencyKeys,
		Single:          true,
		Tenants:         tenants,
		Poison:          watch,
		Observe:         requests.Observe,
	})
	if err != nil {
		return nil, nil, err
	}
	source, err := callers(env.Auth, held)
	if err != nil {
		return nil, nil, err
	}
	agreement, err := identity.NewAgreement(env.Auth.PathTenant, env.Auth.BodyTenant)
	if err != nil {
		return nil, nil, err
	}
	settled()
	gateway := handler.NewGateway(handler.GatewayConfig{Router: engine, Identity: source, Agreement: agreement, Log: log, Stream: env.Stream})
	return &handler.Dispatching{Gateway: gateway, Placer: engine, Put: queues.Put, Log: log, Text: requests.Text}, begin, nil
}
