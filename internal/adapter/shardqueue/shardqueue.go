// Package shardqueue puts requests into a shard's SQS queue, where they wait as jobs.
package shardqueue

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/routing"
)

// maxMessage is the largest message of a queue, in bytes (SQS quotas, message size).
const maxMessage = 1 << 20

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
	client Client
	queue  func(shard string) string

	mu        sync.Mutex
	addresses map[string]string
}

// New returns a transport. queue gives the name of a shard's queue.
func New(client Client, queue func(shard string) string) *Transport {
	return &Transport{client: client, queue: queue, addresses: map[string]string{}}
}

// Send implements routing.Transport: the answer is 202 with the job's id as soon as SQS has the message.
// The message group is the tenant, so that a fair queue serves tenants in turn (SQS developer guide,
// "Amazon SQS fair queues").
func (t *Transport) Send(ctx context.Context, call routing.Call, req *routing.Request) (*routing.Response, error) {
	job := routing.NewJob(rand.Text(), call, req)
	message, err := json.Marshal(job)
	if err != nil {
		return nil, fmt.Errorf("%w: write the job: %w", routing.ErrNotSent, err)
	}
	if len(message) > maxMessage {
		return nil, fmt.Errorf("%w: a message of %d bytes, and a queue takes %d", routing.ErrTooLarge, len(message), maxMessage)
	}
	address, err := t.address(ctx, call.Shard)
	if err != nil {
		return nil, fmt.Errorf("queue of shard %s: %w: %w", call.Shard, routing.ErrNotSent, err)
	}
	_, err = t.client.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: &address, MessageBody: aws.String(string(message)), MessageGroupId: aws.String(names.Tenant(call.Tenant)),
	})
	if err != nil {
		return nil, fmt.Errorf("queue of shard %s: %w", call.Shard, classify(err))
	}
	// A struct of one string always encodes.
	body, _ := json.Marshal(struct {
		Job string `json:"job"`
	}{job.ID})
	return &routing.Response{
		Status: http.StatusAccepted, Header: http.Header{"Content-Type": {"application/json"}}, Body: body,
	}, nil
}

// address returns a queue's URL, which does not change while the queue exists.
func (t *Transport) address(ctx context.Context, shard string) (string, error) {
	t.mu.Lock()
	address, ok := t.addresses[shard]
	t.mu.Unlock()
	if ok {
		return address, nil
	}
	out, err := t.client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(t.queue(shard))})
	if err != nil {
		return "", fmt.Errorf("find the queue: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.addresses[shard] = aws.ToString(out.QueueUrl)
	return t.addresses[shard], nil
}

// classify says of a failed SendMessage whether the message may be in the queue. An answer in the 400s
// is a refusal; one in the 500s, or a broken connection, leaves it open.
func classify(err error) error {
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
