package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/routing"
)

// gatewayEvent is an event as an HTTP API with a JWT authorizer sends it.
const gatewayEvent = `{
  "version": "2.0",
  "routeKey": "$default",
  "rawPath": "/orders/42 x",
  "rawQueryString": "q=a%20b&q=c&empty=",
  "cookies": ["a=1", "b=2"],
  "headers": {"accept": "text/html,application/json", "content-type": "text/plain", "host": "api.example.com",
              "x-forwarded-for": "192.0.2.7", "cellwall-tenant": "mallory"},
  "queryStringParameters": {"q": "a b,c", "empty": ""},
  "requestContext": {
    "accountId": "111111111111", "apiId": "api1",
    "authorizer": {"jwt": {"claims": {"tenant_id": "acme", "aud": "[orders other]", "iat": "1796000000", "roles": ["a", "b"]}, "scopes": null}},
    "domainName": "api.example.com", "domainPrefix": "api",
    "http": {"method": "PUT", "path": "/orders/42 x", "protocol": "HTTP/1.1", "sourceIp": "192.0.2.7", "userAgent": "curl/8"},
    "requestId": "r1", "routeKey": "$default", "stage": "$default", "time": "30/Nov/2026:10:00:00 +0000", "timeEpoch": 1796032800000
  },
  "body": "aMOkbGxv",
  "isBase64Encoded": true
}`

func TestParseGatewayEvent(t *testing.T) {
	got, err := ParseEvent([]byte(gatewayEvent), Decoded)
	if err != nil {
		t.Fatal(err)
	}
	want := Event{
		Request: routing.Request{
			Method: "PUT", Path: "/orders/42%20x", RawQuery: "q=a%20b&q=c&empty=", Body: []byte("hällo"),
			Header: http.Header{
				"Accept": {"text/html,application/json"}, "Content-Type": {"text/plain"}, "Host": {"api.example.com"},
				"X-Forwarded-For": {"192.0.2.7"}, "Cellwall-Tenant": {"mallory"}, "Cookie": {"a=1; b=2"},
			},
		},
		Claims: map[string]json.RawMessage{
			"tenant_id": json.RawMessage(`"acme"`), "aud": json.RawMessage(`"[orders other]"`),
			"iat": json.RawMessage(`"1796000000"`), "roles": json.RawMessage(`["a", "b"]`),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
}

// eventAt is a minimal event with a path.
func eventAt(path string) []byte {
	text, _ := json.Marshal(path)
	return []byte(`{"version":"2.0","rawPath":` + string(text) + `,"requestContext":{"http":{"method":"GET"}}}`)
}

func TestPathForms(t *testing.T) {
	tests := []struct{ sent, decoded, encoded string }{
		{"/a/b", "/a/b", "/a/b"},
		{"/users/me?admin=true", "/users/me%3Fadmin=true", "/users/me?admin=true"},
		{"/a%2Fb", "/a%252Fb", "/a%2Fb"},
		{"/a b", "/a%20b", "/a b"},
		{"/100%", "/100%25", "/100%"},
		{"/ü#x", "/%C3%BC%23x", "/ü#x"},
		{"/a:b+c;d,e@f", "/a:b+c;d,e@f", "/a:b+c;d,e@f"},
	}
	for _, test := range tests {
		for form, want := range map[PathForm]string{Decoded: test.decoded, Encoded: test.encoded} {
			got, err := ParseEvent(eventAt(test.sent), form)
			if err != nil || got.Request.Path != want || got.Request.RawQuery != "" {
				t.Errorf("%q, form %d: path %q, query %q, %v; want %q", test.sent, form, got.Request.Path, got.Request.RawQuery, err, want)
			}
		}
	}
}

func TestParseEventRefuses(t *testing.T) {
	for _, payload := range []string{
		``, `null`, `[]`, `"x"`, `{}`, `{"version":"1.0","rawPath":"/","requestContext":{"http":{"method":"GET"}}}`,
		`{"version":"2.0","rawPath":"/","requestContext":{"http":{}}}`, `{"version":"2.0","rawPath":"","requestContext":{"http":{"method":"GET"}}}`,
		`{"version":"2.0","rawPath":"x","requestContext":{"http":{"method":"GET"}}}`,
		`{"version":"2.0","rawPath":"/","requestContext":{"http":{"method":"GET"}},"body":"!","isBase64Encoded":true}`,
		`{"version":"2.0","rawPath":"/","requestContext":{"http":{"method":"GET"}},"headers":{"a":["b"]}}`,
		string(gatewayEvent[:len(gatewayEvent)/2]),
	} {
		if got, err := ParseEvent([]byte(payload), Decoded); err == nil {
			t.Errorf("%s is read as %+v", payload, got)
		}
	}
}

func TestEventWithoutAuthorizer(t *testing.T) {
	for _, authorizer := range []string{`null`, `{}`, `{"iam":{"userArn":"x"}}`, `{"jwt":null}`, `{"jwt":{}}`} {
		payload := `{"version":"2.0","rawPath":"/","requestContext":{"http":{"method":"GET"},"authorizer":` + authorizer + `}}`
		got, err := ParseEvent([]byte(payload), Decoded)
		if err != nil || got.Claims != nil {
			t.Errorf("authorizer %s: claims %v, %v", authorizer, got.Claims, err)
		}
	}
}

func drawHeader(t *rapid.T) http.Header {
	h := http.Header{}
	for range rapid.IntRange(0, 4).Draw(t, "headers") {
		name := rapid.StringMatching(`X-[A-Z][a-z]{1,8}`).Draw(t, "name")
		h.Set(name, rapid.StringMatching(`[ -~ä]{0,20}`).Draw(t, "value"))
	}
	return h
}

func TestEventRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		req := routing.Request{
			Method:   rapid.SampledFrom([]string{"GET", "PUT", "POST", "BREW"}).Draw(t, "method"),
			Path:     (&url.URL{Path: "/" + rapid.String().Draw(t, "path")}).EscapedPath(),
			RawQuery: rapid.StringMatching(`[a-z%=&+;]{0,20}`).Draw(t, "query"),
			Header:   drawHeader(t),
			Body:     rapid.SliceOf(rapid.Byte()).Draw(t, "body"),
		}
		if rapid.Bool().Draw(t, "cookies") {
			req.Header.Set("Cookie", "a=1; b=2; c=3")
		}
		payload, err := FormatEvent(&req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseEvent(payload, Encoded)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(req, got.Request, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("request (-want +got):\n%s", diff)
		}
	})
}

func TestResponseRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		resp := &routing.Response{
			Status: rapid.IntRange(200, 599).Draw(t, "status"), Header: drawHeader(t), Body: rapid.SliceOf(rapid.Byte()).Draw(t, "body"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "cookies") {
			resp.Header.Add("Set-Cookie", "a=1, Expires=Wed, 09 Jun 2027 10:18:14 GMT")
		}
		payload, err := FormatResponse(resp)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseResponse(payload)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(resp, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("response (-want +got):\n%s", diff)
		}
	})
}

// TestBodyTakesTheShorterForm holds in both directions: a body grows by a third at most.
func TestBodyTakesTheShorterForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]string{"\x00", "\x1b", "\n", "\"", "\\", "a", "ä", "<", "\u2028", "\u2029", "\u2027", "\x7f", "\xff", "日"}).Draw(t, "unit")
		body := []byte(rapid.String().Draw(t, "before") + strings.Repeat(unit, rapid.IntRange(0, 200).Draw(t, "n")))
		request, err := FormatEvent(&routing.Request{Method: "PUT", Path: "/", Body: body})
		if err != nil {
			t.Fatal(err)
		}
		response, err := FormatResponse(&routing.Response{Status: 200, Body: body})
		if err != nil {
			t.Fatal(err)
		}
		encoded := base64.StdEncoding.EncodedLen(len(body))
		shortest := encoded
		if plain, err := marshal(string(body)); err == nil && utf8.Valid(body) {
			shortest = min(encoded, len(plain)-len(`""`))
		}
		for _, payload := range [][]byte{request, response} {
			var carried struct {
				Body            json.RawMessage `json:"body"`
				IsBase64Encoded bool            `json:"isBase64Encoded"`
			}
			if err := json.Unmarshal(payload, &carried); err != nil {
				t.Fatal(err)
			}
			if got := max(0, len(carried.Body)-len(`""`)); got != shortest {
				t.Fatalf("%q travels as %d bytes, base64 %t; want %d", body, got, carried.IsBase64Encoded, shortest)
			}
		}
	})
}

