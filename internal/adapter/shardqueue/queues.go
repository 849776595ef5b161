package shardqueue

import (
	"context"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// Jobs puts a shard's jobs into one queue: the cell's dispatch queue, or that of the dead letters.
type Jobs struct {
	sender
	name string
}

// NewJobs returns the queue of a name.
func NewJobs(client Client, name string) *Jobs { return &Jobs{sender{client: client}, name} }

// Put is a shardkit.Dispatch. The message group is the job's tenant.
func (q *Jobs) Put(ctx context.Context, j shardkit.Job) error {
	message, err := j.Encode()
	if err != nil {
		return err
	}
	if err := q.send(ctx, q.name, j.Tenant, message); err != nil {
		return fmt.Errorf("queue %s: %w", q.name, err)
	}
	return nil
}

// sender sends messages, and keeps the addresses of queues, which do not change while they exist.
type sender struct {
	client    Client
	mu        sync.Mutex
	addresses map[string]string
}

// send puts a message of a tenant into a queue, so that a fair queue serves tenants in turn.
func (s *sender) send(ctx context.Context, name, tenant string, message []byte) error {
	address, err := s.address(ctx, name)
	if err != nil {
		return fmt.Errorf("%w: %w", routing.ErrNotSent, err)
	}
	_, err = s.client.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: &address, MessageBody: aws.String(string(message)), MessageGroupId: aws.String(names.Tenant(tenant)),
	})
	return classify(err)
}

func (s *sender) address(ctx context.Context, name string) (string, error) {
	s.mu.Lock()
	address, ok := s.addresses[name]
	s.mu.Unlock()
	if ok {
		return address, nil
	}
	out, err := s.client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(name)})
	if err != nil {
		return "", fmt.Errorf("find the queue: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.addresses == nil {
		s.addresses = map[string]string{}
	}
	s.addresses[name] = aws.ToString(out.QueueUrl)
	return s.addresses[name], nil
}
