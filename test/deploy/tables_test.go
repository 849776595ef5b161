package deploy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"cellwall.dev/cellwall/internal/adapter/dynamodir"
	"cellwall.dev/cellwall/internal/adapter/dynamohold"
	"cellwall.dev/cellwall/internal/adapter/secretkey"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
	"cellwall.dev/cellwall/internal/placement"
)

// table reads back a table, which must be recoverable to any point in time and protected from deletion.
func (w *world) table(t *testing.T, name string) *types.TableDescription {
	t.Helper()
	client := dynamodb.NewFromConfig(w.aws.Config(t, homeAccount, homeRegion))
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
		return secretkey.Read(ctx, secretsmanager.NewFromConfig(config), w.names.Cell(cell).PlacementKey(), version)
	}
	return directory.NewResidence(d, dynamohold.New(find), keys)
}

// open adds the canary to the directory as an operator does: its cell, a topology, and what it takes.
func (w *world) open(t *testing.T, r *directory.Residence) {
	t.Helper()
	cell := w.cell(t, canary)
	topology := directory.Topology{
		Cell: canary, Version: 1, Scheme: placement.Scheme(w.fleet.Placement.Scheme), KeyVersion: "1", KBySize: map[string]int{"": w.fleet.Placement.PerTenant}}
	for _, s := range cell.Shards {
		topology.Shards = append(topology.Shards, directory.Shard{ID: s.ID, Zone: s.Zone, Weight: s.Weight, State: directory.InUse})
	}
	_, err := r.AddCell(t.Context(), directory.Cell{Name: canary, Internal: true, Zones: cell.Zones, Headroom: directory.DefaultHeadroom}, change("add"))
	if err == nil {
		_, err = r.Publish(t.Context(), topology, change("publish"))
	}
	if err == nil {
		_, err = r.OpenCell(t.Context(), canary, 1000_000, 0, directory.DefaultHeadroom, change("open"))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func change(operation string) directory.Change {
	return directory.Change{Operation: operation, By: "test", Why: "the deployment's test", At: time.Now()}
}

// directoryContract holds the records in DynamoDB to the contract of directory.Home, on a table like the
// deployed one for each test, so that each begins empty.
func (w *world) directoryContract(t *testing.T) {
	config := w.aws.Config(t, homeAccount, homeRegion)
	client := dynamodb.NewFromConfig(config)
	deployed := w.table(t, w.names.DirectoryTable())
	var indexes []types.GlobalSecondaryIndex
	for _, i := range deployed.GlobalSecondaryIndexes {
		indexes = append(indexes, types.GlobalSecondaryIndex{IndexName: i.IndexName, KeySchema: i.KeySchema, Projection: i.Projection})
	}
	n := 0
	directorytest.Records(t, func(t *testing.T) directory.Home {
		n++
		name := fmt.Sprintf("contract-%d", n)
		_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: &name, KeySchema: deployed.KeySchema, AttributeDefinitions: deployed.AttributeDefinitions,
			GlobalSecondaryIndexes: indexes, StreamSpecification: deployed.StreamSpecification, BillingMode: types.BillingModePayPerRequest,
		})
		// The SDK repeats a request whose answer did not come; the name is this test's alone.
		if exists := (*types.ResourceInUseException)(nil); err != nil && !errors.As(err, &exists) {
			t.Fatal(err)
		}
		return dynamodir.New(client, name, dynamodir.WithStreams(dynamodbstreams.NewFromConfig(config)))
	})
}
