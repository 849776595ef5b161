package awsevent

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/awsevent/awseventtest"
	"cellwall.dev/cellwall/internal/routing"
)

// TestFormat is one answer in the shape of each sender.
func TestFormat(t *testing.T) {
	resp := &routing.Response{Status: 201, Body: []byte("made\x00"), Header: http.Header{
		"Set-Cookie": {"a=1", "b=2"}, "X-Several": {"one", "two"}, "content-type": {"text/plain"}, "Content-Length": {"99"},
	}}
	for kind, want := range map[Kind]string{
		HTTPAPI:     `{"statusCode":201,"headers":{"content-length":"5","content-type":"text/plain","x-several":"one,two"},"cookies":["a=1","b=2"],"body":"bWFkZQA=","isBase64Encoded":true}`,
		FunctionURL: `{"statusCode":201,"headers":{"content-length":"5","content-type":"text/plain","x-several":"one,two"},"cookies":["a=1","b=2"],"body":"bWFkZQA=","isBase64Encoded":true}`,
		REST:        `{"statusCode":201,"multiValueHeaders":{"Content-Length":["5"],"Content-Type":["text/plain"],"Set-Cookie":["a=1","b=2"],"X-Several":["one","two"]},"body":"bWFkZQA=","isBase64Encoded":true}`,
		ALB:         `{"statusCode":201,"statusDescription":"201 Created","headers":{"Set-cookie":"b=2","content-length":"5","content-type":"text/plain","set-cookie":"a=1","x-several":"one,two"},"body":"bWFkZQA=","isBase64Encoded":true}`,
		ALBMulti:    `{"statusCode":201,"statusDescription":"201 Created","multiValueHeaders":{"Content-Length":["5"],"Content-Type":["text/plain"],"Set-Cookie":["a=1","b=2"],"X-Several":["one","two"]},"body":"bWFkZQA=","isBase64Encoded":true}`,
	} {
		got, err := (&Event{Kind: kind}).Format(resp)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", kind, diff)
		}
	}
	if resp.Header.Get("Content-Length") != "99" {
		t.Error("the answer's own headers were changed")
	}
}

// TestTextToREST: a REST API that was not told of binary media types would hand base64 to the client as it is, so that
// text never travels in it, however much longer it gets.
func TestTextToREST(t *testing.T) {
	for body, want := range map[string]string{
		strings.Repeat("\"", 9): `"body":"` + strings.Repeat(`\"`, 9) + `","isBase64Encoded":false}`, "grün\r\n\t": `"body":"grün\r\n\t","isBase64Encoded":false}`,
		"": `"body":"","isBase64Encoded":false}`, "\xff": `"body":"/w==","isBase64Encoded":true}`, "a\x1bb": `"body":"YRti","isBase64Encoded":true}`,
	} {
		got, err := (&Event{Kind: REST}).Format(&routing.Response{Status: 200, Body: []byte(body)})
		if err != nil || !strings.HasSuffix(string(got), want) {
			t.Errorf("%q: %s, %v", body, got, err)
		}
	}
}

// TestAnswerWithoutHeaders: a load balancer refuses an answer whose headers are not there at all.
func TestAnswerWithoutHeaders(t *testing.T) {
	for kind, want := range map[Kind]string{
		ALB: `"headers":{}`, ALBMulti: `"multiValueHeaders":{}`, REST: `"multiValueHeaders":{}`, HTTPAPI: `"headers":{}`,
	} {
		got, err := (&Event{Kind: kind}).Format(&routing.Response{Status: 299})
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%v: %s, %v", kind, got, err)
		}
	}
}

// TestCookiesOverOneValueALB: as many names as are needed, which are one name to a client.
func TestCookiesOverOneValueALB(t *testing.T) {
	header := http.Header{}
	for range 500 {
		header.Add("Set-Cookie", "a=1")
	}
	payload, err := (&Event{Kind: ALB}).Format(&routing.Response{Status: 200, Header: header})
	if err != nil {
		t.Fatal(err)
	}
	got, err := awseventtest.AnswerALB("GET", payload)
	if err != nil || len(got.Header["Set-Cookie"]) != 500 {
		t.Errorf("%d cookies arrive, %v", len(got.Header["Set-Cookie"]), err)
	}
}

// TestAnswerSizes: the last answer that each sender takes goes through, and one more byte becomes a problem
// document: a 502 by a load balancer, and a 500 where the function would count as failed.
func TestAnswerSizes(t *testing.T) {
	for kind, test := range map[Kind]struct{ limit, status int }{
		HTTPAPI: {6 << 20, 500}, FunctionURL: {6 << 20, 500}, REST: {6 << 20, 500}, ALB: {1 << 20, 502}, ALBMulti: {1 << 20, 502},
	} {
		e := &Event{Kind: kind}
		empty, err := e.Format(&routing.Response{Status: 200})
		if err != nil {
			t.Fatal(err)
		}
		body := bytes.Repeat([]byte("x"), test.limit-len(empty))
		if got, err := e.Format(&routing.Response{Status: 200, Body: body}); err != nil || len(got) != test.limit {
			t.Errorf("%v: an answer of %d bytes: %d, %v", kind, test.limit, len(got), err)
		}
		if got, err := e.Format(&routing.Response{Status: 200, Body: append(body, 'x')}); !errors.Is(err, ErrAnswerTooLarge) || got != nil {
			t.Errorf("%v: an answer of one byte more: %d bytes, %v", kind, len(got), err)
		}
		payload, err := e.Format(e.TooLarge())
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			StatusCode int
			Body       string
		}
		if err := json.Unmarshal(payload, &got); err != nil || got.StatusCode != test.status || !strings.Contains(got.Body, routing.TypeAnswerTooLarge) || !strings.Contains(got.Body, "executed") {
			t.Errorf("%v: in its place %s, %v", kind, payload, err)
		}
	}
}
