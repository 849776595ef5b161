// Package dynamoaccount reads how much provisioned throughput an account may have in a region.
//
// Permission: dynamodb:DescribeLimits.
package dynamoaccount

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"cellwall.dev/cellwall/internal/audit"
)

// Client is the part of *dynamodb.Client that is needed.
type Client interface {
	DescribeLimits(context.Context, *dynamodb.DescribeLimitsInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeLimitsOutput, error)
}

// IDs are the limits that an Account says.
var IDs = []string{"ddb.account-rcu", "ddb.account-wcu", "ddb.table-rcu", "ddb.table-wcu"}

// Account is the client's account and region.
type Account struct{ client Client }

// New returns the account of a client.
func New(client Client) Account { return Account{client} }

// Limits implements live.Service.
func (a Account) Limits(ctx context.Context) (map[string]audit.LiveLimit, error) {
	out, err := a.client.DescribeLimits(ctx, &dynamodb.DescribeLimitsInput{})
	if err != nil {
		return nil, err
	}
	limits := map[string]audit.LiveLimit{}
	for i, n := range []*int64{out.AccountMaxReadCapacityUnits, out.AccountMaxWriteCapacityUnits, out.TableMaxReadCapacityUnits, out.TableMaxWriteCapacityUnits} {
		if n != nil {
			limits[IDs[i]] = audit.LiveLimit{Max: float64(*n)}
		}
	}
	return limits, nil
}
