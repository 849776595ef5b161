package deploy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"cellwall.dev/cellwall/internal/adapter/dynamodir"
	"cellwall.dev/cellwall/internal/adapter/dynamohold"
	"cellwall.dev/cellwall/internal/adapter/secretkey"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/placement"
)

// table reads back a table, which must be recoverable to any point in time and protected from deletion.
func (w *world) table(t *testing.T, config aws.Config, name string) *types.TableDescription {
	t.Helper()
	client := dynamodb.NewFromConfig(config)
	out, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name})
	if err != nil {
		t.Fatal(err)
	}
	if out.Table.DeletionProtectionEnabled == nil || !*out.Table.DeletionProtectionEnabled {
		t.Errorf("table %s is not protected from deletion", name)
	}
	backups, err := client.DescribeContinuousBackups(t.Context(), &dynamodb.DescribeContinuousBackupsInput{TableName: &name})
	if err != nil {
		t.Fatal(err)
	}
	recovery := backups.ContinuousBackupsDescription.PointInTimeRecoveryDescription
	if recovery.PointInTimeRecoveryStatus != types.PointInTimeRecoveryStatusEnabled {
		t.Errorf("point-in-time recovery of table %s is %s", name, recovery.PointInTimeRecoveryStatus)
	}
	return out.Table
}

// keys is a table's key schema, as in "pk HASH, sk RANGE".
func keys(table *types.TableDescription) string { return schema(table.KeySchema) }

func schema(elements []types.KeySchemaElement) string {
	var parts []string
	for _, k := range elements {
		parts = append(parts, fmt.Sprintf("%s %s", *k.AttributeName, k.KeyType))
	}
	return strings.Join(parts, ", ")
}

// residence is the deployed directory with the deployed shards' tables.
func (w *world) residence(t *testing.T) *directory.Residence {
	t.Helper()
	config := w.aws.Config(t, homeAccount, homeRegion)
	client := dynamodb.NewFromConfig(config)
	d, err := directory.Open(t.Context(), dynamodir.New(client, w.names.DirectoryTable(), dynamodir.WithStreams(dynamodbstreams.NewFromConfig(config))))
	if err != nil {
		t.Fatal(err)
	}
	find := dynamohold.InFleet(w.fleet, func(account, region string) dynamohold.Client {
		return dynamodb.NewFromConfig(w.aws.Config(t, account, region))
	})
	keys := func(ctx context.Context, cell, version string) ([]byte, error) {
		return secretkey.Read(ctx, secretsmanager.NewFromConfig(w.in(t, cell)), w.of(cell).PlacementKey(), version)
	}
	return directory.NewResidence(d, dynamohold.New(find), keys)
}

// open adds a cell to the directory as an operator does: the cell, a topology, and what it takes.
func (w *world) open(t *testing.T, r *directory.Residence, name string) {
	t.Helper()
	cell := w.cell(t, name)
	topology := directory.Topology{
		Cell: name, Version: 1, Scheme: placement.Scheme(w.fleet.Placement.Scheme), KeyVersion: "1", KBySize: map[string]int{"": w.fleet.Placement.PerTenant}}
	for _, s := range cell.Shards {
		topology.Shards = append(topology.Shards, directory.Shard{ID: s.ID, Zone: s.Zone, Weight: s.Weight, State: directory.InUse})
	}
	_, err := r.AddCell(t.Context(), directory.Cell{Name: name, Internal: cell.Tenants == "internal", Zones: cell.Zones, Headroom: directory.DefaultHeadroom}, change("add"))
	if err == nil {
		_, err = r.Publish(t.Context(), topology, change("publish"))
	}
	if err == nil {
		_, err = r.OpenCell(t.Context(), name, 1000_000, 0, directory.DefaultHeadroom, change("open"))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func change(operation string) directory.Change {
	return directory.Change{Operation: operation, By: "test", Why: "the deployment's test", At: time.Now()}
}
