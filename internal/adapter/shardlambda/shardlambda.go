// Package shardlambda carries requests to a shard's Lambda slice, by a synchronous invocation whose answer is
// streamed where the request allows it.
package shardlambda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/smithy-go"

	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/routing"
)

// Client is the part of *lambda.Client that is needed. It must not repeat invocations by itself: make
// it with the options of Once.
type Client interface {
	Invoke(context.Context, *lambda.InvokeInput, ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
	InvokeWithResponseStream(context.Context, *lambda.InvokeWithResponseStreamInput, ...func(*lambda.Options)) (*lambda.InvokeWithResponseStreamOutput, error)
}

// Transport is a routing.Transport.
type Transport struct {
	client   Client
	function func(shard string) string
	format   func(*routing.Request) ([]byte, error)
}

// New returns a transport. function gives the name of a shard's slice, with its alias.
func New(client Client, function func(shard string) string) *Transport {
	return &Transport{client, function, awsevent.FormatRequest}
}

// Send implements routing.Transport. The slice gets an event of an HTTP API, payload format 2.0.
func (t *Transport) Send(ctx context.Context, call routing.Call, req *routing.Request) (*routing.Response, error) {
	payload, err := t.format(req)
	if errors.Is(err, routing.ErrTooLarge) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", routing.ErrNotSent, err)
	}
	var resp *routing.Response
	if function := t.function(call.Shard); req.Stream {
		resp, err = t.stream(ctx, function, payload)
	} else {
		resp, err = t.invoke(ctx, function, payload)
	}
	if errors.Is(err, errAnswerTooLarge) {
		return routing.AnswerTooLarge(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("slice of shard %s: %w", call.Shard, err)
	}
	return resp, nil
}

// invoke invokes a slice and waits for its whole answer.
func (t *Transport) invoke(ctx context.Context, function string, payload []byte) (*routing.Response, error) {
	out, err := t.client.Invoke(ctx, &lambda.InvokeInput{FunctionName: aws.String(function), Payload: payload})
	if err != nil {
		return nil, classify(err)
	}
	if out.FunctionError != nil {
		return nil, functionError(out.Payload)
	}
	return awsevent.ParseAnswer(out.Payload)
}

// notRun are the errors with which Lambda refuses an invocation before the function's code runs. Source:
// Invoke, "Errors", Lambda API reference. What is not on the list may have run: ServiceException, for one.
var notRun = map[string]bool{
	(&types.ResourceNotFoundException{}).ErrorCode():            true,
	(&types.ResourceNotReadyException{}).ErrorCode():            true,
	(&types.ResourceConflictException{}).ErrorCode():            true,
	(&types.EC2AccessDeniedException{}).ErrorCode():             true,
	(&types.ENILimitReachedException{}).ErrorCode():             true,
	(&types.SubnetIPAddressLimitReachedException{}).ErrorCode(): true,
	(&types.InvalidSecurityGroupIDException{}).ErrorCode():      true,
	(&types.InvalidSubnetIDException{}).ErrorCode():             true,
	(&types.InvalidRuntimeException{}).ErrorCode():              true,
	(&types.InvalidZipFileException{}).ErrorCode():              true,
	(&types.InvalidRequestContentException{}).ErrorCode():       true,
	(&types.InvalidParameterValueException{}).ErrorCode():       true,
	(&types.UnsupportedMediaTypeException{}).ErrorCode():        true,
	(&types.KMSAccessDeniedException{}).ErrorCode():             true,
	(&types.KMSDisabledException{}).ErrorCode():                 true,
	(&types.KMSInvalidStateException{}).ErrorCode():             true,
	(&types.KMSNotFoundException{}).ErrorCode():                 true,
	"AccessDeniedException":                                     true, // IAM's, which the SDK has no type for
}

// throttled are the errors, beside notRun, by which Lambda says that it has enough to do: for a slice, that its reserved
// concurrency is in use.
var throttled = map[string]bool{
	(&types.TooManyRequestsException{}).ErrorCode(): true,
	(&types.EC2ThrottledException{}).ErrorCode():    true,
}

// classify says of a failed invocation whether the slice may have run. It is the one place that knows
// Lambda's errors.
func classify(err error) error {
	var api smithy.APIError
	if errors.As(err, &api) {
		switch code := api.ErrorCode(); {
		case code == (&types.RequestTooLargeException{}).ErrorCode():
			return fmt.Errorf("%w: %w", routing.ErrTooLarge, err)
		case throttled[code]:
			return fmt.Errorf("%w: %w", routing.ErrThrottled, err)
		case notRun[code]:
			return fmt.Errorf("%w: %w", routing.ErrNotSent, err)
		}
		return err
	}
	var connect *net.OpError
	if errors.As(err, &connect) && connect.Op == "dial" {
		return fmt.Errorf("%w: %w", routing.ErrNotSent, err)
	}
	return err
}

// errAnswerTooLarge is what Lambda makes of an answer that no invocation carries. The function's code ran
// to its end.
var errAnswerTooLarge = errors.New("function answered with more than an invocation carries")

// functionError reads what Lambda says of a function that ended without an answer: it crashed, took too
// long, or reported an error. It may have done anything before.
func functionError(payload []byte) error {
	var report struct {
		Type    string `json:"errorType"`
		Message string `json:"errorMessage"`
	}
	if err := json.Unmarshal(payload, &report); err != nil {
		return fmt.Errorf("function failed with a report that cannot be read: %w", err)
	}
	return failure(report.Type, report.Message)
}

// streamError reads what Lambda says of a streamed invocation that failed: a code, and details that are a report
// as functionError reads it, or a text.
func streamError(code, details string) error {
	var report struct {
		Type    string `json:"errorType"`
		Message string `json:"errorMessage"`
	}
	if json.Unmarshal([]byte(details), &report) == nil && report.Type != "" {
		return failure(report.Type, report.Message)
	}
	return failure(code, details)
}

// failure is what a kind of failure and its message mean.
func failure(kind, message string) error {
	if kind == "Function.ResponseSizeTooLarge" {
		return errAnswerTooLarge
	}
	err := fmt.Errorf("function failed with %s: %s", kind, message)
	// A time-out is "Sandbox.Timedout", and on older runtimes only this text.
	if kind == "Sandbox.Timedout" || strings.Contains(message, "Task timed out after") {
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return err
}
