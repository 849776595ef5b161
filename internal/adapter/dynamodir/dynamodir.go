// Package dynamodir keeps the tenant directory in a DynamoDB table, one item for each tenant, with the
// string keys
//
//	pk  TENANT#<id>
//	sk  ENTRY
//
// The table may hold other items; they are left alone.
//
// Cost: a read is one consistent GetItem, a change one conditional PutItem. A repeated write and a lost
// race are told from one another by the item that the failed condition returns, without another read.
// List scans the table: a whole listing reads all of it once, whatever the size of its pages.
package dynamodir

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"cellwall.dev/cellwall/internal/directory"
)

// Client is the part of *dynamodb.Client that is needed.
type Client interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
}

// How a router reads: a first try that hangs leaves time for a second within the second that a look-up
// may take.
const (
	connectTimeout = 400 * time.Millisecond // a round trip half around the world takes 300 ms
	readTimeout    = 500 * time.Millisecond // for all of one try, its connection included
	readTries      = 3
	readPause      = 50 * time.Millisecond // at most, between two tries
)

// ForRequests makes a client fit for use while somebody waits: a try ends early, and the next follows at once.
func ForRequests(o *dynamodb.Options) {
	o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(readTimeout).
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = connectTimeout })
	o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) { r.MaxAttempts, r.MaxBackoff = readTries, readPause })
}

// Store is a directory.Store.
type Store struct {
	client Client
	table  string
}

// New returns the directory in a table, given by name or, when it is another account's, by ARN.
func New(client Client, table string) *Store { return &Store{client, table} }

// Get implements directory.Store.
func (s *Store) Get(ctx context.Context, tenant string) (directory.Entry, error) {
	if !directory.ValidTenant(tenant) {
		// DynamoDB would refuse some of these and mend others.
		return directory.Entry{}, fmt.Errorf("tenant %q: %w", tenant, directory.ErrNotFound)
	}
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &s.table, Key: key(tenant), ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return directory.Entry{}, fmt.Errorf("tenant %q: read the directory: %w", tenant, err)
	}
	if len(out.Item) == 0 {
		return directory.Entry{}, fmt.Errorf("tenant %q: %w", tenant, directory.ErrNotFound)
	}
	return decode(out.Item)
}

// Create implements directory.Store.
func (s *Store) Create(ctx context.Context, e directory.Entry) (directory.Entry, error) {
	after, _, err := directory.Created(nil, e)
	if err != nil {
		return directory.Entry{}, err
	}
	return s.put(ctx, &dynamodb.PutItemInput{
		ConditionExpression: aws.String("attribute_not_exists(pk)"),
	}, after, func(current *directory.Entry) (directory.Entry, bool, error) { return directory.Created(current, e) })
}

// CompareAndSet implements directory.Store.
func (s *Store) CompareAndSet(ctx context.Context, expect uint64, e directory.Entry) (directory.Entry, error) {
	// What is to be written, were the epoch as expected; DynamoDB decides whether it is.
	after, _, err := directory.Replaced(&directory.Entry{Epoch: expect}, expect, e)
	if err != nil {
		return directory.Entry{}, err
	}
	return s.put(ctx, &dynamodb.PutItemInput{
		ConditionExpression:      aws.String("#epoch = :expect"),
		ExpressionAttributeNames: map[string]string{"#epoch": "epoch"},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":expect": &types.AttributeValueMemberN{Value: strconv.FormatUint(expect, 10)},
		},
	}, after, func(current *directory.Entry) (directory.Entry, bool, error) {
		return directory.Replaced(current, expect, e)
	})
}

// put writes the entry under a condition. When the condition fails, judge tells from the item that stands
// whether this operation wrote it earlier: the SDK repeats a request whose answer was lost, and the
// repetition finds its own success in the way.
func (s *Store) put(ctx context.Context, in *dynamodb.PutItemInput, after directory.Entry,
	judge func(*directory.Entry) (directory.Entry, bool, error)) (directory.Entry, error) {
	in.TableName, in.Item = &s.table, encode(after)
	in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	_, err := s.client.PutItem(ctx, in)
	if err == nil {
		return after, nil
	}
	var failed *types.ConditionalCheckFailedException
	if !errors.As(err, &failed) {
		return directory.Entry{}, fmt.Errorf("tenant %q: write the directory: %w", after.Tenant, err)
	}
	var current *directory.Entry
	if len(failed.Item) > 0 {
		e, err := decode(failed.Item)
		if err != nil {
			return directory.Entry{}, err
		}
		current = &e
	}
	e, write, err := judge(current)
	if err == nil && write {
		return directory.Entry{}, fmt.Errorf("tenant %q: DynamoDB refused a write whose condition holds", after.Tenant)
	}
	return e, err
}

// List implements directory.Store. Its order is the table's, by a hash.
func (s *Store) List(ctx context.Context, after string, limit int) ([]directory.Entry, error) {
	if limit < 1 {
		return nil, fmt.Errorf("list the directory: limit %d: want at least 1", limit)
	}
	in := &dynamodb.ScanInput{
		TableName: &s.table, ConsistentRead: aws.Bool(true), Limit: aws.Int32(int32(min(limit, 1000))),
		FilterExpression:          aws.String("sk = :entry"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":entry": &types.AttributeValueMemberS{Value: entrySK}},
	}
	if after != "" {
		in.ExclusiveStartKey = key(after)
	}
	var entries []directory.Entry
	for {
		page, err := s.client.Scan(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("list the directory: %w", err)
		}
		for _, item := range page.Items {
			e, err := decode(item)
			if err != nil {
				return nil, err
			}
			if entries = append(entries, e); len(entries) == limit {
				return entries, nil
			}
		}
		if len(page.LastEvaluatedKey) == 0 {
			return entries, nil
		}
		in.ExclusiveStartKey = page.LastEvaluatedKey
	}
}
