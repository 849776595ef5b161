// Package tokenverify verifies bearer tokens against an issuer's published keys, as OpenID Connect
// Discovery 1.0 and RFC 7519 describe them, and takes the tenant from one claim.
//
// Keys, signatures and registered claims are github.com/lestrrat-go/jwx's work. What is stricter here than
// there is done here: one compact token with no header that needs understanding, no name twice in header or
// claims, keys that fit the algorithm, dates that are numbers; and so is what a library cannot know: when to ask the
// issuer, what to do while it does not answer, and which verified token may be remembered for how long.
package tokenverify

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lestrrat-go/jwx/v3/jws"
	"github.com/lestrrat-go/jwx/v3/jwt"

	"cellwall.dev/cellwall/internal/routing"
)

const (
	// skew is how far the issuer's clock and ours may differ.
	skew = 60 * time.Second
	// maxToken is the longest token looked at, in bytes: what common servers take as one header.
	maxToken = 16 << 10
	// defaultRemember is how many verified tokens are remembered at most: about 8 MB.
	defaultRemember = 1 << 15
)

// Config says which tokens are good.
type Config struct {
	Issuer   string // compared with the token's iss as it is; its discovery document names its keys
	Audience string // must stand in the token's aud
	Claim    string // names the tenant

	// Algorithms are the signatures that are taken: some of RS256, RS384, RS512, PS256, PS384, PS512, ES256,
	// ES384, ES512 and EdDSA. None is API Gateway's choice, RS256, RS384 and RS512 ("Control access to HTTP APIs
	// with JWT authorizers", API Gateway developer guide), so that what is served here is served there. A key that
	// everybody may read cannot be used to sign by any of them.
	Algorithms []string

	// Fallback returns the issuer's keys as somebody else saw them, a JWK set (RFC 7517, section 5), and when that
	// was; ok is false when there are none. They are believed where the issuer said nothing newer here, so that a
	// router serves that starts while the issuer is down. nil is no fallback. It must be fast.
	Fallback func() (set json.RawMessage, taken time.Time, ok bool)

	// Remember is how many verified tokens are remembered, at most; 0 is 32,768, and fewer than 0 is none.
	Remember int

	Now func() time.Time // default time.Now
}

// Verifier verifies the tokens of one issuer for one audience. It is safe for concurrent use.
type Verifier struct {
	issuer, audience, claim string
	algorithms              []string
	keys                    *keySet
	seen                    *cache
	now                     func() time.Time
}

