package deploy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"cellwall.dev/cellwall/internal/adapter/dynamodir"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
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
func keys(table *types.TableDescription) string {
	var parts []string
	for _, k := range table.KeySchema {
		parts = append(parts, fmt.Sprintf("%s %s", *k.AttributeName, k.KeyType))
	}
	return strings.Join(parts, ", ")
}

// entries is the deployed directory.
func (w *world) entries(t *testing.T) directory.Store {
	t.Helper()
	return dynamodir.New(dynamodb.NewFromConfig(w.aws.Config(t, homeAccount, homeRegion)), w.names.DirectoryTable())
}

// directoryContract holds the DynamoDB directory to the contract of directory.Store, on a table like the
// deployed one for each test, so that each begins empty.
func (w *world) directoryContract(t *testing.T) {
	client := dynamodb.NewFromConfig(w.aws.Config(t, homeAccount, homeRegion))
	deployed := w.table(t, w.names.DirectoryTable())
	n := 0
	directorytest.Run(t, func(t *testing.T) directory.Store {
		n++
		name := fmt.Sprintf("contract-%d", n)
		_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: &name, KeySchema: deployed.KeySchema, AttributeDefinitions: deployed.AttributeDefinitions,
			BillingMode: types.BillingModePayPerRequest,
		})
		if err != nil {
			t.Fatal(err)
		}
		return dynamodir.New(client, name)
	})
}
