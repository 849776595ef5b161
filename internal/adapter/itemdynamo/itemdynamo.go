// Package itemdynamo keeps items in a DynamoDB table whose keys are the strings pk and sk.
package itemdynamo

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Client is the part of *dynamodb.Client that is needed.
type Client interface {
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
}

// Table is one table.
type Table struct {
	client Client
	name   string
}

// New returns the table of that name or ARN.
func New(client Client, name string) *Table { return &Table{client, name} }

// value is the attribute that holds an item's bytes.
const value = "value"

// Put writes an item over an older one. DynamoDB answers when the item is durable in two zones. When ctx
// is over nothing is sent, no repetition either; what was sent before may still be written.
func (t *Table) Put(ctx context.Context, pk, sk string, body []byte) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("put item: %w", err)
	}
	item := key(pk, sk)
	item[value] = &types.AttributeValueMemberB{Value: body}
	if _, err := t.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &t.name, Item: item}); err != nil {
		return fmt.Errorf("put item: %w", err)
	}
	return nil
}

// Get reads an item, consistently: what Put acknowledged is there.
func (t *Table) Get(ctx context.Context, pk, sk string) (body []byte, found bool, err error) {
	out, err := t.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &t.name, Key: key(pk, sk), ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return nil, false, fmt.Errorf("get item: %w", err)
	}
	if len(out.Item) == 0 {
		return nil, false, nil
	}
	b, ok := out.Item[value].(*types.AttributeValueMemberB)
	if !ok {
		return nil, false, fmt.Errorf("get item: attribute %q is no binary value", value)
	}
	return b.Value, true, nil
}

// List returns the sort keys under pk, in byte order, consistently. It reads as many pages of 1 MB as
// there are.
func (t *Table) List(ctx context.Context, pk string) ([]string, error) {
	pages := dynamodb.NewQueryPaginator(t.client, &dynamodb.QueryInput{
		TableName: &t.name, ConsistentRead: aws.Bool(true),
		KeyConditionExpression:    aws.String("pk = :pk"),
		ProjectionExpression:      aws.String("sk"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":pk": &types.AttributeValueMemberS{Value: pk}},
	})
	var keys []string
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list items: %w", err)
		}
		for _, item := range page.Items {
			if sk, ok := item["sk"].(*types.AttributeValueMemberS); ok {
				keys = append(keys, sk.Value)
			}
		}
	}
	return keys, nil
}

func key(pk, sk string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		"pk": &types.AttributeValueMemberS{Value: pk},
		"sk": &types.AttributeValueMemberS{Value: sk},
	}
}
