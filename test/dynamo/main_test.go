// Package dynamo runs what keeps state in DynamoDB against the AWS API emulator, through the SDK.
package dynamo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"cellwall.dev/cellwall/internal/adapter/dynamodir"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/test/awsemu"
)

var emulator *awsemu.Emulator

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

// run starts one emulator for all tests: each makes tables of its own.
func run(m *testing.M) int {
	var err error
	emulator, err = awsemu.New(context.Background(), os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer emulator.Close()
	return m.Run()
}

const account, region = "111111111111", "eu-west-1"

var tables atomic.Int32

// newTable makes an empty table with the keys, the indexes and the stream of the directory's; the
// deployment tests hold the deployed one to the same.
func newTable(t *testing.T) string {
	t.Helper()
	return namedTable(t, fmt.Sprintf("table-%d", tables.Add(1)))
}

func namedTable(t *testing.T, called string) string {
	t.Helper()
	return namedTableIn(t, account, region, called)
}

func namedTableIn(t *testing.T, account, region, called string) string {
	t.Helper()
	name := &called
	s := func(name string) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: &name, AttributeType: types.ScalarAttributeTypeS}
	}
	key := func(hash, sort string) []types.KeySchemaElement {
		return []types.KeySchemaElement{{AttributeName: &hash, KeyType: types.KeyTypeHash}, {AttributeName: &sort, KeyType: types.KeyTypeRange}}
	}
	index := func(name, hash string) types.GlobalSecondaryIndex {
		return types.GlobalSecondaryIndex{IndexName: &name, KeySchema: key(hash, names.PartitionKey), Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll}}
	}
	client := dynamodb.NewFromConfig(emulator.Config(t, account, region))
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: name, BillingMode: types.BillingModePayPerRequest, KeySchema: key(names.PartitionKey, names.SortKey),
		AttributeDefinitions:   []types.AttributeDefinition{s(names.PartitionKey), s(names.SortKey), s(names.FirstIndexKey), s(names.SecondIndexKey)},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{index(names.FirstIndex, names.FirstIndexKey), index(names.SecondIndex, names.SecondIndexKey)},
		StreamSpecification:    &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages},
	})
	// The SDK repeats a request whose answer did not come; the name is this table's alone.
	if exists := (*types.ResourceInUseException)(nil); err != nil && !errors.As(err, &exists) {
		t.Fatal(err)
	}
	t.Cleanup(func() { // t.Context is over
		_, _ = client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: name})
	})
	return *name
}

// open is the directory's home in a new table. Its client is given to tamper with.
func open(t *testing.T, tamper func(*aws.Config), options ...dynamodir.Option) *dynamodir.Table {
	t.Helper()
	config := emulator.Config(t, account, region)
	if tamper != nil {
		tamper(&config)
	}
	options = append(options, dynamodir.WithStreams(dynamodbstreams.NewFromConfig(config)))
	return dynamodir.New(dynamodb.NewFromConfig(config), newTable(t), options...)
}
