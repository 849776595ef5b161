package tokenverify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cellwall.dev/cellwall/internal/routing"
)

const maxDocument = 1 << 20 // bytes of an issuer's document

// issuer is where keys come from.
type issuer struct {
	name   string
	client *http.Client
}

func newIssuer(name string) (*issuer, error) {
	if err := webAddress(name); err != nil {
		return nil, fmt.Errorf("issuer: %w", err)
	}
	// No proxy and no redirects: the answer decides whom we believe.
	return &issuer{name, &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func webAddress(s string) error {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q is no address: want https://host/path", s)
	}
	return nil
}

// download reads the issuer's discovery document and the keys that it names.
func (i *issuer) download(ctx context.Context) (found keys, err error) {
	defer routing.Recovered("reading the issuer's keys", &err)
	var discovery struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	document, err := i.get(ctx, strings.TrimSuffix(i.name, "/")+"/.well-known/openid-configuration")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(document, &discovery); err != nil {
		return nil, fmt.Errorf("discovery document: %w", err)
	}
	if discovery.Issuer != i.name {
		return nil, fmt.Errorf("discovery document is of issuer %q", discovery.Issuer)
	}
	if err := webAddress(discovery.Keys); err != nil {
		return nil, fmt.Errorf("discovery document's jwks_uri: %w", err)
	}
	if strings.HasPrefix(i.name, "https:") && !strings.HasPrefix(discovery.Keys, "https:") {
		return nil, errors.New("discovery document's jwks_uri leaves https")
	}
	set, err := i.get(ctx, discovery.Keys)
	if err != nil {
		return nil, err
	}
	if found, err = parseKeys(set); err != nil {
		return nil, fmt.Errorf("%s: %w", discovery.Keys, err)
	}
	return found, nil
}

func (i *issuer) get(ctx context.Context, address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := i.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %d", address, resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return body, nil
}
