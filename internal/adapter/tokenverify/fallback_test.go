package tokenverify

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"cellwall.dev/cellwall/internal/routing"
)

// snapshot is a fallback that tests change.
type snapshot struct{ content atomic.Pointer[taken] }

type taken struct {
	set json.RawMessage
	at  time.Time
}

func (s *snapshot) keys() (json.RawMessage, time.Time, bool) {
	if c := s.content.Load(); c != nil {
		return c.set, c.at, true
	}
	return nil, time.Time{}, false
}

// publish has the snapshot hold an issuer's keys as the keeper gets them at some time.
func (s *snapshot) publish(t *testing.T, at time.Time, keys ...jose.JSONWebKey) {
	t.Helper()
	i := newLogin(t, keys...)
	set, err := Keys(t.Context(), i.URL)
	if err != nil {
		t.Fatal(err)
	}
	s.content.Store(&taken{set, at})
}

// TestStartsWhileTheIssuerIsDown: the fallback's keys serve from the first token on, for hours, and no token waits
// for the issuer.
func TestStartsWhileTheIssuerIsDown(t *testing.T) {
	key, unknown := rsaKey(t, "k1"), rsaKey(t, "k2")
	i := newLogin(t, key)
	i.down.Store(true)
	var s snapshot
	s.publish(t, start, key)
	v, c := verifier(t, i, func(c *Config) { c.Fallback = s.keys })
	token := sign(t, jose.RS256, key, payload(i, "exp", at(100*time.Hour)))
	for range 20 {
		if tenant, err := v.Verify(t.Context(), token); err != nil || tenant != "acme" {
			t.Fatalf("after %v: %q, %v", c.now().Sub(start), tenant, err)
		}
		c.pass(2 * time.Hour)
		settle(v)
	}
	// Whether an unknown key is the issuer's, only the issuer knows.
	if _, err := v.Verify(t.Context(), sign(t, jose.RS256, unknown, payload(i, "exp", at(100*time.Hour)))); err == nil || errors.Is(err, routing.ErrToken) {
		t.Errorf("unknown key, with the issuer down from the start: %v", err)
	}
	// The keeper sees the issuer first.
	s.publish(t, c.now(), key, unknown)
	if _, err := v.Verify(t.Context(), sign(t, jose.RS256, unknown, payload(i, "exp", at(100*time.Hour)))); err != nil {
		t.Errorf("key of the newer snapshot: %v", err)
	}
	// The issuer is back without the key that the fallback still has.
	i.publish(unknown)
	i.down.Store(false)
	c.pass(maxAge + 1)
	v.Verify(t.Context(), token)
	settle(v)
	if _, err := v.Verify(t.Context(), token); !errors.Is(err, routing.ErrToken) {
		t.Errorf("remembered token of a key that the issuer does not have: %v", err)
	}
}

// TestFallbackHangingIssuer: a router that starts while the issuer hangs answers at once.
func TestFallbackHangingIssuer(t *testing.T) {
	key := rsaKey(t, "k1")
	release := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hanging.Close()
	defer close(release)
	i := newLogin(t, key)
	i.URL = hanging.URL
	var s snapshot
	s.publish(t, start, key)
	v, _ := verifier(t, i, func(c *Config) { c.Fallback = s.keys })
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // whoever waits is over at once
	if tenant, err := v.Verify(ctx, sign(t, jose.RS256, key, payload(i))); err != nil || tenant != "acme" {
		t.Errorf("%q, %v", tenant, err)
	}
}

