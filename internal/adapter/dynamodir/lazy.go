package dynamodir

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// Lazy is a client that is made when something is first asked of it. make should remember what it made; its error is
// that of whatever is asked.
func Lazy(make func() (Client, error)) Client { return lazy(make) }

type lazy func() (Client, error)

// options are those of one request.
type options = []func(*dynamodb.Options)

// first makes the client and then asks it.
func first[In, Out any](l lazy, ask func(Client, context.Context, In, ...func(*dynamodb.Options)) (*Out, error), ctx context.Context, in In, o options) (*Out, error) {
	c, err := l()
	if err != nil {
		return nil, err
	}
	return ask(c, ctx, in, o...)
}

func (l lazy) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return first(l, Client.GetItem, ctx, in, o)
}

func (l lazy) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	return first(l, Client.BatchGetItem, ctx, in, o)
}

func (l lazy) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return first(l, Client.UpdateItem, ctx, in, o)
}

func (l lazy) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	return first(l, Client.TransactWriteItems, ctx, in, o)
}

func (l lazy) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return first(l, Client.Query, ctx, in, o)
}

func (l lazy) Scan(ctx context.Context, in *dynamodb.ScanInput, o ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	return first(l, Client.Scan, ctx, in, o)
}

func (l lazy) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, o ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	return first(l, Client.DescribeTable, ctx, in, o)
}
