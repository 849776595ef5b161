package itemdynamo

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// tables is DynamoDB as far as the package uses it: consistent reads, queries in pages of two, and
// transactions, of which every fifth is refused for another one.
type tables struct {
	t     *testing.T
	mu    sync.Mutex
	items map[place]item
	calls int     // of TransactWriteItems
	fail  []error // what the next ones return
	down  error   // what reads return
}

type place struct{ table, pk, sk string }

type item = map[string]types.AttributeValue

func newTables(t *testing.T) *tables { return &tables{t: t, items: map[place]item{}} }

func text(v types.AttributeValue) string { return v.(*types.AttributeValueMemberS).Value }

func at(table *string, key item) place {
	return place{aws.ToString(table), text(key["pk"]), text(key["sk"])}
}

func number(v types.AttributeValue) (uint64, bool) {
	n, ok := v.(*types.AttributeValueMemberN)
	if !ok {
		return 0, false
	}
	u, err := strconv.ParseUint(n.Value, 10, 64)
	return u, err == nil
}

// hold and release do what package dynamohold does to the item that a shard's writes are conditioned on.
func (f *tables) hold(p place, epoch uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	since, held := number(f.items[p]["epoch"])
	left, gone := number(f.items[p]["gone"])
	if held && since >= epoch || gone && left >= epoch {
		return
	}
	f.put(p, "epoch", epoch)
}

func (f *tables) release(p place, epoch uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	since, held := number(f.items[p]["epoch"])
	left, gone := number(f.items[p]["gone"])
	if held && since > epoch || gone && left >= epoch {
		return
	}
	f.put(p, "gone", epoch)
}

func (f *tables) put(p place, attribute string, epoch uint64) {
	f.items[p] = item{
		"pk": &types.AttributeValueMemberS{Value: p.pk}, "sk": &types.AttributeValueMemberS{Value: p.sk},
		attribute: &types.AttributeValueMemberN{Value: strconv.FormatUint(epoch, 10)},
	}
}

func (f *tables) GetItem(_ context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !aws.ToBool(in.ConsistentRead) {
		f.t.Error("a read that may be stale")
	}
	out := maps.Clone(f.items[at(in.TableName, in.Key)])
	if b, ok := out["value"].(*types.AttributeValueMemberB); ok {
		out["value"] = &types.AttributeValueMemberB{Value: bytes.Clone(b.Value)} // what is read is the reader's
	}
	return &dynamodb.GetItemOutput{Item: out}, f.down
}

func (f *tables) Query(_ context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down != nil {
		return nil, f.down
	}
	if !aws.ToBool(in.ConsistentRead) {
		f.t.Error("a query that may be stale")
	}
	prefix, after := "", ""
	switch aws.ToString(in.KeyConditionExpression) {
	case "pk = :pk":
	case "pk = :pk AND begins_with(sk, :prefix)":
		prefix = text(in.ExpressionAttributeValues[":prefix"])
	default:
		f.t.Errorf("query %q", aws.ToString(in.KeyConditionExpression))
	}
	if in.ExclusiveStartKey != nil {
		after = text(in.ExclusiveStartKey["sk"])
	}
	var found []place
	for p := range f.items {
		if p.table == aws.ToString(in.TableName) && p.pk == text(in.ExpressionAttributeValues[":pk"]) && strings.HasPrefix(p.sk, prefix) && p.sk > after {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b place) int { return cmp.Compare(a.sk, b.sk) })
	out := &dynamodb.QueryOutput{}
	for _, p := range found[:min(2, len(found))] {
		listed := item{"sk": &types.AttributeValueMemberS{Value: p.sk}}
		if ends := f.items[p]["expires"]; ends != nil {
			listed["expires"] = ends
		}
		out.Items = append(out.Items, listed)
	}
	if len(found) > 2 {
		out.LastEvaluatedKey = item{"pk": &types.AttributeValueMemberS{Value: found[1].pk}, "sk": &types.AttributeValueMemberS{Value: found[1].sk}}
	}
	return out, nil
}

