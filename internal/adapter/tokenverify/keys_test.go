package tokenverify

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"cellwall.dev/cellwall/internal/routing"
)

func TestIssuerDownGoesOnWithLastKeys(t *testing.T) {
	key := rsaKey(t, "k1")
	i := newLogin(t, key)
	v, c := verifier(t, i, nil)
	token := sign(t, jose.RS256, key, payload(i, "exp", at(100*time.Hour)))
	if _, err := v.Verify(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	i.down.Store(true)
	for range 20 {
		c.pass(2 * time.Hour)
		if tenant, err := v.Verify(t.Context(), token); err != nil || tenant != "acme" {
			t.Fatalf("after %v: %q, %v", c.now().Sub(start), tenant, err)
		}
	}
	// Nobody can say whether a key that is not known is the issuer's by now: its tokens are neither taken nor called bad.
	rotated := rsaKey(t, "k2")
	if tenant, err := v.Verify(t.Context(), sign(t, jose.RS256, rotated, payload(i, "exp", at(100*time.Hour)))); err == nil || errors.Is(err, routing.ErrToken) {
		t.Errorf("unknown key while the issuer is down: %q, %v", tenant, err)
	}
	i.down.Store(false)
	c.pass(minPause)
	if _, err := v.Verify(t.Context(), sign(t, jose.RS256, rotated, payload(i, "exp", at(100*time.Hour)))); !errors.Is(err, routing.ErrToken) {
		t.Errorf("unknown key after the issuer is back: %v", err)
	}
}

func TestIssuerNeverSeen(t *testing.T) {
	key := rsaKey(t, "k1")
	i := newLogin(t, key)
	i.down.Store(true)
	v, c := verifier(t, i, nil)
	token := sign(t, jose.RS256, key, payload(i))
	if _, err := v.Verify(t.Context(), token); err == nil || errors.Is(err, routing.ErrToken) {
		t.Fatalf("token is judged without keys: %v", err)
	}
	i.down.Store(false)
	c.pass(firstPause)
	if _, err := v.Verify(t.Context(), token); err != nil {
		t.Fatalf("issuer is back: %v", err)
	}
}

func TestDiscoveryOfAnotherIssuerIsNotBelieved(t *testing.T) {
	key := rsaKey(t, "k1")
	i := newLogin(t, key)
	i.claims = "https://evil.example.com"
	v, _ := verifier(t, i, nil)
	if _, err := v.Verify(t.Context(), sign(t, jose.RS256, key, payload(i))); err == nil || !strings.Contains(err.Error(), "evil") {
		t.Errorf("error %v", err)
	}
}

func TestKeysRotate(t *testing.T) {
	old, fresh := rsaKey(t, "k1"), rsaKey(t, "k2")
	i := newLogin(t, old)
	v, c := verifier(t, i, nil)
	oldToken, freshToken := sign(t, jose.RS256, old, payload(i)), sign(t, jose.RS256, fresh, payload(i))
	if _, err := v.Verify(t.Context(), oldToken); err != nil {
		t.Fatal(err)
	}
	i.publish(fresh)
	c.pass(minPause)
	if _, err := v.Verify(t.Context(), freshToken); err != nil {
		t.Fatalf("token of a new key: %v", err)
	}
	if _, err := v.Verify(t.Context(), oldToken); !errors.Is(err, routing.ErrToken) {
		t.Errorf("token of a key that was taken back: %v", err)
	}
}

func TestKeyTakenBackIsForgotten(t *testing.T) {
	old, fresh := rsaKey(t, "k1"), rsaKey(t, "k2")
	i := newLogin(t, old)
	v, c := verifier(t, i, nil)
	token := sign(t, jose.RS256, old, payload(i))
	if _, err := v.Verify(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	i.publish(fresh)
	c.pass(maxAge + 1)
	if _, err := v.Verify(t.Context(), token); err != nil {
		t.Fatalf("the old key is used while the new ones are fetched: %v", err)
	}
	v.keys.mu.Lock()
	running := v.keys.running
	v.keys.mu.Unlock()
	if running != nil {
		<-running
	}
	if _, err := v.Verify(t.Context(), token); !errors.Is(err, routing.ErrToken) {
		t.Errorf("token of a key that was taken back: %v", err)
	}
}

func TestMadeUpKeysDoNotFloodTheIssuer(t *testing.T) {
	key := rsaKey(t, "k1")
	i := newLogin(t, key)
	v, c := verifier(t, i, nil)
	if _, err := v.Verify(t.Context(), sign(t, jose.RS256, key, payload(i))); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	other := rsaKey(t, "").Key
	forged := make([]string, 50)
	for n := range forged {
		forged[n] = sign(t, jose.RS256, jose.JSONWebKey{Key: other, KeyID: fmt.Sprint("made-up-", n)}, payload(i))
	}
	c.pass(minPause)
	for _, token := range forged {
		wg.Go(func() {
			if _, err := v.Verify(t.Context(), token); !errors.Is(err, routing.ErrToken) {
				t.Errorf("forged token: %v", err)
			}
		})
	}
	wg.Wait()
	for _, token := range forged {
		c.pass(minPause / 100)
		if _, err := v.Verify(t.Context(), token); !errors.Is(err, routing.ErrToken) {
			t.Errorf("forged token: %v", err)
		}
	}
	if n := i.fetches.Load(); n != 2 {
		t.Errorf("%d fetches, want the first and one more", n)
	}
}

func TestUnknownKindsOfKeysAreSkipped(t *testing.T) {
	key := rsaKey(t, "k1")
	i := newLogin(t, key)
	public, err := key.Public().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var keys bytes.Buffer
	fmt.Fprintf(&keys, `{"keys":[{"kty":"AKP","kid":"pq"},{"kty":"oct","k":"c2VjcmV0","kid":"sym"},5,%s]}`, public)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			w.Write(keys.Bytes())
			return
		}
		fmt.Fprintf(w, `{"issuer":"http://%s","jwks_uri":"http://%s/keys"}`, r.Host, r.Host)
	}))
	defer server.Close()
	i.URL = server.URL
	v, _ := verifier(t, i, nil)
	if _, err := v.Verify(t.Context(), sign(t, jose.RS256, key, payload(i))); err != nil {
		t.Errorf("the key beside unknown ones: %v", err)
	}
}
