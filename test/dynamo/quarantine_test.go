package dynamo

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"cellwall.dev/cellwall/internal/adapter/dynamodir"
	"cellwall.dev/cellwall/internal/adapter/dynamohold"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/quarantine"
	"cellwall.dev/cellwall/internal/routing/poison"
)

// rights notes which IAM actions an SDK client needs, on which partitions; as DynamoDB has it, a transaction needs
// those of its parts.
type rights struct {
	mu     sync.Mutex
	needed map[string]bool // action and partition, of a tenant without its id
	refuse string          // a table whose transactions are turned away
}

func (r *rights) need(action string, key item) {
	part := key[names.PartitionKey].(*types.AttributeValueMemberS).Value
	if family, _, tenant := strings.Cut(part, "#"); tenant && family != "CELL" {
		part = family
	}
	r.needed[action+" "+part] = true
}

var errTurnedAway = errors.New("turned away")

func (r *rights) config(to *aws.Config) {
	to.APIOptions = append(to.APIOptions, func(s *middleware.Stack) error {
		return s.Initialize.Add(middleware.InitializeMiddlewareFunc("rights", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			r.mu.Lock()
			table := ""
			switch call := in.Parameters.(type) {
			case *dynamodb.GetItemInput:
				r.need("GetItem", call.Key)
			case *dynamodb.UpdateItemInput:
				r.need("UpdateItem", call.Key)
			case *dynamodb.BatchGetItemInput:
				for _, ask := range call.RequestItems {
					for _, key := range ask.Keys {
						r.need("BatchGetItem", key)
					}
				}
			case *dynamodb.TransactWriteItemsInput:
				for _, w := range call.TransactItems {
					switch {
					case w.Update != nil:
						r.need("UpdateItem", w.Update.Key)
						table = *w.Update.TableName
					case w.Delete != nil:
						r.need("DeleteItem", w.Delete.Key)
					case w.ConditionCheck != nil:
						r.need("ConditionCheckItem", w.ConditionCheck.Key)
					default:
						r.need("PutItem", w.Put.Item)
					}
				}
			default:
				r.needed[awsmiddleware.GetOperationName(ctx)] = true
			}
			refused := table != "" && table == r.refuse
			r.mu.Unlock()
			if refused {
				return middleware.InitializeOutput{}, middleware.Metadata{}, errTurnedAway
			}
			return next.HandleInitialize(ctx, in)
		}), middleware.Before)
	})
}

// within fails for a right that is not among these; one of a whole action has no partition.
func (r *rights) within(t *testing.T, what string, allowed ...string) {
	t.Helper()
	for _, right := range slices.Sorted(maps.Keys(r.needed)) {
		action, _, _ := strings.Cut(right, " ")
		if !slices.Contains(allowed, right) && !slices.Contains(allowed, action) {
			t.Errorf("%s: it needs %s, and has %q", what, right, allowed)
		}
	}
}

// TestQuarantineRights: what docs/snapshot.md says that a keeper's role may do about suspects is enough: without a
// quarantine, to write its cell's partition alone; with one, also to finish what was interrupted.
func TestQuarantineRights(t *testing.T) {
	ours, shards := &rights{needed: map[string]bool{}}, &rights{needed: map[string]bool{}}
	config, shardConfig := emulator.Config(t, account, region), emulator.Config(t, account, region)
	ours.config(&config)
	shards.config(&shardConfig)
	table, store := newTable(t), newTable(t)
	holder := func(c aws.Config) directory.Holder {
		client := dynamodb.NewFromConfig(c)
		return dynamohold.New(func(_, shard string) (dynamohold.Place, error) {
			return dynamohold.Place{Client: client, Table: store, Shared: shard}, nil
		})
	}
	keys := func(context.Context, string, string) ([]byte, error) {
		return []byte("a placement key of 32 bytes here"), nil
	}
	d := directorytest.Fill(t, dynamodir.New(dynamodb.NewFromConfig(emulator.Config(t, account, region)), table))
	change := func(operation string) directory.Change {
		return directory.Change{Operation: operation, By: "ann", At: time.Now()}
	}
	if _, err := d.CloseCell(t.Context(), "us-1", change("close")); err != nil {
		t.Fatal(err)
	}
	operator := directory.NewResidence(d, holder(emulator.Config(t, account, region)), keys)
	if _, err := operator.SignUp(t.Context(), directory.SignUp{Tenant: "acme", Load: 1000}, change("add")); err != nil {
		t.Fatal(err)
	}
	take := func(ids ...string) (quarantine.Outcome, error) {
		r := directory.NewResidence(directory.Later(dynamodir.New(dynamodb.NewFromConfig(config), table, dynamodir.WithAttempts(1))), holder(shardConfig), keys)
		q, err := quarantine.New(quarantine.Config{Cell: "eu-1", Shards: ids, Residence: r})
		if err != nil {
			t.Fatal(err)
		}
		return q.Take(t.Context(), []quarantine.Verdict{{Environment: "a", At: time.Now(), Verdict: poison.Verdict{
			Tenant: "acme", Shards: []string{"s01"}, Chance: 1e-9, Firm: true, Until: time.Now().Add(time.Minute)}}})
	}
	if o, err := take(); err != nil || o.Suspects != 1 {
		t.Fatalf("%+v, %v", o, err)
	}
	ours.within(t, "without a quarantine", "GetItem", "UpdateItem CELL#eu-1")
	shards.within(t, "without a quarantine, at shards")

	shards.refuse = store
	if o, err := take("s07", "s08"); !errors.Is(err, errTurnedAway) || o.Quarantined != 0 {
		t.Fatalf("with shards that do not answer: %+v, %v", o, err)
	}
	shards.refuse = ""
	if o, err := take("s07", "s08"); err != nil || o.Quarantined != 1 {
		t.Fatalf("%+v, %v", o, err)
	}
	e, err := d.Get(t.Context(), "acme")
	if err != nil || strings.Join(e.Pins, " ") != "s07 s08" || e.Epoch != 3 {
		t.Errorf("%+v, %v", e, err)
	}
	// Its note was lost after the entry had changed: the history tells, which is a query.
	note, err := d.ReadNote(t.Context(), "eu-1", "quarantine")
	if err == nil {
		body := []byte(strings.Replace(string(note.Body), `"done":true`, `"done":false`, 1))
		_, err = d.WriteNote(t.Context(), "eu-1", "quarantine", note, body, "as it was")
	}
	if err != nil {
		t.Fatal(err)
	}
	if o, err := take("s07", "s08"); err != nil || o.Quarantined != 1 {
		t.Fatalf("%+v, %v", o, err)
	}
	if !ours.needed["Query"] {
		t.Error("the history was not asked for")
	}
	ours.within(t, "with a quarantine", "BatchGetItem", "ConditionCheckItem", "GetItem", "Query", "UpdateItem CELL#eu-1", "UpdateItem CELLS", "UpdateItem TENANT")
	shards.within(t, "with a quarantine, at shards", "GetItem", "UpdateItem", "DeleteItem")
}
