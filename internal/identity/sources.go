package identity

import (
	"context"
	"errors"
	"fmt"

	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/routing"
)

// Claims takes the tenant from a claim of the token that the API's JWT authorizer, or a REST API's Cognito
// authorizer, verified.
type Claims struct{ claim string }

// NewClaims returns the source; claim is the claim's exact name.
func NewClaims(claim string) (*Claims, error) {
	if claim == "" {
		return nil, errName
	}
	return &Claims{claim}, nil
}

// Caller implements Source. An authorizer passes claims on as strings, numbers, booleans and lists among them,
// and one of two values where a name stands twice. So the claim is read in the token of the Authorization
// header, too, as strictly as where this project verifies tokens itself, and must be the same in both.
func (c *Claims) Caller(_ context.Context, e *awsevent.Event) (Caller, error) {
	if e.Claims == nil {
		return Caller{}, refuse("the event carries no verified claims: has the route a JWT authorizer?")
	}
	verified, err := routing.TenantFromClaim(e.Claims[c.claim])
	if err != nil {
		return Caller{}, err
	}
	token, err := Bearer(e.Request.Header)
	if err != nil {
		return Caller{}, err
	}
	claims, err := routing.UnverifiedClaims(token)
	if err != nil {
		return Caller{}, err
	}
	tenant, err := routing.TenantFromClaim(claims[c.claim])
	if err != nil {
		return Caller{}, err
	}
	if tenant != verified {
		return Caller{}, refuse("the authorizer read another tenant in it")
	}
	return Caller{Tenant: tenant}, nil
}

// Context takes the tenant from a field of the context that the API's Lambda authorizer returned.
type Context struct{ field string }

// NewContext returns the source; field is the field's exact name.
func NewContext(field string) (*Context, error) {
	if field == "" {
		return nil, errName
	}
	return &Context{field}, nil
}

// Caller implements Source. The authorizer is the operator's own code and the only one to know what it
// verified, so its word stands; it must be a string. Beware that a REST API makes strings of numbers and
// booleans before they come here.
func (c *Context) Caller(_ context.Context, e *awsevent.Event) (Caller, error) {
	if e.Authorizer == nil {
		return Caller{}, refuse("the event carries no authorizer's context: has the route a Lambda authorizer?")
	}
	tenant, err := routing.TenantFromClaim(e.Authorizer[c.field])
	if err != nil {
		return Caller{}, err
	}
	return Caller{Tenant: tenant}, nil
}

// Verified takes the tenant from a bearer token that is verified here.
type Verified struct{ tokens TokenVerifier }

// NewVerified returns the source.
func NewVerified(tokens TokenVerifier) *Verified { return &Verified{tokens} }

// Caller implements Source. Whatever an authorizer said beside it is not looked at.
func (v *Verified) Caller(ctx context.Context, e *awsevent.Event) (Caller, error) {
	token, err := Bearer(e.Request.Header)
	if err != nil {
		return Caller{}, err
	}
	tenant, err := v.tokens.Verify(ctx, token)
	if err != nil {
		return Caller{}, err
	}
	return Caller{Tenant: tenant}, nil
}

// The sources by the names that fleets call them.
const (
	SourceJWT    = "jwt"    // Claims
	SourceLambda = "lambda" // Context
	SourceIAM    = "iam"    // Principals
	SourceVerify = "verify" // Verified
)

// Named is a source by its name, and what that one needs.
type Named struct {
	Source     string            // one of the names above
	Claim      string            // that names the tenant, or the field of a Lambda authorizer's context
	Principals map[string]string // for SourceIAM
	Tokens     TokenVerifier     // for SourceVerify
}

// Open returns the source.
func (n Named) Open() (Source, error) {
	switch n.Source {
	case SourceJWT:
		return NewClaims(n.Claim)
	case SourceLambda:
		return NewContext(n.Claim)
	case SourceIAM:
		return NewPrincipals(n.Principals)
	case SourceVerify:
		if n.Tokens == nil {
			return nil, errors.New("who asks: nothing verifies tokens here")
		}
		return NewVerified(n.Tokens), nil
	}
	return nil, fmt.Errorf("who asks: source %q: want %s, %s, %s or %s", n.Source, SourceJWT, SourceLambda, SourceIAM, SourceVerify)
}
