package tokenverify

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"cellwall.dev/cellwall/internal/routing"
)

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// signHeader signs claims under a header as it is, however wrong, by RS256.
func signHeader(t testing.TB, key jose.JSONWebKey, header, body string) string {
	t.Helper()
	signing := encode(header) + "." + encode(body)
	sum := sha256.Sum256([]byte(signing))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key.Key.(*rsa.PrivateKey), crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return signing + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// FuzzVerify holds that of arbitrary texts none is a token but the one that the issuer signed, and that every
// refusal is one.
func FuzzVerify(f *testing.F) {
	key := rsaKey(f, "k1")
	i := newLogin(f, key)
	good := signHeader(f, key, `{"alg":"RS256","kid":"k1"}`, payload(i))
	parts := strings.Split(good, ".")
	for _, seed := range []string{good, "", "..", parts[0] + "." + parts[1] + ".", parts[0] + ".." + parts[2], good + ".a.b", `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`} {
		f.Add(seed)
	}
	v, _ := verifier(f, i, nil)
	f.Fuzz(func(t *testing.T, token string) {
		tenant, err := v.Verify(t.Context(), token)
		switch {
		case err == nil && token != good:
			t.Fatalf("%q is a token of %q", token, tenant)
		case err != nil && (tenant != "" || !errors.Is(err, routing.ErrToken)):
			t.Fatalf("%q: %q, %v", token, tenant, err)
		}
	})
}

// FuzzSigned holds that whatever an issuer signs is refused or names one tenant, which a reader of the same claims
// finds there too, and that it is refused when its time is over.
func FuzzSigned(f *testing.F) {
	key := rsaKey(f, "k1")
	i := newLogin(f, key)
	for _, pairs := range [][]string{nil, {"exp", "1e300"}, {"exp", `"1"`}, {"nbf", "-1"}, {"aud", `["orders",5]`}, {"tenant_id", `["a"]`}, {"iss", "null"}, {"payload", `"x","signatures":[]`}} {
		f.Add(`{"alg":"RS256","kid":"k1"}`, payload(i, pairs...))
	}
	f.Add(`{"alg":"RS256"}`, `{"payload":"e30","signatures":[{"protected":"e30","signature":""}]}`)
	v, c := verifier(f, i, func(c *Config) { c.Remember = -1 })
	f.Fuzz(func(t *testing.T, header, claims string) {
		c.nanos.Store(0)
		token := signHeader(t, key, header, claims)
		tenant, err := v.Verify(t.Context(), token)
		if err != nil {
			if !errors.Is(err, routing.ErrToken) {
				t.Fatalf("%q %q: %v", header, claims, err)
			}
			return
		}
		var read struct {
			Tenant string  `json:"tenant_id"`
			Expiry float64 `json:"exp"`
		}
		if json.Unmarshal([]byte(claims), &read) != nil || read.Tenant != tenant || read.Expiry == 0 {
			t.Fatalf("%q %q is of tenant %q", header, claims, tenant)
		}
		if read.Expiry < 1e11 {
			c.nanos.Store(int64(time.Unix(int64(read.Expiry), 0).Add(skew + time.Second).Sub(start)))
			if _, err := v.Verify(t.Context(), token); !errors.Is(err, routing.ErrToken) {
				t.Fatalf("%q %q lives on: %v", header, claims, err)
			}
		}
	})
}

// FuzzKeys holds that of any set only public keys are taken, each with the algorithms that it fits, and that what is
// handed on is read as the same keys.
func FuzzKeys(f *testing.F) {
	rsaKey := rsaKey(f, "k1")
	public, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{rsaKey.Public()}})
	if err != nil {
		f.Fatal(err)
	}
	private, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{rsaKey}})
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{string(public), string(private), `{"keys":[]}`, `{"keys":[{"kty":"oct","k":"AA"}]}`, `{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`, `[]`, `{"kty":"OKP","crv":"Ed25519","x":"AA"}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		found, err := parseKeys([]byte(text))
		if err != nil {
			return
		}
		for _, k := range found {
			if _, ok := k.public.(interface{ Public() crypto.PublicKey }); ok || len(k.algorithms) == 0 || strings.Contains(k.text, `"d":`) {
				t.Fatalf("%q gives %T for %v", text, k.public, k.algorithms)
			}
			for _, algorithm := range k.algorithms {
				if !asymmetric(algorithm) {
					t.Fatalf("%q is a key for %s", text, algorithm)
				}
			}
		}
		again, err := parseKeys(found.set())
		if err != nil || !again.within(found) || !found.within(again) {
			t.Fatalf("%q: %s is read as %v, %v", text, found.set(), again, err)
		}
	})
}
