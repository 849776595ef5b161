// Package awseventtest stands in for what hands requests to functions on AWS: it makes of a client's request the
// event that a function gets, and of the function's answer what the client gets. It models what these senders take
// away and add, as far as it is documented or was seen, and no more:
//
//   - HTTP APIs: "Working with AWS Lambda proxy integrations for HTTP APIs", API Gateway developer guide. That the
//     path arrives decoded is not said there; captures of real events show it (github.com/hotsock/voker, pull
//     request 8; github.com/honojs/hono, issue 2156), and that a decoded question mark may cut the path.
//   - Function URLs: "Invoking Lambda function URLs", Lambda developer guide.
//   - REST APIs: "Input format of a Lambda function for proxy integration" and "Output format", API Gateway developer
//     guide. The path is as sent (github.com/localstack/localstack, pull request 7728), the query decoded.
//   - Load balancers: "Use Lambda functions as targets of an Application Load Balancer", Elastic Load Balancing user
//     guide, which says that query parameters are not decoded, which fields hold the headers, and the limits of 1 MB.
package awseventtest

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

// Client is a request as it leaves a client.
type Client struct {
	Method string
	Path   string      // as it stands in the request line
	Query  string      // as it stands there, without the question mark
	Header [][2]string // name and value, in order
	Body   []byte

	// Claims is the JSON object of a token's claims that the sender's authorizer verified, "" for none. A load
	// balancer has no such authorizer.
	Claims string
}

// Answer is what the client gets.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Sender is what stands between client and function.
type Sender struct {
	Name string
	// Event is what the function gets.
	Event func(Client) []byte
	// Answer is what becomes of the function's answer; an error where the client would see the sender's own 502
	// (500 of a REST API) in its place.
	Answer func(method string, payload []byte) (Answer, error)
}

// host is the name under which the clients know the sender.
const host = "api.example.com"

// pair is a key and a value of a query as they were sent.
type pair struct{ key, value string }

// pairs splits a query.
func pairs(query string) []pair {
	var out []pair
	for part := range strings.SplitSeq(query, "&") {
		if part != "" {
			key, value, _ := strings.Cut(part, "=")
			out = append(out, pair{key, value})
		}
	}
	return out
}

// unescape decodes what is well encoded, and leaves the rest.
func unescape(s string, by func(string) (string, error)) string {
	if decoded, err := by(s); err == nil {
		return decoded
	}
	return s
}

// decoded is pairs as a REST API gives them.
func decoded(in []pair) []pair {
	out := make([]pair, len(in))
	for i, p := range in {
		out[i] = pair{unescape(p.key, url.QueryUnescape), unescape(p.value, url.QueryUnescape)}
	}
	return out
}

// headers adds what every sender adds.
func (c Client) headers() [][2]string {
	return append([][2]string{{"Host", host}}, append(c.Header,
		[2]string{"X-Forwarded-For", "192.0.2.7"}, [2]string{"X-Forwarded-Proto", "https"}, [2]string{"X-Forwarded-Port", "443"},
		[2]string{"X-Amzn-Trace-Id", "Root=1-692c1f00-0123456789abcdef01234567"})...)
}

func (c Client) contentType() string {
	for _, h := range c.Header {
		if strings.EqualFold(h[0], "Content-Type") {
			return h[1]
		}
	}
	return ""
}

// body is a body as events have it: text of the types that a sender takes for text, base64 of any other.
func (c Client) body() (text string, isBase64 bool) {
	kind := c.contentType()
	for _, known := range []string{"text/", "application/json", "application/javascript", "application/xml"} {
		if strings.HasPrefix(kind, known) && utf8.Valid(c.Body) {
			return string(c.Body), false
		}
	}
	if len(c.Body) == 0 {
		return "", false
	}
	return base64.StdEncoding.EncodeToString(c.Body), true
}
