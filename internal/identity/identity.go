// Package identity says who asks: the one tenant on whose behalf a request is served, from what the ingress
// verified or from a token that is verified here, and whether a path or a body that names a tenant, too,
// names the same.
//
// # Guarantees
//
//  1. OneTenant: a caller is exactly one tenant, or nobody. What names none, several, or something that is no
//     string of 1 to 128 bytes of UTF-8 is refused, with an error that wraps routing.ErrToken.
//  2. NotTheClientsWord: no header that a client can write, no parameter and no body makes a tenant; they can
//     only lose it the request (Agreement). The exception is a token, whose signature is the issuer's word.
//  3. EveryReading: a path or a body passes an Agreement only if every tenant that it names, in any of the
//     ways in which services read it, is the caller.
//  4. SameAnswer: which shards, cells and other tenants there are changes nothing in what this package does.
//     It asks no directory and compares only with what the caller itself brought, so that its errors and the
//     time that it takes tell nothing of them. Secrets are compared in constant time.
//
// What a client could learn from time. A request goes the same way through this package, the engine's look-up
// and its refusal, whether its tenant is unknown or lives in another cell: the same readings of the directory in
// the same order, one problem document of the same bytes. The cache keeps both answers in one place and for one
// time, so that the second request is as fast for one as for the other. Who holds a valid
// token for a tenant learns that this tenant is served here or not, and of others nothing: a tenant is named by
// a token alone. How long a shard takes is seen by the tenants of that shard, who cannot tell its name.
package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/routing"
)

// Caller is who asks.
type Caller struct {
	Tenant string // as the directory knows it
	// FrontDoor says that an authenticated front door asks on the tenant's behalf. It is told (421) where
	// others are not (404) that a tenant lives in another cell.
	FrontDoor bool
}

// Source tells who asks. An error that wraps routing.ErrToken refuses the request; any other says that nobody
// could tell. Sources are safe for concurrent use.
type Source interface {
	Caller(ctx context.Context, e *awsevent.Event) (Caller, error)
}

// TokenVerifier tells whom a bearer token belongs to.
type TokenVerifier interface {
	// Verify returns the tenant that a token names. An error that wraps routing.ErrToken refuses the
	// token; any other says that it could not be judged.
	Verify(ctx context.Context, token string) (tenant string, err error)
}

// refuse is an error for a request of nobody. It repeats nothing that a client sent.
func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", routing.ErrToken, fmt.Sprintf(format, args...))
}

// errBearer is a request whose one token cannot be found.
var errBearer = fmt.Errorf("%w: the request carries no Authorization header, several, or one that is not Bearer", routing.ErrToken)

// Bearer returns the token of the one Authorization header (RFC 6750, section 2.1). A token in the query or
// the body, which that document also allows, is none: it stands in logs, and no ingress looks for it there.
func Bearer(h http.Header) (token string, err error) {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return "", errBearer
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", errBearer
	}
	return token, nil
}

// errName is a source without the name of what it is to read.
var errName = errors.New("who asks: the name of the claim or field with the tenant is needed")
