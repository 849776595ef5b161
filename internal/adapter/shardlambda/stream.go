package shardlambda

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/routing"
)

// stream invokes a slice whose answer may come while it is being made.
func (t *Transport) stream(ctx context.Context, function string, payload []byte) (*routing.Response, error) {
	out, err := t.client.InvokeWithResponseStream(ctx, &lambda.InvokeWithResponseStreamInput{
		FunctionName: aws.String(function), Payload: payload,
	})
	if err != nil {
		return nil, classify(err)
	}
	events := out.GetStream()
	resp, err := awsevent.ReadAnswer(&chunks{events: events, stream: events.Events()})
	if err != nil && ctx.Err() != nil {
		// The SDK speaks of a closed connection, for whatever reason it was closed.
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return resp, err
}

// chunks reads the payload of a streamed invocation. It ends well only with Lambda's word that the invocation is
// complete: a connection that closes before is an answer that broke off.
type chunks struct {
	events *lambda.InvokeWithResponseStreamEventStream
	stream <-chan types.InvokeWithResponseStreamResponseEvent
	rest   []byte
	err    error
}

func (c *chunks) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		if c.err != nil {
			return 0, c.err
		}
		switch event := (<-c.stream).(type) {
		case *types.InvokeWithResponseStreamResponseEventMemberPayloadChunk:
			c.rest = event.Value.Payload
		case *types.InvokeWithResponseStreamResponseEventMemberInvokeComplete:
			c.err = completed(event.Value)
		case nil: // closed
			if c.err = c.events.Err(); c.err == nil || errors.Is(c.err, io.EOF) {
				c.err = fmt.Errorf("invocation broke off: %w", io.ErrUnexpectedEOF)
			}
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *chunks) Close() error { return c.events.Close() }

// completed is io.EOF, or why a streamed invocation failed.
func completed(event types.InvokeWithResponseStreamCompleteEvent) error {
	code := aws.ToString(event.ErrorCode)
	if code == "" {
		return io.EOF
	}
	return streamError(code, aws.ToString(event.ErrorDetails))
}
