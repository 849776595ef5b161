package local

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"cellwall.dev/cellwall/internal/localcell"
	"cellwall.dev/cellwall/internal/localcell/issuer"
)

// signed is a token with this payload, as it is.
func signed(t *testing.T, alg jose.SignatureAlgorithm, key any, kid, payload string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	object, err := signer.Sign([]byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	token, err := object.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// issuerKey is the running cell's, with the id under which it is published.
func issuerKey(t *testing.T, c *cell, r *localcell.Running) (*rsa.PrivateKey, jose.JSONWebKey) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.state, "issuer-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := issuer.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	var set jose.JSONWebKeySet
	if err := json.NewDecoder(ask(t, "GET", r.Issuer+"/keys", "", "").Body).Decode(&set); err != nil || len(set.Keys) != 1 {
		t.Fatalf("published keys: %v, %v", set, err)
	}
	return key, set.Keys[0]
}

// TestOnlyGoodTokensAreServed goes through the router's own listener: 401 for every token that is not
// acceptable, 404 for an acceptable one of an unknown tenant, and never a default shard.
func TestOnlyGoodTokensAreServed(t *testing.T) {
	c := newCell(t)
	r := c.up("--cell", "eu-canary")
	key, public := issuerKey(t, c, r)
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	publicBytes, err := public.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}

	now := time.Now().Unix()
	payload := func(change func(map[string]any)) string {
		claims := map[string]any{"iss": r.Issuer, "aud": "orders", "sub": "acme", "iat": now, "exp": now + 600, "tenant_id": "acme"}
		change(claims)
		text, err := json.Marshal(claims)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	same := func(map[string]any) {}
	set := func(name string, value any) string { return payload(func(c map[string]any) { c[name] = value }) }
	rs256 := func(payload string) string { return signed(t, jose.RS256, key, public.KeyID, payload) }
	segment := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

	good := rs256(payload(same))
	parts := strings.Split(good, ".")
	tests := []struct {
		name, token string
		want        int
	}{
		{"good", good, 204},
		{"the command's", strings.TrimSpace(c.must("token", "acme")), 204},
		{"several audiences", rs256(set("aud", []string{"else", "orders"})), 204},
		{"unknown tenant", rs256(set("tenant_id", "stranger")), 404},
		{"unknown tenant of the command", strings.TrimSpace(c.must("token", "stranger")), 404},

		{"none", "", 401},
		{"no token at all", "x", 401},
		{"alg none", segment(`{"alg":"none"}`) + "." + parts[1] + ".", 401},
		{"alg None with the signature", segment(`{"alg":"None"}`) + "." + parts[1] + "." + parts[2], 401},
		{"no signature", parts[0] + "." + parts[1] + ".", 401},
		{"wrong key under the right id", signed(t, jose.RS256, other, public.KeyID, payload(same)), 401},
		{"wrong key", signed(t, jose.RS256, other, "other", payload(same)), 401},
		{"an algorithm that API Gateway does not take", signed(t, jose.PS256, key, public.KeyID, payload(same)), 401},
		{"signed with the public key as a secret", signed(t, jose.HS256, publicBytes, public.KeyID, payload(same)), 401},
		{"another payload", parts[0] + "." + segment(set("tenant_id", "globex")) + "." + parts[2], 401},
		{"expired", rs256(set("exp", now-600)), 401},
		{"no expiry", rs256(payload(func(c map[string]any) { delete(c, "exp") })), 401},
		{"not yet valid", rs256(set("nbf", now+600)), 401},
		{"issued in the future", rs256(set("iat", now+600)), 401},
		{"another issuer", rs256(set("iss", "https://login.example.com/")), 401},
		{"another audience", rs256(set("aud", "invoices")), 401},
		{"no tenant", rs256(payload(func(c map[string]any) { delete(c, "tenant_id") })), 401},
		{"tenant null", rs256(set("tenant_id", nil)), 401},
		{"tenant empty", rs256(set("tenant_id", "")), 401},
		{"tenant a number", rs256(set("tenant_id", 7)), 401},
		{"tenant an object", rs256(set("tenant_id", map[string]string{"id": "acme"})), 401},
		{"tenant a list of one", rs256(set("tenant_id", []string{"acme"})), 401},
		{"tenant a list of two", rs256(set("tenant_id", []string{"acme", "globex"})), 401},
		{"tenant claimed twice", rs256(strings.Replace(payload(same), "{", `{"tenant_id":"globex",`, 1)), 401},
		{"tenant too long", rs256(set("tenant_id", strings.Repeat("x", 129))), 401},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			authorization := ""
			if test.token != "" {
				authorization = "Bearer " + test.token
			}
			resp := ask(t, "PUT", r.Router+"/orders/1", authorization, "hello")
			answer, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != test.want {
				t.Errorf("status %d, want %d: %s", resp.StatusCode, test.want, answer)
			}
			silent(t, c, resp.Header, string(answer))
		})
	}
	// The tenant is whom the token names, whatever the request's headers say.
	req := ask(t, "GET", r.Router+"/orders", "Bearer "+rs256(set("tenant_id", "globex")), "")
	if answer, _ := io.ReadAll(req.Body); strings.TrimSpace(string(answer)) != "[]" {
		t.Errorf("another tenant sees %s", answer)
	}
}

// silent fails when an answer tells a client anything about shards.
func silent(t *testing.T, c *cell, header http.Header, answer string) {
	t.Helper()
	text := fmt.Sprint(header) + answer
	for _, p := range c.running().Processes {
		if strings.Contains(text, p.Name) && strings.HasPrefix(p.Name, "s0") || p.Address != "" && strings.Contains(text, p.Address) {
			t.Errorf("the answer names shard %s: %s", p.Name, text)
		}
	}
}
