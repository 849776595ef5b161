package itemdynamo

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
)

// table is one partition of a DynamoDB table, which answers a query in pages of two.
type table struct {
	t     *testing.T
	items map[string][]byte
	order []string
	err   error
}

func (f *table) PutItem(_ context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	if f.err != nil {
		return nil, f.err
	}
	sk := f.key(in.TableName, in.Item)
	f.items[sk] = in.Item["value"].(*types.AttributeValueMemberB).Value
	f.order = append(f.order, sk)
	return &dynamodb.PutItemOutput{}, nil
}

func (f *table) GetItem(_ context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	if f.err != nil {
		return nil, f.err
	}
	if !aws.ToBool(in.ConsistentRead) {
		f.t.Error("a read that may be stale")
	}
	value, ok := f.items[f.key(in.TableName, in.Key)]
	if !ok {
		return &dynamodb.GetItemOutput{}, nil
	}
	out := map[string]types.AttributeValue{"pk": in.Key["pk"], "sk": in.Key["sk"]}
	if value != nil {
		out["value"] = &types.AttributeValueMemberB{Value: value}
	}
	return &dynamodb.GetItemOutput{Item: out}, nil
}

func (f *table) Query(_ context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	if f.err != nil {
		return nil, f.err
	}
	if !aws.ToBool(in.ConsistentRead) || in.ExpressionAttributeValues[":pk"].(*types.AttributeValueMemberS).Value != "TENANT#acme" {
		f.t.Errorf("query %+v", in)
	}
	from := 0
	if last, ok := in.ExclusiveStartKey["sk"].(*types.AttributeValueMemberS); ok {
		fmt.Sscanf(last.Value, "page %d", &from)
	}
	out := &dynamodb.QueryOutput{}
	for _, sk := range f.order[from:min(from+2, len(f.order))] {
		out.Items = append(out.Items, map[string]types.AttributeValue{"sk": &types.AttributeValueMemberS{Value: sk}})
	}
	if from+2 < len(f.order) {
		out.LastEvaluatedKey = map[string]types.AttributeValue{"sk": &types.AttributeValueMemberS{Value: fmt.Sprint("page ", from+2)}}
	}
	return out, nil
}

func (f *table) key(name *string, item map[string]types.AttributeValue) string {
	if aws.ToString(name) != "orders" || item["pk"].(*types.AttributeValueMemberS).Value != "TENANT#acme" {
		f.t.Errorf("table %q, key %v", aws.ToString(name), item)
	}
	return item["sk"].(*types.AttributeValueMemberS).Value
}

func TestPutGetList(t *testing.T) {
	f := &table{t: t, items: map[string][]byte{}}
	store := New(f, "orders")
	if _, found, err := store.Get(t.Context(), "TENANT#acme", "ORDER#1"); found || err != nil {
		t.Errorf("found %t, %v", found, err)
	}
	for _, sk := range []string{"a", "b", "c", "d", "e"} {
		if err := store.Put(t.Context(), "TENANT#acme", sk, []byte("value of "+sk)); err != nil {
			t.Fatal(err)
		}
	}
	value, found, err := store.Get(t.Context(), "TENANT#acme", "c")
	if err != nil || !found || string(value) != "value of c" {
		t.Errorf("%q, %t, %v", value, found, err)
	}
	keys, err := store.List(t.Context(), "TENANT#acme")
	if diff := cmp.Diff([]string{"a", "b", "c", "d", "e"}, keys); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestFailures(t *testing.T) {
	f := &table{t: t, items: map[string][]byte{"damaged": nil}}
	store := New(f, "orders")
	if _, _, err := store.Get(t.Context(), "TENANT#acme", "damaged"); err == nil {
		t.Error("an item without a value is read")
	}
	f.err = errors.New("throttled")
	if err := store.Put(t.Context(), "TENANT#acme", "a", nil); !errors.Is(err, f.err) {
		t.Errorf("put: %v", err)
	}
	if _, found, err := store.Get(t.Context(), "TENANT#acme", "a"); found || !errors.Is(err, f.err) {
		t.Errorf("get: %v", err)
	}
	if _, err := store.List(t.Context(), "TENANT#acme"); !errors.Is(err, f.err) {
		t.Errorf("list: %v", err)
	}
}

func TestNothingIsWrittenTooLate(t *testing.T) {
	f := &table{t: t, items: map[string][]byte{}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(f, "orders").Put(ctx, "TENANT#acme", "a", nil); !errors.Is(err, context.Canceled) || len(f.items) > 0 {
		t.Errorf("put: %v, %d items", err, len(f.items))
	}
}
