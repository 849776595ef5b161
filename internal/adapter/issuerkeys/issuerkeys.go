// Package issuerkeys reads a token issuer's public keys as they are published (OpenID Connect Discovery
// 1.0, RFC 7517), for the cell's snapshot.
package issuerkeys

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cellwall.dev/cellwall/internal/keeper"
)

const (
	timeout     = 5 * time.Second // for both documents together
	maxDocument = 256 << 10       // bytes; dozens of keys
)

// Issuer is a token issuer.
type Issuer struct {
	address string
	client  *http.Client
}

var _ keeper.Issuer = (*Issuer)(nil)

// New returns the issuer of that address, which its discovery document repeats. Neither a proxy nor a
// redirect is followed: the answer decides whom routers believe.
func New(address string) (*Issuer, error) {
	if err := web(address); err != nil {
		return nil, fmt.Errorf("issuer: %w", err)
	}
	return &Issuer{address, &http.Client{
		Timeout:       timeout,
		Transport:     &http.Transport{ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: timeout},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func web(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q is no address: want https://host/path", s)
	}
	return nil
}

// JWKS returns the issuer's keys as one JSON object, without whatever is no public key of a signature: a
// symmetric key, or the private part of one, has no business in a document that everybody may read. An error
// when none is left.
func (i *Issuer) JWKS(ctx context.Context) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var discovery struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := i.get(ctx, strings.TrimSuffix(i.address, "/")+"/.well-known/openid-configuration", &discovery); err != nil {
		return nil, err
	}
	if discovery.Issuer != i.address {
		return nil, fmt.Errorf("the discovery document of issuer %s is of issuer %q", i.address, discovery.Issuer)
	}
	if err := web(discovery.Keys); err != nil {
		return nil, fmt.Errorf("the discovery document's jwks_uri: %w", err)
	}
	var set struct {
		Keys []map[string]json.RawMessage `json:"keys"`
	}
	if err := i.get(ctx, discovery.Keys, &set); err != nil {
		return nil, err
	}
	kept := set.Keys[:0]
	for _, key := range set.Keys {
		if public(key) {
			kept = append(kept, key)
		}
	}
	if set.Keys = kept; len(kept) == 0 {
		return nil, fmt.Errorf("%s holds no public key", discovery.Keys)
	}
	return json.Marshal(set)
}

func public(key map[string]json.RawMessage) bool {
	for _, private := range []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"} { // RFC 7518, section 6
		if _, there := key[private]; there {
			return false
		}
	}
	var kind, use string
	_ = json.Unmarshal(key["use"], &use)
	return json.Unmarshal(key["kty"], &kind) == nil && kind != "" && kind != "oct" && (use == "" || use == "sig")
}

func (i *Issuer) get(ctx context.Context, address string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := i.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %d", address, resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", address, err)
	case len(body) > maxDocument:
		return fmt.Errorf("%s has more than %d bytes", address, maxDocument)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	return nil
}
