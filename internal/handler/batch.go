package handler

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// What a batch keeps of the function's time to report in: Lambda that kills the function before it
// answers delivers again what is done, too. A quarter, where the whole is short.
const (
	batchMargin     = time.Second
	batchMarginPart = 4
)

// jobs reads a batch of messages of a queue; ok is false for any other event.
func jobs(payload []byte) (batch *events.SQSEvent, ok bool) {
	batch = new(events.SQSEvent)
	if json.Unmarshal(payload, batch) != nil || len(batch.Records) == 0 {
		return nil, false
	}
	return batch, true
}

// consume does the jobs of a batch one after another, and names those that are to be delivered again:
// those that failed, and those for which no time is left. After the queue's maxReceive a job is in the
// dead-letter queue, where somebody sees it. A job's context ends in time to report; one that does not
// heed it may still cost the batch its report.
func consume(ctx context.Context, batch *events.SQSEvent, do func(ctx context.Context, message []byte) error, log *slog.Logger) ([]byte, error) {
	if deadline, ok := ctx.Deadline(); ok {
		margin := min(batchMargin, time.Until(deadline)/batchMarginPart)
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-margin))
		defer cancel()
	}
	out := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
	for _, record := range batch.Records {
		if err := do(ctx, []byte(record.Body)); err != nil {
			log.Error("job failed", "message", record.MessageId, "err", err)
			out.BatchItemFailures = append(out.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: record.MessageId})
		}
	}
	return json.Marshal(out)
}
