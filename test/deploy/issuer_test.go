package deploy

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// issuer is a token issuer on loopback, over TLS as fleets demand.
type issuer struct {
	*httptest.Server
	key         *rsa.PrivateKey
	certificate string // file with the one that its server shows
}

const keyID = "first"

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{key: newKey(t), certificate: filepath.Join(t.TempDir(), "issuer.pem")}
	i.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: keyID, Algorithm: "RS256", Use: "sig"}}})
			return
		}
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, i.URL, i.URL+"/keys")
	}))
	t.Cleanup(i.Close)
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})
	if err := os.WriteFile(i.certificate, block, 0o666); err != nil {
		t.Fatal(err)
	}
	return i
}

func newKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// bearer is an Authorization header with a token of these claims and the fleet's audience, signed by a key.
func (i *issuer) bearer(t *testing.T, key *rsa.PrivateKey, audience string, claims map[string]string) string {
	t.Helper()
	all := map[string]any{"iss": i.URL, "aud": audience, "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range claims {
		all[name] = value
	}
	payload, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: keyID}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return "Bearer " + token
}
