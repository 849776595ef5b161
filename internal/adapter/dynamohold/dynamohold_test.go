package dynamohold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet"
)

// client answers transactions with its errors in turn, then with success. The contract is held in
// test/dynamo, against the emulator.
type client struct {
	t      *testing.T
	errs   []error
	writes []*dynamodb.TransactWriteItemsInput
	item   map[string]types.AttributeValue // of every GetItem and Query
	pages  int                             // of a Query that follow the first, each with the item
	starts []map[string]types.AttributeValue
}

func (c *client) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	c.writes = append(c.writes, in)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(c.errs) > 0 {
		err := c.errs[0]
		c.errs = c.errs[1:]
		return nil, err
	}
	return &dynamodb.TransactWriteItemsOutput{}, nil
}

func (c *client) GetItem(_ context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	if !aws.ToBool(in.ConsistentRead) {
		c.t.Error("a read that may be stale")
	}
	return &dynamodb.GetItemOutput{Item: c.item}, nil
}

func (c *client) Query(_ context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	if !aws.ToBool(in.ConsistentRead) {
		c.t.Error("a listing that may be stale")
	}
	if key := aws.ToString(in.KeyConditionExpression); key != "#p = :p AND #s > :s" { // what comes after a tenant is above it
		c.t.Errorf("a listing of %q", key)
	}
	c.starts = append(c.starts, in.ExclusiveStartKey)
	out := &dynamodb.QueryOutput{Items: []map[string]types.AttributeValue{c.item}}
	if len(c.starts) <= c.pages {
		out.LastEvaluatedKey = map[string]types.AttributeValue{"pk": c.item["pk"], "sk": &types.AttributeValueMemberS{Value: fmt.Sprint(len(c.starts))}}
	}
	return out, nil
}

func (c *client) holder(shared string) *Holder {
	return New(func(string, string) (Place, error) { return Place{Client: c, Table: "table", Shared: shared}, nil })
}

func cancelled(codes ...string) error {
	e := &types.TransactionCanceledException{}
	for _, code := range codes {
		e.CancellationReasons = append(e.CancellationReasons, types.CancellationReason{Code: aws.String(code)})
	}
	return e
}

var acme = directory.Holding{Tenant: "acme", Epoch: 7}

func TestItems(t *testing.T) {
	for shared, want := range map[string]string{"": "TENANT#acme/HOLDS, HOLDS/TENANT#acme", "s01": "TENANT#acme/HOLDS#s01, HOLDS#s01/TENANT#acme"} {
		c := &client{t: t}
		if err := c.holder(shared).Hold(t.Context(), "eu-1", "s01", acme); err != nil {
			t.Fatal(err)
		}
		if err := c.holder(shared).Release(t.Context(), "eu-1", "s01", acme); err != nil {
			t.Fatal(err)
		}
		for _, w := range c.writes {
			var keys []string
			for _, item := range w.TransactItems {
				k := item.Update
				if k == nil {
					k = &types.Update{Key: item.Delete.Key}
				}
				keys = append(keys, k.Key["pk"].(*types.AttributeValueMemberS).Value+"/"+k.Key["sk"].(*types.AttributeValueMemberS).Value)
			}
			if got := strings.Join(keys, ", "); got != want {
				t.Errorf("items %s, want %s", got, want)
			}
		}
	}
}

func TestFaults(t *testing.T) {
	slow, far := &types.ProvisionedThroughputExceededException{}, errors.New("no route")
	for name, c := range map[string]struct {
		errs  []error
		tries int
		want  error
	}{
		"higher already":              {[]error{cancelled("ConditionalCheckFailed", "ConditionalCheckFailed")}, 1, nil},
		"a write of the tenant's":     {[]error{cancelled("TransactionConflict", "None"), cancelled("TransactionConflict", "None")}, 3, nil},
		"throttled":                   {[]error{slow, cancelled("None", "ThrottlingError")}, 3, nil},
		"done and contended":          {[]error{cancelled("ConditionalCheckFailed", "TransactionConflict")}, 1, nil},
		"throttled always":            {many(slow), patience, directory.ErrBusy},
		"for another number of items": {[]error{cancelled("ConditionalCheckFailed")}, 1, errors.New("Transaction")},
		"cancelled for nothing":       {[]error{cancelled("None", "None")}, 1, errors.New("Transaction")},
		"another error":               {[]error{far}, 1, far},
		"cancelled for another cause": {[]error{cancelled("ValidationError", "ConditionalCheckFailed")}, 1, errors.New("Transaction")},
	} {
		synctest.Test(t, func(t *testing.T) { // the waits
			fake := &client{t: t, errs: c.errs}
			err := fake.holder("").Hold(t.Context(), "eu-1", "s01", acme)
			switch {
			case c.want == nil && err != nil, c.want != nil && err == nil, c.want == directory.ErrBusy && !errors.Is(err, c.want), c.want == far && !errors.Is(err, far):
				t.Errorf("%s: %v, want %v", name, err, c.want)
			case len(fake.writes) != c.tries:
				t.Errorf("%s: %d tries, want %d", name, len(fake.writes), c.tries)
			}
		})
	}
}

func many(err error) []error {
	var errs []error
	for range patience {
		errs = append(errs, err)
	}
	return errs
}

