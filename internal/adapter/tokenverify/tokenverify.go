// Package tokenverify verifies bearer tokens against an issuer's published keys, as OpenID Connect
// Discovery 1.0 and RFC 7519 describe them, and takes the tenant from one claim.
package tokenverify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"

	"cellwall.dev/cellwall/internal/routing"
)

const (
	// skew is how far the issuer's clock and ours may differ.
	skew = 60 * time.Second
	// maxToken is the longest token looked at, in bytes: what common servers take as one header.
	maxToken = 16 << 10
)

// algorithms are those accepted. They are API Gateway's, which takes RSA-based ones only ("Control access
// to HTTP APIs with JWT authorizers", API Gateway developer guide), so that what is served here is served
// there. A key that everybody may read cannot be used to sign, and "none" is not among them.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512}

// Verifier verifies the tokens of one issuer for one audience. It is safe for concurrent use.
type Verifier struct {
	issuer, audience, claim string
	keys                    *keySet
	now                     func() time.Time
}

// New returns a verifier. issuer is compared with the token's iss as it is, and its discovery document
// names its keys; audience must stand in the token's aud; claim names the tenant. Nothing is asked of
// the issuer before the first token.
func New(issuer, audience, claim string) (*Verifier, error) {
	return newVerifier(issuer, audience, claim, time.Now)
}

func newVerifier(issuer, audience, claim string, now func() time.Time) (*Verifier, error) {
	if audience == "" || claim == "" {
		return nil, errors.New("verify tokens: an audience and the name of the tenant's claim are needed")
	}
	// No proxy and no redirects: the answer decides whom we believe.
	client := &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	keys, err := newKeySet(issuer, client, now)
	if err != nil {
		return nil, err
	}
	return &Verifier{issuer, audience, claim, keys, now}, nil
}

// Verify returns the tenant of a token whose signature, issuer, audience and times are right. An error
// that wraps routing.ErrToken refuses the token; any other means that the issuer's keys are not known.
func (v *Verifier) Verify(ctx context.Context, token string) (tenant string, err error) {
	if len(token) > maxToken {
		return "", refuse("it is longer than %d bytes", maxToken)
	}
	signed, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return "", refuse("%v", err)
	}
	header := signed.Signatures[0].Protected
	keys, err := v.keys.find(ctx, header.KeyID, header.Algorithm)
	if err != nil {
		return "", err
	}
	var payload []byte
	for _, key := range keys {
		if payload, err = signed.Verify(key); err == nil {
			return v.tenant(payload)
		}
	}
	return "", refuse("no key of the issuer made its signature")
}

// tenant judges the claims of a token whose signature is right.
func (v *Verifier) tenant(payload []byte) (string, error) {
	c, err := routing.ParseClaims(payload)
	if err != nil {
		return "", err
	}
	var issuer string
	if json.Unmarshal(c["iss"], &issuer) != nil || issuer != v.issuer {
		return "", refuse("it is not from issuer %s", v.issuer)
	}
	if !slices.Contains(audiences(c["aud"]), v.audience) {
		return "", refuse("it is not for audience %s", v.audience)
	}
	now := v.now()
	expiry, err := moment(c["exp"])
	switch {
	case err != nil:
		return "", refuse("its exp %v", err)
	case !now.Before(expiry.Add(skew)):
		return "", refuse("it has expired")
	}
	for _, name := range []string{"nbf", "iat"} {
		if _, ok := c[name]; !ok {
			continue
		}
		from, err := moment(c[name])
		switch {
		case err != nil:
			return "", refuse("its %s %v", name, err)
		case from.After(now.Add(skew)):
			return "", refuse("its %s is in the future", name)
		}
	}
	return routing.TenantFromClaim(c[v.claim])
}

// audiences reads aud: one string or a list of them.
func audiences(raw json.RawMessage) []string {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	var list []string
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

// moment reads a NumericDate: seconds since 1970, fractions allowed (RFC 7519, section 2).
func moment(raw json.RawMessage) (time.Time, error) {
	var seconds *float64
	if len(raw) == 0 || json.Unmarshal(raw, &seconds) != nil || seconds == nil {
		return time.Time{}, errors.New("is missing or not a number")
	}
	if *seconds < 0 || *seconds > math.MaxInt32*100 {
		return time.Time{}, errors.New("is no date")
	}
	whole, part := math.Modf(*seconds)
	return time.Unix(int64(whole), int64(part*1e9)), nil
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", routing.ErrToken, fmt.Sprintf(format, args...))
}
