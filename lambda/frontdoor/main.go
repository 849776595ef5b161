// Command frontdoor is a fleet's front door function: one API for all cells, which sends each tenant to the cell
// where the directory has it. It forwards the client's token, which that cell verifies again.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	awslambda "github.com/aws/aws-sdk-go-v2/service/lambda"

	"cellwall.dev/cellwall/internal/adapter/dynamodir"
	"cellwall.dev/cellwall/internal/adapter/kmsseal"
	"cellwall.dev/cellwall/internal/adapter/shardlambda"
	"cellwall.dev/cellwall/internal/adapter/tokenverify"
	"cellwall.dev/cellwall/internal/dircache"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/handler"
	"cellwall.dev/cellwall/internal/identity"
	"cellwall.dev/cellwall/internal/routerenv"
	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/internal/snapshot"
	"cellwall.dev/cellwall/internal/telemetry"
	_ "cellwall.dev/cellwall/lambda/internal/collectlater"
	"cellwall.dev/cellwall/lambda/internal/first"
	"cellwall.dev/cellwall/lambda/internal/following"
)

// timeout is for one request. A cell's router takes 28 s at most, and an HTTP API gives up after 30.
const timeout = 28500 * time.Millisecond

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	gateway, begin, err := frontDoor(context.Background(), log)
	if err != nil {
		log.Error("front door does not start", "err", err.Error())
		os.Exit(1)
	}
	answer := handler.Lambda(gateway)
	lambda.Start(func(ctx context.Context, payload json.RawMessage) (io.Reader, error) {
		begin(ctx)
		return answer(ctx, payload)
	})
}

// frontDoor makes the front door, and what to call when an invocation begins.
func frontDoor(ctx context.Context, log *slog.Logger) (gateway *handler.Gateway, begin func(context.Context), err error) {
	env, err := routerenv.ParseFrontDoor(os.Getenv)
	if err != nil {
		return nil, nil, err
	}
	settings := first.Settings()
	held := snapshot.NewHolder(snapshot.Fleet)
	ours := names.ForFleet(env.Service)
	// The snapshot is on its way while the rest is made.
	begin, settled, err := following.Start(ctx, following.Config{
		Settings: settings, Bucket: env.Snapshots, Holder: held, Log: log,
		Keys: kmsseal.Config{Key: ours.FrontDoorSnapshotKey(), MACKey: ours.FrontDoorSnapshotMAC(), Service: env.Service, Cell: snapshot.Fleet},
	})
	if err != nil {
		return nil, nil, err
	}
	entries, err := openEntries(settings, env, held)
	if err != nil {
		return nil, nil, err
	}
	source, err := callers(env.Auth, held)
	if err != nil {
		return nil, nil, err
	}
	cells := shardlambda.ByRegion(func(region string) shardlambda.Client {
		return shardlambda.Lazy(first.Client(settings, func(s aws.Config) shardlambda.Client {
			return awslambda.NewFromConfig(s, shardlambda.Once, func(o *awslambda.Options) { o.Region = region })
		}))
	})
	requests := telemetry.New(telemetry.Config{Service: env.Service, Cell: names.FrontDoorCell, HashTenants: env.HashTenants, Metrics: true, Out: os.Stdout})
	engine, err := routing.New(routing.Config{
		Cells: true, Single: true, Entries: entries, Routes: []routing.Route{{Path: "/*", Via: routing.ViaCell}},
		Transports: map[string]routing.Transport{
			routing.ViaCell: shardlambda.NewCells(cells, routers(env), env.Role),
		},
		Timeout: timeout, Observe: requests.Observe,
	})
	if err != nil {
		return nil, nil, err
	}
	settled()
	return handler.NewGateway(handler.GatewayConfig{Router: engine, Identity: source, Log: log}), begin, nil
}

// routers names the router of each cell by its ARN, "" for a cell that the fleet does not have.
func routers(env routerenv.FrontDoor) func(cell string) string {
	fleet := names.ForFleet(env.Service)
	partition := strings.Split(env.Role+":::", ":")[1] // one fleet lives in one partition
	return func(cell string) string {
		region, account, ok := strings.Cut(env.Cells[cell], "/")
		if !ok {
			return ""
		}
		return "arn:" + partition + ":lambda:" + region + ":" + account + ":function:" + fleet.Cell(cell).RouterAlias()
	}
}

func openEntries(settings func() (aws.Config, error), env routerenv.FrontDoor, held *snapshot.Holder) (*dircache.Cache, error) {
	tables := dynamodir.Tables{Name: env.Directory, Region: env.DirectoryRegion, HomeRegion: env.HomeRegion, Home: env.Home}
	home, near := tables.Reader(func(region string) dynamodir.Client {
		return dynamodir.Lazy(first.Client(settings, func(s aws.Config) dynamodir.Client {
			return dynamodb.NewFromConfig(s, dynamodir.ForRequests, func(o *dynamodb.Options) { o.Region = region })
		}))
	})
	c := dircache.Config{Directory: home, Base: held, Single: true}
	if near != nil {
		c.Replica = near
	}
	return dircache.New(c)
}

// callers tells who asks. A cell verifies the token again, so that only tokens tell here. The issuer's keys come from
// the snapshot while the issuer does not answer.
func callers(auth routerenv.Auth, held *snapshot.Holder) (identity.Source, error) {
	named := identity.Named{Source: auth.Source, Claim: auth.Claim}
	if auth.Source != identity.SourceJWT && auth.Source != identity.SourceVerify {
		return nil, fmt.Errorf("a front door forwards tokens, and source %q has none", auth.Source)
	}
	if auth.Source == identity.SourceVerify {
		var err error
		named.Tokens, err = tokenverify.New(tokenverify.Config{
			Issuer: auth.Issuer, Audience: auth.Audience, Claim: auth.Claim, Algorithms: auth.Algorithms, Fallback: held.IssuerKeys,
		})
		if err != nil {
			return nil, err
		}
	}
	return named.Open()
}
