package dynamo

import (
	"context"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"cellwall.dev/cellwall/internal/fleet/names"
)

// meter notes what an SDK client asks for: each request, repetitions too; and, by DynamoDB's rules, what
// reads consume. What writes consume depends on what stood before: usage works it out afterwards.
type meter struct {
	mu sync.Mutex
	usage
}

// usage is what was asked for.
type usage struct {
	requests []string
	read     float64  // units
	written  []string // items, of the transactions and single writes
	single   bool     // a write that is no transaction is among them
	told     float64  // units that the emulator says were consumed
}

func (m *meter) config(to *aws.Config) {
	to.APIOptions = append(to.APIOptions, func(s *middleware.Stack) error {
		request := middleware.FinalizeMiddlewareFunc("request", func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
			m.mu.Lock()
			m.requests = append(m.requests, awsmiddleware.GetOperationName(ctx))
			m.mu.Unlock()
			return next.HandleFinalize(ctx, in)
		})
		call := middleware.InitializeMiddlewareFunc("call", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			askConsumed(in.Parameters)
			out, metadata, err := next.HandleInitialize(ctx, in)
			m.mu.Lock()
			defer m.mu.Unlock()
			m.note(in.Parameters, out.Result)
			return out, metadata, err
		})
		if err := s.Initialize.Add(call, middleware.Before); err != nil {
			return err
		}
		return s.Finalize.Insert(request, "Retry", middleware.After)
	})
}

func (u *usage) note(in, out any) {
	var told []types.ConsumedCapacity
	switch out := out.(type) {
	case *dynamodb.GetItemOutput:
		u.reads(in.(*dynamodb.GetItemInput).ConsistentRead, out.Item)
		told = consumed(out.ConsumedCapacity)
	case *dynamodb.BatchGetItemOutput: // each item is rounded up by itself, also one that is not there
		for table, ask := range in.(*dynamodb.BatchGetItemInput).RequestItems {
			found := out.Responses[table]
			for i := range ask.Keys {
				u.reads(ask.ConsistentRead, found[min(i, len(found)):min(i+1, len(found))]...)
			}
		}
		told = out.ConsumedCapacity
	case *dynamodb.QueryOutput:
		u.reads(in.(*dynamodb.QueryInput).ConsistentRead, out.Items...)
		told = consumed(out.ConsumedCapacity)
	case *dynamodb.UpdateItemOutput:
		told = consumed(out.ConsumedCapacity)
	case *dynamodb.TransactWriteItemsOutput:
		told = out.ConsumedCapacity
	}
	for _, c := range told {
		u.told += aws.ToFloat64(c.CapacityUnits)
	}
	switch in := in.(type) {
	case *dynamodb.UpdateItemInput:
		u.written, u.single = append(u.written, *in.TableName+key(in.Key)), true
	case *dynamodb.TransactWriteItemsInput:
		for _, w := range in.TransactItems {
			switch {
			case w.Update != nil:
				u.written = append(u.written, *w.Update.TableName+key(w.Update.Key))
			case w.Put != nil:
				u.written = append(u.written, *w.Put.TableName+key(w.Put.Item))
			case w.Delete != nil:
				u.written = append(u.written, *w.Delete.TableName+key(w.Delete.Key))
			default:
				u.written = append(u.written, *w.ConditionCheck.TableName+key(w.ConditionCheck.Key))
			}
		}
	}
}

func consumed(c *types.ConsumedCapacity) []types.ConsumedCapacity {
	if c == nil {
		return nil
	}
	return []types.ConsumedCapacity{*c}
}

// askConsumed has the answer tell what the request consumed.
func askConsumed(in any) {
	const total = types.ReturnConsumedCapacityTotal
	switch in := in.(type) {
	case *dynamodb.GetItemInput:
		in.ReturnConsumedCapacity = total
	case *dynamodb.BatchGetItemInput:
		in.ReturnConsumedCapacity = total
	case *dynamodb.QueryInput:
		in.ReturnConsumedCapacity = total
	case *dynamodb.UpdateItemInput:
		in.ReturnConsumedCapacity = total
	case *dynamodb.TransactWriteItemsInput:
		in.ReturnConsumedCapacity = total
	}
}

// reads adds the units of one request: all its items together, rounded up.
func (u *usage) reads(consistent *bool, read ...item) {
	sum := 0
	for _, it := range read {
		sum += size(it)
	}
	n := float64(units(sum, 4096))
	if !aws.ToBool(consistent) {
		n /= 2
	}
	u.read += n
}

// writes is what was consumed of tables and indexes, from what stood before and stands now. An item that
// does not exist, neither before nor now, costs a unit.
func (u *usage) writes(old, now map[string]item) (table, index int) {
	per := 2
	if u.single {
		per = 1
	}
	for _, at := range u.written {
		table += per * units(max(size(old[at]), size(now[at])), 1024)
		index += indexUnits(old[at], now[at])
		old[at] = now[at]
	}
	return table, index
}

func (m *meter) take() usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.usage
	m.usage = usage{}
	return u
}

type item = map[string]types.AttributeValue

func key(it item) string {
	return it[names.PartitionKey].(*types.AttributeValueMemberS).Value + "\x00" + it[names.SortKey].(*types.AttributeValueMemberS).Value
}

// items is all that stands, by table, partition and sort key.
func items(t *testing.T, client *dynamodb.Client, tables ...string) map[string]item {
	t.Helper()
	all := map[string]item{}
	for _, table := range tables {
		out, err := client.Scan(t.Context(), &dynamodb.ScanInput{TableName: &table})
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range out.Items {
			all[table+key(it)] = it
		}
	}
	return all
}

// size is an item's by DynamoDB's rules: names and texts in bytes of UTF-8, numbers a byte for each two
// digits and one more.
func size(it item) int {
	n := 0
	for name, v := range it {
		n += len(name)
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			n += len(v.Value)
		case *types.AttributeValueMemberN:
			n += (len(v.Value)+1)/2 + 1
		}
	}
	return n
}

func units(size, unit int) int { return max(1, (size+unit-1)/unit) }

func indexUnits(old, now item) int {
	n := 0
	for _, attr := range []string{names.FirstIndexKey, names.SecondIndexKey} {
		was, is := value(old, attr), value(now, attr)
		switch {
		case was != "" && is != "" && was != is:
			n += units(size(old), 1024) + units(size(now), 1024)
		case was != "" || is != "":
			n += units(max(size(old), size(now)), 1024)
		}
	}
	return n
}

func value(it item, attr string) string {
	if s, ok := it[attr].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}
