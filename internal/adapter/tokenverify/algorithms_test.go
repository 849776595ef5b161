package tokenverify

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"cellwall.dev/cellwall/internal/routing"
)

// TestAlgorithms: an algorithm is taken where it stands in the list, and with a key that it fits. The tokens are
// another library's.
func TestAlgorithms(t *testing.T) {
	rsaKey := jose.JSONWebKey{Key: rsaKey(t, "").Key, KeyID: "rsa"}
	curve := func(id string, c elliptic.Curve) jose.JSONWebKey {
		key, err := ecdsa.GenerateKey(c, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return jose.JSONWebKey{Key: key, KeyID: id}
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p256, p384, p521, ed := curve("p256", elliptic.P256()), curve("p384", elliptic.P384()), curve("p521", elliptic.P521()), jose.JSONWebKey{Key: edwards, KeyID: "ed"}
	i := newLogin(t, rsaKey, p256, p384, p521, ed)
	keys := map[string]jose.JSONWebKey{
		"RS256": rsaKey, "RS384": rsaKey, "RS512": rsaKey, "PS256": rsaKey, "PS384": rsaKey, "PS512": rsaKey,
		"ES256": p256, "ES384": p384, "ES512": p521, "EdDSA": ed,
	}
	if len(keys) != len(signatures) {
		t.Fatalf("%d algorithms are tested, of %d", len(keys), len(signatures))
	}
	var all []string
	for name := range keys {
		all = append(all, name)
	}
	for name, key := range keys {
		token := sign(t, jose.SignatureAlgorithm(name), key, payload(i))
		for _, list := range [][]string{{name}, all} {
			v, _ := verifier(t, i, func(c *Config) { c.Algorithms = list })
			if tenant, err := v.Verify(t.Context(), token); err != nil || tenant != "acme" {
				t.Errorf("%s in %v: %q, %v", name, list, tenant, err)
			}
		}
		others := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == name })
		v, _ := verifier(t, i, func(c *Config) { c.Algorithms = others })
		if _, err := v.Verify(t.Context(), token); !errors.Is(err, routing.ErrToken) {
			t.Errorf("%s is taken by %v: %v", name, others, err)
		}
	}
	// A header that lies of the algorithm.
	v, _ := verifier(t, i, func(c *Config) { c.Algorithms = all })
	for name, key := range keys {
		token := sign(t, jose.SignatureAlgorithm(name), key, payload(i))
		_, rest, _ := strings.Cut(token, ".")
		for _, lie := range append(slices.Clone(all), "none", "None", "HS256", "", "rs256") {
			if lie == name {
				continue
			}
			forged := encode(`{"alg":"`+lie+`","kid":"`+key.KeyID+`"}`) + "." + rest
			if _, err := v.Verify(t.Context(), forged); !errors.Is(err, routing.ErrToken) {
				t.Errorf("%s passed as %s: %v", name, lie, err)
			}
		}
	}
}

// TestHeaders: a header is read in one way, or refused.
func TestHeaders(t *testing.T) {
	key := rsaKey(t, "k1")
	i := newLogin(t, key)
	v, _ := verifier(t, i, nil)
	good := signHeader(t, key, `{"alg":"RS256","kid":"k1","typ":"JWT"}`, payload(i))
	if _, err := v.Verify(t.Context(), good); err != nil {
		t.Fatalf("the token that all others are made like is refused: %v", err)
	}
	for name, header := range map[string]string{
		"algorithm twice":           `{"alg":"RS256","alg":"RS256","kid":"k1"}`,
		"algorithm twice, escaped":  `{"alg":"none","\u0061lg":"RS256","kid":"k1"}`,
		"key twice":                 `{"alg":"RS256","kid":"k2","kid":"k1"}`,
		"algorithm in another case": `{"ALG":"RS256","kid":"k1"}`,
		"algorithm no string":       `{"alg":["RS256"],"kid":"k1"}`,
		"key's id no string":        `{"alg":"RS256","kid":1}`,
		"unencoded payload":         `{"alg":"RS256","kid":"k1","b64":false,"crit":["b64"]}`,
		"unencoded, not critical":   `{"alg":"RS256","kid":"k1","b64":false}`,
		"encoded, as said":          `{"alg":"RS256","kid":"k1","b64":true}`,
		"critical":                  `{"alg":"RS256","kid":"k1","exp":1,"crit":["exp"]}`,
		"critical, empty":           `{"alg":"RS256","kid":"k1","crit":[]}`,
		"no object":                 `["RS256"]`,
		"cut off":                   `{"alg":"RS256","kid":"k1"`,
		"more behind":               `{"alg":"RS256","kid":"k1"}{}`,
		"not UTF-8":                 "{\"alg\":\"RS256\",\"kid\":\"k1\",\"x\":\"\xff\"}",
		"path for a key":            `{"alg":"RS256","kid":"../../dev/null"}`,
	} {
		if _, err := v.Verify(t.Context(), signHeader(t, key, header, payload(i))); !errors.Is(err, routing.ErrToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What a token may point at is not looked at.
	for _, header := range []string{
		`{"alg":"RS256","kid":"k1","jku":"http://127.0.0.1:1/keys"}`, `{"alg":"RS256","kid":"k1","x5u":"http://127.0.0.1:1/c"}`,
	} {
		if tenant, err := v.Verify(t.Context(), signHeader(t, key, header, payload(i))); err != nil || tenant != "acme" {
			t.Errorf("%s: %q, %v", header, tenant, err)
		}
	}
	parts := strings.Split(good, ".")
	for name, token := range map[string]string{
		"padding":             parts[0] + "." + parts[1] + "." + parts[2] + "==",
		"line break":          parts[0] + "." + parts[1] + "." + parts[2] + "\n",
		"line break inside":   parts[0] + ".\r\n" + parts[1] + "." + parts[2],
		"space":               " " + good,
		"four parts":          good + ".x",
		"two parts":           parts[0] + "." + parts[1],
		"standard base64":     strings.NewReplacer("-", "+", "_", "/").Replace(good) + "+",
		"trailing bits":       good[:len(good)-1] + next(good[len(good)-1]),
		"detached":            parts[0] + ".." + parts[2],
		"encrypted, by shape": good + ".a.b",
	} {
		if _, err := v.Verify(t.Context(), token); !errors.Is(err, routing.ErrToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// next is another letter of base64url that differs in the lowest bits only.
func next(c byte) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(letters[strings.IndexByte(letters, c)^1])
}
