package dynamohold

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"cellwall.dev/cellwall/internal/directory"
)

// maxTogether is how many holdings are written by one transaction, which takes 100 items.
const maxTogether = 50

// Of an item that is there, one of the attributes is.
const (
	notSince = "(attribute_not_exists(#e) OR #e < :e) AND (attribute_not_exists(#g) OR #g < :e)"  // neither held nor let go at this epoch or a higher one
	notAbove = "(attribute_not_exists(#e) OR #e <= :e) AND (attribute_not_exists(#g) OR #g < :e)" // not held at a higher one, nor let go at this or a higher one
	atMost   = "(attribute_not_exists(#e) OR #e <= :e) AND (attribute_not_exists(#g) OR #g <= :e)"
)

var attributes = map[string]string{"#e": directory.HoldingEpoch, "#g": directory.HoldingGone}

func epochValue(epoch uint64) item {
	return item{":e": &types.AttributeValueMemberN{Value: strconv.FormatUint(epoch, 10)}}
}

// Hold implements directory.Holder.
func (h *Holder) Hold(ctx context.Context, cell, shard string, one directory.Holding) error {
	return h.HoldMany(ctx, cell, shard, []directory.Holding{one})
}

// HoldMany implements directory.ManyHolder, by one transaction for each 50.
func (h *Holder) HoldMany(ctx context.Context, cell, shard string, many []directory.Holding) error {
	return h.write(ctx, cell, shard, many, func(p Place, own, listed item, epoch uint64) (a, b types.TransactWriteItem) {
		value := epochValue(epoch)
		// The list's needs no condition: it is as the tenant's, beside which it is written. It is no Put, so
		// that whoever holds and lets go needs no right to that.
		return p.update(own, "SET #e = :e REMOVE #g", notSince, value), types.TransactWriteItem{Update: &types.Update{
			TableName: &p.Table, Key: listed, UpdateExpression: aws.String("SET #e = :e"),
			ExpressionAttributeNames: map[string]string{"#e": directory.HoldingEpoch}, ExpressionAttributeValues: value,
		}}
	})
}

// Release implements directory.Holder.
func (h *Holder) Release(ctx context.Context, cell, shard string, one directory.Holding) error {
	return h.write(ctx, cell, shard, []directory.Holding{one}, func(p Place, own, listed item, epoch uint64) (a, b types.TransactWriteItem) {
		return p.update(own, "SET #g = :e REMOVE #e", notAbove, epochValue(epoch)), p.unlist(listed)
	})
}

// Forget implements directory.Forgetter.
func (h *Holder) Forget(ctx context.Context, cell, shard string, one directory.Holding) error {
	return h.write(ctx, cell, shard, []directory.Holding{one}, func(p Place, own, listed item, epoch uint64) (a, b types.TransactWriteItem) {
		return types.TransactWriteItem{Delete: &types.Delete{
			TableName: &p.Table, Key: own, ConditionExpression: aws.String(atMost),
			ExpressionAttributeNames: attributes, ExpressionAttributeValues: epochValue(epoch),
		}}, p.unlist(listed)
	})
}

func (p Place) update(key item, what, when string, values item) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{
		TableName: &p.Table, Key: key, UpdateExpression: &what, ConditionExpression: &when,
		ExpressionAttributeNames: attributes, ExpressionAttributeValues: values,
	}}
}

// unlist needs no condition either.
func (p Place) unlist(key item) types.TransactWriteItem {
	return types.TransactWriteItem{Delete: &types.Delete{TableName: &p.Table, Key: key}}
}

// asking says what shall become of the two items of a holding, under the condition on the first that it is
// not so yet.
type asking func(p Place, own, listed item, epoch uint64) (a, b types.TransactWriteItem)

