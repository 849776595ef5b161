package shardlambda

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/lambda"

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

func (l lazy) Invoke(ctx context.Context, in *lambda.InvokeInput, o ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
	c, err := l.client()
	if err != nil {
		return nil, err
	}
	return c.Invoke(ctx, in, o...)
}

func (l lazy) InvokeWithResponseStream(ctx context.Context, in *lambda.InvokeWithResponseStreamInput, o ...func(*lambda.Options)) (*lambda.InvokeWithResponseStreamOutput, error) {
	c, err := l.client()
	if err != nil {
		return nil, err
	}
	return c.InvokeWithResponseStream(ctx, in, o...)
}
