// Package dynamohold keeps in DynamoDB which shards hold which tenants: in each shard's own table, or,
// where shards have none, in the store that the shards of a cell share.
//
// A holding is two items, written by one transaction. One is in the tenant's part, under
// directory.HoldingKey or directory.SharedHoldingKey; the shard's writes are conditioned on it, and
// tenants do not meet there. The other has partition key and sort key exchanged, and so lies in a list of
// the shard's, in the order of the tenants' bytes: listing reads nobody's state. Both have the epoch as
// directory.HoldingEpoch. When the shard lets go, the list's is deleted, and the tenant's keeps as
// directory.HoldingGone the epoch up to which, against a holding of before that comes late.
//
// Holding and releasing are requests that may be repeated: they say what shall be, and find it done. Many
// holdings of a shard are written maxTogether to a transaction, each under its own condition: one that is
// there already, or higher, is left alone and out of the next try.
package dynamohold

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// Client is the part of *dynamodb.Client that is needed.
type Client interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
}

// Place is where a shard's holdings lie. The zero Place is that of a shard without a store: nothing can
// be written there, and it holds everybody, as its service does, which cannot ask.
type Place struct {
	Client Client
	Table  string // name or ARN
	Shared string // the shard's id in a table that several shards share, else ""
}

// ErrNoStore means that nothing says whom a shard holds.
var ErrNoStore = errors.New("the fleet gives its shards neither a table nor a store of the cell, so that they hold everybody: list the cell's tenants instead, or add shard.table to the fleet")

// Find gives the place of a shard.
type Find func(cell, shard string) (Place, error)

// InFleet finds places by the fleet: the shard's own table; the cell's store when the shards have no table
// and state.mode is cell; else the zero Place. client gives a client that works in an account and region.
func InFleet(f *fleet.Fleet, client func(account, region string) Client) Find {
	return func(cell, shard string) (Place, error) {
		for _, c := range f.Cells {
			if c.Name != cell {
				continue
			}
			in := f.NamesOf(c)
			switch {
			case f.Shard.Table != nil:
				return Place{Client: client(c.Account, c.Region), Table: in.Shard(shard).Table()}, nil
			case f.Shard.State.Mode == fleet.StateCell:
				return Place{Client: client(c.Account, c.Region), Table: in.Store(), Shared: shard}, nil
			}
			return Place{}, nil
		}
		return Place{}, fmt.Errorf("the fleet has no cell %q", cell)
	}
}

// Holder is a directory.Holder.
type Holder struct{ find Find }

var (
	_ directory.ManyHolder = (*Holder)(nil)
	_ directory.Forgetter  = (*Holder)(nil)
)

// New returns the holder of the shards that find finds.
func New(find Find) *Holder { return &Holder{find} }

func (h *Holder) place(ctx context.Context, cell, shard string) (Place, error) {
	if err := ctx.Err(); err != nil {
		return Place{}, err
	}
	p, err := h.find(cell, shard)
	if err != nil {
		return Place{}, fmt.Errorf("shard %s/%s: %w", cell, shard, err)
	}
	return p, nil
}

type item = map[string]types.AttributeValue

func itemKey(k directory.Key) item {
	return item{names.PartitionKey: &types.AttributeValueMemberS{Value: k.Part}, names.SortKey: &types.AttributeValueMemberS{Value: k.Sort}}
}

// keys are those of a holding's two items: the tenant's and the list's.
func (p Place) keys(tenant string) (own, listed directory.Key) {
	own = directory.HoldingKey(tenant)
	if p.Shared != "" {
		own = directory.SharedHoldingKey(tenant, p.Shared)
	}
	return own, directory.Key{Part: own.Sort, Sort: own.Part}
}

// Held implements directory.Holder, by one consistent GetItem.
func (h *Holder) Held(ctx context.Context, cell, shard, tenant string) (directory.Holding, bool, error) {
	p, err := h.place(ctx, cell, shard)
	if err != nil || !directory.ValidTenant(tenant) {
		return directory.Holding{}, false, err
	}
	if p.Table == "" {
		return directory.Holding{Tenant: tenant}, true, nil
	}
	own, _ := p.keys(tenant)
	out, err := p.Client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &p.Table, Key: itemKey(own), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return directory.Holding{}, false, fmt.Errorf("shard %s/%s: %w", cell, shard, err)
	}
	if len(out.Item) == 0 || out.Item[directory.HoldingGone] != nil {
		return directory.Holding{}, false, nil
	}
	epoch, err := epochOf(out.Item)
	if err != nil {
		return directory.Holding{}, false, fmt.Errorf("shard %s/%s, tenant %q: %w", cell, shard, tenant, err)
	}
	return directory.Holding{Tenant: tenant, Epoch: epoch}, true, nil
}

// Holdings implements directory.Holder. It reads the shard's list alone, consistently.
func (h *Holder) Holdings(ctx context.Context, cell, shard, after string, limit int) ([]directory.Holding, error) {
	if limit < 1 {
		return nil, fmt.Errorf("list the tenants of shard %s/%s: limit %d: want at least 1", cell, shard, limit)
	}
	p, err := h.place(ctx, cell, shard)
	if err == nil && p.Table == "" {
		err = fmt.Errorf("list the tenants of shard %s/%s: %w", cell, shard, ErrNoStore)
	}
	if err != nil {
		return nil, err
	}
	_, first := p.keys("")
	in := &dynamodb.QueryInput{
		TableName: &p.Table, ConsistentRead: aws.Bool(true), Limit: aws.Int32(int32(min(limit, 1000))),
		KeyConditionExpression:   aws.String("#p = :p AND #s > :s"),
		ExpressionAttributeNames: map[string]string{"#p": names.PartitionKey, "#s": names.SortKey},
		ExpressionAttributeValues: item{
			":p": &types.AttributeValueMemberS{Value: first.Part}, ":s": &types.AttributeValueMemberS{Value: first.Sort + after}},
	}
	holdings := []directory.Holding{}
	for {
		out, err := p.Client.Query(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("list the tenants of shard %s/%s: %w", cell, shard, err)
		}
		for _, it := range out.Items {
			sort, ok := it[names.SortKey].(*types.AttributeValueMemberS)
			if !ok {
				return nil, fmt.Errorf("list the tenants of shard %s/%s: an item without a key", cell, shard)
			}
			epoch, err := epochOf(it)
			if err != nil {
				return nil, fmt.Errorf("list the tenants of shard %s/%s: item %q: %w", cell, shard, sort.Value, err)
			}
			holdings = append(holdings, directory.Holding{Tenant: strings.TrimPrefix(sort.Value, first.Sort), Epoch: epoch})
			if len(holdings) == limit {
				return holdings, nil
			}
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 {
			return holdings, nil
		}
	}
}

func epochOf(it item) (uint64, error) {
	n, ok := it[directory.HoldingEpoch].(*types.AttributeValueMemberN)
	if !ok {
		return 0, fmt.Errorf("attribute %s is missing or not a number", directory.HoldingEpoch)
	}
	epoch, err := strconv.ParseUint(n.Value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("attribute %s is %q: want a whole number", directory.HoldingEpoch, n.Value)
	}
	return epoch, nil
}
