package dynamodir

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// maxPage is how many items a request asks for, at most. DynamoDB ends a page at 1 MB, too.
const maxPage = 1000

// List implements directory.Home. A listing by part or of a whole family is consistent; one by an index
// is not, since DynamoDB's are not. Its order is that of Sort within a part, and that of Part within a value
// of an index; beyond that it is DynamoDB's.
func (t *Table) List(ctx context.Context, r directory.Range, after directory.Key, limit int) ([]directory.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := directory.CheckRange(r, limit); err != nil {
		return nil, err
	}
	if after != (directory.Key{}) && r.Part == "" && after.Family() != r.Family {
		return nil, fmt.Errorf("list the directory: %w: family %s cannot go on after %v", directory.ErrInvalid, r.Family, after)
	}
	var page func(context.Context, item) ([]item, item, error)
	switch {
	case r.Part != "":
		page = t.part(r, after, limit)
	case r.Index != directory.NoIndex:
		page = t.index(r, after, limit)
	default:
		page = t.family(r, after, limit)
	}
	records := []directory.Record{}
	if page == nil {
		return records, nil
	}
	for start := item(nil); ; {
		items, next, err := page(ctx, start)
		if err != nil {
			return nil, fmt.Errorf("list the directory: %w", busy(err))
		}
		for _, it := range items {
			d := decoder{item: it}
			if k := d.key(); k.Family() != r.Family || k == after {
				continue // between the bounds of the query, but none of ours
			}
			rec, err := decode(it)
			if err != nil {
				return nil, err
			}
			if records = append(records, rec); len(records) == limit {
				return records, nil
			}
		}
		if len(next) == 0 {
			return records, nil
		}
		start = next
	}
}

// afterFamily is the least string above all sort keys of a family, which are its name alone or its name
// with '#' and something: '$' follows '#'.
func afterFamily(family string) string { return family + "$" }

// part queries one part from a key on, which need not exist. It is nil when nothing can follow.
func (t *Table) part(r directory.Range, after directory.Key, limit int) func(context.Context, item) ([]item, item, error) {
	low, high := r.Family, afterFamily(r.Family)
	if after.Part == r.Part {
		low = max(low, after.Sort)
	}
	if after.Part > r.Part || low > high {
		return nil
	}
	e := expression{}
	condition := e.name(names.PartitionKey) + " = " + e.value(str(r.Part)) + " AND " + e.between(names.SortKey, low, high)
	in := &dynamodb.QueryInput{ConsistentRead: aws.Bool(true), KeyConditionExpression: &condition}
	return t.query(in, e, limit+1) // and the one that is left out
}

// index queries one value of an index, on from where a record is or was. Several records of one part may
// have the value; the index keeps them in an order by the rest of the table's key, which every start has
// with it.
func (t *Table) index(r directory.Range, after directory.Key, limit int) func(context.Context, item) ([]item, item, error) {
	index, value, e := indexes[r.Index-1], indexValue(r.Family, r.Value), expression{}
	condition := e.name(index.attr) + " = " + e.value(value)
	in := &dynamodb.QueryInput{IndexName: &index.name, KeyConditionExpression: &condition}
	if after != (directory.Key{}) {
		in.ExclusiveStartKey = itemKey(after)
		in.ExclusiveStartKey[index.attr] = value
	}
	return t.query(in, e, limit)
}

func (t *Table) query(in *dynamodb.QueryInput, e expression, limit int) func(context.Context, item) ([]item, item, error) {
	in.TableName, in.Limit = &t.name, int32Of(min(limit, maxPage))
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = e.names, e.values
	return func(ctx context.Context, start item) ([]item, item, error) {
		if start != nil {
			in.ExclusiveStartKey = start
		}
		out, err := t.client.Query(ctx, in)
		if err != nil {
			return nil, nil, err
		}
		return out.Items, out.LastEvaluatedKey, nil
	}
}

// family scans the table.
func (t *Table) family(r directory.Range, after directory.Key, limit int) func(context.Context, item) ([]item, item, error) {
	e := expression{}
	in := &dynamodb.ScanInput{
		TableName: &t.name, ConsistentRead: aws.Bool(true), Limit: int32Of(min(limit, maxPage)),
		FilterExpression: aws.String(e.between(names.SortKey, r.Family, afterFamily(r.Family))),
	}
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = e.names, e.values
	if after != (directory.Key{}) {
		in.ExclusiveStartKey = itemKey(after)
	}
	return func(ctx context.Context, start item) ([]item, item, error) {
		if start != nil {
			in.ExclusiveStartKey = start
		}
		out, err := t.client.Scan(ctx, in)
		if err != nil {
			return nil, nil, err
		}
		return out.Items, out.LastEvaluatedKey, nil
	}
}
