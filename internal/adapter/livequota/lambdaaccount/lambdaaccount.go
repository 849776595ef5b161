// Package lambdaaccount reads how much concurrency an account has in a region, and how much of it is reserved.
//
// Permission: lambda:GetAccountSettings.
package lambdaaccount

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"cellwall.dev/cellwall/internal/audit"
)

// Client is the part of *lambda.Client that is needed.
type Client interface {
	GetAccountSettings(context.Context, *lambda.GetAccountSettingsInput, ...func(*lambda.Options)) (*lambda.GetAccountSettingsOutput, error)
}

// IDs are the limits that an Account says.
var IDs = []string{"lambda.concurrency"}

// Account is the client's account and region.
type Account struct{ client Client }

// New returns the account of a client.
func New(client Client) Account { return Account{client} }

// Limits implements live.Service. What is used is what functions reserve.
func (a Account) Limits(ctx context.Context) (map[string]audit.LiveLimit, error) {
	out, err := a.client.GetAccountSettings(ctx, &lambda.GetAccountSettingsInput{})
	if err != nil {
		return nil, err
	}
	if out.AccountLimit == nil || out.AccountLimit.ConcurrentExecutions <= 0 {
		return nil, errors.New("the answer has no limit of concurrent executions")
	}
	l := out.AccountLimit
	limit := audit.LiveLimit{Max: float64(l.ConcurrentExecutions)}
	if l.UnreservedConcurrentExecutions != nil {
		reserved := max(int(l.ConcurrentExecutions-*l.UnreservedConcurrentExecutions), 0)
		limit.Used = &reserved
	}
	return map[string]audit.LiveLimit{"lambda.concurrency": limit}, nil
}
