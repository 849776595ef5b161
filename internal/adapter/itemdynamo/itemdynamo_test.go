package itemdynamo

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"cellwall.dev/cellwall/lambda/shardkit"
	"cellwall.dev/cellwall/lambda/shardkit/shardkittest"
)

// TestContract runs where the shard has a table of its own, where its cell's store has both, and where
// the shard's table has both.
func TestContract(t *testing.T) {
	for name, c := range map[string]struct {
		tables      Tables
		holds, sort string
	}{
		"OwnTable":   {Tables{State: "store", Own: "own", Shard: "s01"}, "own", "HOLDS"},
		"CellsStore": {Tables{State: "store", Shard: "s01"}, "store", "HOLDS#s01"},
		"OneTable":   {Tables{State: "own", Own: "own"}, "own", "HOLDS"},
	} {
		t.Run(name, func(t *testing.T) {
			shardkittest.Run(t, func(t *testing.T) shardkittest.Shard {
				f := newTables(t)
				s := newStore(t, f, c.tables)
				at := func(tenant string) place { return place{c.holds, "TENANT#" + tenant, c.sort} }
				return shardkittest.Shard{
					Items:   s,
					Hold:    func(tenant string, epoch uint64) error { f.hold(at(tenant), epoch); return nil },
					Release: func(tenant string, epoch uint64) error { f.release(at(tenant), epoch); return nil },
				}
			})
		})
	}
}

func newStore(t *testing.T, f *tables, where Tables) *Store {
	t.Helper()
	s, err := New(f, where)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var own = Tables{State: "store", Own: "own", Shard: "s01"}

// TestShardsOfAStoreHoldForThemselves: with one store for all, each shard has an item of its own.
func TestShardsOfAStoreHoldForThemselves(t *testing.T) {
	f := newTables(t)
	f.hold(place{"store", "TENANT#acme", "HOLDS#s01"}, 1)
	put := shardkit.Write{Key: "a", Value: []byte("x")}
	if err := newStore(t, f, Tables{State: "store", Shard: "s02"}).Write(t.Context(), "acme", 1, put); !errors.Is(err, shardkit.ErrNotHeld) {
		t.Errorf("another shard writes: %v", err)
	}
	if err := newStore(t, f, Tables{State: "store", Shard: "s01"}).Write(t.Context(), "acme", 1, put); err != nil {
		t.Errorf("the shard: %v", err)
	}
}

// TestBusy: what is refused for other transactions alone is tried again, and only that.
func TestBusy(t *testing.T) {
	cancelled := func(codes ...string) error {
		e := &types.TransactionCanceledException{}
		for _, c := range codes {
			e.CancellationReasons = append(e.CancellationReasons, types.CancellationReason{Code: aws.String(c)})
		}
		return fmt.Errorf("operation error: %w", e)
	}
	throttled := errors.New("throttled")
	for name, c := range map[string]struct {
		errs  []error
		calls int
		want  error
	}{
		"conflict":               {[]error{cancelled("TransactionConflict", "None")}, 2, nil},
		"conflict on the item":   {[]error{cancelled("None", "TransactionConflict"), cancelled("None", "ThrottlingError")}, 3, nil},
		"provisioned throughput": {[]error{cancelled("ProvisionedThroughputExceeded", "None")}, 2, nil},
		"not held, and conflict": {[]error{cancelled("ConditionalCheckFailed", "TransactionConflict")}, 1, shardkit.ErrNotHeld},
		"not valid":              {[]error{cancelled("None", "ValidationError")}, 1, &types.TransactionCanceledException{}},
		"conflict and not valid": {[]error{cancelled("TransactionConflict", "ValidationError")}, 1, &types.TransactionCanceledException{}},
		"without reasons":        {[]error{cancelled()}, 1, &types.TransactionCanceledException{}},
		"another error":          {[]error{throttled}, 1, throttled}, // the SDK has tried again
	} {
		f := newTables(t)
		f.hold(place{"own", "TENANT#acme", "HOLDS"}, 1)
		f.fail = c.errs
		err := newStore(t, f, own).Write(t.Context(), "acme", 1, shardkit.Write{Key: "a"})
		ok := err == nil
		if c.want != nil {
			_, both := errors.AsType[*types.TransactionCanceledException](c.want)
			_, is := errors.AsType[*types.TransactionCanceledException](err)
			ok = errors.Is(err, c.want) || both && is && !errors.Is(err, shardkit.ErrNotHeld)
		}
		if !ok || f.calls != c.calls {
			t.Errorf("%s: %d calls, %v; want %d, %v", name, f.calls, err, c.calls, c.want)
		}
	}
}

func TestFailures(t *testing.T) {
	f := newTables(t)
	f.items[place{"store", "TENANT#acme", "damaged"}] = item{"pk": &types.AttributeValueMemberS{Value: "TENANT#acme"}}
	f.items[place{"own", "TENANT#acme", "HOLDS"}] = item{"pk": &types.AttributeValueMemberS{Value: "TENANT#acme"}}
	f.items[place{"own", "TENANT#beta", "HOLDS"}] = item{"epoch": &types.AttributeValueMemberN{Value: "1.5"}}
	s := newStore(t, f, own)
	if _, found, err := s.Get(t.Context(), "acme", "damaged"); found || err == nil {
		t.Error("an item without a value is read")
	}
	for _, tenant := range []string{"acme", "beta"} {
		if _, held, err := s.Held(t.Context(), tenant); held || err == nil {
			t.Errorf("a damaged holding is read: %t, %v", held, err)
		}
	}
	if err := s.Write(t.Context(), "acme", 9, shardkit.Write{Key: "a"}); !errors.Is(err, shardkit.ErrNotHeld) {
		t.Errorf("written under a damaged holding: %v", err)
	}
	f.down = errors.New("down")
	if _, held, err := s.Held(t.Context(), "acme"); held || !errors.Is(err, f.down) {
		t.Errorf("held: %v", err)
	}
	if _, found, err := s.Get(t.Context(), "acme", "a"); found || !errors.Is(err, f.down) {
		t.Errorf("get: %v", err)
	}
	if _, err := s.List(t.Context(), "acme", ""); !errors.Is(err, f.down) {
		t.Errorf("list: %v", err)
	}
}

func TestNothingIsWrittenTooLate(t *testing.T) {
	f := newTables(t)
	f.hold(place{"own", "TENANT#acme", "HOLDS"}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := newStore(t, f, own).Write(ctx, "acme", 1, shardkit.Write{Key: "a"})
	if !errors.Is(err, context.Canceled) || f.calls > 0 {
		t.Errorf("written: %v, %d calls", err, f.calls)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, bad := range []Tables{{}, {Own: "own", Shard: "s01"}, {State: "store"}} {
		if _, err := New(newTables(t), bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