// TestTheNewestWordOnKeysCounts: what the issuer says here or what it said elsewhere, whichever is newer.
func TestTheNewestWordOnKeysCounts(t *testing.T) {
	old, fresh := rsaKey(t, "k1"), rsaKey(t, "k2")
	i := newLogin(t, fresh)
	var s snapshot
	s.publish(t, start.Add(-maxAge-1), old, fresh)
	v, c := verifier(t, i, func(c *Config) { c.Fallback = s.keys })
	freshToken, oldToken := sign(t, jose.RS256, fresh, payload(i, "exp", at(10*time.Hour))), sign(t, jose.RS256, old, payload(i, "exp", at(10*time.Hour)))
	for _, token := range []string{freshToken, oldToken} { // while the issuer is asked in the background, once
		if _, err := v.Verify(t.Context(), token); err != nil && !errors.Is(err, routing.ErrToken) {
			t.Fatal(err)
		}
	}
	settle(v)
	if _, err := v.Verify(t.Context(), oldToken); !errors.Is(err, routing.ErrToken) {
		t.Errorf("the fallback's key after the issuer answered: %v", err)
	}
	i.down.Store(true)
	c.pass(time.Hour)
	if _, err := v.Verify(t.Context(), oldToken); err == nil {
		t.Error("the fallback's older key is taken after the issuer went down")
	}
	// A clock that is ahead makes no word newer than what the issuer says next.
	s.publish(t, c.now().Add(time.Hour), old, fresh)
	v.Verify(t.Context(), oldToken)
	i.down.Store(false)
	c.pass(maxAge + 1)
	v.Verify(t.Context(), freshToken)
	settle(v)
	if _, err := v.Verify(t.Context(), oldToken); !errors.Is(err, routing.ErrToken) {
		t.Errorf("the key of a fallback from the future: %v", err)
	}
	i.down.Store(true)
	// A newer fallback has a key that the issuer made since.
	newest := rsaKey(t, "k3")
	s.publish(t, c.now().Add(time.Hour), fresh, newest) // by the same clock
	c.pass(minPause)
	if _, err := v.Verify(t.Context(), sign(t, jose.RS256, newest, payload(i, "exp", at(10*time.Hour)))); err != nil {
		t.Errorf("the newer fallback's key: %v", err)
	}
}

// TestOlderWordThatComesLater: a fallback that turns up after the issuer answered, and was taken before, is no news.
func TestOlderWordThatComesLater(t *testing.T) {
	old, fresh := rsaKey(t, "k1"), rsaKey(t, "k2")
	i := newLogin(t, fresh)
	var s snapshot
	v, c := verifier(t, i, func(c *Config) { c.Fallback = s.keys })
	token := sign(t, jose.RS256, fresh, payload(i, "exp", at(time.Hour)))
	if _, err := v.Verify(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	s.publish(t, start.Add(-time.Hour), old)
	i.down.Store(true)
	c.pass(maxAge + 1)
	for range 2 {
		if _, err := v.Verify(t.Context(), token); err != nil {
			t.Errorf("the issuer's own key: %v", err)
		}
		settle(v)
	}
	if _, err := v.Verify(t.Context(), sign(t, jose.RS256, old, payload(i))); err == nil {
		t.Error("the older word's key is taken")
	}
}

// TestFallbackBroken: what is no set of keys changes nothing.
func TestFallbackBroken(t *testing.T) {
	key := rsaKey(t, "k1")
	i := newLogin(t, key)
	for _, text := range []string{"", "{", "null", "[]", `{"keys":[]}`, `{"keys":5}`, `{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"k1"}]}`} {
		v, _ := verifier(t, i, func(c *Config) {
			c.Fallback = func() (json.RawMessage, time.Time, bool) { return json.RawMessage(text), start, true }
		})
		if tenant, err := v.Verify(t.Context(), sign(t, jose.RS256, key, payload(i))); err != nil || tenant != "acme" {
			t.Errorf("%q: %q, %v", text, tenant, err)
		}
	}
}

// TestKeys: what the keeper hands on are public keys that verify.
func TestKeys(t *testing.T) {
	key := rsaKey(t, "k1")
	encryption := rsaKey(t, "enc")
	encryption.Use = "enc"
	i := newLogin(t, key, encryption)
	text, err := Keys(t.Context(), i.URL)
	if err != nil {
		t.Fatal(err)
	}
	found, err := parseKeys(text)
	if err != nil || len(found) != 1 || found[0].id != "k1" || strings.Contains(string(text), `"d"`) {
		t.Errorf("%s: %v, %v", text, found, err)
	}
	i.down.Store(true)
	if _, err := Keys(t.Context(), i.URL); err == nil {
		t.Error("an issuer that is down has keys")
	}
	if _, err := Keys(t.Context(), "login.example.com"); err == nil {
		t.Error("no address has keys")
	}
}

// TestPrivateKeysAreNotBelieved: whoever reads the set could sign.
func TestPrivateKeysAreNotBelieved(t *testing.T) {
	private, err := rsaKey(t, "k1").MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if found, err := parseKeys([]byte(`{"keys":[` + string(private) + `]}`)); err == nil {
		t.Errorf("%v", found)
	}
}

// TestKeysStayOnHTTPS: an issuer on https cannot send us to read its keys where anybody can write them.
func TestKeysStayOnHTTPS(t *testing.T) {
	var address string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(map[string]string{"issuer": address, "jwks_uri": "http://" + r.Host + "/keys"})
	}))
	defer server.Close()
	address = server.URL
	if _, err := (&issuer{address, server.Client()}).download(t.Context()); err == nil || !strings.Contains(err.Error(), "leaves https") {
		t.Errorf("error %v", err)
	}
}
