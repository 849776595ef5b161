package tokenverify

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
)

// signatures are the algorithms that can be taken: those of RFC 7518, section 3.1, and RFC 8037 with a key of two
// halves. With none and HMAC whoever can verify a token could make one.
var signatures = map[string]jwa.SignatureAlgorithm{
	"RS256": jwa.RS256(), "RS384": jwa.RS384(), "RS512": jwa.RS512(),
	"PS256": jwa.PS256(), "PS384": jwa.PS384(), "PS512": jwa.PS512(),
	"ES256": jwa.ES256(), "ES384": jwa.ES384(), "ES512": jwa.ES512(),
	"EdDSA": jwa.EdDSA(),
}

func asymmetric(algorithm string) bool { _, ok := signatures[algorithm]; return ok }

// key is a public key of an issuer.
type key struct {
	id         string   // "" when it has none
	algorithms []string // for which it may be used
	public     any      // *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
	text       string   // as JSON, to compare and to hand on
}

type keys []key

// parseKeys reads a JWK set. A key of a kind that we do not know is no reason to do without the others (RFC 7517,
// section 5); jwx leaves out RSA keys of fewer than 2,048 bits (RFC 7518, section 3.3), too.
func parseKeys(text []byte) (keys, error) {
	set, err := jwk.Parse(text, jwk.WithIgnoreParseError(true))
	if err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	var out keys
	for i := range set.Len() {
		given, _ := set.Key(i)
		if k, ok := usable(given); ok {
			out = append(out, k)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("there is no public key that can be used")
	}
	return out, nil
}

// usable returns a key that can verify signatures. One that is published with its private half can be anybody's.
func usable(given jwk.Key) (key, bool) {
	if private, err := jwk.IsPrivateKey(given); err != nil || private || given.Validate() != nil {
		return key{}, false
	}
	if use, ok := given.KeyUsage(); ok && use != "" && use != jwk.ForSignature.String() {
		return key{}, false
	}
	var k key
	if err := jwk.Export(given, &k.public); err != nil {
		return key{}, false
	}
	k.algorithms = algorithmsOf(k.public)
	if only, ok := given.Algorithm(); ok && only.String() != "" {
		if !slices.Contains(k.algorithms, only.String()) {
			return key{}, false
		}
		k.algorithms = []string{only.String()}
	}
	k.id, _ = given.KeyID()
	text, err := json.Marshal(given)
	k.text = string(text)
	return k, err == nil && len(k.algorithms) > 0
}

// algorithmsOf are those that a key can be used with: an elliptic curve has one (RFC 7518, section 3.4).
func algorithmsOf(public any) []string {
	switch public := public.(type) {
	case *rsa.PublicKey:
		return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
	case *ecdsa.PublicKey:
		switch public.Curve.Params().Name {
		case "P-256":
			return []string{"ES256"}
		case "P-384":
			return []string{"ES384"}
		case "P-521":
			return []string{"ES512"}
		}
	case ed25519.PublicKey:
		return []string{"EdDSA"}
	}
	return nil
}

// find returns the keys that may have signed a token: the one it names, or all of its kind when it names none.
func (ks keys) find(id, algorithm string) (found keys) {
	for _, k := range ks {
		if (id == "" || k.id == id) && slices.Contains(k.algorithms, algorithm) {
			found = append(found, k)
		}
	}
	return found
}

// within says whether each of the keys is one of others.
func (ks keys) within(others keys) bool {
	for _, k := range ks {
		if !slices.ContainsFunc(others, func(o key) bool { return o.text == k.text }) {
			return false
		}
	}
	return true
}

// set writes the keys as a JWK set.
func (ks keys) set() json.RawMessage {
	list := make([]json.RawMessage, len(ks))
	for i, k := range ks {
		list[i] = json.RawMessage(k.text)
	}
	// JSON that was written by an encoder always encodes.
	text, _ := json.Marshal(map[string][]json.RawMessage{"keys": list})
	return text
}
