package tokenverify

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"cellwall.dev/cellwall/internal/routing"
)

// start is when every test begins.
var start = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

// login is a login service whose keys and mood tests change.
type login struct {
	*httptest.Server
	keys    atomic.Pointer[jose.JSONWebKeySet]
	down    atomic.Bool
	fetches atomic.Int64
	claims  string // the issuer that the discovery document names; "" for the right one
}

func newLogin(t testing.TB, keys ...jose.JSONWebKey) *login {
	t.Helper()
	i := &login{}
	i.publish(keys...)
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.fetches.Add(1)
		if i.down.Load() {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		name := i.URL
		if i.claims != "" {
			name = i.claims
		}
		json.NewEncoder(w).Encode(map[string]string{"issuer": name, "jwks_uri": i.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode(i.keys.Load()) })
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

func (i *login) publish(keys ...jose.JSONWebKey) {
	set := &jose.JSONWebKeySet{}
	for _, k := range keys {
		set.Keys = append(set.Keys, k.Public())
	}
	i.keys.Store(set)
}

// clock is a time that tests move.
type clock struct{ nanos atomic.Int64 }

func (c *clock) now() time.Time       { return start.Add(time.Duration(c.nanos.Load())) }
func (c *clock) pass(d time.Duration) { c.nanos.Add(int64(d)) }

// verifier takes the tokens of an issuer; change adjusts its configuration, if it is not nil.
func verifier(t testing.TB, i *login, change func(*Config)) (*Verifier, *clock) {
	t.Helper()
	c := &clock{}
	config := Config{Issuer: i.URL, Audience: "orders", Claim: "tenant_id", Now: c.now}
	if change != nil {
		change(&config)
	}
	v, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return v, c
}

// madeKeys are few, as making one takes long; rsaKey deals them round, so that neighbours differ.
var (
	madeKeys = sync.OnceValues(func() (keys [4]*rsa.PrivateKey, err error) {
		for i := range keys {
			if keys[i], err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
				break
			}
		}
		return keys, err
	})
	nextKey atomic.Int64
)

func rsaKey(t testing.TB, id string) jose.JSONWebKey {
	t.Helper()
	keys, err := madeKeys()
	if err != nil {
		t.Fatal(err)
	}
	key := keys[int(nextKey.Add(1))%len(keys)]
	return jose.JSONWebKey{Key: key, KeyID: id, Use: "sig", Algorithm: string(jose.RS256)}
}

// sign signs a payload as it is, however wrong.
func sign(t testing.TB, alg jose.SignatureAlgorithm, key any, payload string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign([]byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// payload is a token's claims as JSON text. Each pair replaces a claim or, with the value "", leaves it out.
func payload(i *login, pairs ...string) string {
	claims := [][2]string{
		{"iss", fmt.Sprintf("%q", i.URL)}, {"aud", `"orders"`}, {"exp", at(time.Hour)}, {"iat", at(0)}, {"tenant_id", `"acme"`},
	}
	for p := 0; p < len(pairs); p += 2 {
		found := false
		for n := range claims {
			if claims[n][0] == pairs[p] {
				claims[n][1], found = pairs[p+1], true
			}
		}
		if !found {
			claims = append(claims, [2]string{pairs[p], pairs[p+1]})
		}
	}
	var parts []string
	for _, c := range claims {
		if c[1] != "" {
			parts = append(parts, fmt.Sprintf("%q:%s", c[0], c[1]))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// at is a NumericDate so far from the start.
func at(d time.Duration) string { return fmt.Sprint(start.Add(d).Unix()) }

func TestAccepts(t *testing.T) {
	key := rsaKey(t, "k1")
	free := jose.JSONWebKey{Key: key.Key, KeyID: "free"} // for any algorithm
	i := newLogin(t, key, free)
	v, _ := verifier(t, i, nil)
	long := strings.Repeat("n", 128)
	tests := []struct{ name, token, want string }{
		{"RS256", sign(t, jose.RS256, key, payload(i)), "acme"},
		{"RS384", sign(t, jose.RS384, free, payload(i)), "acme"},
		{"RS512", sign(t, jose.RS512, free, payload(i)), "acme"},
		{"no key id", sign(t, jose.RS256, key.Key, payload(i)), "acme"},
		{"several audiences", sign(t, jose.RS256, key, payload(i, "aud", `["other","orders"]`)), "acme"},
		{"expired within the skew", sign(t, jose.RS256, key, payload(i, "exp", at(-59*time.Second))), "acme"},
		{"future within the skew", sign(t, jose.RS256, key, payload(i, "iat", at(60*time.Second), "nbf", at(60*time.Second))), "acme"},
		{"no iat", sign(t, jose.RS256, key, payload(i, "iat", "")), "acme"},
		{"date with a fraction", sign(t, jose.RS256, key, payload(i, "exp", at(time.Hour)+".5")), "acme"},
		{"128 bytes", sign(t, jose.RS256, key, payload(i, "tenant_id", `"`+long+`"`)), long},
		{"not ASCII", sign(t, jose.RS256, key, payload(i, "tenant_id", `"日本\u00e4"`)), "日本ä"},
	}
	for _, test := range tests {
		if got, err := v.Verify(t.Context(), test.token); err != nil || got != test.want {
			t.Errorf("%s: tenant %q, %v", test.name, got, err)
		}
	}
}

func TestRefuses(t *testing.T) {
	key, other := rsaKey(t, "k1"), rsaKey(t, "k1")
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	weakKey := jose.JSONWebKey{Key: weak, KeyID: "weak"}
	encryption := rsaKey(t, "enc")
	encryption.Use = "enc"
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	free, curve, edwards := jose.JSONWebKey{Key: key.Key, KeyID: "free"}, jose.JSONWebKey{Key: p256(t), KeyID: "ec"}, jose.JSONWebKey{Key: ed, KeyID: "ed"}
	i := newLogin(t, key, weakKey, encryption, free, curve, edwards)
	v, _ := verifier(t, i, nil)
	good := payload(i)
	raw := func(header, body string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(body))
	}
	// A token whose HMAC key is the issuer's public key, which everybody has.
	public, err := key.Public().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	unsigned := raw(`{"alg":"HS256","kid":"k1"}`, good)
	mac := hmac.New(sha256.New, public)
	mac.Write([]byte(unsigned))
	confused := unsigned + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	// A token that brings its own key.
	thumb, err := other.Thumbprint(crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	embedding, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: other.Key, KeyID: string(thumb[:4])}},
		&jose.SignerOptions{EmbedJWK: true})
	if err != nil {
		t.Fatal(err)
	}
	embedded, err := embedding.Sign([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	own, err := embedded.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	is := func(pairs ...string) string { return sign(t, jose.RS256, key, payload(i, pairs...)) }
	valid := is()
	parts := strings.Split(valid, ".")
	tests := map[string]string{
		"empty": "", "no token": "acme", "dots": "..", "too long": valid + strings.Repeat("x", maxToken),
		"algorithm none":                   raw(`{"alg":"none"}`, good) + ".",
		"algorithm None":                   raw(`{"alg":"None","kid":"k1"}`, good) + ".",
		"none with a signature":            raw(`{"alg":"none","kid":"k1"}`, good) + "." + parts[2],
		"no algorithm":                     raw(`{"kid":"k1"}`, good) + "." + parts[2],
		"no signature":                     parts[0] + "." + parts[1] + ".",
		"public key as HMAC key":           confused,
		"wrong key":                        sign(t, jose.RS256, other, good),
		"key of its own":                   own,
		"unknown key id":                   sign(t, jose.RS256, jose.JSONWebKey{Key: key.Key, KeyID: "k2"}, good),
		"another algorithm than the key's": sign(t, jose.RS512, jose.JSONWebKey{Key: key.Key, KeyID: "k1"}, good),
		"PS256, which API Gateway refuses": sign(t, jose.PS256, free, good),
		"ES256, which API Gateway refuses": sign(t, jose.ES256, curve, good),
		"EdDSA, which API Gateway refuses": sign(t, jose.EdDSA, edwards, good),
		"key of 1,024 bits":                signWeak(t, weak, good),
		"key for encryption":               sign(t, jose.RS256, encryption, good),
		"claims changed":                   parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(payload(i, "tenant_id", `"beta"`))) + "." + parts[2],
		"several signatures":               `{"payload":"` + parts[1] + `","signatures":[{"protected":"` + parts[0] + `","signature":"` + parts[2] + `"}]}`,
		"issuer missing":                   is("iss", ""),
		"another issuer":                   is("iss", `"https://evil.example.com"`),
		"issuer with a slash":              is("iss", fmt.Sprintf("%q", i.URL+"/")),
		"audience missing":                 is("aud", ""),
		"another audience":                 is("aud", `"billing"`),
		"audience in part":                 is("aud", `"orders-admin"`),
		"audience no string":               is("aud", `[1,2]`),
		"expired":                          is("exp", at(-60*time.Second)),
		"expiry missing":                   is("exp", ""),
		"expiry null":                      is("exp", "null"),
		"expiry text":                      is("exp", `"`+at(time.Hour)+`"`),
		"expiry beyond dates":              is("exp", "1e300"),
		"expiry negative":                  is("exp", "-1"),
		"issued in the future":             is("iat", at(61*time.Second)),
		"issued no date":                   is("iat", `"now"`),
		"not before the future":            is("nbf", at(61*time.Second)),
		"not before null":                  is("nbf", "null"),
		"tenant missing":                   is("tenant_id", ""),
		"tenant null":                      is("tenant_id", "null"),
		"tenant a number":                  is("tenant_id", "42"),
		"tenant true":                      is("tenant_id", "true"),
		"tenant an object":                 is("tenant_id", `{"id":"acme"}`),
		"tenant a list":                    is("tenant_id", `["acme"]`),
		"several tenants":                  is("tenant_id", `["acme","beta"]`),
		"list as API Gateway renders it":   is("tenant_id", `"[acme beta]"`),
		"tenant empty":                     is("tenant_id", `""`),
		"tenant of 129 bytes":              is("tenant_id", `"`+strings.Repeat("n", 129)+`"`),
		"tenant of 43 three-byte letters":  is("tenant_id", `"`+strings.Repeat("日", 43)+`"`),
		"tenant not UTF-8":                 is("tenant_id", "\"a\xff\""),
		"tenant half a surrogate pair":     is("tenant_id", `"\ud800"`),
		"tenant twice":                     sign(t, jose.RS256, key, strings.Replace(good, "{", `{"tenant_id":"beta",`, 1)),
		"tenant twice, once escaped":       sign(t, jose.RS256, key, strings.Replace(good, "{", `{"tenant\u005fid":"beta",`, 1)),
		"tenant twice, the same":           sign(t, jose.RS256, key, strings.Replace(good, "{", `{"tenant_id":"acme",`, 1)),
		"expiry twice":                     sign(t, jose.RS256, key, strings.Replace(good, "{", `{"exp":9999999999,`, 1)),
		"tenant in another case":           is("tenant_id", "", "Tenant_ID", `"acme"`),
		"claims a list":                    sign(t, jose.RS256, key, `["acme"]`),
		"claims no JSON":                   sign(t, jose.RS256, key, `tenant=acme`),
		"claims cut off":                   sign(t, jose.RS256, key, good[:len(good)-1]),
		"claims with more behind":          sign(t, jose.RS256, key, good+good),
	}
	if _, err := v.Verify(t.Context(), valid); err != nil {
		t.Fatalf("the token that all others are made from is refused: %v", err)
	}
	for name, token := range tests {
		t.Run(name, func(t *testing.T) {
			if tenant, err := v.Verify(t.Context(), token); tenant != "" || !errors.Is(err, routing.ErrToken) {
				t.Errorf("tenant %q, error %v", tenant, err)
			}
		})
	}
}

func p256(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// signWeak signs with a key that go-jose itself may refuse to sign with.
func signWeak(t *testing.T, key *rsa.PrivateKey, body string) string {
	t.Helper()
	signing := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","kid":"weak"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(body))
	sum := sha256.Sum256([]byte(signing))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return signing + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func TestNewRefuses(t *testing.T) {
	good := Config{Issuer: "https://login.example.com/", Audience: "orders", Claim: "tenant_id"}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Config){
		"no audience":  func(c *Config) { c.Audience = "" },
		"no claim":     func(c *Config) { c.Claim = "" },
		"none":         func(c *Config) { c.Algorithms = []string{"RS256", "none"} },
		"HS256":        func(c *Config) { c.Algorithms = []string{"HS256"} },
		"another case": func(c *Config) { c.Algorithms = []string{"rs256"} },
		"ES256K":       func(c *Config) { c.Algorithms = []string{"ES256K"} },
		"empty":        func(c *Config) { c.Algorithms = []string{""} },
	} {
		c := good
		spoil(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	for _, issuer := range []string{"", "login.example.com", "ftp://x", "https://", "https://x/?q=1", "https://x/#f", "https://x\x7f"} {
		c := good
		c.Issuer = issuer
		if _, err := New(c); err == nil {
			t.Errorf("issuer %q is accepted", issuer)
		}
	}
}