func TestParseResponse(t *testing.T) {
	got, err := ParseResponse([]byte(`{"statusCode":201,"headers":{"X-Text":"a","x-number":5,"x-truth":true},"cookies":["a=1","b=2"],"body":"AP8=","isBase64Encoded":true}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &routing.Response{Status: 201, Body: []byte{0, 0xff}, Header: http.Header{
		"X-Text": {"a"}, "X-Number": {"5"}, "X-Truth": {"true"}, "Set-Cookie": {"a=1", "b=2"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
	for _, payload := range []string{
		``, `null`, `"hello"`, `{}`, `{"body":"x"}`, `{"statusCode":"200"}`, `{"statusCode":0}`, `{"statusCode":1000}`, `{"statusCode":200.5}`,
		`{"statusCode":200,"headers":{"a":["b"]}}`, `{"statusCode":200,"headers":{"a":{}}}`, `{"statusCode":200,"body":{}}`,
		`{"statusCode":200,"body":"!","isBase64Encoded":true}`, `{"errorMessage":"x","errorType":"Runtime.ExitError"}`,
	} {
		if got, err := ParseResponse([]byte(payload)); err == nil {
			t.Errorf("%s is read as %+v", payload, got)
		}
	}
}

func TestHeadersAreJoinedAndCookiesAreNot(t *testing.T) {
	payload, err := FormatEvent(&routing.Request{Method: "GET", Path: "/a", RawQuery: "k=1&k=2&z=%20", Header: http.Header{
		"Accept": {"a", "b"}, "Cookie": {"a=1; b=2", "c=3"}, "X-Forwarded-For": {"198.51.100.1, 192.0.2.7"}, "Host": {"h"}, "User-Agent": {"ua"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var got event
	if err := json.Unmarshal(payload, &got); err != nil {
		t.Fatal(err)
	}
	if got.Headers["accept"] != "a,b" || got.Headers["cookie"] != "" || strings.Join(got.Cookies, "|") != "a=1|b=2|c=3" {
		t.Errorf("headers %v, cookies %v", got.Headers, got.Cookies)
	}
	if got.Query["k"] != "1,2" || got.Query["z"] != " " {
		t.Errorf("query %v", got.Query)
	}
	if c := got.RequestContext; c.HTTP.SourceIP != "192.0.2.7" || c.DomainName != "h" || c.HTTP.UserAgent != "ua" || c.Authorizer != nil {
		t.Errorf("context %+v", c)
	}
}

// FuzzParseEvent holds that what is read can be written and read again, and that a decoded path cannot
// become a query.
func FuzzParseEvent(f *testing.F) {
	f.Add([]byte(gatewayEvent), true)
	f.Add(eventAt("/users/me?admin=true"), true)
	f.Add(eventAt("/a%2Fb"), false)
	f.Add([]byte(`{"version":"2.0","rawPath":"/","requestContext":{"http":{"method":"GET"},"authorizer":{"jwt":{"claims":{"t":[1]}}}}}`), true)
	f.Fuzz(func(t *testing.T, payload []byte, decoded bool) {
		form := Encoded
		if decoded {
			form = Decoded
		}
		e, err := ParseEvent(payload, form)
		if err != nil {
			return
		}
		if decoded && strings.ContainsAny(e.Request.Path, "?# ") {
			t.Fatalf("path %q", e.Request.Path)
		}
		written, err := FormatEvent(&e.Request)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseEvent(written, Encoded)
		if err != nil {
			t.Fatalf("%s: %v", written, err)
		}
		if again.Request.Method != e.Request.Method || again.Request.Path != e.Request.Path || string(again.Request.Body) != string(e.Request.Body) {
			t.Fatalf("%+v became %+v", e.Request, again.Request)
		}
	})
}