func TestWaitEndsWithTheContext(t *testing.T) {
	c := &client{t: t}
	synctest.Test(t, func(t *testing.T) {
		for range 20 { // many more tries than a caller without a deadline gets
			c.errs = append(c.errs, many(cancelled("TransactionConflict", "None"))...)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		begun := time.Now()
		if err := c.holder("").Hold(ctx, "eu-1", "s01", acme); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 10*time.Minute {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
	})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := c.holder("").Held(ended, "eu-1", "s01", "acme"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestDamagedItems(t *testing.T) {
	key := map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "HOLDS"}, "sk": &types.AttributeValueMemberS{Value: "TENANT#acme"}}
	for _, epoch := range []types.AttributeValue{nil, &types.AttributeValueMemberS{Value: "7"}, &types.AttributeValueMemberN{Value: "-7"}} {
		item := map[string]types.AttributeValue{"epoch": epoch, "pk": key["pk"], "sk": key["sk"]}
		h := (&client{t: t, item: item}).holder("")
		if got, _, err := h.Held(t.Context(), "eu-1", "s01", "acme"); err == nil {
			t.Errorf("%v is read as %+v", epoch, got)
		}
		if got, err := h.Holdings(t.Context(), "eu-1", "s01", "", 5); err == nil {
			t.Errorf("%v is listed as %+v", epoch, got)
		}
	}
}

// A listing goes on page after page from where DynamoDB says, until it is full or at the end.
func TestPages(t *testing.T) {
	item := map[string]types.AttributeValue{"epoch": &types.AttributeValueMemberN{Value: "1"}, "pk": &types.AttributeValueMemberS{Value: "HOLDS"}, "sk": &types.AttributeValueMemberS{Value: "TENANT#acme"}}
	for limit, want := range map[int]int{2: 2, 4: 4, 9: 4} {
		c := &client{t: t, item: item, pages: 3}
		got, err := c.holder("").Holdings(t.Context(), "eu-1", "s01", "", limit)
		if err != nil || len(got) != want || len(c.starts) != want {
			t.Fatalf("limit %d: %d holdings of %d pages, %v", limit, len(got), len(c.starts), err)
		}
		for i, start := range c.starts[1:] {
			if sort := start["sk"].(*types.AttributeValueMemberS).Value; sort != fmt.Sprint(i+1) {
				t.Errorf("page %d begins after %s", i+2, sort)
			}
		}
	}
}

func TestInvalid(t *testing.T) {
	h := (&client{t: t}).holder("")
	for _, tenant := range []string{"", "\xff", strings.Repeat("n", 129)} {
		if err := h.Hold(t.Context(), "eu-1", "s01", directory.Holding{Tenant: tenant}); !errors.Is(err, directory.ErrInvalid) {
			t.Errorf("hold %q: %v", tenant, err)
		}
		if _, held, err := h.Held(t.Context(), "eu-1", "s01", tenant); held || err != nil {
			t.Errorf("held %q: %t, %v", tenant, held, err)
		}
	}
	if _, err := h.Holdings(t.Context(), "eu-1", "s01", "", 0); err == nil {
		t.Error("limit 0 is accepted")
	}
}

func TestInFleet(t *testing.T) {
	f := &fleet.Fleet{Service: "orders", Cells: []fleet.Cell{{Name: "eu-1", Account: "111111111111", Region: "eu-west-1"}}}
	asked := ""
	find := InFleet(f, func(account, region string) Client {
		asked = account + "/" + region
		return &client{t: t}
	})
	place := func(mode fleet.StateMode, table bool) string {
		f.Shard.State.Mode, f.Shard.Table = mode, nil
		if table {
			f.Shard.Table = &fleet.Table{}
		}
		asked = ""
		p, err := find("eu-1", "s01")
		if err != nil {
			t.Error(err)
		}
		return fmt.Sprint(p.Table, " ", p.Shared, " ", asked)
	}
	for _, c := range []struct {
		mode  fleet.StateMode
		table bool
		want  string
	}{
		{fleet.StateCell, true, "orders-eu-1-s01-state  111111111111/eu-west-1"}, {fleet.StateHome, true, "orders-eu-1-s01-state  111111111111/eu-west-1"},
		{fleet.StateCell, false, "orders-eu-1-store s01 111111111111/eu-west-1"}, {fleet.StateNone, true, "orders-eu-1-s01-state  111111111111/eu-west-1"},
		{fleet.StateNone, false, "  "},
	} {
		if got := place(c.mode, c.table); got != c.want {
			t.Errorf("%s, table %t: %q, want %q", c.mode, c.table, got, c.want)
		}
	}
	h := New(find)
	if err := h.Hold(t.Context(), "us-1", "s01", acme); err == nil || !strings.Contains(err.Error(), "us-1") {
		t.Errorf("a cell that is not there: %v", err)
	}
	// Without a store, everybody is held and nobody listed.
	f.Shard.State.Mode, f.Shard.Table = fleet.StateNone, nil
	if err := errors.Join(h.Hold(t.Context(), "eu-1", "s01", acme), h.Release(t.Context(), "eu-1", "s01", acme)); err != nil {
		t.Error(err)
	}
	if got, held, err := h.Held(t.Context(), "eu-1", "s01", "acme"); err != nil || !held || got.Epoch != 0 {
		t.Errorf("%+v, %t, %v", got, held, err)
	}
	if _, err := h.Holdings(t.Context(), "eu-1", "s01", "", 5); !errors.Is(err, ErrNoStore) {
		t.Errorf("%v, want %q", err, ErrNoStore)
	}
}
