package dynamodir

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"cellwall.dev/cellwall/internal/directory"
)

// fakeStream is a table's stream. An iterator is "shard number-of-the-next-record age".
type fakeStream struct {
	t *testing.T

	mu     sync.Mutex
	shards []*fakeShard
	age    int // of iterators that are given out now
	reads  int
}

type fakeShard struct {
	id, parent string
	closed     bool
	records    []*streamtypes.StreamRecord
	trimmed    int
}

func (s *fakeStream) add(before, after item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	shard := s.shards[len(s.shards)-1]
	shard.records = append(shard.records, &streamtypes.StreamRecord{
		SequenceNumber: aws.String(strconv.Itoa(len(shard.records))), NewImage: image(after), OldImage: image(before)})
}

func image(it item) map[string]streamtypes.AttributeValue {
	if it == nil {
		return nil
	}
	out := map[string]streamtypes.AttributeValue{}
	for name, v := range it {
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			out[name] = &streamtypes.AttributeValueMemberS{Value: v.Value}
		case *types.AttributeValueMemberN:
			out[name] = &streamtypes.AttributeValueMemberN{Value: v.Value}
		}
	}
	return out
}

// split closes the last shard and goes on in another.
func (s *fakeStream) split() {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.shards[len(s.shards)-1]
	last.closed = true
	s.shards = append(s.shards, &fakeShard{id: fmt.Sprintf("shard-%d", len(s.shards)+1), parent: last.id})
}

func (s *fakeStream) shard(id string) *fakeShard {
	for _, shard := range s.shards {
		if shard.id == id {
			return shard
		}
	}
	return nil
}

func (s *fakeStream) DescribeStream(_ context.Context, in *dynamodbstreams.DescribeStreamInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := &streamtypes.StreamDescription{}
	for i, shard := range s.shards { // one to a page
		if start := aws.ToString(in.ExclusiveStartShardId); start != "" && i <= indexOf(s.shards, start) {
			continue
		}
		about := streamtypes.Shard{ShardId: &shard.id, SequenceNumberRange: &streamtypes.SequenceNumberRange{StartingSequenceNumber: aws.String("0")}}
		if shard.parent != "" {
			about.ParentShardId = &shard.parent
		}
		if shard.closed {
			about.SequenceNumberRange.EndingSequenceNumber = aws.String(strconv.Itoa(len(shard.records)))
		}
		d.Shards = []streamtypes.Shard{about}
		if i+1 < len(s.shards) {
			d.LastEvaluatedShardId = &shard.id
		}
		break
	}
	return &dynamodbstreams.DescribeStreamOutput{StreamDescription: d}, nil
}

func indexOf(shards []*fakeShard, id string) int {
	for i, s := range shards {
		if s.id == id {
			return i
		}
	}
	return -1
}

func (s *fakeStream) GetShardIterator(_ context.Context, in *dynamodbstreams.GetShardIteratorInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	shard := s.shard(aws.ToString(in.ShardId))
	if shard == nil || aws.ToString(in.StreamArn) != "stream" {
		return nil, &streamtypes.ResourceNotFoundException{}
	}
	at := shard.trimmed
	switch in.ShardIteratorType {
	case streamtypes.ShardIteratorTypeLatest:
		at = len(shard.records)
	case streamtypes.ShardIteratorTypeAfterSequenceNumber:
		n, err := strconv.Atoi(aws.ToString(in.SequenceNumber))
		if err != nil {
			s.t.Errorf("sequence number %q", aws.ToString(in.SequenceNumber))
		}
		if at = n + 1; at < shard.trimmed {
			return nil, &streamtypes.TrimmedDataAccessException{}
		}
	}
	return &dynamodbstreams.GetShardIteratorOutput{ShardIterator: s.iterator(shard, at)}, nil
}

func (s *fakeStream) iterator(shard *fakeShard, at int) *string {
	return aws.String(fmt.Sprintf("%s %d %d", shard.id, at, s.age))
}

func (s *fakeStream) GetRecords(_ context.Context, in *dynamodbstreams.GetRecordsInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	var id string
	var at, age int
	if _, err := fmt.Sscan(aws.ToString(in.ShardIterator), &id, &at, &age); err != nil {
		s.t.Errorf("iterator %q", aws.ToString(in.ShardIterator))
	}
	if age < s.age {
		return nil, &streamtypes.ExpiredIteratorException{}
	}
	shard := s.shard(id)
	out := &dynamodbstreams.GetRecordsOutput{}
	for ; at < len(shard.records) && len(out.Records) < int(aws.ToInt32(in.Limit)); at++ {
		out.Records = append(out.Records, streamtypes.Record{Dynamodb: shard.records[at]})
	}
	if !shard.closed || at < len(shard.records) {
		out.NextShardIterator = s.iterator(shard, at)
	}
	return out, nil
}

