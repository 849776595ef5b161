package dynamohold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"cellwall.dev/cellwall/internal/directory"
)

// table keeps items by partition and sort key, and judges the conditions of this package.
type table struct {
	client
	stays map[[2]string]stay
	fault func(call int, tenants []string) error // instead of the call; counted from 1
	calls [][]string                             // tenants of each transaction
}

// stay has one of the two attributes of an item, the other is 0.
type stay struct{ epoch, gone uint64 }

func newTable(t *testing.T) *table {
	return &table{client: client{t: t}, stays: map[[2]string]stay{}}
}

func (f *table) holder() *Holder {
	return New(func(string, string) (Place, error) { return Place{Client: f, Table: "table"}, nil })
}

func (f *table) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(in.TransactItems) > 100 || len(in.TransactItems) == 0 {
		f.t.Errorf("a transaction of %d items", len(in.TransactItems))
	}
	var tenants []string
	after := map[[2]string]stay{}
	var reasons []string
	failed := false
	for i, w := range in.TransactItems {
		key, next, holds := f.judge(w)
		if _, twice := after[key]; twice {
			f.t.Errorf("a transaction with item %q twice", key)
		}
		after[key] = next
		reason := "None"
		if !holds {
			reason, failed = "ConditionalCheckFailed", true
		}
		reasons = append(reasons, reason)
		if i%2 == 0 {
			tenants = append(tenants, key[0][len("TENANT#"):])
		}
	}
	f.calls = append(f.calls, tenants)
	if f.fault != nil {
		if err := f.fault(len(f.calls), tenants); err != nil {
			return nil, err
		}
	}
	if failed {
		return nil, cancelled(reasons...)
	}
	for key, next := range after {
		if f.stays[key] = next; next == (stay{}) {
			delete(f.stays, key)
		}
	}
	return &dynamodb.TransactWriteItemsOutput{}, nil
}

// judge says which item a write is for, what it makes of it, and whether its condition holds.
func (f *table) judge(w types.TransactWriteItem) (key [2]string, next stay, holds bool) {
	var at, values map[string]types.AttributeValue
	var condition, what string
	switch {
	case w.Update != nil:
		at, values, condition, what = w.Update.Key, w.Update.ExpressionAttributeValues, aws.ToString(w.Update.ConditionExpression), *w.Update.UpdateExpression
	default:
		at, values, condition = w.Delete.Key, w.Delete.ExpressionAttributeValues, aws.ToString(w.Delete.ConditionExpression)
	}
	key = [2]string{at["pk"].(*types.AttributeValueMemberS).Value, at["sk"].(*types.AttributeValueMemberS).Value}
	epoch := uint64(0)
	if n, ok := values[":e"].(*types.AttributeValueMemberN); ok {
		var err error
		if epoch, err = strconv.ParseUint(n.Value, 10, 64); err != nil {
			f.t.Error(err)
		}
	}
	switch what {
	case "SET #e = :e REMOVE #g", "SET #e = :e":
		next.epoch = epoch
	case "SET #g = :e REMOVE #e":
		next.gone = epoch
	case "":
	default:
		f.t.Errorf("update %q", what)
	}
	stands := f.stays[key] // epochs are from 1
	switch condition {
	case "(attribute_not_exists(#e) OR #e < :e) AND (attribute_not_exists(#g) OR #g < :e)":
		holds = stands.epoch < epoch && stands.gone < epoch
	case "(attribute_not_exists(#e) OR #e <= :e) AND (attribute_not_exists(#g) OR #g < :e)":
		holds = stands.epoch <= epoch && stands.gone < epoch
	case "(attribute_not_exists(#e) OR #e <= :e) AND (attribute_not_exists(#g) OR #g <= :e)":
		holds = stands.epoch <= epoch && stands.gone <= epoch
	case "":
		holds = true
	default:
		f.t.Errorf("condition %q", condition)
	}
	return key, next, holds
}

func (f *table) want(tenant string, epoch uint64) {
	f.t.Helper()
	own, listed := f.stays[[2]string{"TENANT#" + tenant, "HOLDS"}].epoch, f.stays[[2]string{"HOLDS", "TENANT#" + tenant}].epoch
	if own != epoch || listed != epoch {
		f.t.Errorf("%s is held at %d and listed at %d, want %d", tenant, own, listed, epoch)
	}
}

func tenant(i int) string { return fmt.Sprintf("t%03d", i) }

func holdings(n int, epoch uint64) []directory.Holding {
	var many []directory.Holding
	for i := range n {
		many = append(many, directory.Holding{Tenant: tenant(i), Epoch: epoch})
	}
	return many
}

func sizes(calls [][]string) []int {
	var n []int
	for _, c := range calls {
		n = append(n, len(c))
	}
	return n
}

