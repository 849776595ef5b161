package routing

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"
)

// FuzzUnverifiedClaims holds that the claims of a token are read as any reader reads them, or not at all.
func FuzzUnverifiedClaims(f *testing.F) {
	encode := base64.RawURLEncoding.EncodeToString
	for _, claims := range []string{`{"tenant_id":"acme"}`, `{"a":1,"a":2}`, `{"a":{"b":1,"b":2}}`, `{"\u0061":1,"a":2}`, `[]`, `{}`, `{"a":}`, `{"a":1}{`, "{\"a\":\"\xff\"}", ``} {
		f.Add("h." + encode([]byte(claims)) + ".s")
	}
	f.Add("a.b")
	f.Add("...")
	f.Add("h.e30=.s")
	f.Fuzz(func(t *testing.T, token string) {
		claims, err := UnverifiedClaims(token)
		if err != nil {
			if claims != nil || !errors.Is(err, ErrToken) {
				t.Fatalf("%q: %v, %v", token, claims, err)
			}
			return
		}
		text, err := json.Marshal(claims)
		if err != nil {
			t.Fatalf("%q: %v", token, err)
		}
		again, err := ParseClaims(text)
		if err != nil || len(again) != len(claims) {
			t.Fatalf("%q: %s is read as %v, %v", token, text, again, err)
		}
		for name := range claims {
			if !utf8.ValidString(name) {
				t.Fatalf("%q: claim %q", token, name)
			}
		}
	})
}

// FuzzTenantFromClaim holds that a claim is one tenant's name, as it stands there, or none.
func FuzzTenantFromClaim(f *testing.F) {
	for _, claim := range []string{`"acme"`, `"[a b]"`, `["a"]`, `null`, `"\ud800"`, `42`, `"\u0000"`, ``, "\"\xff\""} {
		f.Add(claim)
	}
	f.Fuzz(func(t *testing.T, claim string) {
		tenant, err := TenantFromClaim(json.RawMessage(claim))
		if err != nil {
			if tenant != "" || !errors.Is(err, ErrToken) {
				t.Fatalf("%q: %q, %v", claim, tenant, err)
			}
			return
		}
		var read string
		if json.Unmarshal([]byte(claim), &read) != nil || read != tenant || len(tenant) == 0 || len(tenant) > 128 || !utf8.ValidString(tenant) {
			t.Fatalf("%q is read as %q", claim, tenant)
		}
		if header := EncodeTenant(tenant); !printable(header) {
			t.Fatalf("%q is written %q", tenant, header)
		}
	})
}

// TestClaimsAreOneObject: what follows it would be more to another reader, a bracket as well as a value.
func TestClaimsAreOneObject(t *testing.T) {
	for _, text := range []string{`{"a":1}}`, `{"a":1}]`, `{"a":1}{`, `{"a":1} 1`, `{"a":1},`, `{"a":1`, `[{"a":1}]`, `1`, ``} {
		if claims, err := ParseClaims([]byte(text)); !errors.Is(err, ErrToken) {
			t.Errorf("%s is read as %v, %v", text, claims, err)
		}
	}
	if claims, err := ParseClaims([]byte(" {\"a\":1}\n")); err != nil || len(claims) != 1 {
		t.Errorf("one object is read as %v, %v", claims, err)
	}
}
