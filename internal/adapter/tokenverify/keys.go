package tokenverify

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// maxAge is when the keys are fetched anew in the background, so that a key which the issuer took
	// back is not believed for much longer.
	maxAge = 5 * time.Minute
	// minPause lies between two fetches, so that tokens with made-up key ids are no way to make us
	// flood the issuer; firstPause while there are no keys at all, which nobody can do without.
	minPause     = 10 * time.Second
	firstPause   = time.Second
	fetchTimeout = 5 * time.Second
	maxDocument  = 1 << 20 // bytes of an issuer's document
)

// keySet is an issuer's keys as they were last seen. While the issuer does not answer, they stay.
type keySet struct {
	issuer string
	client *http.Client
	now    func() time.Time

	mu      sync.Mutex
	keys    []jose.JSONWebKey
	fetched time.Time     // when keys were; zero before the first time
	tried   time.Time     // when the last fetch began
	err     error         // of the last fetch
	running chan struct{} // closed at the end of the fetch that is under way; nil when none is
}

func newKeySet(issuer string, client *http.Client, now func() time.Time) (*keySet, error) {
	if err := webAddress(issuer); err != nil {
		return nil, fmt.Errorf("issuer: %w", err)
	}
	return &keySet{issuer: issuer, client: client, now: now}, nil
}

func webAddress(s string) error {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q is no address: want https://host/path", s)
	}
	return nil
}

// find returns the keys that may have signed a token: the one it names, or all of its kind when it names
// none. When there is none it fetches the keys anew, as the issuer may have changed them.
func (s *keySet) find(ctx context.Context, id, algorithm string) ([]jose.JSONWebKey, error) {
	found, known, stale := s.known(id, algorithm)
	if len(found) > 0 {
		if stale {
			s.fetch()
		}
		return found, nil
	}
	if running := s.fetch(); running != nil {
		select {
		case <-running:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the issuer's keys: %w", ctx.Err())
		}
		found, known, _ = s.known(id, algorithm)
	}
	switch {
	case len(found) > 0:
		return found, nil
	case !known:
		s.mu.Lock()
		defer s.mu.Unlock()
		return nil, fmt.Errorf("the keys of issuer %s are not known: %w", s.issuer, s.err)
	}
	return nil, refuse("the issuer has no key %q for %s", id, algorithm)
}

// known looks among the keys that are there. known is false before keys were fetched for the first time.
func (s *keySet) known(id, algorithm string) (found []jose.JSONWebKey, known, stale bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.keys {
		if (id == "" || key.KeyID == id) && (key.Algorithm == "" || key.Algorithm == algorithm) &&
			(key.Use == "" || key.Use == "sig") {
			found = append(found, key)
		}
	}
	return found, !s.fetched.IsZero(), s.now().Sub(s.fetched) > maxAge
}

// fetch starts fetching the keys, unless that happened a moment ago. It returns what is closed when the
// fetch that is under way ends, nil when none is.
func (s *keySet) fetch() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, pause := s.now(), minPause
	if s.fetched.IsZero() {
		pause = firstPause
	}
	if s.running == nil && (s.tried.IsZero() || now.Sub(s.tried) >= pause) {
		running := make(chan struct{})
		s.running, s.tried = running, now
		go func() {
			defer close(running)
			// Not the caller's context: the request that asked first may be over before the others.
			ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
			defer cancel()
			keys, err := s.download(ctx)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.running, s.err = nil, err
			if err == nil {
				s.keys, s.fetched = keys, now
			}
		}()
	}
	return s.running
}

// download reads the issuer's discovery document and the keys that it names.
func (s *keySet) download(ctx context.Context) ([]jose.JSONWebKey, error) {
	var discovery struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := s.get(ctx, strings.TrimSuffix(s.issuer, "/")+"/.well-known/openid-configuration", &discovery); err != nil {
		return nil, err
	}
	if discovery.Issuer != s.issuer {
		return nil, fmt.Errorf("discovery document is of issuer %q", discovery.Issuer)
	}
	if err := webAddress(discovery.Keys); err != nil {
		return nil, fmt.Errorf("discovery document's jwks_uri: %w", err)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := s.get(ctx, discovery.Keys, &set); err != nil {
		return nil, err
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		// A key of a kind that we do not know is no reason to do without the others (RFC 7517, section 5).
		if key.UnmarshalJSON(raw) == nil && key.Valid() && key.IsPublic() && strong(key.Key) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s holds no public key that can be used", discovery.Keys)
	}
	return keys, nil
}

// strong refuses RSA keys of fewer than 2,048 bits (RFC 7518, section 3.3).
func strong(key any) bool {
	rsaKey, ok := key.(*rsa.PublicKey)
	return !ok || rsaKey.N.BitLen() >= 2048
}

func (s *keySet) get(ctx context.Context, address string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %d", address, resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
	if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	return nil
}
