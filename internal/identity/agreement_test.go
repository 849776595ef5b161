package identity

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/routing"
)

func agreement(t testing.TB) Agreement {
	return must[Agreement](t)(NewAgreement("/tenants/{tenant}/*", "tenant_id"))
}

// pathsAgree and pathsDisagree are the paths of acme's requests.
var (
	pathsAgree = []string{
		"/", "/orders/1", "/tenants", "/tenants/", "/tenants/acme", "/tenants/acme/", "/tenants/acme/orders/1", "/tenants/%61cme/x", "/Tenants/acme/x",
		"/tenants/acme/orders%2F1", "/tenants//acme/x", "/tenants/acme/a%2525", "/v1/tenants/beta", "/tenants-old/beta", "/ten%2Fants/beta", "/tenants/acme/100%25",
	}
	pathsDisagree = []string{
		"/tenants/beta", "/tenants/beta/", "/tenants/beta/orders/1", "/TENANTS/beta/x", "/tenants/Acme/x", "/tenants/ACME", "/tenants/acme%20/x", "/tenants/acme./x",
		"/tenants/%62eta/x", "/%74enants/beta/x", "/tenants%2Fbeta/x", "/tenants/beta%2Fx", "/%2Ftenants/beta", "//tenants/beta", "/tenants//beta/x", "/tenants///beta",
		"/./tenants/beta", "/x/../tenants/beta", "/tenants/acme/../beta/x", "//tenants/./", "/tenants/acme/..%2Fbeta", "/tenants/acme/%2e%2e/beta/x", "/tenants/acme%2F..%2Fbeta",
		"/tenants/./beta", "/tenants/%2E/beta", `/tenants\beta\x`, "/tenants%5Cbeta", `/x\..\tenants\beta`, "/%2574enants/beta", "/tenants/%2562eta", "/tenants/acme/%252e%252e/beta",
		"/tenants;v=1/beta", "/tenants/acme;x/../beta", "/tenants/acme/..;/beta/x", "/tenants;/beta", "/tenants%3Bv/beta", "/tenants/acme%2Fx", "/tenants/acme%252Fx/../../beta",
		"/tenants/beta;acme", "/tenants/acme;beta", "/tenants/acme.json", "/tenants/acme%00", "/tenants/%zz", "/tenants/acme?x", "tenants/acme", "",
	}
)