// 50 to a transaction. What is there already costs one more, however much it is.
func TestHoldManyTogether(t *testing.T) {
	f := newTable(t)
	h := f.holder()
	for _, there := range []directory.Holding{{Tenant: "t003", Epoch: 7}, {Tenant: "t004", Epoch: 2}, {Tenant: "t005", Epoch: 1}} {
		if err := h.Hold(t.Context(), "eu-1", "s01", there); err != nil {
			t.Fatal(err)
		}
	}
	f.calls = nil
	many := append(holdings(120, 2), directory.Holding{Tenant: "t009", Epoch: 5}, directory.Holding{Tenant: "t009", Epoch: 4})
	if err := h.HoldMany(t.Context(), "eu-1", "s01", many); err != nil {
		t.Fatal(err)
	}
	if got := sizes(f.calls); !slices.Equal(got, []int{50, 48, 50, 20}) {
		t.Errorf("transactions of %v tenants", got)
	}
	for i := range 120 {
		epoch := uint64(2)
		switch i {
		case 3:
			epoch = 7
		case 9:
			epoch = 5
		}
		f.want(tenant(i), epoch)
	}
	f.calls = nil
	if err := h.HoldMany(t.Context(), "eu-1", "s01", holdings(120, 2)); err != nil || len(f.calls) != 3 {
		t.Errorf("again: transactions of %v tenants, %v", sizes(f.calls), err)
	}
	f.want("t003", 7)
}

// Holdings that others write at the moment do not keep the rest waiting.
func TestHoldManyContended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTable(t)
		f.stays[[2]string{"TENANT#t001", "HOLDS"}], f.stays[[2]string{"HOLDS", "TENANT#t001"}] = stay{epoch: 9}, stay{epoch: 9}
		f.fault = func(call int, tenants []string) error {
			if call > 20 || !slices.Contains(tenants, "t002") {
				return nil
			}
			var codes []string
			for _, tenant := range tenants {
				switch tenant {
				case "t001":
					codes = append(codes, "ConditionalCheckFailed", "None")
				case "t002":
					codes = append(codes, "None", "TransactionConflict")
				case "t004":
					codes = append(codes, "ProvisionedThroughputExceeded", "ThrottlingError")
				default:
					codes = append(codes, "None", "")
				}
			}
			return cancelled(codes...)
		}
		if err := f.holder().HoldMany(t.Context(), "eu-1", "s01", holdings(6, 1)); err != nil {
			t.Fatal(err)
		}
		if got := sizes(f.calls); !slices.Equal(got[:3], []int{6, 3, 2}) || len(got) != 21 {
			t.Errorf("transactions of %v tenants", got)
		}
		for i := range 6 {
			f.want(tenant(i), map[bool]uint64{true: 9, false: 1}[i == 1])
		}
	})
}

// What is written first, while others are contended for, may fail, too.
func TestHoldManyFailsBesideContention(t *testing.T) {
	far := errors.New("no route")
	f := newTable(t)
	f.fault = func(call int, _ []string) error {
		if call == 1 {
			return cancelled("None", "None", "TransactionConflict", "None")
		}
		if call == 2 {
			return far
		}
		return nil
	}
	if err := f.holder().HoldMany(t.Context(), "eu-1", "s01", holdings(2, 1)); !errors.Is(err, far) || len(f.stays) > 0 {
		t.Errorf("%v with %d items written", err, len(f.stays))
	}
}

// After a failure some are written and nothing is half written; the repetition writes the rest.
func TestHoldManyFailsHalfWay(t *testing.T) {
	far := errors.New("no route")
	for failAt := 1; failAt <= 3; failAt++ {
		f := newTable(t)
		f.fault = func(call int, _ []string) error {
			if call == failAt {
				return far
			}
			return nil
		}
		h := f.holder()
		if err := h.HoldMany(t.Context(), "eu-1", "s01", holdings(120, 2)); !errors.Is(err, far) || len(f.calls) != failAt {
			t.Errorf("%v after %d transactions", err, len(f.calls))
		}
		if len(f.stays) != 100*(failAt-1) {
			t.Errorf("%d items after the failure of transaction %d", len(f.stays), failAt)
		}
		if err := h.HoldMany(t.Context(), "eu-1", "s01", holdings(120, 2)); err != nil {
			t.Fatal(err)
		}
		for i := range 120 {
			f.want(tenant(i), 2)
		}
	}
}

// The answer of a transaction is lost for good: the repetition finds it done.
func TestHoldManyLostAnswer(t *testing.T) {
	f := newTable(t)
	h := f.holder()
	if err := h.HoldMany(t.Context(), "eu-1", "s01", holdings(60, 2)); err != nil {
		t.Fatal(err)
	}
	f.calls = nil
	if err := h.HoldMany(t.Context(), "eu-1", "s01", holdings(60, 2)); err != nil || len(f.calls) != 2 {
		t.Errorf("%v by %v", err, sizes(f.calls))
	}
	for range 2 {
		if err := h.Release(t.Context(), "eu-1", "s01", directory.Holding{Tenant: "t001", Epoch: 1}); err != nil { // too late
			t.Error(err)
		}
		f.want("t001", 2)
	}
	for range 2 {
		if err := h.Release(t.Context(), "eu-1", "s01", directory.Holding{Tenant: "t001", Epoch: 2}); err != nil {
			t.Error(err)
		}
		f.want("t001", 0)
	}
}

func TestHoldManyRefusesBeforeItWrites(t *testing.T) {
	f := newTable(t)
	many := append(holdings(60, 2), directory.Holding{Tenant: "\xff"})
	if err := f.holder().HoldMany(t.Context(), "eu-1", "s01", many); !errors.Is(err, directory.ErrInvalid) || len(f.calls) > 0 {
		t.Errorf("%v after %d transactions", err, len(f.calls))
	}
	if err := f.holder().HoldMany(t.Context(), "eu-1", "s01", nil); err != nil || len(f.calls) > 0 {
		t.Errorf("nobody: %v after %d transactions", err, len(f.calls))
	}
}
