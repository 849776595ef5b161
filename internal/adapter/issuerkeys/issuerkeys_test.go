package issuerkeys

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// issuer serves a discovery document and keys.
type issuer struct {
	*httptest.Server
	discovery func(w http.ResponseWriter)
	keys      func(w http.ResponseWriter)
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			i.discovery(w)
		case "/elsewhere/.well-known/openid-configuration":
			fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, i.URL, i.URL+"/keys")
		case "/keys":
			i.keys(w)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(i.Close)
	i.discovery = func(w http.ResponseWriter) { fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, i.URL, i.URL+"/keys") }
	i.keys = answer(`{"keys":[{"kty":"RSA","kid":"a","n":"AQ","e":"AQAB"}]}`)
	return i
}

func answer(text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { fmt.Fprint(w, text) }
}

func TestJWKS(t *testing.T) {
	i := newIssuer(t)
	source, err := New(i.URL)
	if err != nil {
		t.Fatal(err)
	}
	for published, want := range map[string]string{
		`{"keys":[{"kty":"RSA","kid":"a","n":"AQ","e":"AQAB"}], "more": 1}`:                           `{"keys":[{"e":"AQAB","kid":"a","kty":"RSA","n":"AQ"}]}`,
		`{"keys":[{"kty":"EC","kid":"b","use":"sig"},{"kty":"future","kid":"c"}]}`:                    `{"keys":[{"kid":"b","kty":"EC","use":"sig"},{"kid":"c","kty":"future"}]}`,
		`{"keys":[{"kty":"EC","kid":"b"},{"kty":"RSA","kid":"enc","use":"enc"}]}`:                     `{"keys":[{"kid":"b","kty":"EC"}]}`,
		`{"keys":[{"kty":"EC","kid":"b"},{"kty":"oct","k":"c2VjcmV0"},{"kty":"RSA","d":"c2VjcmV0"}]}`: `{"keys":[{"kid":"b","kty":"EC"}]}`,
	} {
		i.keys = answer(published)
		if got, err := source.JWKS(t.Context()); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", published, got, err, want)
		}
	}
}

func TestJWKSRefuses(t *testing.T) {
	i := newIssuer(t)
	source, err := New(i.URL)
	if err != nil {
		t.Fatal(err)
	}
	good, goodKeys := i.discovery, i.keys
	large := `{"keys":[{"kty":"RSA","kid":"a"}]}` + strings.Repeat(" ", maxDocument)
	for what, c := range map[string]struct{ discovery, keys func(http.ResponseWriter) }{
		"another issuer":     {answer(`{"issuer":"https://evil.example.com","jwks_uri":"` + i.URL + `/keys"}`), goodKeys},
		"no address of keys": {answer(`{"issuer":"` + i.URL + `"}`), goodKeys},
		"a file":             {answer(`{"issuer":"` + i.URL + `","jwks_uri":"file:///etc/passwd"}`), goodKeys},
		"no JSON":            {answer(`<html>`), goodKeys},
		"a redirect": {func(w http.ResponseWriter) {
			w.Header().Set("Location", i.URL+"/elsewhere/.well-known/openid-configuration")
			w.WriteHeader(http.StatusFound)
		}, goodKeys},
		"an error":           {good, func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }},
		"no keys":            {good, answer(`{"keys":[]}`)},
		"nothing":            {good, answer(`{}`)},
		"private keys alone": {good, answer(`{"keys":[{"kty":"RSA","d":"c2VjcmV0"},{"kty":"oct","k":"c2VjcmV0"},{"n":"AQ"}]}`)},
		"cut short":          {good, answer(`{"keys":[{"kty":"RSA"`)},
		"too large":          {good, answer(large)},
	} {
		i.discovery, i.keys = c.discovery, c.keys
		if got, err := source.JWKS(t.Context()); err == nil || strings.Contains(err.Error(), "c2VjcmV0") {
			t.Errorf("%s: %s, %v", what, got, err)
		}
	}
	i.discovery, i.keys = good, goodKeys
	i.Close()
	if _, err := source.JWKS(t.Context()); err == nil {
		t.Error("an issuer that is down has keys")
	}
	for _, address := range []string{"", "login.example.com", "ftp://login.example.com", "https://login.example.com/?a=b", "https://"} {
		if _, err := New(address); err == nil {
			t.Errorf("%q is taken for an address", address)
		}
	}
}

// silent is a transport that never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestJWKSEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &Issuer{"https://login.example.com", &http.Client{Transport: silent{}}}
		begin := time.Now()
		if _, err := source.JWKS(t.Context()); err == nil || time.Since(begin) != timeout { // by the bubble's clock
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	})
}
