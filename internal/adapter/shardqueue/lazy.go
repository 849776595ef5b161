package shardqueue

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"cellwall.dev/cellwall/internal/routing"
)

// Lazy is a client that is made when something is first asked of it. make should remember what it made; its error is
// that of whatever is asked, of which nothing was sent.
func Lazy(make func() (Client, error)) Client { return lazy(make) }

type lazy func() (Client, error)

func (l lazy) client() (Client, error) {
	c, err := l()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", routing.ErrNotSent, err)
	}
	return c, nil
}

func (l lazy) GetQueueUrl(ctx context.Context, in *sqs.GetQueueUrlInput, o ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error) {
	c, err := l.client()
	if err != nil {
		return nil, err
	}
	return c.GetQueueUrl(ctx, in, o...)
}

func (l lazy) SendMessage(ctx context.Context, in *sqs.SendMessageInput, o ...func(*sqs.Options)) (*sqs.SendMessageOutput, error) {
	c, err := l.client()
	if err != nil {
		return nil, err
	}
	return c.SendMessage(ctx, in, o...)
}
