// Package itemdynamo keeps the tenants' state, and reads whom a shard holds, in DynamoDB tables whose keys
// are the strings pk and sk.
//
// A write costs a transaction: twice the write units of its items, and two for the condition. An idempotency record
// is one of the items, of the answer's size, and looking for it first is a consistent read. DynamoDB
// lets two transactions at a time on one item wait for each other by refusing one of them, so that the
// writes of one tenant on one shard take effect one after the other; what was refused for that alone is
// tried again.
package itemdynamo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// Client is the part of *dynamodb.Client that is needed.
type Client interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

// Tables says where one shard has what. All are of one account and region, as a transaction wants it.
type Tables struct {
	State string // name or ARN of the table with the tenants' state: the cell's store, or the shard's own
	Own   string // name or ARN of the shard's own table, which has whom it holds; "" when it has none
	Shard string // the shard's id; without a table of its own, State has whom it holds under this name
}

// Store is the state of the tenants as one shard sees it.
type Store struct {
	client Client
	t      Tables
	holds  string // table
}

var _ shardkit.Items = (*Store)(nil)

// New returns the store of a shard.
func New(client Client, t Tables) (*Store, error) {
	switch {
	case t.State == "":
		return nil, errors.New("no table for the tenants' state is named")
	case t.Own == "" && t.Shard == "":
		return nil, errors.New("a shard without a table of its own needs its id, under which its cell's store has whom it holds")
	case t.Own != "":
		return &Store{client, t, t.Own}, nil
	}
	return &Store{client, t, t.State}, nil
}

// Attributes of an item beside its key.
const (
	value   = "value"       // binary: its bytes
	expires = names.Expires // number: Unix time in seconds from which on it is gone; absent when it stays
)

// over says whether an item has expired. DynamoDB deletes it some time after, within a few days, where the
// table's time to live is the attribute (Developer Guide, "Using time to live (TTL) in DynamoDB").
func over(item map[string]types.AttributeValue) bool {
	n, ok := item[expires].(*types.AttributeValueMemberN)
	if !ok {
		return false
	}
	at, err := strconv.ParseInt(n.Value, 10, 64)
	return err == nil && at <= time.Now().Unix()
}

// Held implements shardkit.Items.
func (s *Store) Held(ctx context.Context, tenant string) (epoch uint64, held bool, err error) {
	item, err := s.get(ctx, s.holds, s.holding(tenant))
	if err == nil && len(item) > 0 && item[directory.HoldingGone] == nil {
		held = true
		number, _ := item[directory.HoldingEpoch].(*types.AttributeValueMemberN)
		if number == nil {
			err = fmt.Errorf("attribute %q is no number", directory.HoldingEpoch)
		} else {
			epoch, err = strconv.ParseUint(number.Value, 10, 64)
		}
	}
	if err != nil {
		return 0, false, fmt.Errorf("ask whether the tenant is held: %w", err)
	}
	return epoch, held, nil
}

// Get implements shardkit.Items.
func (s *Store) Get(ctx context.Context, tenant, sk string) (body []byte, found bool, err error) {
	item, err := s.get(ctx, s.t.State, key(directory.TenantPartition(tenant), sk))
	if err != nil {
		return nil, false, fmt.Errorf("get item: %w", err)
	}
	if len(item) == 0 || over(item) {
		return nil, false, nil
	}
	b, ok := item[value].(*types.AttributeValueMemberB)
	if !ok {
		return nil, false, fmt.Errorf("get item: attribute %q is no binary value", value)
	}
	return b.Value, true, nil
}

func (s *Store) get(ctx context.Context, table string, k map[string]types.AttributeValue) (map[string]types.AttributeValue, error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &table, Key: k, ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, err
	}
	return out.Item, nil
}

// List implements shardkit.Items. It reads as many pages of 1 MB as there are.
func (s *Store) List(ctx context.Context, tenant, prefix string) ([]string, error) {
	in := &dynamodb.QueryInput{
		TableName: &s.t.State, ConsistentRead: aws.Bool(true),
		KeyConditionExpression:   aws.String("pk = :pk"),
		ProjectionExpression:     aws.String("sk, #expires"),
		ExpressionAttributeNames: map[string]string{"#expires": expires},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":pk": &types.AttributeValueMemberS{Value: directory.TenantPartition(tenant)},
		},
	}
	if prefix != "" {
		in.KeyConditionExpression = aws.String("pk = :pk AND begins_with(sk, :prefix)")
		in.ExpressionAttributeValues[":prefix"] = &types.AttributeValueMemberS{Value: prefix}
	}
	var keys []string
	for pages := dynamodb.NewQueryPaginator(s.client, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list items: %w", err)
		}
		for _, item := range page.Items {
			if sk, ok := item["sk"].(*types.AttributeValueMemberS); ok && !strings.HasPrefix(sk.Value, shardkit.Reserved) && !over(item) {
				keys = append(keys, sk.Value)
			}
		}
	}
	return keys, nil
}

