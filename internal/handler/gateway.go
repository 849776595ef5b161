package handler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/internal/routing/httpapi"
)

// Router answers a tenant's request. *routing.Engine is one.
type Router interface {
	// Serve answers for a tenant whose id comes from a verified token, "" when there was none.
	Serve(ctx context.Context, tenant string, req *routing.Request) *routing.Response
}

// answerMargin is kept of a Lambda invocation's time to answer in, so that a request that takes too long
// is told so by the router and not by a time-out of the function.
const answerMargin = 300 * time.Millisecond

// Gateway is a Lambda function behind an HTTP API whose routes have a JWT authorizer. It implements
// lambda.Handler of github.com/aws/aws-lambda-go.
type Gateway struct {
	router Router
	claim  string
	log    *slog.Logger
}

// NewGateway returns a function that takes the tenant from the named claim. log tells operators why
// a request was refused.
func NewGateway(router Router, claim string, log *slog.Logger) *Gateway {
	return &Gateway{router, claim, log}
}

// Invoke answers one event. It never fails: API Gateway would tell the client "Internal Server Error"
// and Lambda would count an error of the function where a request was at fault.
func (g *Gateway) Invoke(ctx context.Context, payload []byte) (answer []byte, err error) {
	defer recovered(g.log, func(resp *routing.Response) { answer, err = httpapi.FormatResponse(resp) })
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-answerMargin))
		defer cancel()
	}
	return format(g.log, g.serve(ctx, payload))
}

func (g *Gateway) serve(ctx context.Context, payload []byte) *routing.Response {
	event, err := httpapi.ParseEvent(payload, httpapi.Decoded)
	if err != nil {
		g.log.Error("event refused", "err", err)
		return routing.Problem(http.StatusBadRequest, "the request could not be read")
	}
	tenant, err := g.tenant(event)
	if err != nil {
		g.log.Warn("token refused", "err", err)
		return routing.Problem(http.StatusUnauthorized, "a verified token that names one tenant is needed")
	}
	return g.router.Serve(ctx, tenant, &event.Request)
}

// tenant is whom the verified token names. The authorizer verified the token of the Authorization header
// and passes its claims on, numbers and booleans as strings; so they are read in the token itself, too, as
// strictly as where this project verifies tokens itself, and must name the same tenant in both.
func (g *Gateway) tenant(event httpapi.Event) (string, error) {
	if event.Claims == nil {
		return "", errors.New("the event carries no verified token: has the route a JWT authorizer?")
	}
	verified, err := routing.TenantFromClaim(event.Claims[g.claim])
	if err != nil {
		return "", err
	}
	token, ok := bearer(event.Request.Header)
	if !ok {
		return "", errors.New("the event carries no bearer token beside the verified claims: is the authorizer's identity source another header?")
	}
	claims, err := routing.UnverifiedClaims(token)
	if err != nil {
		return "", err
	}
	tenant, err := routing.TenantFromClaim(claims[g.claim])
	if err != nil {
		return "", err
	}
	if tenant != verified {
		return "", fmt.Errorf("%w: the authorizer read another tenant in it", routing.ErrToken)
	}
	return tenant, nil
}