func (f *tables) TransactWriteItems(_ context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if len(f.fail) > 0 {
		err := f.fail[0]
		f.fail = f.fail[1:]
		return nil, err
	}
	reasons := make([]types.CancellationReason, len(in.TransactItems))
	cancelled, named := false, map[place]bool{}
	cancel := func(i int, code string) {
		reasons[i].Code, cancelled = aws.String(code), true
	}
	for i, w := range in.TransactItems {
		reasons[i].Code = aws.String("None")
		var p place
		switch {
		case w.ConditionCheck != nil:
			p = at(w.ConditionCheck.TableName, w.ConditionCheck.Key)
			if !f.holds(w.ConditionCheck, p) {
				cancel(i, "ConditionalCheckFailed")
			}
		case w.Put != nil:
			p = at(w.Put.TableName, w.Put.Item)
			if w.Put.Item["value"].(*types.AttributeValueMemberB).Value == nil {
				cancel(i, "ValidationError")
			} else if !f.is(p, w.Put.ConditionExpression, w.Put.ExpressionAttributeNames, w.Put.ExpressionAttributeValues) {
				cancel(i, "ConditionalCheckFailed")
			}
		case w.Delete != nil:
			p = at(w.Delete.TableName, w.Delete.Key)
			if !f.is(p, w.Delete.ConditionExpression, w.Delete.ExpressionAttributeNames, w.Delete.ExpressionAttributeValues) {
				cancel(i, "ConditionalCheckFailed")
			}
		}
		if named[p] {
			f.t.Errorf("a transaction names %v twice", p)
		}
		named[p] = true
	}
	if !cancelled && f.calls%5 == 0 {
		cancel(0, "TransactionConflict")
	}
	if cancelled {
		return nil, &types.TransactionCanceledException{CancellationReasons: reasons}
	}
	for _, w := range in.TransactItems {
		switch {
		case w.Put != nil:
			put := maps.Clone(w.Put.Item)
			put["value"] = &types.AttributeValueMemberB{Value: bytes.Clone(put["value"].(*types.AttributeValueMemberB).Value)}
			f.items[at(w.Put.TableName, put)] = put
		case w.Delete != nil:
			delete(f.items, at(w.Delete.TableName, w.Delete.Key))
		}
	}
	return &dynamodb.TransactWriteItemsOutput{}, nil
}

// is evaluates the two conditions of writes.
func (f *tables) is(p place, expression *string, names map[string]string, values item) bool {
	there := f.items[p]
	now, _ := number(values[":now"])
	ends, expires := number(there["expires"])
	switch aws.ToString(expression) {
	case "":
		return true
	case "attribute_not_exists(pk) OR #expires <= :now":
		if names["#expires"] == "expires" {
			return there == nil || expires && ends <= now
		}
	case "#value = :was AND (attribute_not_exists(#expires) OR #expires > :now)":
		if names["#expires"] == "expires" && names["#value"] == "value" {
			is, ok := there["value"].(*types.AttributeValueMemberB)
			return ok && bytes.Equal(is.Value, values[":was"].(*types.AttributeValueMemberB).Value) && (!expires || ends > now)
		}
	}
	f.t.Errorf("condition %q, names %v", aws.ToString(expression), names)
	return false
}

// holds evaluates the one condition that is used.
func (f *tables) holds(c *types.ConditionCheck, p place) bool {
	if aws.ToString(c.ConditionExpression) != "attribute_exists(pk) AND #epoch <= :epoch" || c.ExpressionAttributeNames["#epoch"] != "epoch" {
		f.t.Errorf("condition %q, names %v", aws.ToString(c.ConditionExpression), c.ExpressionAttributeNames)
	}
	since, ok := number(f.items[p]["epoch"])
	limit, valid := number(c.ExpressionAttributeValues[":epoch"])
	return ok && valid && since <= limit
}
