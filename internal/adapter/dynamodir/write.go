package dynamodir

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"cellwall.dev/cellwall/internal/directory"
)

// A write whose outcome is not known is turned away patience times in a row, in about a minute, before
// that is told a caller who set no deadline; and anybody before DynamoDB forgets the transaction's token,
// which it does after ten minutes: a repetition would count a second time.
const (
	patience  = 120
	tokenLife = 9 * time.Minute
)

// Write implements directory.Home. It repeats what was turned away, or went without an answer, as often
// in a row as WithAttempts says. Once an answer was lost, being turned away does not end it before the
// context does, or the token's life: another call, under another token, could not tell what became of it.
func (t *Table) Write(ctx context.Context, b directory.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.Check(); err != nil {
		return err
	}
	for _, o := range b.Ops {
		if o.Put && !utf8.Valid(o.Body) {
			return fmt.Errorf("%w: the body of record %v is no UTF-8", directory.ErrInvalid, o.Key)
		}
		for _, value := range o.Index {
			if n := len(o.Family()) + 1 + len(value); n > maxIndexValue {
				return fmt.Errorf("%w: record %v has an index value of %d bytes, its family included; at most %d", directory.ErrTooLarge, o.Key, n, maxIndexValue)
			}
		}
	}
	send := t.transaction(b)
	if o := b.Ops[0]; len(b.Ops) == 1 && o.Put && o.Expect != directory.AnyVersion {
		send = t.single(o, b.Operation)
	}
	_, bounded := ctx.Deadline()
	begun := time.Now()
	lost, row, last := false, 0, refused // whether any answer was lost; how many tries in a row came to the same
	for try := 1; ; try++ {
		err := send(ctx)
		if err == nil {
			return nil
		}
		came, err := judge(err, b.Ops)
		if came == refused {
			if lost && ownSuccess(err, b) {
				return nil
			}
			return err
		}
		if row++; came != last {
			row, last = 1, came
		}
		lost = lost || came == unknown
		end := row >= t.attempts
		if came == turnedAway && lost {
			end = row >= patience && !bounded || time.Since(begun) > tokenLife
		}
		if !end {
			late := pause(ctx, try)
			if late == nil {
				continue
			}
			err = fmt.Errorf("%w: %w", late, err)
		}
		if lost { // an earlier try may have been written, whatever came of the last
			return fmt.Errorf("write the directory: it is not known whether operation %q was written: %w", b.Operation, err)
		}
		return fmt.Errorf("write the directory: %w: %w", directory.ErrBusy, err)
	}
}

// ownSuccess says whether a single put was refused because of itself: a try before it was written, and
// its answer lost.
func ownSuccess(err error, b directory.Batch) bool {
	var conflict *directory.Conflict
	if len(b.Ops) != 1 || !errors.As(err, &conflict) {
		return false
	}
	o, have := b.Ops[0], conflict.Failed[0].Have
	return o.Put && have.Version == o.Expect+1 && have.Operation == b.Operation && bytes.Equal(have.Body, o.Body) && have.Index == o.Index
}

// once leaves the repeating to Write, which has to know what came of each try.
func once(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

// single puts one record by one conditional UpdateItem. A put whose version is fixed may be repeated:
// the second one finds the first in its way.
func (t *Table) single(o directory.Op, operation string) func(context.Context) error {
	e := express(o, operation)
	in := &dynamodb.UpdateItemInput{
		TableName: &t.name, Key: itemKey(o.Key), ConditionExpression: e.condition(), UpdateExpression: e.update(),
		ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	return func(ctx context.Context) error {
		_, err := t.client.UpdateItem(ctx, in, once)
		return err
	}
}

// transaction writes a batch by one TransactWriteItems, under a token of its own.
func (t *Table) transaction(b directory.Batch) func(context.Context) error {
	in := &dynamodb.TransactWriteItemsInput{ClientRequestToken: aws.String(rand.Text())}
	const all = types.ReturnValuesOnConditionCheckFailureAllOld
	for _, o := range b.Ops {
		e := express(o, b.Operation)
		var w types.TransactWriteItem
		if e.update() == nil {
			w.ConditionCheck = &types.ConditionCheck{
				TableName: &t.name, Key: itemKey(o.Key), ConditionExpression: e.condition(),
				ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values, ReturnValuesOnConditionCheckFailure: all,
			}
		} else {
			w.Update = &types.Update{
				TableName: &t.name, Key: itemKey(o.Key), ConditionExpression: e.condition(), UpdateExpression: e.update(),
				ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values, ReturnValuesOnConditionCheckFailure: all,
			}
		}
		in.TransactItems = append(in.TransactItems, w)
	}
	return func(ctx context.Context) error {
		_, err := t.client.TransactWriteItems(ctx, in, once)
		return err
	}
}

// outcome is what an error says of a write.
type outcome int

const (
	refused    outcome = iota // not written, and repeating it is of no use
	turnedAway                // not written, for the moment
	unknown                   // nobody knows
)

// judge tells what came of a write, with the error that says so.
func judge(err error, ops []directory.Op) (outcome, error) {
	var failed *types.ConditionalCheckFailedException
	if errors.As(err, &failed) {
		have, err := found(ops[0].Key, failed.Item)
		if err != nil {
			return refused, err
		}
		return refused, &directory.Conflict{Failed: []directory.Failed{{Op: 0, Key: ops[0].Key, Have: have}}}
	}
	var cancelled *types.TransactionCanceledException
	if errors.As(err, &cancelled) {
		return judgeReasons(err, cancelled.CancellationReasons, ops)
	}
	var conflict *types.TransactionConflictException
	var progress *types.TransactionInProgressException
	var unread *smithy.DeserializationError
	wrapped := fmt.Errorf("write the directory: %w", err)
	switch {
	case errors.As(err, &progress): // the try before, whose answer did not come
		return unknown, wrapped
	case errors.As(err, &conflict), throttled.IsErrorThrottle(err).Bool():
		return turnedAway, wrapped
	case errors.As(err, &unread), retry.IsErrorRetryables(retry.DefaultRetryables).IsErrorRetryable(err).Bool():
		return unknown, wrapped
	}
	return refused, wrapped
}

// judgeReasons reads why a transaction was cancelled: DynamoDB gives a reason for each operation. While
// one of them is contention, the others may be missing, our own success among them: it has to be tried
// again.
func judgeReasons(err error, reasons []types.CancellationReason, ops []directory.Op) (outcome, error) {
	wrapped := fmt.Errorf("write the directory: %w", err)
	if len(reasons) != len(ops) {
		return refused, wrapped
	}
	var conflict directory.Conflict
	contended := false
	for i, reason := range reasons {
		switch aws.ToString(reason.Code) {
		case "", "None":
		case "ConditionalCheckFailed":
			have, err := found(ops[i].Key, reason.Item)
			if err != nil {
				return refused, err
			}
			conflict.Failed = append(conflict.Failed, directory.Failed{Op: i, Key: ops[i].Key, Have: have})
		case "TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError":
			contended = true
		default: // such as ValidationError, ItemCollectionSizeLimitExceeded
			return refused, fmt.Errorf("write the directory: record %v: %s: %w", ops[i].Key, aws.ToString(reason.Message), err)
		}
	}
	switch {
	case contended:
		return turnedAway, wrapped
	case len(conflict.Failed) == 0:
		return refused, wrapped
	}
	return refused, &conflict
}

// found is the record that stood in the way.
func found(k directory.Key, it item) (directory.Record, error) {
	if len(it) == 0 {
		return directory.Record{Key: k}, nil
	}
	return decode(it)
}
