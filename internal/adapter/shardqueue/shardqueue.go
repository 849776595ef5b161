// Package shardqueue puts requests into a shard's SQS queue, where they wait as jobs, and the jobs that a shard
// gives back or sends into its cell's.
package shardqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"cellwall.dev/cellwall/internal/routing"
)

// Client is the part of *sqs.Client that is needed. It must not repeat SendMessage by itself: make it
// with the options of Once.
type Client interface {
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
	SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
}

// Once switches the SDK's own retries off: a message whose answer was lost may be in the queue, and only
// the engine knows whether there may be two.
func Once(o *sqs.Options) { o.Retryer = aws.NopRetryer{} }

// Transport is a routing.Transport. It asks SQS once for each queue's address.
type Transport struct {
	sender
	queue func(shard string) string
}

// New returns a transport. queue gives the name of a shard's queue.
func New(client Client, queue func(shard string) string) *Transport {
	return &Transport{sender{client: client}, queue}
}

// Send implements routing.Transport: the answer is 202 with the job's id as soon as SQS has the message.
// The message group is the tenant, so that a fair queue serves tenants in turn (SQS developer guide,
// "Amazon SQS fair queues").
func (t *Transport) Send(ctx context.Context, call routing.Call, req *routing.Request) (*routing.Response, error) {
	job := routing.NewJob(call, req)
	message, err := job.Encode()
	switch {
	case errors.Is(err, routing.ErrTooLarge):
		return nil, err
	case err != nil: // no shard would read it
		return routing.Problem(http.StatusBadRequest, "the request cannot wait in a queue: its path is too long, or its Idempotency-Key is none"), nil
	}
	if err := t.send(ctx, t.queue(call.Shard), call.Tenant, message); err != nil {
		return nil, fmt.Errorf("queue of shard %s: %w", call.Shard, err)
	}
	// A struct of one string always encodes.
	body, _ := json.Marshal(struct {
		Job string `json:"job"`
	}{job.ID})
	return &routing.Response{
		Status: http.StatusAccepted, Header: http.Header{"Content-Type": {"application/json"}}, Body: body,
	}, nil
}

// Put puts a job that was placed again into the queue of its shard.
func (t *Transport) Put(ctx context.Context, job routing.Job) error {
	tenant, err := routing.DecodeTenant(job.Tenant)
	if err != nil {
		return err
	}
	message, err := job.Encode()
	if err != nil {
		return err
	}
	if err := t.send(ctx, t.queue(job.Shard), tenant, message); err != nil {
		return fmt.Errorf("queue of shard %s: %w", job.Shard, err)
	}
	return nil
}

// classify says of a failed SendMessage whether the message may be in the queue. An answer in the 400s
// is a refusal; one in the 500s, or a broken connection, leaves it open.
func classify(err error) error {
	if err == nil {
		return nil
	}
	var answer *awshttp.ResponseError
	if errors.As(err, &answer) && answer.HTTPStatusCode()/100 == 4 {
		return fmt.Errorf("%w: %w", routing.ErrNotSent, err)
	}
	var connect *net.OpError
	if errors.As(err, &connect) && connect.Op == "dial" {
		return fmt.Errorf("%w: %w", routing.ErrNotSent, err)
	}
	return err
}