// New checks a configuration. Nothing is asked of the issuer before the first token.
func New(c Config) (*Verifier, error) {
	if c.Audience == "" || c.Claim == "" {
		return nil, errors.New("verify tokens: an audience and the name of the tenant's claim are needed")
	}
	if len(c.Algorithms) == 0 {
		c.Algorithms = []string{"RS256", "RS384", "RS512"}
	}
	for _, name := range c.Algorithms {
		if !asymmetric(name) {
			return nil, fmt.Errorf("verify tokens: algorithm %q: want RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512 or EdDSA", name)
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Fallback == nil {
		c.Fallback = func() (json.RawMessage, time.Time, bool) { return nil, time.Time{}, false }
	}
	if c.Remember == 0 {
		c.Remember = defaultRemember
	}
	issuer, err := newIssuer(c.Issuer)
	if err != nil {
		return nil, fmt.Errorf("verify tokens: %w", err)
	}
	now := func() time.Time { return c.Now().Round(0) }
	return &Verifier{
		issuer: c.Issuer, audience: c.Audience, claim: c.Claim, algorithms: slices.Clone(c.Algorithms),
		keys: &keySet{issuer: issuer, fallback: c.Fallback, now: now}, seen: newCache(c.Remember), now: now,
	}, nil
}

// Verify returns the tenant of a token whose signature, issuer, audience and times are right. An error
// that wraps routing.ErrToken refuses the token; any other means that nobody knows whether the issuer has
// the key that signed it.
func (v *Verifier) Verify(ctx context.Context, token string) (tenant string, err error) {
	if len(token) > maxToken {
		return "", refuse("it is longer than %d bytes", maxToken)
	}
	now, known := v.now(), v.keys.current()
	name := sha256.Sum256([]byte(token))
	if tenant, ok := v.seen.get(name, now, known.generation); ok {
		v.keys.renew(now)
		return tenant, nil
	}
	good, err := v.judge(ctx, token)
	if err != nil {
		return "", err
	}
	v.seen.put(name, good)
	return good.tenant, nil
}

// judge verifies a token that is not remembered.
func (v *Verifier) judge(ctx context.Context, token string) (verdict, error) {
	header, claims, err := split(token)
	if err != nil {
		return verdict{}, err
	}
	var algorithm, id string
	if json.Unmarshal(header["alg"], &algorithm) != nil || !slices.Contains(v.algorithms, algorithm) {
		return verdict{}, refuse("its signature is of an algorithm that is not taken here")
	}
	if raw, ok := header["kid"]; ok && json.Unmarshal(raw, &id) != nil {
		return verdict{}, refuse("its key's id is no string")
	}
	// b64 changes what is signed (RFC 7797), crit names what must be understood: no issuer of tokens needs them.
	if header["crit"] != nil || header["b64"] != nil {
		return verdict{}, refuse("its header asks for an extension")
	}
	keys, generation, err := v.keys.find(ctx, id, algorithm)
	if err != nil {
		return verdict{}, err
	}
	for _, key := range keys {
		if _, err = jws.Verify([]byte(token), jws.WithCompact(), jws.WithKey(signatures[algorithm], key.public)); err == nil {
			tenant, from, until, err := v.tenant(claims)
			return verdict{tenant, from.UnixMilli(), until.UnixMilli(), generation}, err
		}
	}
	return verdict{}, refuse("no key of the issuer made its signature")
}

// split takes a token in compact form (RFC 7515, section 3.1) apart. Two readers must not see two things in it:
// so no name stands twice, and there is one spelling in base64url.
func split(token string) (header, claims map[string]json.RawMessage, err error) {
	head, rest, _ := strings.Cut(token, ".")
	_, signature, ok := strings.Cut(rest, ".")
	if !ok || signature == "" || strings.ContainsAny(token, "\r\n") { // which DecodeString passes over
		return nil, nil, refuse("it is not a signed token of three parts")
	}
	if _, err := base64.RawURLEncoding.Strict().DecodeString(signature); err != nil {
		return nil, nil, refuse("its signature is not base64url")
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(head)
	if err != nil {
		return nil, nil, refuse("its header is not base64url")
	}
	if header, err = routing.ParseClaims(raw); err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	claims, err = routing.UnverifiedClaims(token) // verified by the caller
	return header, claims, err
}

// tenant judges the claims of a token whose signature is right, and says from when to when they are good by the
// issuer's clock; from is the zero time when they do not say.
func (v *Verifier) tenant(claims map[string]json.RawMessage) (tenant string, from, until time.Time, err error) {
	registered := map[string]json.RawMessage{}
	for _, name := range []string{jwt.IssuerKey, jwt.AudienceKey, jwt.ExpirationKey, jwt.NotBeforeKey, jwt.IssuedAtKey} {
		raw, ok := claims[name]
		if !ok {
			continue
		}
		date := name != jwt.IssuerKey && name != jwt.AudienceKey
		if date && (raw[0] < '0' || raw[0] > '9') { // jwx reads text and negative numbers, too
			return "", from, until, refuse("its %s is no number of seconds since 1970", name)
		}
		registered[name] = raw
	}
	text, err := json.Marshal(registered)
	if err != nil {
		return "", from, until, refuse("its claims are not JSON")
	}
	token := jwt.New()
	if err := json.Unmarshal(text, token); err != nil {
		return "", from, until, refuse("%v", err)
	}
	err = jwt.Validate(token, jwt.WithIssuer(v.issuer), jwt.WithAudience(v.audience), jwt.WithRequiredClaim(jwt.ExpirationKey),
		jwt.WithClock(jwt.ClockFunc(v.now)), jwt.WithAcceptableSkew(skew))
	if err != nil {
		return "", from, until, refuse("%v", err)
	}
	until, _ = token.Expiration()
	if notBefore, ok := token.NotBefore(); ok {
		from = notBefore
	}
	if issued, ok := token.IssuedAt(); ok && issued.After(from) {
		from = issued
	}
	tenant, err = routing.TenantFromClaim(claims[v.claim])
	return tenant, from, until, err
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", routing.ErrToken, fmt.Sprintf(format, args...))
}

// Keys asks an issuer for its keys and returns those that can verify tokens, as a JWK set (RFC 7517, section 5): what
// Config.Fallback of a router gives that cannot ask by itself.
func Keys(ctx context.Context, issuer string) (json.RawMessage, error) {
	i, err := newIssuer(issuer)
	if err != nil {
		return nil, err
	}
	defer i.client.Transport.(*http.Transport).CloseIdleConnections()
	found, err := i.download(ctx)
	if err != nil {
		return nil, fmt.Errorf("keys of issuer %s: %w", issuer, err)
	}
	return found.set(), nil
}
