// Command keeper is a cell's keeper function: on a schedule, it writes the snapshot by which the cell's routers
// start and go on while the directory, the secret store or the token issuer does not answer.
//
// Its event may be {"force": true}, for a run that takes the directory's word whatever that lost. An
// invocation fails when no snapshot was written, and also when one was that has an old part, so that the
// function's errors are the alarm.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

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
	"cellwall.dev/cellwall/internal/adapter/elbhealth"
	"cellwall.dev/cellwall/internal/adapter/issuerkeys"
	"cellwall.dev/cellwall/internal/adapter/kmsseal"
	"cellwall.dev/cellwall/internal/adapter/secretkey"
	"cellwall.dev/cellwall/internal/adapter/snaps3"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/keeper"
	"cellwall.dev/cellwall/internal/routerenv"
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	k, err := newKeeper(context.Background())
	if err != nil {
		log.Error("keeper does not start", "err", err.Error())
		os.Exit(1)
	}
	lambda.Start(func(ctx context.Context, event struct {
		Force bool `json:"force"`
	}) error {
		out, err := k.Write(ctx, keeper.Options{Force: event.Force})
		if err != nil {
			log.Error("no snapshot was written", "err", err.Error())
			return err
		}
		log.Info("snapshot", "snapshot", out, "force", event.Force)
		return out.Err()
	})
}

func newKeeper(ctx context.Context) (*keeper.Keeper, error) {
	env, err := routerenv.ParseKeeper(os.Getenv)
	if err != nil {
		return nil, err
	}
	settings, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("load the AWS configuration: %w", err)
	}
	cell := names.ForFleet(env.Service).Cell(env.Cell)
	secrets := secretsmanager.NewFromConfig(settings, secretkey.ForRequests)
	c := keeper.Config{
		Cell:  env.Cell,
		Store: snaps3.New(s3.NewFromConfig(settings, snaps3.ForKeepers), env.Snapshots, names.SnapshotObject),
		Keyring: kmsseal.ForKeeper(kms.NewFromConfig(settings, kmsseal.Brief), kmsseal.Config{
			Key: cell.SnapshotKey(), MACKey: cell.SnapshotMAC(), Service: env.Service, Cell: env.Cell,
		}),
		Directory: openDirectory(settings, env),
		// Read anew in each run: a keeper's environment may live longer than a mistake in the secret.
		Keys: func(ctx context.Context, _, version string) ([]byte, error) {
			return secretkey.Read(ctx, secrets, env.KeySecret, version)
		},
	}
	if env.Issuer != "" {
		if c.Issuer, err = issuerkeys.New(env.Issuer); err != nil {
			return nil, err
		}
	}
	metrics := cwmetrics.New(cloudwatch.NewFromConfig(settings),
		func(shard string) string { return cell.Shard(shard).Worker() }, func(shard string) string { return cell.Shard(shard).Queue() })
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
	return keeper.New(c)
}

// openDirectory returns the directory by the table that the cell's routers read: a replica that lags behind is
// no worse than a snapshot that is a minute old.
func openDirectory(settings aws.Config, env routerenv.Keeper) *directory.Directory {
	client := dynamodb.NewFromConfig(settings, func(o *dynamodb.Options) { o.Region = env.DirectoryRegion })
	return directory.Later(dynamodir.New(client, env.Directory))
}
