package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"cellwall.dev/cellwall/internal/adapter/issuerkeys"
	"cellwall.dev/cellwall/internal/adapter/kmsseal"
	"cellwall.dev/cellwall/internal/adapter/snaps3"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/keeper"
	"cellwall.dev/cellwall/internal/routerenv"
	"cellwall.dev/cellwall/internal/snapshot"
	"cellwall.dev/cellwall/internal/telemetry"
)

// newFrontDoors is the keeper of a region's front door.
func newFrontDoors(ctx context.Context, log *slog.Logger) (writer, error) {
	env, err := routerenv.ParseFrontDoorKeeper(os.Getenv)
	if err != nil {
		return writer{}, err
	}
	settings, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return writer{}, fmt.Errorf("load the AWS configuration: %w", err)
	}
	fleet := names.ForFleet(env.Service)
	f := keeper.FrontDoor{
		Cells: slices.Sorted(maps.Keys(env.Cells)),
		Store: snaps3.New(s3.NewFromConfig(settings, snaps3.ForKeepers), env.Snapshots, names.SnapshotObject),
		Keyring: kmsseal.ForKeeper(kms.NewFromConfig(settings, kmsseal.Brief), kmsseal.Config{
			Key: fleet.FrontDoorSnapshotKey(), MACKey: fleet.FrontDoorSnapshotMAC(), Service: env.Service, Cell: snapshot.Fleet,
		}),
		Directory: openDirectory(settings, env.Directory, env.DirectoryRegion),
	}
	if env.Issuer != "" {
		if f.Issuer, err = issuerkeys.New(env.Issuer); err != nil {
			return writer{}, err
		}
	}
	k, err := keeper.ForFrontDoor(f)
	if err != nil {
		return writer{}, err
	}
	return writer{k, log, telemetry.New(telemetry.Config{Service: env.Service, Cell: names.FrontDoorCell, Metrics: true, Out: os.Stdout})}, nil
}
