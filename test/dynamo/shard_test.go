package dynamo

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"cellwall.dev/cellwall/internal/adapter/dynamohold"
	"cellwall.dev/cellwall/internal/adapter/itemdynamo"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/lambda/shardkit/shardkittest"
)

// TestShard holds what a shard writes to the kit's contract, while dynamohold has it hold its tenants: in a
// table of its own beside the cell's store, and in the store alone.
func TestShard(t *testing.T) {
	for name, own := range map[string]bool{"OwnTable": true, "CellsStore": false} {
		t.Run(name, func(t *testing.T) {
			shardkittest.Run(t, func(t *testing.T) shardkittest.Shard {
				client := dynamodb.NewFromConfig(emulator.Config(t, account, region))
				where := itemdynamo.Tables{State: newTable(t), Shard: "s01"}
				at := dynamohold.Place{Client: client, Table: where.State, Shared: where.Shard}
				if own {
					where.Own = newTable(t)
					at = dynamohold.Place{Client: client, Table: where.Own}
				}
				items, err := itemdynamo.New(client, where)
				if err != nil {
					t.Fatal(err)
				}
				holder := dynamohold.New(func(string, string) (dynamohold.Place, error) { return at, nil })
				return shardkittest.Shard{
					Items: items,
					Hold: func(tenant string, epoch uint64) error {
						return holder.Hold(t.Context(), "eu-1", "s01", directory.Holding{Tenant: tenant, Epoch: epoch})
					},
					Release: func(tenant string, epoch uint64) error {
						return holder.Release(t.Context(), "eu-1", "s01", directory.Holding{Tenant: tenant, Epoch: epoch})
					},
				}
			})
		})
	}
}
