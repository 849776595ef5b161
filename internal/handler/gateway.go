package handler

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/identity"
	"cellwall.dev/cellwall/internal/routing"
)

// answerMargin is kept of a Lambda invocation's time to answer in, so that a request that takes too long
// is told so by the router and not by a time-out of the function.
const answerMargin = 300 * time.Millisecond

// Gateway is a Lambda function behind an HTTP API, a Function URL, a REST API or a load balancer. Start it with
// Lambda, or as a lambda.Handler of github.com/aws/aws-lambda-go where no answer is to be a stream.
type Gateway struct {
	router    Router
	identity  identity.Source
	agreement identity.Agreement
	stream    bool
	log       *slog.Logger
}

// GatewayConfig is what a Gateway is made of.
type GatewayConfig struct {
	Router    Router
	Identity  identity.Source
	Agreement identity.Agreement // with what path and body say, once the Router lets the request in; the zero value asks nothing of them
	Log       *slog.Logger       // tells operators why a request was refused

	// Stream says that this function's URLs have the invoke mode RESPONSE_STREAM. The events do not tell, and in
	// either mode the other's answers reach the client as garbage.
	Stream bool
}

// NewGateway returns a function.
func NewGateway(c GatewayConfig) *Gateway {
	return &Gateway{c.Router, c.Identity, c.Agreement, c.Stream, c.Log}
}

// Answer answers one event, with a stream where the event came by a streaming Function URL. It never fails: the
// sender would tell the client "Internal Server Error", and Lambda would count an error of the function where a
// request was at fault.
func (g *Gateway) Answer(ctx context.Context, payload []byte) (io.ReadCloser, error) {
	ctx, cancel := early(ctx)
	e, resp := g.serve(ctx, payload)
	if g.stream && e.Kind == awsevent.FunctionURL {
		return until(ctx, awsevent.FormatStream(e.Request.Method, resp), g.log, cancel), nil
	}
	defer cancel()
	answer, err := g.format(e, resp)
	return newWhole(answer), err
}

// Invoke answers one event with no stream. It never fails, as Answer.
func (g *Gateway) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	ctx, cancel := early(ctx)
	defer cancel()
	return g.format(g.serve(ctx, payload))
}

// format writes an answer whole. A shard whose stream breaks off here gave no answer, and may not be asked again.
func (g *Gateway) format(e *awsevent.Event, resp *routing.Response) ([]byte, error) {
	whole, err := routing.Whole(resp)
	if err != nil {
		g.log.Error("answer broke off", "err", err)
		whole = routing.Problem(http.StatusBadGateway, "the service's answer broke off; the request may have taken effect")
	}
	return format(g.log, e, whole)
}

// early is ctx with an end that leaves time to answer in.
func early(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(ctx, deadline.Add(-answerMargin))
	}
	return context.WithCancel(ctx)
}

// serve answers an event. The event is what can be said of it, and never nil.
func (g *Gateway) serve(ctx context.Context, payload []byte) (e *awsevent.Event, resp *routing.Response) {
	e = &awsevent.Event{}
	defer recovered(g.log, func(problem *routing.Response) { resp = problem })
	e, err := awsevent.Parse(payload)
	if err != nil {
		g.log.Error("event refused", "err", err)
		return e, routing.Problem(http.StatusBadRequest, "the request could not be read")
	}
	if e.RequestID != "" && routing.RequestID(e.Request.Header) == "" {
		// The sender's own, under which its logs have the request.
		e.Request.Header[routing.HeaderRequestID] = []string{e.RequestID}
	}
	caller, refusal := identify(ctx, g.identity, e, g.log)
	if refusal != nil {
		return e, named(refusal, &e.Request)
	}
	e.Request.Complete = func(id string) *routing.Response { return agree(g.agreement, caller, &e.Request, id, g.log) }
	e.Request.Stream = g.stream && e.Kind == awsevent.FunctionURL
	if e.Request.FrontDoor = caller.FrontDoor; caller.FrontDoor {
		throughFrontDoor(e.Request.Header)
	}
	return e, g.router.Serve(ctx, caller.Tenant, &e.Request)
}