func TestPathAgrees(t *testing.T) {
	a := agreement(t)
	for _, p := range pathsAgree {
		if err := a.Check("acme", &routing.Request{Path: p}); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
	for _, p := range pathsDisagree {
		if err := a.Check("acme", &routing.Request{Path: p}); !errors.Is(err, ErrDisagree) {
			t.Errorf("%s: %v", p, err)
		}
	}
	for _, tenant := range []string{"ä", "a b", "50%", "a+b", "a:b", "a@b", "..."} {
		if err := a.Check(tenant, &routing.Request{Path: "/tenants/" + url.PathEscape(tenant) + "/x"}); err != nil {
			t.Errorf("tenant %q cannot name itself: %v", tenant, err)
		}
	}
}

func TestAgreementPatterns(t *testing.T) {
	for _, pattern := range []string{"/{tenant}", "/{tenant}/*", "/tenants/{tenant}", "/v1/t/{tenant}/*"} {
		a := must[Agreement](t)(NewAgreement(pattern, ""))
		own, other := strings.ReplaceAll(strings.TrimSuffix(pattern, "/*"), tenantSegment, "acme"), strings.ReplaceAll(strings.TrimSuffix(pattern, "/*"), tenantSegment, "beta")
		for _, rest := range []string{"", "/", "/x", "/x/y"} {
			if err := a.Check("acme", &routing.Request{Path: own + rest}); err != nil {
				t.Errorf("%s, %s: %v", pattern, own+rest, err)
			}
			if err := a.Check("acme", &routing.Request{Path: other + rest}); !errors.Is(err, ErrDisagree) {
				t.Errorf("%s, %s: %v", pattern, other+rest, err)
			}
		}
	}
	for _, pattern := range []string{"tenants/{tenant}", "/tenants", "/tenants/*", "/{tenant}/{tenant}", "/{tenant}/x", "/a/../{tenant}", "/a//{tenant}", "/a%2F/{tenant}", "/x{tenant}", "/{tenant}*", "/*/{tenant}", "/a;b/{tenant}", "/{id}/{tenant}", "/*"} {
		if _, err := NewAgreement(pattern, ""); err == nil {
			t.Errorf("%s is accepted", pattern)
		}
	}
	// Nothing agreed on, nothing to disagree about.
	if err := (Agreement{}).Check("acme", &routing.Request{Path: "/tenants/beta", Body: []byte(`{"tenant_id":"beta"}`)}); err != nil {
		t.Error(err)
	}
}

func TestBodyAgrees(t *testing.T) {
	a := agreement(t)
	check := func(body string, headers ...string) error {
		h := http.Header{}
		for i := 0; i < len(headers); i += 2 {
			h.Add(headers[i], headers[i+1])
		}
		return a.Check("acme", &routing.Request{Path: "/", Header: h, Body: []byte(body)})
	}
	const kind, isJSON = "Content-Type", "application/json"
	for _, body := range []string{
		"", "{}", "[]", "null", "5", `"beta"`, `{"tenant_id":"acme"}`, ` {"x":1,"tenant_id":"acme"} `, `{"tenant_id":null}`, `{"tenant_id":"acme","tenant_id":"acme"}`,
		`{"tenant\u005fid":"\u0061cme"}`, `{"order":{"tenant_id":"beta"}}`, `{"list":[{"tenant_id":"beta"}]}`, `[{"tenant_id":"acme"},{"tenant_id":"acme"},5,"x",[{"tenant_id":"beta"}]]`,
		"{\"tenant_id\":\"acme\"}\n{\"tenant_id\":\"acme\"}\n", "\ufeff{\"tenant_id\":\"acme\"}", `{"tenant":"beta","tenant_ids":"beta"}`,
	} {
		for _, headers := range [][]string{nil, {kind, isJSON}, {kind, "application/json; charset=utf-8"}, {kind, "text/plain"}, {kind, "application/merge-patch+json"}, {"Content-Encoding", "identity", kind, isJSON}} {
			if err := check(body, headers...); err != nil {
				t.Errorf("%s as %v: %v", body, headers, err)
			}
		}
	}
	for _, body := range []string{
		`{"tenant_id":"beta"}`, `{"tenant_id":"Acme"}`, `{"tenant_id":"acme","tenant_id":"beta"}`, `{"tenant_id":"beta","tenant_id":"acme"}`, `{"tenant_id":"acme ","x":1}`,
		`{"TENANT_ID":"beta"}`, `{"tenant_id":"acme","Tenant_Id":"beta"}`, `{"tenant\u005fid":"beta"}`, `{"tenantId":"beta"}`, `{"tenant-id":"beta"}`, `{"tenantid":"beta"}`,
		`{"tenant_id":42}`, `{"tenant_id":["acme"]}`, `{"tenant_id":{"id":"acme"}}`, `{"tenant_id":true}`, `{"tenant_id":""}`, `[{"tenant_id":"acme"},{"tenant_id":"beta"}]`,
		"{\"tenant_id\":\"acme\"}\n{\"tenant_id\":\"beta\"}", `{"tenant_id":"acme"}{"tenant_id":"beta"}`, "\ufeff{\"tenant_id\":\"beta\"}", " \r\n\t{\"tenant_id\":\"beta\"}",
		`{"tenant_id":"beta","x":`, `{"tenant_id":"beta"} trailing`, `[{"tenant_id":"beta"}`, "{\"tenant_id\":\"acme\xff\"}", `{"tenant_id":"acme\u0000"}`,
	} {
		for _, headers := range [][]string{nil, {kind, isJSON}, {kind, "text/plain"}, {kind, "application/x-www-form-urlencoded"}, {kind, "image/png"}, {kind, "text/plain", kind, isJSON}} {
			if err := check(body, headers...); !errors.Is(err, ErrDisagree) {
				t.Errorf("%s as %v: %v", body, headers, err)
			}
		}
	}
	// What says that it is JSON and cannot be read surely is refused; what does not say so is not.
	for _, body := range []string{`{tenant_id:"beta"}`, `{'tenant_id':'beta'}`, `/**/{"tenant_id":"beta"}`, `{"x":1,}`, `{"x":1`, `{"x":1]`, "{\"x\":\"\xff\"}", `)]}'`, "{\x00}", "NaN"} {
		if err := check(body, kind, isJSON); !errors.Is(err, ErrDisagree) {
			t.Errorf("%q as JSON: %v", body, err)
		}
		if err := check(body, kind, "text/plain"); err != nil {
			t.Errorf("%q as text: %v", body, err)
		}
	}
	// Bodies that hide what they say.
	for _, headers := range [][]string{
		{"Content-Encoding", "gzip"}, {"Content-Encoding", "identity, br", kind, isJSON}, {"Content-Encoding", "identity", "Content-Encoding", "deflate"},
		{kind, "application/json; charset=utf-16"}, {kind, "application/json; charset=utf-7"}, {kind, "application/json; charset"},
	} {
		if err := check(`{}`, headers...); !errors.Is(err, ErrDisagree) {
			t.Errorf("%v: %v", headers, err)
		}
	}
	wide := "\xff\xfe{\x00\"\x00t\x00"
	if err := check(wide, kind, isJSON); !errors.Is(err, ErrDisagree) {
		t.Errorf("UTF-16: %v", err)
	}
	if err := check("\x89PNG\r\n\x1a\n\x00", kind, "image/png"); err != nil {
		t.Errorf("a picture: %v", err)
	}
}

// readers are ways in which services read a path, each written as that kind of service does it.
var readers = map[string]func(raw string) string{
	"segments":              func(raw string) string { return (&url.URL{RawPath: raw}).RawPath },
	"decoded":               func(raw string) string { return unescape(raw) },
	"decoded, cleaned":      func(raw string) string { return path.Clean("/" + unescape(raw)) },
	"cleaned, decoded":      func(raw string) string { return unescape(path.Clean("/" + raw)) },
	"decoded twice":         func(raw string) string { return path.Clean("/" + unescape(unescape(raw))) },
	"backslashes":           func(raw string) string { return path.Clean("/" + strings.ReplaceAll(unescape(raw), `\`, "/")) },
	"servlet":               func(raw string) string { return path.Clean("/" + unescape(semicolon.ReplaceAllString(raw, ""))) },
	"merged slashes":        func(raw string) string { return manySlashes.ReplaceAllString(unescape(raw), "/") },
	"segments, then decode": func(raw string) string { return eachSegment(raw) },
}

var semicolon, manySlashes, names = regexp.MustCompile(`;[^/]*`), regexp.MustCompile(`/+`), regexp.MustCompile(`(?i)^/tenants/([^/]+)`)

func unescape(s string) string {
	if decoded, err := url.PathUnescape(s); err == nil {
		return decoded
	}
	return s
}

func eachSegment(raw string) string {
	parts := strings.Split(raw, "/")
	for i := range parts {
		parts[i] = strings.ReplaceAll(unescape(parts[i]), "/", "%2F")
	}
	return strings.Join(parts, "/")
}

// reads fails if a path that agrees is read as another tenant's.
func reads(t interface{ Fatalf(string, ...any) }, raw string) {
	for name, read := range readers {
		if found := names.FindStringSubmatch(read(raw)); found != nil && found[1] != "acme" && found[1] != "%61cme" {
			t.Fatalf("%q agrees, and %s reads tenant %q", raw, name, found[1])
		}
	}
}

// TestEveryReading holds guarantee 3 for paths made of what makes readings differ, and for bodies.
func TestEveryReading(t *testing.T) {
	a := agreement(t)
	t.Run("path", rapid.MakeCheck(func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{
			"/", "/", "/", "//", "/./", "/../", "tenants", "tenants", "Tenants", "acme", "beta", "x", "%2F", "%2f", "%5C", `\`, "%2e%2e", "..", ".", ";", ";v=1", "%3B", "%61cme", "%62eta", "%74enants", "%252F", "%2562", "%25",
		}), 1, 10).Draw(t, "parts")
		raw := "/" + strings.Join(parts, "")
		if a.Check("acme", &routing.Request{Path: raw}) == nil {
			reads(t, raw)
		}
	}))
	t.Run("body", rapid.MakeCheck(func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{
			"{", "}", "[", "]", ",", ":", `"tenant_id"`, `"Tenant_ID"`, `"tenantId"`, `"tenant\u005fid"`, `"acme"`, `"beta"`, `"tenant_id":"acme"`, `"tenant_id":"beta"`, "null", "5", " ", "\n", `{"x":1}`,
		}), 1, 12).Draw(t, "parts")
		body := strings.Join(parts, "")
		if a.Check("acme", &routing.Request{Path: "/", Body: []byte(body)}) == nil {
			readsBody(t, body)
		}
	}))
}

// readsBody fails if a body that agrees is read as another tenant's, by a reader of structs, which looks at no case,
// or by one of maps.
func readsBody(t interface{ Fatalf(string, ...any) }, body string) {
	var folded struct {
		Tenant *string `json:"tenant_id"`
	}
	dec := json.NewDecoder(strings.NewReader(body))
	for dec.Decode(&folded) == nil {
		if folded.Tenant != nil && *folded.Tenant != "acme" {
			t.Fatalf("%q agrees, and is read as %q", body, *folded.Tenant)
		}
	}
	var exact map[string]any
	if json.Unmarshal([]byte(body), &exact) == nil && exact["tenant_id"] != nil && exact["tenant_id"] != "acme" {
		t.Fatalf("%q agrees, and is read as %q", body, exact["tenant_id"])
	}
}

func FuzzAgreementPath(f *testing.F) {
	for _, p := range append(append([]string{}, pathsAgree...), pathsDisagree...) {
		f.Add(p)
	}
	a := agreement(f)
	f.Fuzz(func(t *testing.T, raw string) {
		if a.Check("acme", &routing.Request{Path: raw}) == nil {
			reads(t, raw)
		}
	})
}

func FuzzAgreementBody(f *testing.F) {
	for _, s := range []string{`{"tenant_id":"acme"}`, `{"tenant_id":"beta"}`, `{"Tenant_Id":"beta"}`, `{"tenant\u005fid":"beta"}`, "{\"tenant_id\":\"acme\"}\n{}", `[{"tenant_id":"beta"}]`, "\ufeff{}"} {
		f.Add(s, "application/json")
		f.Add(s, "")
	}
	a := agreement(f)
	f.Fuzz(func(t *testing.T, body, contentType string) {
		req := &routing.Request{Path: "/", Header: http.Header{"Content-Type": {contentType}}, Body: []byte(body)}
		if a.Check("acme", req) != nil {
			return
		}
		readsBody(t, body)
		if strings.Contains(contentType, "json") && (!utf8.ValidString(body) || body != "" && strings.TrimLeft(body, " \t\r\n") != "" && !json.Valid([]byte("["+strings.TrimPrefix(body, "\ufeff")+"]")) && !stream(body)) {
			t.Fatalf("%q is no JSON", body)
		}
	})
}

// stream says whether a body is one or more JSON values.
func stream(body string) bool {
	dec := json.NewDecoder(strings.NewReader(strings.TrimPrefix(body, "\ufeff")))
	for dec.More() {
		var v any
		if dec.Decode(&v) != nil {
			return false
		}
	}
	return true
}

func BenchmarkAgreementPath(b *testing.B) {
	a := agreement(b)
	req := &routing.Request{Path: "/tenants/acme/orders/42"}
	b.ReportAllocs()
	for b.Loop() {
		if a.Check("acme", req) != nil {
			b.Fatal("disagrees")
		}
	}
}