// write has it become so with both items of each holding.
func (h *Holder) write(ctx context.Context, cell, shard string, many []directory.Holding, ask asking) error {
	highest := map[string]uint64{} // a transaction takes each item once
	for _, one := range many {
		if !directory.ValidTenant(one.Tenant) {
			return fmt.Errorf("shard %s/%s: %w: a tenant id of %d bytes", cell, shard, directory.ErrInvalid, len(one.Tenant))
		}
		highest[one.Tenant] = max(highest[one.Tenant], one.Epoch)
	}
	p, err := h.place(ctx, cell, shard)
	if err != nil || p.Table == "" {
		return err
	}
	var holdings []directory.Holding
	for _, tenant := range slices.Sorted(maps.Keys(highest)) {
		holdings = append(holdings, directory.Holding{Tenant: tenant, Epoch: highest[tenant]})
	}
	for some := range slices.Chunk(holdings, maxTogether) {
		if err := p.write(ctx, some, ask); err != nil {
			return fmt.Errorf("shard %s/%s: %w", cell, shard, err)
		}
	}
	return nil
}

// A write that contends with the tenants' own is tried until the context's deadline, or patience times
// without one, with waits that double from firstPause up to maxPause and are shortened at random: for
// about a minute.
const (
	patience   = 120
	firstPause = 20 * time.Millisecond
	maxPause   = time.Second
)

// write writes up to maxTogether holdings. Those that are in the way of a transaction, be it because
// they are as they shall be or because others write them, are taken out of it.
func (p Place) write(ctx context.Context, some []directory.Holding, ask asking) error {
	_, bounded := ctx.Deadline()
	for try := 1; ; {
		_, err := p.Client.TransactWriteItems(ctx, p.transaction(some, ask))
		if err == nil {
			return nil
		}
		free, met, fatal := sift(err, some)
		if fatal != nil {
			return fatal
		}
		if len(free)+len(met) == 0 {
			return nil
		}
		if len(met) == 0 { // without those that are done
			some = free
			continue
		}
		if len(free) > 0 {
			if err := p.write(ctx, free, ask); err != nil {
				return err
			}
		}
		some = met
		if try == patience && !bounded {
			return fmt.Errorf("%w: %w", directory.ErrBusy, err)
		}
		if late := pause(ctx, try); late != nil {
			return fmt.Errorf("%w: %w", late, err)
		}
		try++
	}
}

func (p Place) transaction(some []directory.Holding, ask asking) *dynamodb.TransactWriteItemsInput {
	in := &dynamodb.TransactWriteItemsInput{}
	for _, one := range some {
		own, listed := p.keys(one.Tenant)
		a, b := ask(p, itemKey(own), itemKey(listed), one.Epoch)
		in.TransactItems = append(in.TransactItems, a, b)
	}
	return in
}

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

var throttled = retry.ThrottleErrorCode{Codes: retry.DefaultThrottleErrorCodes}

// sift says which holdings of a transaction that failed were not in its way, and which met another write
// or were throttled. The others are as they shall be. It is fatal when DynamoDB says anything else.
func sift(err error, some []directory.Holding) (free, met []directory.Holding, fatal error) {
	var cancelled *types.TransactionCanceledException
	if !errors.As(err, &cancelled) {
		if throttled.IsErrorThrottle(err).Bool() {
			return nil, some, nil
		}
		return nil, nil, err
	}
	reasons := cancelled.CancellationReasons
	if len(reasons) != 2*len(some) {
		return nil, nil, err
	}
	for i, one := range some {
		done, contended := false, false
		for _, reason := range reasons[2*i : 2*i+2] {
			switch aws.ToString(reason.Code) {
			case "", "None":
			case "ConditionalCheckFailed":
				done = true
			case "TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError":
				contended = true
			default:
				return nil, nil, fmt.Errorf("tenant %q: %s: %w", one.Tenant, aws.ToString(reason.Message), err)
			}
		}
		switch {
		case done:
		case contended:
			met = append(met, one)
		default:
			free = append(free, one)
		}
	}
	if len(free) == len(some) { // cancelled, and for nothing
		return nil, nil, err
	}
	return free, met, nil
}
