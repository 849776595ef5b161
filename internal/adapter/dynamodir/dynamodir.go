// Package dynamodir keeps the tenant directory in a DynamoDB table: its home on AWS.
//
// A record is an item:
//
//	pk, sk      S  the key, Part and Sort
//	v           N  version
//	op          S  operation that put it last
//	body        S  JSON
//	i1, i2      S  values of the two indexes, each after its record's family and '#', so that a listing reads
//	               its own family alone; an item without one is not in that index
//	n:<counter> N  counters
//
// Both indexes have i1 or i2 as partition key, pk as sort key, and project everything (names.FirstIndex,
// names.SecondIndex). One value of an index may be that of every tenant: a sort key of which there are as
// many lets DynamoDB split it when it is busy, while the sort key of the table, which all entries share, would
// hold it in one partition for good. The feed of changes is the table's stream, which has to show new and old
// images. The table may hold other items; they are left alone.
//
// # Cost
//
// A read of one record is one GetItem, and needs no other permission: that is all that a router does. A
// read of several is one BatchGetItem for each 100. A batch that puts one record is one UpdateItem, each
// other one is one TransactWriteItems, which costs two write units for each begun KiB of each record,
// checked or written. A listing by part or index reads what it returns. A listing of a whole family scans
// the table: it reads all of it once, whatever the size of its pages.
//
// # Answers that are lost
//
// Write repeats what was turned away and what it got no answer to; once an answer was lost, until it knows
// what came of it or the caller's time is over. Transactions carry a token, by which
// DynamoDB recognises the repetition. A single put goes without one, at half the price: a repetition that
// finds its own success in the way knows it by the operation that the record names. What would leave no
// such name is always sent as a transaction. When a caller repeats a whole batch, which has a new token,
// the *directory.Conflict shows the records that name the operation.
//
// # Global tables
//
// Conditions hold in one region only, and replicas take the last writer's word. Everything is therefore
// written in the directory's home region; see Replica for the others.
package dynamodir

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"cellwall.dev/cellwall/internal/directory"
)

// Client is the part of *dynamodb.Client that is needed.
type Client interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
}

// How a router reads: a first try that hangs leaves time for a second within the second that a look-up
// may take.
const (
	connectTimeout = 400 * time.Millisecond // a round trip half around the world takes 300 ms
	readTimeout    = 500 * time.Millisecond // for all of one try, its connection included
	readTries      = 3
	readPause      = 50 * time.Millisecond // at most, between two tries
)

// ForRequests makes a client fit for use while somebody waits: a try ends early, and the next follows at once.
func ForRequests(o *dynamodb.Options) {
	o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(readTimeout).
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = connectTimeout })
	o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) { r.MaxAttempts, r.MaxBackoff = readTries, readPause })
}

// Table is a directory.Home in one table of one region.
type Table struct {
	client   Client
	streams  Streams // nil: no feed
	name     string
	attempts int
}

var _ directory.Home = (*Table)(nil)

// Option changes how a Table works.
type Option func(*Table)

// WithStreams gives the table its feed of changes.
func WithStreams(s Streams) Option { return func(t *Table) { t.streams = s } }

// WithAttempts is how often in a row a write is tried, 1 or more, when DynamoDB turns it away or its answer
// is lost; 3 without this option.
func WithAttempts(n int) Option { return func(t *Table) { t.attempts = max(1, n) } }

// New returns the directory in a table of the client's region, given by name or, when it is another
// account's, by ARN. That is its home region: where the table is a replica, see NewReplica.
func New(client Client, table string, options ...Option) *Table {
	t := &Table{client: client, name: table, attempts: retry.DefaultMaxAttempts}
	for _, o := range options {
		o(t)
	}
	return t
}

// MayBeStale says whether reads of that consistency may miss the latest changes.
func (t *Table) MayBeStale(c directory.Consistency) bool { return c == directory.Relaxed }

// maxBatchGet is how many items one BatchGetItem may ask for (DynamoDB API).
const maxBatchGet = 100

// Read implements directory.Home.
func (t *Table) Read(ctx context.Context, c directory.Consistency, keys ...directory.Key) ([]directory.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found := make(map[directory.Key]directory.Record, len(keys))
	var ask []directory.Key // each once, as BatchGetItem wants it
	for _, k := range keys {
		if _, twice := found[k]; !twice {
			found[k] = directory.Record{Key: k}
			ask = append(ask, k)
		}
	}
	for len(ask) > 0 {
		n := min(len(ask), maxBatchGet)
		read := t.readMany
		if n == 1 {
			read = t.readOne
		}
		if err := read(ctx, c, ask[:n], found); err != nil {
			return nil, fmt.Errorf("read the directory: %w", busy(err))
		}
		ask = ask[n:]
	}
	records := make([]directory.Record, len(keys))
	for i, k := range keys {
		records[i] = found[k].Clone() // a key may stand twice
	}
	return records, nil
}

func (t *Table) readOne(ctx context.Context, c directory.Consistency, keys []directory.Key, found map[directory.Key]directory.Record) error {
	out, err := t.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &t.name, Key: itemKey(keys[0]), ConsistentRead: aws.Bool(c == directory.Strong),
	})
	if err != nil || len(out.Item) == 0 {
		return err
	}
	return keep(out.Item, found)
}

// rounds is how often a BatchGetItem is continued that DynamoDB answered in part.
const rounds = 8

func (t *Table) readMany(ctx context.Context, c directory.Consistency, keys []directory.Key, found map[directory.Key]directory.Record) error {
	ask := types.KeysAndAttributes{ConsistentRead: aws.Bool(c == directory.Strong)}
	for _, k := range keys {
		ask.Keys = append(ask.Keys, itemKey(k))
	}
	for round := 1; ; round++ {
		out, err := t.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{t.name: ask}})
		if err != nil {
			return err
		}
		for _, items := range out.Responses { // of the one table, by the name that DynamoDB calls it
			for _, it := range items {
				if err := keep(it, found); err != nil {
					return err
				}
			}
		}
		rest := 0
		for _, r := range out.UnprocessedKeys {
			ask, rest = r, len(r.Keys)
		}
		switch {
		case rest == 0:
			return nil
		case round == rounds:
			return fmt.Errorf("%w: %d of %d records were not read", directory.ErrBusy, rest, len(keys))
		}
		if err := pause(ctx, round); err != nil {
			return err
		}
	}
}

func keep(it item, found map[directory.Key]directory.Record) error {
	r, err := decode(it)
	if err != nil {
		return err
	}
	found[r.Key] = r
	return nil
}

// Waits double from firstPause up to maxPause and are shortened at random, so that those who met once do
// not meet again.
const (
	firstPause = 20 * time.Millisecond
	maxPause   = time.Second
)

// pause waits before the try that follows the given one, counted from 1.
func pause(ctx context.Context, try int) error {
	timer := time.NewTimer(rand.N(min(firstPause<<min(try-1, 10), maxPause)) + 1)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// throttled finds the errors by which DynamoDB says that it did nothing.
var throttled = retry.ThrottleErrorCode{Codes: retry.DefaultThrottleErrorCodes}

// busy adds directory.ErrBusy to an error that says so in DynamoDB's words.
func busy(err error) error {
	if err != nil && !errors.Is(err, directory.ErrBusy) && throttled.IsErrorThrottle(err).Bool() {
		return fmt.Errorf("%w: %w", directory.ErrBusy, err)
	}
	return err
}
