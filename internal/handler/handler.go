// Package handler is where requests come in: AWS events and HTTP on one side, routing or a service on
// the other.
package handler

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"

	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/identity"
	"cellwall.dev/cellwall/internal/routing"
)

// Router answers a tenant's request. *routing.Engine is one.
type Router interface {
	// Serve answers for a tenant whose id comes from a verified token, "" when there was none. It calls req.Complete
	// before it looks at the body.
	Serve(ctx context.Context, tenant string, req *routing.Request) *routing.Response
}

// Lambda returns what lambda.Start of github.com/aws/aws-lambda-go takes for a function whose answers may be
// streams: it sends an answer with a content type as a stream, and any other as it is.
func Lambda(f interface {
	Answer(ctx context.Context, payload []byte) (io.ReadCloser, error)
}) func(context.Context, json.RawMessage) (io.Reader, error) {
	return func(ctx context.Context, payload json.RawMessage) (io.Reader, error) {
		return f.Answer(ctx, payload)
	}
}

// whole is an answer that is there. aws-lambda-go reads it, since it has nothing that JSON would show.
type whole struct{ *bytes.Reader }

func newWhole(payload []byte) whole { return whole{bytes.NewReader(payload)} }

func (whole) Close() error { return nil }

// identify tells who asks, or what to answer nobody.
func identify(ctx context.Context, source identity.Source, e *awsevent.Event, log *slog.Logger) (identity.Caller, *routing.Response) {
	caller, err := source.Caller(ctx, e)
	switch {
	case errors.Is(err, routing.ErrToken):
		log.Warn("caller refused", "requestId", requestID(&e.Request), "err", err)
		return identity.Caller{}, routing.Problem(http.StatusUnauthorized, "a verified token that names one tenant is needed")
	case err != nil:
		log.Error("caller could not be judged", "requestId", requestID(&e.Request), "err", err)
		return identity.Caller{}, routing.Problem(http.StatusServiceUnavailable, "callers cannot be verified at the moment; nothing was done")
	}
	return caller, nil
}

// agree answers a request whose path or body names another tenant than the caller; nil for any other.
func agree(a identity.Agreement, caller identity.Caller, req *routing.Request, id string, log *slog.Logger) *routing.Response {
	if err := a.Check(caller.Tenant, req); err != nil {
		// By its hash, since whether operators may read the id is the fleet's to say, which nobody told this package.
		log.Warn("request refused", "requestId", id, "tenantHash", names.Tenant(caller.Tenant), "err", err)
		return routing.Problem(http.StatusForbidden, "path or body names another tenant than the token")
	}
	return nil
}

// named gives a refusal the request's id, as the engine does.
func named(refusal *routing.Response, req *routing.Request) *routing.Response {
	refusal.Header[routing.HeaderRequestID] = []string{requestID(req)}
	return refusal
}

// requestID is the id of a request that is refused here: the client's own or, where there is no valid one, one that
// req has from now on.
func requestID(req *routing.Request) string {
	id := routing.RequestID(req.Header)
	if id == "" {
		id = rand.Text()
		req.Header[routing.HeaderRequestID] = []string{id}
	}
	return id
}

// format writes an answer as the sender of the event wants it. One that is larger than the sender takes would be
// an error of the function, and end its environment on some runtimes; the problem in its place says what happened.
func format(log *slog.Logger, e *awsevent.Event, resp *routing.Response) ([]byte, error) {
	answer, err := e.Format(resp)
	if err != nil {
		log.Error("answer cannot be sent", "err", err)
		return e.Format(e.TooLarge())
	}
	return answer, nil
}

// recovered turns a panic into the answer that names nothing, and logs it. Call it deferred.
func recovered(log *slog.Logger, answer func(*routing.Response)) {
	if p := recover(); p != nil {
		log.Error("panic while serving a request", "panic", p, "stack", string(debug.Stack()))
		answer(routing.Problem(http.StatusInternalServerError, "the request could not be served"))
	}
}
