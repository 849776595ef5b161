package dynamo

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"cellwall.dev/cellwall/internal/adapter/dynamodir"
	"cellwall.dev/cellwall/internal/adapter/dynamohold"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
)

// TestCost counts the requests of each operation as the SDK sends them, and computes by DynamoDB's rules
// what they consume, which the emulator does not know. A read unit is 4 KiB read consistently, or 8 KiB
// relaxed; a write unit is 1 KiB, of the larger of an item's old and new size, two in a transaction; a
// condition in a transaction costs what a write does. An index costs a write of what it projects, and two
// when the value changes. docs/performance.md has what comes out.
func TestCost(t *testing.T) {
	config := emulator.Config(t, account, region)
	plain := dynamodb.NewFromConfig(config)
	m := &meter{}
	m.config(&config)
	client := dynamodb.NewFromConfig(config)
	table, shards := newTable(t), newTable(t)
	d := directorytest.Fill(t, dynamodir.New(client, table))
	h := dynamohold.New(func(_, shard string) (dynamohold.Place, error) {
		return dynamohold.Place{Client: client, Table: shards, Shared: shard}, nil
	})
	res := directory.NewResidence(d, h, func(context.Context, string, string) ([]byte, error) { return []byte("a key"), nil })
	e := entry(t, d, "acme", "create")
	place := func(tenant string) error {
		_, err := d.Place(t.Context(), directory.SignUp{Tenant: tenant, Load: 1}, by("place "+tenant))
		return err
	}
	if err := place("first"); err != nil { // who reads the topology, once for each process
		t.Fatal(err)
	}
	var many []directory.Holding
	for i := range 50 {
		many = append(many, directory.Holding{Tenant: fmt.Sprint("many", i), Epoch: 1})
	}

	docs, err := os.ReadFile("../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct {
		name string
		do   func() error
		want string
	}{
		{"look up, consistent", func() error { _, err := d.Get(t.Context(), "acme"); return err }, "GetItem"},
		{"look up, relaxed", func() error { _, err := d.Lookup(t.Context(), directory.Relaxed, "acme"); return err }, "GetItem"},
		{"create", func() error { entry(t, d, "new", "create-2"); return nil }, "TransactWriteItems"},
		{"suspend", func() (err error) {
			after := e.Clone()
			after.State = directory.Suspended
			e, err = d.Replace(t.Context(), e, after, by("suspend"))
			return err
		}, "TransactWriteItems"},
		{"pin to 2 shards", func() (err error) {
			after := e.Clone()
			after.Pins = []string{"s01", "s02"}
			e, err = d.Replace(t.Context(), e, after, by("pin"))
			return err
		}, "TransactWriteItems"},
		{"note an access", func() error { return d.NoteAccess(t.Context(), "acme", "tenant show", by("show")) }, "UpdateItem"},
		{"history, 3 lines", func() error { _, err := d.History(t.Context(), "acme", 0, 10); return err }, "Query"},
		{"place a new tenant", func() error { return place("placed") }, "Query TransactWriteItems"},
		{"sign up, held by 2 shards", func() error {
			_, err := res.SignUp(t.Context(), directory.SignUp{Tenant: "signed", Load: 1}, by("sign up"))
			return err
		}, "Query TransactWriteItems GetItem GetItem TransactWriteItems TransactWriteItems TransactWriteItems"},
		{"suspend by hand", func() error { _, err := res.Suspend(t.Context(), "signed", 0, by("by hand")); return err },
			"BatchGetItem TransactWriteItems"},
		{"suspend by hand, repeated", func() error { _, err := res.Suspend(t.Context(), "signed", 0, by("by hand")); return err },
			"BatchGetItem Query"},
		{"a shard holds 1 tenant", func() error {
			return h.Hold(t.Context(), "eu-1", "s01", directory.Holding{Tenant: "one", Epoch: 1})
		}, "TransactWriteItems"},
		{"a shard holds 50 at once", func() error { return h.HoldMany(t.Context(), "eu-1", "s01", many) }, "TransactWriteItems"},
		{"does a shard hold it", func() error { _, _, err := h.Held(t.Context(), "eu-1", "s01", "one"); return err }, "GetItem"},
		{"list 51 a shard holds", func() error { _, err := h.Holdings(t.Context(), "eu-1", "s01", "", 100); return err }, "Query"},
	} {
		old := items(t, plain, table, shards)
		m.take()
		if err := s.do(); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		u := m.take()
		if got := strings.Join(u.requests, " "); got != s.want {
			t.Errorf("%s: requests %s, want %s", s.name, got, s.want)
		}
		written, index := u.writes(old, items(t, plain, table, shards))
		row := fmt.Sprintf("| %s | %d | %d | %v | %d | %d | %v |", s.name, len(u.requests), len(u.written), u.read, written, index, u.told)
		t.Log(row)
		if !strings.Contains(string(docs), row+"\n") {
			t.Errorf("docs/performance.md does not have the line %s", row)
		}
	}
	all := items(t, plain, table)
	t.Logf("an entry takes %d bytes, a line of its history %d, its cell's record %d", size(all[table+"TENANT#acme\x00ENTRY"]),
		size(all[table+"TENANT#acme\x00LOG#00000000000000000002"]), size(all[table+"CELLS\x00CELL#eu-1"]))
}

func by(operation string) directory.Change {
	return directory.Change{Operation: operation, By: "ann", Why: "to know what it costs", At: time.Now()}
}

func entry(t *testing.T, d *directory.Directory, tenant, operation string) directory.Entry {
	t.Helper()
	e, err := d.Create(t.Context(), directory.Entry{Tenant: tenant, Cell: "eu-1", State: directory.Active, Topology: 3, Load: 1500}, by(operation))
	if err != nil {
		t.Fatal(err)
	}
	return e
}
