// Command keeper is a cell's keeper function: on a schedule, it writes the snapshot by which the cell's routers
// start and go on while the directory, the secret store or the token issuer does not answer. It hears the routers'
// verdicts on tenants that take shards down, by a subscription of their log, and pins such tenants to quarantine.
// Beside a front door it writes that one's snapshot, and nothing else.
//
// Its event may be {"force": true}, for a run that takes the directory's word whatever that lost. An
// invocation fails when no snapshot was written, and also when one was that has an old part, or suspects are
// not looked after, so that the function's errors are the alarm.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"cellwall.dev/cellwall/internal/adapter/cwmetrics"
	"cellwall.dev/cellwall/internal/adapter/dynamodir"
	"cellwall.dev/cellwall/internal/adapter/dynamohold"
	"cellwall.dev/cellwall/internal/adapter/elbhealth"
	"cellwall.dev/cellwall/internal/adapter/issuerkeys"
	"cellwall.dev/cellwall/internal/adapter/kmsseal"
	"cellwall.dev/cellwall/internal/adapter/secretkey"
	"cellwall.dev/cellwall/internal/adapter/snaps3"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/keeper"
	"cellwall.dev/cellwall/internal/quarantine"
	"cellwall.dev/cellwall/internal/routerenv"
	"cellwall.dev/cellwall/internal/telemetry"
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	invoke, err := newKeeper(context.Background(), log)
	if err != nil {
		log.Error("keeper does not start", "err", err.Error())
		os.Exit(1)
	}
	lambda.Start(invoke)
}

// newKeeper is a cell's keeper, or a front door's.
func newKeeper(ctx context.Context, log *slog.Logger) (invoke func(context.Context, json.RawMessage) error, err error) {
	if routerenv.OfFrontDoor(os.Getenv) {
		w, err := newFrontDoors(ctx, log)
		return w.invoke, err
	}
	f, err := newFunction(ctx, log)
	if err != nil {
		return nil, err
	}
	return f.invoke, nil
}

func newFunction(ctx context.Context, log *slog.Logger) (*function, error) {
	env, err := routerenv.ParseKeeper(os.Getenv)
	if err != nil {
		return nil, err
	}
	settings, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("load the AWS configuration: %w", err)
	}
	cell := names.ForFleet(env.Service).Cell(env.Cell).Generation(env.Generation)
	f := &function{
		writer: writer{log: log,
			lines: telemetry.New(telemetry.Config{Service: env.Service, Cell: env.Cell, HashTenants: env.HashTenants, Metrics: true, Out: os.Stdout})},
		service: env.Service, cell: env.Cell, routerLogs: cell.LogGroup("router"), hashed: env.HashTenants,
	}
	secrets := secretsmanager.NewFromConfig(settings, secretkey.ForRequests)
	c := keeper.Config{
		Cell:  env.Cell,
		Store: snaps3.New(s3.NewFromConfig(settings, snaps3.ForKeepers), env.Snapshots, names.SnapshotObject),
		Keyring: kmsseal.ForKeeper(kms.NewFromConfig(settings, kmsseal.Brief), kmsseal.Config{
			Key: cell.SnapshotKey(), MACKey: cell.SnapshotMAC(), Service: env.Service, Cell: env.Cell,
		}),
		Directory: openDirectory(settings, env.Directory, env.DirectoryRegion),
		// Read anew in each run: a keeper's environment may live longer than a mistake in the secret.
		Keys: func(ctx context.Context, _, version string) ([]byte, error) {
			return secretkey.Read(ctx, secrets, env.KeySecret, version)
		},
	}
	f.quarantine, err = quarantine.New(quarantine.Config{
		Cell: env.Cell, Shards: env.Quarantine, Stateful: env.Stateful, Residence: residence(settings, env, cell, c.Keys),
	})
	if err != nil {
		return nil, err
	}
	c.Suspects = f.quarantine
	if env.Issuer != "" {
		if c.Issuer, err = issuerkeys.New(env.Issuer); err != nil {
			return nil, err
		}
	}
	metrics := cwmetrics.New(cloudwatch.NewFromConfig(settings), cwmetrics.Cell{Service: env.Service, Name: env.Cell,
		Function: func(shard string) string { return cell.Shard(shard).Worker() },
		Queue:    func(shard string) string { return cell.Shard(shard).Queue() }})
	c.Loads, c.Quarantine = metrics, env.Quarantine
	c.KeyMade = func(ctx context.Context) (time.Time, error) { return secretkey.Made(ctx, secrets, env.KeySecret) }
	if env.Slices {
		c.Throttles = metrics
	}
	if env.Queues {
		c.Queues = metrics
	}
	if env.Port > 0 {
		c.Targets = elbhealth.New(elb.NewFromConfig(settings), func(shard string) []string {
			var groups []string
			for _, balancer := range env.Balancers {
				groups = append(groups, cell.Shard(shard).TargetGroup(env.Port, balancer))
			}
			return groups
		})
	}
	if f.snapshots, err = keeper.New(c); err != nil {
		return nil, err
	}
	return f, nil
}

// residence is the directory where it is written, with the stores of the cell's shards. Without a quarantine, it
// reads entries and writes the cell's note.
func residence(settings aws.Config, env routerenv.Keeper, cell names.Cell, keys directory.Keys) *directory.Residence {
	home := dynamodb.NewFromConfig(settings, func(o *dynamodb.Options) { o.Region = env.HomeRegion })
	shards := dynamodb.NewFromConfig(settings)
	holder := dynamohold.New(func(_, shard string) (dynamohold.Place, error) {
		switch env.Holdings {
		case routerenv.HoldingsTable:
			return dynamohold.Place{Client: shards, Table: cell.Shard(shard).Table()}, nil
		case routerenv.HoldingsStore:
			return dynamohold.Place{Client: shards, Table: cell.Store(), Shared: shard}, nil
		}
		return dynamohold.Place{}, nil // such shards hold everybody
	})
	return directory.NewResidence(directory.Later(dynamodir.New(home, env.Home)), holder, keys)
}

// openDirectory returns the directory by the table that routers and front doors read: a replica that lags behind is
// no worse than a snapshot that is a minute old.
func openDirectory(settings aws.Config, table, region string) *directory.Directory {
	client := dynamodb.NewFromConfig(settings, func(o *dynamodb.Options) { o.Region = region })
	return directory.Later(dynamodir.New(client, table))
}
