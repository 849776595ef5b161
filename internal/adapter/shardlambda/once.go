package shardlambda

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// idleTimeout is after how long without a request a connection to Lambda's API is used no more. While an environment
// is frozen, the API closes connections, of which the environment learns when it has sent a request on one, and then
// nobody can tell whether that arrived. net/http reckons this time by the wall clock when it picks a connection, so
// that the time in which an environment stood still counts. AWS does not say after how long the API closes them; the
// shortest that is told of its services is about 20 s.
const idleTimeout = 10 * time.Second

// Once switches the SDK's own retries off: an invocation whose answer was lost may have run, and only the engine knows
// whether it may run again. What net/http knows not to have sent a byte of, because the connection that it picked was
// closed already, it sends by another connection.
func Once(o *lambda.Options) {
	o.Retryer = aws.NopRetryer{}
	if c, ok := o.HTTPClient.(*awshttp.BuildableClient); ok {
		o.HTTPClient = c.WithTransportOptions(func(t *http.Transport) { t.IdleConnTimeout = idleTimeout })
	}
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("cellwall:Rewind", rewindable), middleware.After)
	})
}

// rewindable gives a request what net/http needs to send its body by another connection. net/http does that only with
// what it never began to write or, in HTTP/2, what the other side said it never looked at: an invocation is a POST, and
// has no Idempotency-Key.
func rewindable(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	if req, ok := in.Request.(*smithyhttp.Request); ok {
		if body, ok := req.GetStream().(io.ReaderAt); ok && req.ContentLength > 0 {
			req.GetBody = func() (io.ReadCloser, error) {
				return io.NopCloser(io.NewSectionReader(body, 0, req.ContentLength)), nil
			}
		}
	}
	return next.HandleDeserialize(ctx, in)
}
