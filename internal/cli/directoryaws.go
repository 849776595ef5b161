package cli

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"cellwall.dev/cellwall/internal/adapter/dynamodir"
	"cellwall.dev/cellwall/internal/adapter/dynamohold"
	"cellwall.dev/cellwall/internal/adapter/secretkey"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// awsHome is the fleet's table in its home region, with the shards' own tables as holder and the cells'
// secrets as keys. Credentials come from the environment, as the AWS SDK finds them.
func (f *directoryFlags) awsHome(ctx context.Context, d *desk) (directory.Home, directory.Keys, error) {
	fleet, err := f.loadFleet()
	if err != nil {
		return nil, nil, err
	}
	base, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, nil, hint(fmt.Errorf("find AWS credentials: %w", err), "set AWS_PROFILE, or sign in with the AWS CLI")
	}
	in := func(region string) aws.Config {
		c := base.Copy()
		c.Region = region
		return c
	}
	name := names.ForFleet(fleet.Service)
	d.where = "table " + name.DirectoryTable() + " in " + fleet.Directory.Region
	d.holder = dynamohold.New(dynamohold.InFleet(fleet, func(_, region string) dynamohold.Client {
		return dynamodb.NewFromConfig(in(region))
	}))
	keys := func(ctx context.Context, cell, version string) ([]byte, error) {
		c, err := fleetCell(fleet, cell)
		if err != nil {
			return nil, err
		}
		return secretkey.Read(ctx, secretsmanager.NewFromConfig(in(c.Region)), name.Cell(cell).PlacementKey(), version)
	}
	return dynamodir.New(dynamodb.NewFromConfig(in(fleet.Directory.Region)), name.DirectoryTable()), keys, nil
}
