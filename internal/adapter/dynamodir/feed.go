package dynamodir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"cellwall.dev/cellwall/internal/directory"
)

// Streams is the part of *dynamodbstreams.Client that is needed.
type Streams interface {
	DescribeStream(context.Context, *dynamodbstreams.DescribeStreamInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error)
	GetShardIterator(context.Context, *dynamodbstreams.GetShardIteratorInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error)
	GetRecords(context.Context, *dynamodbstreams.GetRecordsInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error)
}

// cursor is a place in a stream: one in each of its shards that still matter. As text it is JSON.
type cursor struct {
	Stream string     `json:"stream"`
	Shards []position `json:"shards"`
}

// position is where to go on in a shard. The iterator is the quick way and lasts a quarter of an hour;
// after that, the sequence number leads there for a day. A shard of which nothing was read has none.
type position struct {
	Shard    string `json:"shard"`
	Iterator string `json:"iterator,omitempty"`
	Sequence string `json:"sequence,omitempty"` // of the last record that was read
	Latest   bool   `json:"latest,omitempty"`   // began at the shard's end, not at its beginning
	Ended    bool   `json:"ended,omitempty"`    // was read to its end; its children follow
}

// maxReads bounds the requests of one call of Changes.
const maxReads = 10

// Changes implements directory.Home by the table's stream, which reaches back one day. A cursor of now
// that nothing was read with lasts a quarter of an hour. A stream also carries what is not announced, so
// that an answer without records is not yet the end.
func (t *Table) Changes(ctx context.Context, after directory.Cursor, limit int) ([]directory.Record, directory.Cursor, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	if t.streams == nil {
		return nil, "", errors.New("the feed of changes: this process was not given the table's stream")
	}
	if after == "" {
		next, err := t.now(ctx)
		if err != nil {
			return nil, "", fmt.Errorf("the feed of changes: %w", err)
		}
		return nil, next, nil
	}
	var c cursor
	if err := json.Unmarshal([]byte(after), &c); err != nil || c.Stream == "" || limit < 1 {
		return nil, "", fmt.Errorf("changes after %q, at most %d: %w", after, limit, directory.ErrInvalid)
	}
	f := follower{streams: t.streams, cursor: c, limit: limit}
	if err := f.follow(ctx); err != nil {
		return nil, "", fmt.Errorf("the feed of changes: %w", err)
	}
	next, err := f.cursor.text()
	return f.records, next, err
}

func (c cursor) text() (directory.Cursor, error) {
	text, err := json.Marshal(c)
	return directory.Cursor(text), err
}

// now is the place behind everything that is in the stream.
func (t *Table) now(ctx context.Context) (directory.Cursor, error) {
	out, err := t.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &t.name})
	if err != nil {
		return "", err
	}
	c := cursor{Stream: aws.ToString(out.Table.LatestStreamArn)}
	if c.Stream == "" {
		return "", fmt.Errorf("table %s has no stream", t.name)
	}
	shards, err := describe(ctx, t.streams, c.Stream)
	if err != nil {
		return "", err
	}
	for _, s := range shards {
		if s.SequenceNumberRange != nil && s.SequenceNumberRange.EndingSequenceNumber != nil {
			continue // closed: all that is in it is past
		}
		p := position{Shard: aws.ToString(s.ShardId), Latest: true}
		if p.Iterator, err = iterator(ctx, t.streams, c.Stream, p); err != nil {
			return "", err
		}
		c.Shards = append(c.Shards, p)
	}
	return c.text()
}

func describe(ctx context.Context, streams Streams, stream string) ([]types.Shard, error) {
	var shards []types.Shard
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: &stream}
	for {
		out, err := streams.DescribeStream(ctx, in)
		if err != nil {
			return nil, gone(err)
		}
		shards = append(shards, out.StreamDescription.Shards...)
		if in.ExclusiveStartShardId = out.StreamDescription.LastEvaluatedShardId; in.ExclusiveStartShardId == nil {
			return shards, nil
		}
	}
}

// gone says in the directory's words that a place in the stream is there no longer.
func gone(err error) error {
	var trimmed *types.TrimmedDataAccessException
	var missing *types.ResourceNotFoundException
	if errors.As(err, &trimmed) || errors.As(err, &missing) {
		return fmt.Errorf("%w: %w", directory.ErrCursor, err)
	}
	return err
}

