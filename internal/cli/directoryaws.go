package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"cellwall.dev/cellwall/internal/adapter/dynamodir"
	"cellwall.dev/cellwall/internal/adapter/dynamohold"
	"cellwall.dev/cellwall/internal/adapter/secretkey"
	"cellwall.dev/cellwall/internal/adapter/stsaccount"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// awsHome is the fleet's table in its home region, with the shards' own tables as holder and the cells'
// secrets as keys, each in its own account. The table gets no streams: no command follows the feed of
// changes, which is for caches.
func (f *directoryFlags) awsHome(ctx context.Context, d *desk) (directory.Home, directory.Keys, error) {
	fleet, err := f.loadFleet()
	if err != nil {
		return nil, nil, err
	}
	a, err := f.awsFleet(ctx, fleet, d.by)
	if err != nil {
		return nil, nil, err
	}
	name := names.ForFleet(fleet.Service)
	in, err := a.in(fleet.Directory.Account, fleet.Directory.Region)
	if err != nil {
		return nil, nil, fmt.Errorf("the directory: %w", err)
	}
	d.where = "table " + name.DirectoryTable() + " in " + fleet.Directory.Region
	d.holder, d.vault = dynamohold.New(a.place), a
	d.reach = a.reach
	return dynamodir.New(dynamodb.NewFromConfig(in), name.DirectoryTable()), a.key, nil
}

// awsFleet is the fleet with the AWS credentials of whoever gives the command.
func (f *directoryFlags) awsFleet(ctx context.Context, fl *fleet.Fleet, by string) (*awsFleet, error) {
	base, err := config.LoadDefaultConfig(ctx, config.WithDefaultRegion(fl.Directory.Region))
	if err != nil {
		return nil, hint(fmt.Errorf("find AWS credentials: %w", err), "set AWS_PROFILE, or sign in with the AWS CLI")
	}
	accounts, err := stsaccount.New(base, f.roleName, "cellwall-"+by)
	if err != nil {
		return nil, usagef("--role-name: %w", err)
	}
	return &awsFleet{Fleet: fl, ctx: ctx, accounts: accounts, keyed: f.keyFile != ""}, nil
}

// awsFleet reaches the cells of a fleet, each in its account and region.
type awsFleet struct {
	*fleet.Fleet
	ctx      context.Context // the command's: looking for a shard's table has none of its own
	accounts *stsaccount.Accounts
	keyed    bool     // the placement key is not read from AWS
	tables   sync.Map // cell to *dynamodb.Client
}

// in is the configuration for an account and region.
func (a *awsFleet) in(account, region string) (aws.Config, error) {
	c, err := a.accounts.Config(a.ctx, account)
	c.Region = region
	switch {
	case errors.Is(err, stsaccount.ErrOtherAccount):
		return c, hint(usagef("%w", err), "sign in to account %s, or name with --role-name a role there that you may assume; docs/operating.md says what it needs", account)
	case err != nil:
		return c, hint(err, "check AWS_PROFILE and that you are signed in; docs/operating.md says what the role of --role-name needs")
	}
	return c, nil
}

// place is where a shard's holdings lie.
func (a *awsFleet) place(cell, shard string) (dynamohold.Place, error) {
	client, ok := a.tables.Load(cell)
	if !ok {
		c, err := fleetCell(a.Fleet, cell)
		if err != nil {
			return dynamohold.Place{}, err
		}
		in, err := a.in(c.Account, c.Region)
		if err != nil {
			return dynamohold.Place{}, fmt.Errorf("cell %q: %w", cell, err)
		}
		client, _ = a.tables.LoadOrStore(cell, dynamodb.NewFromConfig(in))
	}
	return dynamohold.InFleet(a.Fleet, func(string, string) dynamohold.Client { return client.(*dynamodb.Client) })(cell, shard)
}

// key is a version of a cell's placement key.
func (a *awsFleet) key(ctx context.Context, cell, version string) ([]byte, error) {
	c, err := fleetCell(a.Fleet, cell)
	if err != nil {
		return nil, err
	}
	secrets, err := a.secrets(c)
	if err != nil {
		return nil, err
	}
	return secretkey.Read(ctx, secrets, a.NamesOf(c).PlacementKey(), version)
}

// addKeys implements vault.
func (a *awsFleet) addKeys(ctx context.Context, c fleet.Cell, missing func([]string) (map[string][]byte, error)) ([]string, error) {
	secrets, err := a.secrets(c)
	if err != nil {
		return nil, err
	}
	return secretkey.Add(ctx, secrets, a.NamesOf(c).PlacementKey(), missing)
}

// keysOf implements vault.
func (a *awsFleet) keysOf(ctx context.Context, c fleet.Cell, generation int) (map[string][]byte, error) {
	secrets, err := a.secrets(c)
	if err != nil {
		return nil, err
	}
	return secretkey.All(ctx, secrets, a.NamesOf(c).Generation(generation).PlacementKey())
}

func (a *awsFleet) secrets(c fleet.Cell) (*secretsmanager.Client, error) {
	in, err := a.in(c.Account, c.Region)
	if err != nil {
		return nil, fmt.Errorf("cell %q: %w", c.Name, err)
	}
	return secretsmanager.NewFromConfig(in), nil
}

// reach refuses cells whose account cannot be reached, where a change of tenants there needs to.
func (a *awsFleet) reach(cells ...string) error {
	if a.keyed && a.Shard.Table == nil && a.Shard.State.Mode != fleet.StateCell {
		return nil // nothing of the cell's own is needed
	}
	for _, cell := range cells {
		c, err := fleetCell(a.Fleet, cell)
		if err != nil {
			return err
		}
		if _, err := a.in(c.Account, c.Region); err != nil {
			return fmt.Errorf("cell %q: %w", cell, err)
		}
	}
	return nil
}
