package identity

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"

	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/routing"
)

// HeaderSecret carries what a front door of a local cell proves itself by.
const HeaderSecret = "Cellwall-Secret"

// FrontDoors says how a front door proves that it is one. At least one way is needed.
type FrontDoors struct {
	// Roles are the ARNs of the roles that the front doors run as, where IAM verifies who calls the cell.
	Roles []string
	// Secret is a shared secret of at least 16 bytes in HeaderSecret, where nothing verifies it: on loopback.
	Secret string
	// Tokens verifies the client's token, which a front door whose own signature takes the Authorization
	// header forwards as routing.HeaderToken. nil when it never does.
	Tokens TokenVerifier
}

// behind is a Source for a cell that both clients and front doors ask.
type behind struct {
	direct Source
	roles  map[string]bool
	secret *[sha256.Size]byte
	tokens TokenVerifier
}

// Behind returns a source that knows front doors. A front door brings the client's token and no word of its
// own: the tenant is the one of that token, verified as for anybody else. Without proof routing.HeaderToken is
// not looked at, and direct tells who asks.
func Behind(direct Source, doors FrontDoors) (Source, error) {
	b := &behind{direct: direct, roles: map[string]bool{}, tokens: doors.Tokens}
	for _, arn := range doors.Roles {
		name, err := principal(arn)
		if err != nil {
			return nil, fmt.Errorf("front door: %w", err)
		}
		b.roles[name] = true
	}
	if doors.Secret != "" {
		if len(doors.Secret) < 16 {
			return nil, errors.New("front door: its secret has fewer than 16 bytes")
		}
		sum := sha256.Sum256([]byte(doors.Secret))
		b.secret = &sum
	}
	if len(b.roles) == 0 && b.secret == nil {
		return nil, errors.New("front door: neither a role nor a secret proves one")
	}
	return b, nil
}

// Caller implements Source.
func (b *behind) Caller(ctx context.Context, e *awsevent.Event) (Caller, error) {
	if !b.proven(e) {
		return b.direct.Caller(ctx, e)
	}
	caller, err := b.forwarded(ctx, e)
	caller.FrontDoor = err == nil
	return caller, err
}

func (b *behind) proven(e *awsevent.Event) bool {
	if name, err := principal(e.Principal); err == nil && b.roles[name] {
		return true
	}
	given := e.Request.Header.Values(HeaderSecret)
	if b.secret == nil || len(given) != 1 {
		return false
	}
	sum := sha256.Sum256([]byte(given[0]))
	return subtle.ConstantTimeCompare(sum[:], b.secret[:]) == 1
}

func (b *behind) forwarded(ctx context.Context, e *awsevent.Event) (Caller, error) {
	tokens := e.Request.Header[http.CanonicalHeaderKey(routing.HeaderToken)]
	switch {
	case len(tokens) == 0:
		return b.direct.Caller(ctx, e)
	case len(tokens) > 1, b.tokens == nil:
		return Caller{}, refuse("the front door forwarded several tokens, or one that nothing here verifies")
	}
	tenant, err := b.tokens.Verify(ctx, tokens[0])
	if err != nil {
		return Caller{}, err
	}
	return Caller{Tenant: tenant}, nil
}
