package dynamodir

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// fake is a DynamoDB table as far as this package uses one. It reads the expressions that it is sent and
// fails the test at what it does not understand. The stream is fakeStream's.
type fake struct {
	t    *testing.T
	name string
	page int // items of a page, at most
	gets int // items of a BatchGetItem, at most

	mu     sync.Mutex
	items  map[directory.Key]item
	tokens map[string]bool // of transactions that were written
	stream *fakeStream
	fault  func(operation string, try int) fault
	calls  []string // operations, in order
	once   []bool   // for each write, whether the SDK was told not to repeat it
	strong []bool   // for each read by key, whether it was asked to be consistent
}

// fault is what goes wrong with a request.
type fault struct {
	before error // instead of the request
	after  error // instead of the answer, after the request was done
}

func newFake(t *testing.T) *fake {
	f := &fake{t: t, name: "orders-directory", page: 3, gets: 40, items: map[directory.Key]item{}, tokens: map[string]bool{}}
	f.stream = &fakeStream{t: t, shards: []*fakeShard{{id: "shard-1"}}}
	return f
}

func (f *fake) open(options ...Option) *Table {
	return New(f, f.name, append([]Option{WithStreams(f.stream)}, options...)...)
}

func keyOf(it item) directory.Key {
	d := decoder{item: it}
	return d.key()
}

// begin takes part in every request: it must be ended by the function that it returns.
func (f *fake) begin(ctx context.Context, operation string, table *string) (end func(error) error, err error) {
	f.mu.Lock()
	if aws.ToString(table) != f.name {
		f.t.Errorf("%s of table %q", operation, aws.ToString(table))
	}
	f.calls = append(f.calls, operation)
	var bad fault
	if f.fault != nil {
		bad = f.fault(operation, len(f.calls))
	}
	if err := cmp.Or(ctx.Err(), bad.before); err != nil {
		f.mu.Unlock()
		return nil, err
	}
	return func(err error) error {
		f.mu.Unlock()
		if bad.after != nil {
			return bad.after
		}
		return err
	}, nil
}

func (f *fake) GetItem(ctx context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	end, err := f.begin(ctx, "GetItem", in.TableName)
	if err != nil {
		return nil, err
	}
	f.strong = append(f.strong, aws.ToBool(in.ConsistentRead))
	return &dynamodb.GetItemOutput{Item: maps.Clone(f.items[keyOf(in.Key)])}, end(nil)
}

func (f *fake) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	end, err := f.begin(ctx, "BatchGetItem", &f.name)
	if err != nil {
		return nil, err
	}
	out := &dynamodb.BatchGetItemOutput{Responses: map[string][]item{}}
	ask := in.RequestItems[f.name]
	f.strong = append(f.strong, aws.ToBool(ask.ConsistentRead))
	if len(ask.Keys) == 0 || len(ask.Keys) > 100 {
		f.t.Errorf("a BatchGetItem of %d items", len(ask.Keys))
	}
	seen := map[directory.Key]bool{}
	for i, k := range ask.Keys {
		if seen[keyOf(k)] {
			f.t.Errorf("a BatchGetItem asks twice for %v", keyOf(k))
		}
		seen[keyOf(k)] = true
		if i == f.gets {
			ask.Keys = ask.Keys[i:]
			out.UnprocessedKeys = map[string]types.KeysAndAttributes{f.name: ask}
			break
		}
		if it, ok := f.items[keyOf(k)]; ok { // in no order
			out.Responses[f.name] = append([]item{maps.Clone(it)}, out.Responses[f.name]...)
		}
	}
	return out, end(nil)
}

// step is an update or a condition, alone or in a transaction.
type step struct {
	key               item
	condition, update *string
	names             map[string]string
	values            item
	returns           types.ReturnValuesOnConditionCheckFailure
}

// check is the item that stands, and whether the step's condition holds for it.
func (f *fake) check(s step) (current item, holds bool) {
	f.operators(*s.condition)
	current = f.items[keyOf(s.key)]
	return maps.Clone(current), satisfied(f.t, *s.condition, s.names, s.values, current)
}