// follow reads the feed to its present end and returns what it told, as "part version".
func follow(t *testing.T, home *Table, cursor directory.Cursor) ([]string, directory.Cursor) {
	t.Helper()
	var told []string
	for range 10 {
		records, next, err := home.Changes(t.Context(), cursor, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			told = append(told, fmt.Sprintf("%s %d", r.Part, r.Version))
		}
		cursor = next
	}
	return told, cursor
}

func write(t *testing.T, home directory.Home, operation string, ops ...directory.Op) {
	t.Helper()
	if err := home.Write(t.Context(), directory.Batch{Operation: operation, Ops: ops}); err != nil {
		t.Fatal(err)
	}
}

func entryKey(part string) directory.Key { return directory.Key{Part: part, Sort: "ENTRY"} }

func TestFeedFollowsSplits(t *testing.T) {
	f := newFake(t)
	home := f.open()
	f.stream.split() // the first shard is past before the feed begins
	write(t, home, "op", directory.Put(entryKey("old"), 0, nil))
	_, cursor, err := home.Changes(t.Context(), "", 1)
	if err != nil {
		t.Fatal(err)
	}
	write(t, home, "op", directory.Put(entryKey("a"), 0, nil))
	f.stream.split()
	write(t, home, "op", directory.Put(entryKey("b"), 0, nil))
	f.stream.split()
	f.stream.split() // nothing in between
	write(t, home, "op", directory.Put(entryKey("a"), 1, nil))
	told, cursor := follow(t, home, cursor)
	if got := strings.Join(told, ", "); got != "a 1, b 1, a 2" {
		t.Errorf("the feed told %s", got)
	}
	f.stream.age++ // all iterators expire
	write(t, home, "op", directory.Put(entryKey("c"), 0, nil))
	told, cursor = follow(t, home, cursor)
	if got := strings.Join(told, ", "); got != "c 1" {
		t.Errorf("after a pause the feed told %s", got)
	}
	f.stream.age++
	write(t, home, "op", directory.Put(entryKey("d"), 0, nil), directory.Put(entryKey("e"), 0, nil))
	f.stream.shards[len(f.stream.shards)-1].trimmed = 3 // to e
	if _, _, err := home.Changes(t.Context(), cursor, 3); !errors.Is(err, directory.ErrCursor) {
		t.Errorf("after a long pause: %v, want %q", err, directory.ErrCursor)
	}
}

func TestFeedOfNowExpires(t *testing.T) {
	f := newFake(t)
	home := f.open()
	_, cursor, err := home.Changes(t.Context(), "", 1)
	if err != nil {
		t.Fatal(err)
	}
	f.stream.age++
	if _, _, err := home.Changes(t.Context(), cursor, 3); !errors.Is(err, directory.ErrCursor) {
		t.Errorf("%v, want %q", err, directory.ErrCursor)
	}
	other := directory.Cursor(strings.ReplaceAll(string(cursor), `"stream":"stream"`, `"stream":"another"`))
	if _, err := iterator(t.Context(), f.stream, "another", position{Shard: "shard-1"}); !errors.Is(err, directory.ErrCursor) {
		t.Errorf("a stream that is gone, %s: %v", other, err)
	}
}

// One call makes a bounded number of requests, however much there is that it does not tell of.
func TestFeedIsBounded(t *testing.T) {
	f := newFake(t)
	home := f.open()
	_, cursor, err := home.Changes(t.Context(), "", 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		write(t, home, "op", directory.Put(directory.Key{Part: "p", Sort: fmt.Sprintf("LOG#%d", i)}, 0, nil))
	}
	records, _, err := home.Changes(t.Context(), cursor, 1)
	if err != nil || len(records) != 0 || f.stream.reads != maxReads {
		t.Errorf("%d records by %d requests, %v", len(records), f.stream.reads, err)
	}
}

func TestNoFeed(t *testing.T) {
	f := newFake(t)
	if _, _, err := New(f, f.name).Changes(t.Context(), "", 1); err == nil {
		t.Error("a table without its stream has a feed")
	}
}