// iterator finds the place of a position anew.
func iterator(ctx context.Context, streams Streams, stream string, p position) (string, error) {
	in := &dynamodbstreams.GetShardIteratorInput{StreamArn: &stream, ShardId: &p.Shard, ShardIteratorType: types.ShardIteratorTypeTrimHorizon}
	switch {
	case p.Sequence != "":
		in.ShardIteratorType, in.SequenceNumber = types.ShardIteratorTypeAfterSequenceNumber, &p.Sequence
	case p.Latest:
		in.ShardIteratorType = types.ShardIteratorTypeLatest
	}
	out, err := streams.GetShardIterator(ctx, in)
	if err != nil {
		return "", gone(err)
	}
	return aws.ToString(out.ShardIterator), nil
}

// follower goes on from a cursor.
type follower struct {
	streams Streams
	cursor  cursor
	limit   int
	reads   int
	records []directory.Record
}

func (f *follower) follow(ctx context.Context) error {
	todo := f.cursor.Shards
	f.cursor.Shards = nil
	for i := range todo {
		p := todo[i]
		if err := f.read(ctx, &p); err != nil {
			return err
		}
		todo[i] = p
	}
	shards, err := f.children(ctx, todo)
	if err != nil {
		return err
	}
	if len(shards) > 1 { // next time, another one is first
		shards = append(shards[1:], shards[0])
	}
	f.cursor.Shards = shards
	return nil
}

// read goes on in one shard, until its present end, or that of the limits.
func (f *follower) read(ctx context.Context, p *position) error {
	for !p.Ended && len(f.records) < f.limit && f.reads < maxReads {
		if p.Iterator == "" {
			var err error
			if p.Iterator, err = iterator(ctx, f.streams, f.cursor.Stream, *p); err != nil {
				return err
			}
		}
		f.reads++
		out, err := f.streams.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{
			ShardIterator: &p.Iterator, Limit: int32Of(min(f.limit-len(f.records), maxPage))})
		var expired *types.ExpiredIteratorException
		switch {
		case errors.As(err, &expired) && p.Latest && p.Sequence == "":
			return fmt.Errorf("%w: %w", directory.ErrCursor, err)
		case errors.As(err, &expired):
			p.Iterator = ""
			continue
		case err != nil:
			return gone(err)
		}
		for _, r := range out.Records {
			if err := f.take(r.Dynamodb); err != nil {
				return err
			}
			p.Sequence = aws.ToString(r.Dynamodb.SequenceNumber)
		}
		p.Iterator = aws.ToString(out.NextShardIterator)
		p.Ended = p.Iterator == ""
		if len(out.Records) == 0 {
			return nil
		}
	}
	return nil
}

// take keeps a record of the stream if it tells of a put that is announced.
func (f *follower) take(r *types.StreamRecord) error {
	if r == nil || r.NewImage == nil {
		return nil // removed by hand: a home never removes
	}
	image, err := attributevalue.FromDynamoDBStreamsMap(r.NewImage)
	if err != nil {
		return err
	}
	if d := (decoder{item: image}); !directory.Announced(d.key()) {
		return nil
	}
	after, err := decode(image)
	if err != nil {
		return err
	}
	if old, err := attributevalue.FromDynamoDBStreamsMap(r.OldImage); err == nil && len(old) > 0 {
		if before, err := decode(old); err == nil && before.Version == after.Version {
			return nil // only a counter moved
		}
	}
	f.records = append(f.records, after)
	return nil
}

// children puts in the place of shards that have ended those that continue them. DynamoDB splits a shard
// when the table grows, and closes each after some hours.
func (f *follower) children(ctx context.Context, shards []position) ([]position, error) {
	if !slices.ContainsFunc(shards, func(p position) bool { return p.Ended }) {
		return shards, nil
	}
	all, err := describe(ctx, f.streams, f.cursor.Stream)
	if err != nil {
		return nil, err
	}
	var next []position
	for _, p := range shards {
		n := len(next)
		for _, s := range all {
			known := func(q position) bool { return q.Shard == aws.ToString(s.ShardId) }
			if p.Ended && aws.ToString(s.ParentShardId) == p.Shard && !slices.ContainsFunc(next, known) {
				next = append(next, position{Shard: aws.ToString(s.ShardId)})
			}
		}
		if len(next) == n { // goes on itself, or its children do not show yet
			next = append(next, p)
		}
	}
	return next, nil
}
