package dynamodir

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
)

// table is a DynamoDB table as far as this package uses one. It refuses what it does not know.
type table struct {
	t    *testing.T
	name string
	page int // items that a Scan looks at, at most

	mu    sync.Mutex
	items map[string]item // by pk and sk
	fail  func() error    // when set, called before an operation
	puts  int
}

func newTable(t *testing.T) *table {
	return &table{t: t, name: "orders-directory", page: 3, items: map[string]item{}}
}

func keyOf(it item) string {
	return it["pk"].(*types.AttributeValueMemberS).Value + "\x00" + it["sk"].(*types.AttributeValueMemberS).Value
}

func (f *table) begin(ctx context.Context, name *string) error {
	if aws.ToString(name) != f.name {
		f.t.Errorf("table %q", aws.ToString(name))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.fail != nil {
		return f.fail()
	}
	return nil
}

func (f *table) GetItem(ctx context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin(ctx, in.TableName); err != nil {
		return nil, err
	}
	if !aws.ToBool(in.ConsistentRead) {
		f.t.Error("a read that may be stale")
	}
	return &dynamodb.GetItemOutput{Item: maps.Clone(f.items[keyOf(in.Key)])}, nil
}

func (f *table) PutItem(ctx context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin(ctx, in.TableName); err != nil {
		return nil, err
	}
	current, exists := f.items[keyOf(in.Item)]
	var holds bool
	switch aws.ToString(in.ConditionExpression) {
	case "attribute_not_exists(pk)":
		holds = !exists
	case "#epoch = :expect":
		holds = exists && cmp.Equal(current[in.ExpressionAttributeNames["#epoch"]].(*types.AttributeValueMemberN).Value,
			in.ExpressionAttributeValues[":expect"].(*types.AttributeValueMemberN).Value)
	default:
		f.t.Errorf("condition %q", aws.ToString(in.ConditionExpression))
	}
	if !holds {
		failed := &types.ConditionalCheckFailedException{Message: aws.String("The conditional request failed")}
		if in.ReturnValuesOnConditionCheckFailure == types.ReturnValuesOnConditionCheckFailureAllOld {
			failed.Item = maps.Clone(current)
		}
		return nil, failed
	}
	f.puts++
	f.items[keyOf(in.Item)] = maps.Clone(in.Item)
	return &dynamodb.PutItemOutput{}, nil
}

// Scan goes through the items in the order of their reversed keys, so that nobody relies on another.
func (f *table) Scan(ctx context.Context, in *dynamodb.ScanInput, _ ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin(ctx, in.TableName); err != nil {
		return nil, err
	}
	reversed := func(s string) string {
		b := []byte(s)
		slices.Reverse(b)
		return string(b)
	}
	keys := slices.SortedFunc(maps.Keys(f.items), func(a, b string) int { return strings.Compare(reversed(a), reversed(b)) })
	out := &dynamodb.ScanOutput{}
	seen := 0
	for _, k := range keys {
		if in.ExclusiveStartKey != nil && reversed(k) <= reversed(keyOf(in.ExclusiveStartKey)) {
			continue
		}
		if seen == min(f.page, int(aws.ToInt32(in.Limit))) {
			return out, nil
		}
		it := f.items[k]
		seen++
		out.LastEvaluatedKey = item{"pk": it["pk"], "sk": it["sk"]}
		if aws.ToString(in.FilterExpression) != "sk = :entry" {
			f.t.Errorf("filter %q", aws.ToString(in.FilterExpression))
		}
		if cmp.Equal(it["sk"].(*types.AttributeValueMemberS).Value, in.ExpressionAttributeValues[":entry"].(*types.AttributeValueMemberS).Value) {
			out.Items = append(out.Items, maps.Clone(it))
		}
	}
	out.LastEvaluatedKey = nil
	return out, nil
}

func TestContract(t *testing.T) {
	directorytest.Run(t, func(t *testing.T) directory.Store {
		f := newTable(t)
		// What is not an entry is none of a listing's business.
		for _, sk := range []string{"CHANGE#1", "ENTRZ"} {
			other := item{"pk": str("TENANT#zz"), "sk": str(sk)}
			f.items[keyOf(other)] = other
		}
		return New(f, "orders-directory")
	})
}

var entry = directory.Entry{
	Tenant: "acme", Cell: "eu-1", State: directory.Active, Size: "whale", Pins: []string{"s02", "s01"}, Topology: 3,
	Updated: time.Date(2026, 11, 30, 12, 0, 0, 5, time.FixedZone("", 3600)), Operation: "op-1",
}

func TestItem(t *testing.T) {
	f := newTable(t)
	if _, err := New(f, f.name).Create(t.Context(), entry); err != nil {
		t.Fatal(err)
	}
	want := item{
		"pk": str("TENANT#acme"), "sk": str("ENTRY"), "cell": str("eu-1"), "state": str("active"), "size": str("whale"),
		"pins":  &types.AttributeValueMemberL{Value: []types.AttributeValue{str("s02"), str("s01")}},
		"epoch": number(1), "topology": number(3), "updated": str("2026-11-30T11:00:00.000000005Z"), "operation": str("op-1"),
	}
	if diff := cmp.Diff(want, f.items["TENANT#acme\x00ENTRY"], exported); diff != "" {
		t.Errorf("item (-want +got):\n%s", diff)
	}
}

// TestSDKRetryRecognisesItself is the lost answer as the SDK makes it: the write is done, the answer
// lost, the same request sent again, and its condition fails on its own success.
func TestSDKRetryRecognisesItself(t *testing.T) {
	f := newTable(t)
	s := New(f, f.name)
	created, err := s.Create(t.Context(), entry)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Create(t.Context(), entry)
	if err != nil || f.puts != 1 {
		t.Errorf("repeated create: %v, %d writes", err, f.puts)
	}
	if diff := cmp.Diff(created.Epoch, again.Epoch); diff != "" {
		t.Error(diff)
	}
	change := entry
	change.Operation, change.State = "op-2", directory.Suspended
	if _, err := s.CompareAndSet(t.Context(), 1, change); err != nil {
		t.Fatal(err)
	}
	got, err := s.CompareAndSet(t.Context(), 1, change)
	if err != nil || got.Epoch != 2 || f.puts != 2 {
		t.Errorf("repeated change: %+v, %v, %d writes", got, err, f.puts)
	}
}

func TestOtherErrorsPass(t *testing.T) {
	f := newTable(t)
	s := New(f, f.name)
	throttled := &types.ProvisionedThroughputExceededException{}
	f.fail = func() error { return throttled }
	calls := map[string]func() error{
		"get":    func() error { _, err := s.Get(t.Context(), "acme"); return err },
		"create": func() error { _, err := s.Create(t.Context(), entry); return err },
		"change": func() error { _, err := s.CompareAndSet(t.Context(), 1, entry); return err },
		"list":   func() error { _, err := s.List(t.Context(), "", 1); return err },
	}
	for name, call := range calls {
		err := call()
		for _, wrong := range []error{directory.ErrNotFound, directory.ErrExists, directory.ErrStale, directory.ErrInvalid} {
			if errors.Is(err, wrong) {
				t.Errorf("%s: a throttled table is taken for %q", name, wrong)
			}
		}
		if !errors.Is(err, throttled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRefusedWriteWhoseConditionHolds(t *testing.T) {
	f := newTable(t)
	f.fail = func() error { return &types.ConditionalCheckFailedException{} } // says no, shows nothing
	if e, err := New(f, f.name).Create(t.Context(), entry); err == nil {
		t.Errorf("a refused write is reported as %+v", e)
	}
}

func TestGetOfWhatIsNoTenant(t *testing.T) {
	f := newTable(t)
	f.fail = func() error { t.Error("DynamoDB was asked"); return nil }
	for _, tenant := range []string{"", "a\xff", strings.Repeat("n", 129)} {
		if _, err := New(f, f.name).Get(t.Context(), tenant); !errors.Is(err, directory.ErrNotFound) {
			t.Errorf("%q: %v", tenant, err)
		}
	}
}

func TestDamagedItemsAreNoEntries(t *testing.T) {
	damage := map[string]types.AttributeValue{
		"cell": nil, "state": number(1), "epoch": str("1"), "topology": nil, "updated": str("yesterday"), "operation": nil,
		"size": number(3), "pins": str("s01"),
	}
	for name, value := range damage {
		f := newTable(t)
		it := encode(entry)
		if value == nil {
			delete(it, name)
		} else {
			it[name] = value
		}
		f.items[keyOf(it)] = it
		if e, err := New(f, f.name).Get(t.Context(), "acme"); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s damaged: read as %+v, %v", name, e, err)
		}
		if e, err := New(f, f.name).List(t.Context(), "", 5); err == nil {
			t.Errorf("%s damaged: listed as %+v", name, e)
		}
	}
	f := newTable(t)
	it := encode(entry)
	it["pins"] = &types.AttributeValueMemberL{Value: []types.AttributeValue{str("s01"), number(2)}}
	it["epoch"] = &types.AttributeValueMemberN{Value: "-1"}
	f.items[keyOf(it)] = it
	if e, err := New(f, f.name).Get(t.Context(), "acme"); err == nil {
		t.Errorf("read as %+v", e)
	}
}

// exported compares the SDK's types by what they say.
var exported = cmpopts.IgnoreUnexported(types.AttributeValueMemberS{}, types.AttributeValueMemberN{}, types.AttributeValueMemberL{})

// TestATryThatHangsLeavesTimeForAnother: within the second that a look-up may take.
func TestATryThatHangsLeavesTimeForAnother(t *testing.T) {
	release := make(chan struct{})
	var tries atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if tries.Add(1) == 1 {
			<-release
			return
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		io.WriteString(w, `{}`)
	}))
	defer server.Close()
	defer close(release)
	client := dynamodb.New(dynamodb.Options{
		Region: "eu-west-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
	}, ForRequests)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // for a slow machine; the first try alone would take all of it
	defer cancel()
	if _, err := New(client, "orders-directory").Get(ctx, "acme"); !errors.Is(err, directory.ErrNotFound) {
		t.Errorf("%d tries: %v, want the second one's answer", tries.Load(), err)
	}
}
