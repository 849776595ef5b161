// Package httpapi reads and writes the events of API Gateway's HTTP APIs, payload format 2.0, which is
// also what a Lambda slice is invoked with, so that a service needs no adapter of cellwall's.
//
// Source: "Working with AWS Lambda proxy integrations for HTTP APIs", API Gateway developer guide.
package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"cellwall.dev/cellwall/internal/routing"
)

// Version is the payload format.
const Version = "2.0"

// defaultRoute is how API Gateway names the catch-all route and the stage without a name.
const defaultRoute = "$default"

// PathForm says how an event's rawPath is written.
type PathForm int

const (
	// Decoded is what an HTTP API sends: the path after percent-decoding, despite the field's name. A
	// question mark in it was %3F and is no query, and %41 in it was %2541.
	Decoded PathForm = iota
	// Encoded is what FormatEvent writes, and Function URLs: the path as it was sent.
	Encoded
)

// Event is a request event.
type Event struct {
	Request routing.Request
	// Claims are those of the token that API Gateway's JWT authorizer verified, as JSON values; nil
	// when the route has no such authorizer.
	Claims map[string]json.RawMessage
}

type event struct {
	Version         string            `json:"version"`
	RouteKey        string            `json:"routeKey"`
	RawPath         string            `json:"rawPath"`
	RawQueryString  string            `json:"rawQueryString"`
	Cookies         []string          `json:"cookies,omitempty"`
	Headers         map[string]string `json:"headers"`
	Query           map[string]string `json:"queryStringParameters,omitempty"`
	RequestContext  requestContext    `json:"requestContext"`
	Body            string            `json:"body,omitempty"`
	IsBase64Encoded bool              `json:"isBase64Encoded"`
}

type requestContext struct {
	AccountID    string      `json:"accountId"`
	APIID        string      `json:"apiId"`
	Authorizer   *authorizer `json:"authorizer,omitempty"`
	DomainName   string      `json:"domainName"`
	DomainPrefix string      `json:"domainPrefix"`
	HTTP         httpContext `json:"http"`
	RequestID    string      `json:"requestId"`
	RouteKey     string      `json:"routeKey"`
	Stage        string      `json:"stage"`
	Time         string      `json:"time"`
	TimeEpoch    int64       `json:"timeEpoch"`
}

type authorizer struct {
	JWT *struct {
		Claims map[string]json.RawMessage `json:"claims"`
	} `json:"jwt,omitempty"`
}

type httpContext struct {
	Method    string `json:"method"`
	Path      string `json:"path"`
	Protocol  string `json:"protocol"`
	SourceIP  string `json:"sourceIp"`
	UserAgent string `json:"userAgent"`
}

// ParseEvent reads a request event.
func ParseEvent(payload []byte, form PathForm) (Event, error) {
	var in event
	if err := json.Unmarshal(payload, &in); err != nil {
		return Event{}, fmt.Errorf("event is not of an HTTP API: %w", err)
	}
	switch {
	case in.Version != Version:
		return Event{}, fmt.Errorf("event has payload format %q: want %q", in.Version, Version)
	case in.RequestContext.HTTP.Method == "":
		return Event{}, errors.New("event names no method")
	case !strings.HasPrefix(in.RawPath, "/"):
		return Event{}, errors.New("event has no path that begins with /")
	}
	body := []byte(in.Body)
	if in.IsBase64Encoded {
		var err error
		if body, err = base64.StdEncoding.DecodeString(in.Body); err != nil {
			return Event{}, fmt.Errorf("event's body: %w", err)
		}
	}
	path := in.RawPath
	if form == Decoded {
		path = (&url.URL{Path: path}).EscapedPath()
	}
	header := make(http.Header, len(in.Headers)+1)
	for name, value := range in.Headers {
		header.Add(name, value)
	}
	if len(in.Cookies) > 0 {
		header.Set("Cookie", strings.Join(in.Cookies, "; "))
	}
	out := Event{Request: routing.Request{
		Method: in.RequestContext.HTTP.Method, Path: path, RawQuery: in.RawQueryString, Header: header, Body: body,
	}}
	if a := in.RequestContext.Authorizer; a != nil && a.JWT != nil {
		out.Claims = a.JWT.Claims
	}
	return out, nil
}

// FormatEvent writes a request as an event, its path encoded.
func FormatEvent(req *routing.Request) ([]byte, error) {
	out := event{
		Version: Version, RouteKey: defaultRoute, RawPath: req.Path, RawQueryString: req.RawQuery,
		Headers: make(map[string]string, len(req.Header)),
		Query:   parameters(req.RawQuery),
	}
	for name, values := range req.Header {
		if http.CanonicalHeaderKey(name) == "Cookie" {
			for _, value := range values {
				out.Cookies = append(out.Cookies, strings.Split(value, "; ")...)
			}
			continue
		}
		out.Headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	out.Body, out.IsBase64Encoded = text(req.Body)
	forwarded := strings.Split(out.Headers["x-forwarded-for"], ",")
	out.RequestContext = requestContext{
		DomainName: out.Headers["host"], RouteKey: defaultRoute, Stage: defaultRoute,
		RequestID: out.Headers["x-request-id"],
		HTTP: httpContext{
			Method: req.Method, Path: req.Path, Protocol: "HTTP/1.1",
			SourceIP:  strings.TrimSpace(forwarded[len(forwarded)-1]),
			UserAgent: out.Headers["user-agent"],
		},
	}
	return marshal(out)
}

// parameters is the decoded query as the event repeats it: values of one key joined by commas. What
// cannot be decoded stands in rawQueryString only.
func parameters(rawQuery string) map[string]string {
	values, _ := url.ParseQuery(rawQuery)
	if len(values) == 0 {
		return nil
	}
	out := make(map[string]string, len(values))
	for key, v := range values {
		out[key] = strings.Join(v, ",")
	}
	return out
}

// text returns a body as JSON carries it: as it is when it is UTF-8, else in base64; in base64, too, when
// that is shorter, for JSON escapes a control byte with six.
func text(body []byte) (s string, isBase64 bool) {
	if utf8.Valid(body) && escapedLen(body) <= base64.StdEncoding.EncodedLen(len(body)) {
		return string(body), false
	}
	return base64.StdEncoding.EncodeToString(body), true
}

// escapedLen is the length of UTF-8 text in a JSON string, as marshal writes it.
func escapedLen(body []byte) int {
	n := len(body)
	for i, c := range body {
		switch {
		case c == '"', c == '\\', c == '\b', c == '\f', c == '\n', c == '\r', c == '\t':
			n++
		case c < ' ':
			n += 5
		case c == 0xe2 && (string(body[i:i+3]) == "\u2028" || string(body[i:i+3]) == "\u2029"):
			n += 3
		}
	}
	return n
}

// marshal is json.Marshal without the escapes for HTML, which would only make a payload larger.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("write event: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