func (f *fake) apply(s step) {
	if s.update == nil {
		return
	}
	f.operators(*s.update)
	k := keyOf(s.key)
	before, now := f.items[k], maps.Clone(s.key)
	maps.Copy(now, f.items[k])
	update(f.t, *s.update, s.names, s.values, now)
	size := 0
	for name, v := range now {
		size += len(name)
		if s, ok := v.(*types.AttributeValueMemberS); ok {
			size += len(s.Value)
		}
	}
	if size > 400<<10 {
		f.t.Errorf("an item of %d bytes", size)
	}
	f.items[k] = now
	f.stream.add(before, now)
}

// operators holds an expression to DynamoDB's limits: 4 KB, 300 operators and functions.
func (f *fake) operators(expression string) {
	n := strings.Count(expression, " AND ") + strings.Count(expression, " OR ") + // BETWEEN has an AND of its own
		strings.Count(expression, "attribute_") + strings.Count(expression, " = ")
	if len(expression) > 4096 || n > 300 {
		f.t.Errorf("an expression of %d bytes with %d operators", len(expression), n)
	}
}

// noteOnce looks at the options of a write.
func (f *fake) noteOnce(options []func(*dynamodb.Options)) {
	var o dynamodb.Options
	for _, set := range options {
		set(&o)
	}
	f.once = append(f.once, o.Retryer != nil && o.Retryer.MaxAttempts() == 1)
}

func (f *fake) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, options ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	end, err := f.begin(ctx, "UpdateItem", in.TableName)
	if err != nil {
		return nil, err
	}
	f.noteOnce(options)
	s := step{in.Key, in.ConditionExpression, in.UpdateExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.ReturnValuesOnConditionCheckFailure}
	current, holds := f.check(s)
	if !holds {
		failed := &types.ConditionalCheckFailedException{Message: aws.String("The conditional request failed")}
		if s.returns == types.ReturnValuesOnConditionCheckFailureAllOld {
			failed.Item = current
		}
		return nil, end(failed)
	}
	f.apply(s)
	return &dynamodb.UpdateItemOutput{}, end(nil)
}

func (f *fake) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, options ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	end, err := f.begin(ctx, "TransactWriteItems", &f.name)
	if err != nil {
		return nil, err
	}
	f.noteOnce(options)
	token := aws.ToString(in.ClientRequestToken)
	if token == "" || len(token) > 36 || len(in.TransactItems) > 100 {
		f.t.Errorf("a transaction of %d items with token %q", len(in.TransactItems), token)
	}
	if f.tokens[token] {
		return &dynamodb.TransactWriteItemsOutput{}, end(nil)
	}
	var steps []step
	var reasons []types.CancellationReason
	cancelled := false
	for _, w := range in.TransactItems {
		var s step
		if c := w.ConditionCheck; c != nil {
			s = step{c.Key, c.ConditionExpression, nil, c.ExpressionAttributeNames, c.ExpressionAttributeValues, c.ReturnValuesOnConditionCheckFailure}
		} else {
			u := w.Update
			s = step{u.Key, u.ConditionExpression, u.UpdateExpression, u.ExpressionAttributeNames, u.ExpressionAttributeValues, u.ReturnValuesOnConditionCheckFailure}
		}
		steps = append(steps, s)
		reason := types.CancellationReason{Code: aws.String("None")}
		if current, holds := f.check(s); !holds {
			cancelled = true
			reason.Code = aws.String("ConditionalCheckFailed")
			if s.returns == types.ReturnValuesOnConditionCheckFailureAllOld {
				reason.Item = current
			}
		}
		reasons = append(reasons, reason)
	}
	if cancelled {
		return nil, end(&types.TransactionCanceledException{CancellationReasons: reasons})
	}
	for _, s := range steps {
		f.apply(s)
	}
	f.tokens[token] = true
	return &dynamodb.TransactWriteItemsOutput{}, end(nil)
}