// A transaction that DynamoDB was too busy for is offered again, with waits that double from firstWait
// and are shortened at random: about five seconds in all.
const (
	attempts  = 10
	firstWait = 10 * time.Millisecond
)

// Write implements shardkit.Items. DynamoDB answers when the items are durable in two zones. When ctx is
// over nothing is sent, no repetition either; what was sent before may still be written.
func (s *Store) Write(ctx context.Context, tenant string, epoch uint64, writes ...shardkit.Write) error {
	if err := shardkit.Check(writes...); err != nil {
		return err
	}
	in := &dynamodb.TransactWriteItemsInput{TransactItems: s.transaction(tenant, epoch, writes)}
	wait := firstWait
	for try := 1; ; try++ {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("write items: %w", err)
		}
		// The SDK gives each call its own token, under which its own repetitions count once.
		_, err := s.client.TransactWriteItems(ctx, in)
		switch {
		case err == nil:
			return nil
		case failed(err, 0, 1):
			return fmt.Errorf("write items: %w", shardkit.ErrNotHeld)
		case failed(err, 1, len(in.TransactItems)):
			return fmt.Errorf("write items: %w", shardkit.ErrChanged)
		case try == attempts || !busy(err):
			return fmt.Errorf("write items: %w", err)
		}
		timer := time.NewTimer(rand.N(wait) + 1)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("write items: %w", ctx.Err())
		case <-timer.C:
		}
		wait *= 2
	}
}

// transaction is the condition on the holding, which stands first, then the writes. What is left of a holding that is over has no
// epoch, so that the condition does not hold.
func (s *Store) transaction(tenant string, epoch uint64, writes []shardkit.Write) []types.TransactWriteItem {
	items := []types.TransactWriteItem{{ConditionCheck: &types.ConditionCheck{
		TableName: &s.holds, Key: s.holding(tenant),
		ConditionExpression:      aws.String("attribute_exists(pk) AND #epoch <= :epoch"),
		ExpressionAttributeNames: map[string]string{"#epoch": directory.HoldingEpoch},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":epoch": &types.AttributeValueMemberN{Value: strconv.FormatUint(epoch, 10)},
		},
	}}}
	now := time.Now().Unix()
	for _, w := range writes {
		item := key(directory.TenantPartition(tenant), w.Key)
		when := conditionOf(w, now)
		if w.Delete {
			items = append(items, types.TransactWriteItem{Delete: &types.Delete{
				TableName: &s.t.State, Key: item, ConditionExpression: when.expression,
				ExpressionAttributeNames: when.names, ExpressionAttributeValues: when.values,
			}})
			continue
		}
		item[value] = binary(w.Value)
		if w.Expires > 0 {
			item[expires] = unix(w.Expires)
		}
		items = append(items, types.TransactWriteItem{Put: &types.Put{
			TableName: &s.t.State, Item: item, ConditionExpression: when.expression,
			ExpressionAttributeNames: when.names, ExpressionAttributeValues: when.values,
		}})
	}
	return items
}

// condition is what a write depends on; all nil for nothing.
type condition struct {
	expression *string
	names      map[string]string
	values     map[string]types.AttributeValue
}

func conditionOf(w shardkit.Write, now int64) condition {
	switch {
	case w.Absent:
		return condition{
			aws.String("attribute_not_exists(pk) OR #expires <= :now"),
			map[string]string{"#expires": expires},
			map[string]types.AttributeValue{":now": unix(now)},
		}
	case w.Was != nil:
		return condition{
			aws.String("#value = :was AND (attribute_not_exists(#expires) OR #expires > :now)"),
			map[string]string{"#expires": expires, "#value": value},
			map[string]types.AttributeValue{":now": unix(now), ":was": binary(w.Was)},
		}
	}
	return condition{}
}

func unix(at int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(at, 10)}
}

func binary(b []byte) types.AttributeValue {
	if b == nil {
		b = []byte{} // nil is no value at all to DynamoDB
	}
	return &types.AttributeValueMemberB{Value: b}
}

// failed says whether the condition of one of a transaction's items failed, from the first to before the last.
func failed(err error, first, last int) bool {
	cancelled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok {
		return false
	}
	for i, reason := range cancelled.CancellationReasons {
		if i >= first && i < last && aws.ToString(reason.Code) == "ConditionalCheckFailed" {
			return true
		}
	}
	return false
}

// busy says whether a transaction was cancelled for nothing but what else went on.
func busy(err error) bool {
	cancelled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok {
		return false
	}
	found := false
	for _, reason := range cancelled.CancellationReasons {
		switch aws.ToString(reason.Code) {
		case "", "None":
		case "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded":
			found = true
		default:
			return false
		}
	}
	return found
}

func (s *Store) holding(tenant string) map[string]types.AttributeValue {
	k := directory.HoldingKey(tenant)
	if s.t.Own == "" {
		k = directory.SharedHoldingKey(tenant, s.t.Shard)
	}
	return key(k.Part, k.Sort)
}

func key(pk, sk string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		"pk": &types.AttributeValueMemberS{Value: pk},
		"sk": &types.AttributeValueMemberS{Value: sk},
	}
}
