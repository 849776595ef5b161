package dynamo

import (
	"context"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"cellwall.dev/cellwall/internal/adapter/dynamodir"
	"cellwall.dev/cellwall/internal/adapter/dynamohold"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
)

// TestEnrol brings many tenants into the directory and has their shards hold them: by few requests, and a
// tenant who is there, at a later epoch, is left as it is.
func TestEnrol(t *testing.T) {
	config := emulator.Config(t, account, region)
	m := &meter{}
	m.config(&config)
	client := dynamodb.NewFromConfig(config)
	d := directorytest.Fill(t, dynamodir.New(client, newTable(t)))
	shards := newTable(t)
	h := dynamohold.New(func(_, shard string) (dynamohold.Place, error) {
		return dynamohold.Place{Client: client, Table: shards, Shared: shard}, nil
	})
	res := directory.NewResidence(d, h, func(context.Context, string, string) ([]byte, error) { return []byte("a key"), nil })
	there, err := res.SignUp(t.Context(), directory.SignUp{Tenant: "t007", Load: 1}, by("sign up"))
	if err != nil {
		t.Fatal(err)
	}
	const n = 120
	var entries []directory.Entry
	for i := range n {
		entries = append(entries, directory.Entry{Tenant: fmt.Sprintf("t%03d", i), Cell: there.Cell, State: directory.Active, Topology: 3, Load: 1})
	}
	m.take()
	got, err := res.Enrol(t.Context(), entries, by("enrol"))
	if err != nil || got.Created != n-1 || got.Present != 1 {
		t.Fatalf("%d created, %d there, %v", got.Created, got.Present, err)
	}
	first := len(m.take().requests)
	if got, err = res.Enrol(t.Context(), entries[50:], by("enrol")); err != nil || got.Created != 0 || got.Present != n-50 {
		t.Errorf("again: %d created, %d there, %v", got.Created, got.Present, err)
	}
	// Who is there is read, 100 to a request; the shards' 8 lists are one or two transactions each; the entries of
	// the others, 49 to a batch, three.
	if limit := 2 + 2*8 + 3; first > limit {
		t.Errorf("%d requests for %d tenants, want at most %d", first, n, limit)
	}
	for _, e := range append(entries, there) {
		e, err := res.Get(t.Context(), e.Tenant)
		if err != nil {
			t.Fatal(err)
		}
		subset, err := res.Subset(t.Context(), e)
		if err != nil || len(subset) != 2 {
			t.Fatalf("%s: subset %v, %v", e.Tenant, subset, err)
		}
		for _, shard := range subset {
			held, ok, err := h.Held(t.Context(), e.Cell, shard, e.Tenant)
			if want := e.Epoch; err != nil || !ok || held.Epoch != want {
				t.Errorf("%s, at epoch %d, is held by %s at %d: %t, %v", e.Tenant, e.Epoch, shard, held.Epoch, ok, err)
			}
		}
	}
}
