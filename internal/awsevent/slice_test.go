package awsevent

import (
	"encoding/base64"
	"encoding/json"
	"errors"
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

func drawHeader(t *rapid.T) http.Header {
	h := http.Header{}
	for range rapid.IntRange(0, 4).Draw(t, "headers") {
		name := rapid.StringMatching(`X-[A-Z][a-z]{1,8}`).Draw(t, "name")
		h.Set(name, rapid.StringMatching(`[ -~ä]{0,20}`).Draw(t, "value"))
	}
	return h
}

func TestRequestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		req := routing.Request{
			Method:   rapid.SampledFrom([]string{"GET", "PUT", "POST", "BREW"}).Draw(t, "method"),
			Path:     (&url.URL{Path: "/" + rapid.String().Draw(t, "path")}).EscapedPath(),
			RawQuery: rapid.StringMatching(`[a-z%=&+;]{0,20}`).Draw(t, "query"),
			Header:   drawHeader(t),
			Body:     rapid.SliceOf(rapid.Byte()).Draw(t, "body"),
			Stream:   rapid.Bool().Draw(t, "stream"),
		}
		if rapid.Bool().Draw(t, "cookies") {
			req.Header.Set("Cookie", "a=1; b=2; c=3")
		}
		payload, err := FormatRequest(&req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseRequest(payload)
		if err != nil {
			t.Fatal(err)
		}
		got.Header.Del("Content-Length") // which the event adds
		if diff := cmp.Diff(&req, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("request (-want +got):\n%s", diff)
		}
	})
}

func TestAnswerRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		resp := &routing.Response{
			Status: rapid.SampledFrom([]int{200, 201, 299, 404, 503, 599}).Draw(t, "status"), Header: drawHeader(t), Body: rapid.SliceOf(rapid.Byte()).Draw(t, "body"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "cookies") {
			resp.Header.Add("Set-Cookie", "a=1, Expires=Wed, 09 Jun 2027 10:18:14 GMT")
		}
		payload, err := FormatAnswer("GET", resp)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseAnswer(payload)
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
		request, err := FormatRequest(&routing.Request{Method: "PUT", Path: "/", Body: body})
		if err != nil {
			t.Fatal(err)
		}
		response, err := FormatAnswer("GET", &routing.Response{Status: 200, Body: body})
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

func TestParseAnswer(t *testing.T) {
	got, err := ParseAnswer([]byte(`{"statusCode":201,"headers":{"X-Text":"a","x-number":5,"x-truth":true},"cookies":["a=1","b=2"],"body":"AP8=","isBase64Encoded":true}`))
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
		if got, err := ParseAnswer([]byte(payload)); err == nil {
			t.Errorf("%s is read as %+v", payload, got)
		}
	}
}

func TestParseRequestRefuses(t *testing.T) {
	for _, payload := range []string{``, `{}`, `null`, `{"version":"1.0","path":"/","httpMethod":"GET"}`, `{"version":"2.0","rawPath":"x","requestContext":{"http":{"method":"GET"}}}`, `{"version":"2.0","rawPath":"/"}`} {
		if got, err := ParseRequest([]byte(payload)); err == nil {
			t.Errorf("%s is read as %+v", payload, got)
		}
	}
}

func TestHeadersAreJoinedAndCookiesAreNot(t *testing.T) {
	payload, err := FormatRequest(&routing.Request{Method: "GET", Path: "/a", RawQuery: "k=1&k=2&z=%20", Header: http.Header{
		"Accept": {"a", "b"}, "Cookie": {"a=1; b=2", "c=3"}, "X-Forwarded-For": {"198.51.100.1, 192.0.2.7"}, "Host": {"h"}, "User-Agent": {"ua"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var got sliceEvent
	if err := json.Unmarshal(payload, &got); err != nil {
		t.Fatal(err)
	}
	if got.Headers["accept"] != "a,b" || got.Headers["cookie"] != "" || strings.Join(got.Cookies, "|") != "a=1|b=2|c=3" {
		t.Errorf("headers %v, cookies %v", got.Headers, got.Cookies)
	}
	if got.Query["k"] != "1,2" || got.Query["z"] != " " {
		t.Errorf("query %v", got.Query)
	}
	if c := got.RequestContext; c.HTTP.SourceIP != "192.0.2.7" || c.DomainName != "h" || c.HTTP.UserAgent != "ua" {
		t.Errorf("context %+v", c)
	}
}

// TestLargestBinary: an invocation carries 6 MB, which is about 4.5 MB of binary in base64.
func TestLargestBinary(t *testing.T) {
	largest := 0
	for size := 4400 << 10; size < 4800<<10; size += 80 << 10 {
		payload, err := FormatRequest(&routing.Request{Method: "PUT", Path: "/", Body: []byte(strings.Repeat("\xff", size))})
		if err != nil {
			if !errors.Is(err, routing.ErrTooLarge) || payload != nil {
				t.Fatalf("%d bytes: %d bytes of event, %v", size, len(payload), err)
			}
			continue
		}
		largest = size
	}
	if mb := float64(largest) / (1 << 20); mb < 4.4 || mb > 4.5 {
		t.Errorf("%.2f MB of binary fit, want about 4.5", mb)
	}
}
