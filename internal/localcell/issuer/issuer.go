// Package issuer is the token issuer of a local cell: what a login service is to a real one. It signs
// RS256 tokens that name a tenant and publishes its key the way OpenID Connect Discovery 1.0 says, so
// that the router verifies its tokens exactly as it verifies anybody's.
package issuer

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha256" // the hash of the key's id
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/localcell/loopback"
)

// Lifetime is how long a token is valid.
const Lifetime = time.Hour

// DiscoveryPath is where the issuer says what it is (OpenID Connect Discovery 1.0, section 4).
const DiscoveryPath = "/.well-known/openid-configuration"

const (
	keysPath = "/keys"
	keyBits  = 2048 // at least (RFC 7518, section 3.3)
	pemType  = "RSA PRIVATE KEY"
)

// ErrTenant means that no token can name this tenant.
var ErrTenant = errors.New("not a tenant id")

// Settings say what stands in a token.
type Settings struct {
	URL      string // the issuer's own address; iss
	Audience string // aud
	Claim    string // name of the claim that holds the tenant
}

// Issuer signs tokens. It is safe for concurrent use.
type Issuer struct {
	settings Settings
	signer   jose.Signer
	public   jose.JSONWebKeySet
}

// New returns an issuer that signs with key, of 2,048 bits or more. RS256 is what API Gateway takes, too.
func New(s Settings, key *rsa.PrivateKey) (*Issuer, error) {
	switch {
	case key == nil || key.N.BitLen() < keyBits:
		return nil, fmt.Errorf("the issuer's key: want an RSA key of %d bits or more", keyBits)
	case s.URL == "" || s.Audience == "" || s.Claim == "":
		return nil, errors.New("the issuer needs an address, an audience and the name of the tenant's claim")
	}
	public := jose.JSONWebKey{Key: key.Public(), Algorithm: string(jose.RS256), Use: "sig"}
	print, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("the issuer's key: %w", err)
	}
	public.KeyID = base64.RawURLEncoding.EncodeToString(print)
	private := jose.JSONWebKey{Key: key, KeyID: public.KeyID}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: private}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return nil, fmt.Errorf("the issuer's key: %w", err)
	}
	return &Issuer{s, signer, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}}}, nil
}

// Token returns a token of the tenant, valid from now for Lifetime. ErrTenant when the id is none.
// Whether the tenant exists is for the router to find out.
func (i *Issuer) Token(tenant string, now time.Time) (string, error) {
	if !directory.ValidTenant(tenant) {
		return "", fmt.Errorf("%w: want 1 to 128 bytes of UTF-8, not %q", ErrTenant, tenant)
	}
	standard := jwt.Claims{
		Issuer: i.settings.URL, Audience: jwt.Audience{i.settings.Audience}, Subject: tenant,
		IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(Lifetime)),
	}
	token, err := jwt.Signed(i.signer).Claims(standard).Claims(map[string]any{i.settings.Claim: tenant}).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return token, nil
}

// Public serves what everybody may read: the discovery document and the public key.
func (i *Issuer) Public() http.Handler {
	discovery := map[string]any{
		"issuer":                                i.settings.URL,
		"jwks_uri":                              i.settings.URL + keysPath,
		"id_token_signing_alg_values_supported": []string{string(jose.RS256)},
		"response_types_supported":              []string{"id_token"},
		"subject_types_supported":               []string{"public"},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+DiscoveryPath, func(w http.ResponseWriter, _ *http.Request) {
		loopback.Answer(w, http.StatusOK, discovery)
	})
	mux.HandleFunc("GET "+keysPath, func(w http.ResponseWriter, _ *http.Request) {
		loopback.Answer(w, http.StatusOK, i.public)
	})
	return mux
}

// NewKey makes a key and its PEM form.
func NewKey() ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return nil, fmt.Errorf("make the issuer's key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: x509.MarshalPKCS1PrivateKey(key)}), nil
}

// ParseKey reads what NewKey made.
func ParseKey(text []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != pemType {
		return nil, fmt.Errorf("the issuer's key: no PEM block of type %s; without the file the next start makes a new one", pemType)
	}
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the issuer's key: %w", err)
	}
	return key, nil
}