// pageOf is one page of what comes after start, of items in the order of less, by number and filter. Its
// end and its start name an item by the table's keys and, in an index, by that one's, and by no others.
func (f *fake) pageOf(all []item, index *string, less func(a, b item) int, start item, limit *int32, match func(item) bool) (page []item, last item) {
	keys := []string{names.PartitionKey, names.SortKey}
	for _, i := range indexes {
		if i.name == aws.ToString(index) {
			keys = append(keys, i.attr)
		}
	}
	for _, k := range keys {
		if _, ok := start[k]; start != nil && (!ok || len(start) != len(keys)) {
			f.t.Errorf("a page that starts after %v; want attributes %q", start, keys)
		}
	}
	slices.SortFunc(all, less)
	seen := 0
	for _, it := range all {
		if start != nil && less(it, start) <= 0 {
			continue
		}
		if seen == min(f.page, int(aws.ToInt32(limit))) {
			return page, last
		}
		seen++
		last = itemKey(keyOf(it))
		for _, k := range keys {
			last[k] = it[k]
		}
		if match(it) {
			page = append(page, maps.Clone(it))
		}
	}
	return page, nil
}

func (f *fake) Query(ctx context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	end, err := f.begin(ctx, "Query", in.TableName)
	if err != nil {
		return nil, err
	}
	if index := in.IndexName != nil; index == aws.ToBool(in.ConsistentRead) {
		f.t.Errorf("a query of an index (%t) that is consistent, or one of the table that is not", index)
	}
	var all []item
	for _, it := range f.items {
		if satisfied(f.t, *in.KeyConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues, it) {
			all = append(all, it)
		}
	}
	if condition := *in.KeyConditionExpression; in.IndexName != nil {
		for ref, name := range in.ExpressionAttributeNames {
			if name == names.SortKey && strings.Contains(condition, ref) {
				f.t.Errorf("%q is about %s, which is no key of the index", condition, name)
			}
		}
	}
	// An index is in the order of its sort key, which is the table's partition key, and within that, where
	// DynamoDB promises nothing, in one that nobody relies on.
	less := func(a, b item) int {
		x, y := keyOf(a), keyOf(b)
		return cmp.Or(cmp.Compare(x.Part, y.Part), cmp.Compare(reversed(x.Sort), reversed(y.Sort)))
	}
	if in.IndexName == nil {
		less = func(a, b item) int { return cmp.Compare(keyOf(a).Sort, keyOf(b).Sort) }
	}
	out := &dynamodb.QueryOutput{}
	out.Items, out.LastEvaluatedKey = f.pageOf(all, in.IndexName, less, in.ExclusiveStartKey, in.Limit, func(item) bool { return true })
	return out, end(nil)
}

// Scan goes through the items in the order of their reversed parts, so that nobody relies on another.
func (f *fake) Scan(ctx context.Context, in *dynamodb.ScanInput, _ ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	end, err := f.begin(ctx, "Scan", in.TableName)
	if err != nil {
		return nil, err
	}
	if !aws.ToBool(in.ConsistentRead) {
		f.t.Error("a scan that may be stale")
	}
	less := func(a, b item) int {
		x, y := keyOf(a), keyOf(b)
		return cmp.Or(cmp.Compare(reversed(x.Part), reversed(y.Part)), cmp.Compare(x.Sort, y.Sort))
	}
	out := &dynamodb.ScanOutput{}
	out.Items, out.LastEvaluatedKey = f.pageOf(slices.Collect(maps.Values(f.items)), nil, less, in.ExclusiveStartKey, in.Limit, func(it item) bool {
		return satisfied(f.t, *in.FilterExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues, it)
	})
	return out, end(nil)
}

func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

func (f *fake) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	end, err := f.begin(ctx, "DescribeTable", in.TableName)
	if err != nil {
		return nil, err
	}
	return &dynamodb.DescribeTableOutput{Table: &types.TableDescription{LatestStreamArn: aws.String("stream")}}, end(nil)
}
