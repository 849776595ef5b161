package dynamo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"cellwall.dev/cellwall/internal/adapter/dynamodir"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// counter notes the requests of an SDK client, each repetition by itself.
type counter struct {
	mu       sync.Mutex
	requests []string
	writes   []types.TransactWriteItem // of the last transaction
}

func (c *counter) config(to *aws.Config) {
	to.APIOptions = append(to.APIOptions, func(s *middleware.Stack) error {
		note := middleware.FinalizeMiddlewareFunc("count", func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
			c.mu.Lock()
			c.requests = append(c.requests, awsmiddleware.GetOperationName(ctx))
			c.mu.Unlock()
			return next.HandleFinalize(ctx, in)
		})
		input := middleware.InitializeMiddlewareFunc("input", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			if t, ok := in.Parameters.(*dynamodb.TransactWriteItemsInput); ok {
				c.mu.Lock()
				c.writes = t.TransactItems
				c.mu.Unlock()
			}
			return next.HandleInitialize(ctx, in)
		})
		if err := s.Initialize.Add(input, middleware.Before); err != nil {
			return err
		}
		return s.Finalize.Insert(note, "Retry", middleware.After)
	})
}

func (c *counter) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	requests := c.requests
	c.requests = nil
	return requests
}

// TestCost counts the requests of each operation as the SDK sends them, and computes by DynamoDB's rules
// what they consume: the emulator does not know. A read unit is 4 KiB read consistently; a write unit is
// 1 KiB, of the larger of an item's old and new size, two in a transaction; a condition in a transaction
// costs what a write does. An index costs a write of what it projects, and two when the value changes.
func TestCost(t *testing.T) {
	config := emulator.Config(t, account, region)
	plain := dynamodb.NewFromConfig(config)
	c := &counter{}
	c.config(&config)
	table := newTable(t)
	home := dynamodir.New(dynamodb.NewFromConfig(config), table)
	d := directorytest.Fill(t, home)

	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "operation\trequests\titems\tread units\twrite units of the table\tof the indexes")
	before := entry(t, d, "acme", "create")
	steps := []struct {
		name string
		do   func() error
		want string
	}{
		{"lookup, consistent", func() error { _, err := d.Get(t.Context(), "acme"); return err }, "GetItem"},
		{"lookup, relaxed", func() error { _, err := d.Lookup(t.Context(), directory.Relaxed, "acme"); return err }, "GetItem"},
		{"create", func() error { entry(t, d, "new", "create-2"); return nil }, "TransactWriteItems"},
		{"change (suspend)", func() error {
			after := before.Clone()
			after.State = directory.Suspended
			_, err := d.Replace(t.Context(), before, after, by("suspend"))
			return err
		}, "TransactWriteItems"},
		{"note an access", func() error { return d.NoteAccess(t.Context(), "acme", "tenant show", by("show")) }, "UpdateItem"},
	}
	for _, s := range steps {
		old := items(t, plain, table)
		c.take()
		c.writes = nil
		if err := s.do(); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		requests := c.take()
		if !slices.Equal(requests, []string{s.want}) {
			t.Errorf("%s: requests %v, want one %s", s.name, requests, s.want)
		}
		read, written, index, n := 0.0, 0, 0, 1
		now := items(t, plain, table)
		switch s.want {
		case "GetItem":
			read = float64(units(size(old["TENANT#acme\x00ENTRY"]), 4096))
			if strings.HasSuffix(s.name, "relaxed") {
				read /= 2
			}
		case "TransactWriteItems":
			n = len(c.writes)
			for _, key := range touched(c.writes) {
				written += 2 * units(max(size(old[key]), size(now[key])), 1024)
				index += indexUnits(old[key], now[key])
			}
		default:
			for key := range now {
				if old[key] == nil {
					written += units(size(now[key]), 1024)
					index += indexUnits(nil, now[key])
				}
			}
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%v\t%d\t%d\n", s.name, len(requests), n, read, written, index)
	}
	w.Flush()
	t.Logf("an entry takes %d bytes, a line of its history %d\n%s", size(items(t, plain, table)["TENANT#acme\x00ENTRY"]),
		size(items(t, plain, table)["TENANT#acme\x00LOG#00000000000000000002"]), out.String())
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

type item = map[string]types.AttributeValue

func key(it item) string {
	return it[names.PartitionKey].(*types.AttributeValueMemberS).Value + "\x00" + it[names.SortKey].(*types.AttributeValueMemberS).Value
}

func items(t *testing.T, client *dynamodb.Client, table string) map[string]item {
	t.Helper()
	out, err := client.Scan(t.Context(), &dynamodb.ScanInput{TableName: &table})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]item{}
	for _, it := range out.Items {
		all[key(it)] = it
	}
	return all
}

func touched(writes []types.TransactWriteItem) []string {
	var keys []string
	for _, w := range writes {
		if w.Update != nil {
			keys = append(keys, key(w.Update.Key))
		} else {
			keys = append(keys, key(w.ConditionCheck.Key))
		}
	}
	return keys
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
