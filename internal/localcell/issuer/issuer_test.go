package issuer

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

func newIssuer(t *testing.T, url string) *Issuer {
	t.Helper()
	text, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	i, err := New(Settings{URL: url, Audience: "orders", Claim: "tenant_id"}, key)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// TestTokensVerify goes the way of any relying party: discovery, keys, verification.
func TestTokensVerify(t *testing.T) {
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	defer server.Close()
	i := newIssuer(t, server.URL)
	handler = i.Public()

	provider, err := oidc.NewProvider(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	verify := provider.VerifierContext(t.Context(), &oidc.Config{ClientID: "orders"}).Verify
	token, err := i.Token("acmé", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	verified, err := verify(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := verified.Claims(&claims); err != nil {
		t.Fatal(err)
	}
	if claims["tenant_id"] != "acmé" || claims["sub"] != "acmé" {
		t.Errorf("claims %v", claims)
	}
	old, err := i.Token("acme", time.Now().Add(-Lifetime-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	var expired *oidc.TokenExpiredError
	if _, err := verify(t.Context(), old); !errors.As(err, &expired) {
		t.Errorf("an old token: %v, want it expired", err)
	}
	foreign, err := newIssuer(t, server.URL).Token("acme", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verify(t.Context(), foreign); err == nil {
		t.Error("a token signed with another key verifies")
	}
}

func TestTokenOfNoTenant(t *testing.T) {
	i := newIssuer(t, "http://127.0.0.1:1")
	for _, tenant := range []string{"", "\xff", strings.Repeat("x", 129)} {
		if _, err := i.Token(tenant, time.Now()); !errors.Is(err, ErrTenant) {
			t.Errorf("%q: %v, want %q", tenant, err, ErrTenant)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	good := Settings{URL: "http://127.0.0.1:1", Audience: "orders", Claim: "tenant_id"}
	text, _ := NewKey()
	key, err := ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	other, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(good, nil); err == nil {
		t.Error("no key is accepted")
	}
	if _, err := New(good, other); err == nil {
		t.Error("a key of 1,024 bits is accepted")
	}
	for _, s := range []Settings{{}, {URL: good.URL, Audience: good.Audience}, {URL: good.URL, Claim: good.Claim}} {
		if _, err := New(s, key); err == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
	for _, text := range []string{"", "no key", strings.Replace(string(text), "RSA PRIVATE", "PRIVATE", 2), string(text[:80])} {
		if _, err := ParseKey([]byte(text)); err == nil {
			t.Errorf("key %q is accepted", text)
		}
	}
}
