// Package awsevent reads the events with which AWS hands an HTTP request to a function, and writes answers
// in the shape that each sender wants: one codec for HTTP APIs, Function URLs, REST APIs and load balancers,
// and for the invocations by which the router reaches a slice.
//
// What a sender takes away is gone: an HTTP API decodes the path, so that %2F arrives as a slash; a REST API
// decodes the query; a load balancer without multi-value headers keeps the last of several values. What is
// left reaches the shard as it was, and never as anything else: no byte of a path becomes a query, and no
// encoded byte is encoded again. docs/architecture.md has the table.
//
// Sources: "Working with AWS Lambda proxy integrations for HTTP APIs" and "Input format of a Lambda function
// for proxy integration", API Gateway developer guide; "Invoking Lambda function URLs", Lambda developer
// guide; "Use Lambda functions as targets of an Application Load Balancer", Elastic Load Balancing user guide.
package awsevent

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/routing"
)

// Kind is who sent an event.
type Kind int

// The senders. A REST API's kind is also that of an HTTP API with payload format 1.0.
const (
	HTTPAPI     Kind = iota // an HTTP API, payload format 2.0
	FunctionURL             // a Function URL, buffered or streamed: the event does not tell
	REST                    // a REST API's proxy integration
	ALB                     // a load balancer, one value a header
	ALBMulti                // a load balancer with multi-value headers
)

// String names the kind for logs.
func (k Kind) String() string {
	return [...]string{"http-api", "function-url", "rest-api", "alb", "alb-multi"}[k]
}

// Event is a request as it came in, with what the sender says of who asks. None of that is the client's word.
type Event struct {
	Kind    Kind
	Request routing.Request

	// Claims are those of the token that a JWT or Cognito authorizer verified, as JSON values; nil when there was
	// no such authorizer.
	Claims map[string]json.RawMessage
	// Authorizer is the context that a Lambda authorizer returned, as JSON values; nil when there was none. A REST
	// API adds its principalId and integrationLatency.
	Authorizer map[string]json.RawMessage
	// Principal is the ARN of the caller whose signature IAM verified, "" when it verified none.
	Principal string

	RequestID string // the sender's own, "" when it gave none
	SourceIP  string // of the connection to the sender; a proxy's, where one stands before it
}

// Parse reads an event. With an error the event holds its kind alone, HTTPAPI when that cannot be told, so that
// the refusal can be formatted; it is never nil.
func Parse(payload []byte) (*Event, error) {
	var in event
	if err := json.Unmarshal(payload, &in); err != nil {
		return &Event{}, fmt.Errorf("event cannot be read: %w", err)
	}
	kind, err := in.kind()
	if err != nil {
		return &Event{}, err
	}
	out := &Event{Kind: kind}
	req, err := in.request(kind)
	if err != nil {
		return out, fmt.Errorf("%v event: %w", kind, err)
	}
	out.Request = req
	in.identity(out)
	return out, nil
}

// event is the union of the senders' formats.
type event struct {
	Version         string              `json:"version"`
	Type            string              `json:"type"` // of a request to an authorizer
	RawPath         string              `json:"rawPath"`
	RawQueryString  string              `json:"rawQueryString"`
	Cookies         []string            `json:"cookies"`
	Method          string              `json:"httpMethod"`
	Path            string              `json:"path"`
	Headers         map[string]string   `json:"headers"`
	MultiHeaders    map[string][]string `json:"multiValueHeaders"`
	Query           json.RawMessage     `json:"queryStringParameters"` // read where there is no raw query
	MultiQuery      json.RawMessage     `json:"multiValueQueryStringParameters"`
	RequestContext  requestContext      `json:"requestContext"`
	Body            string              `json:"body"`
	IsBase64Encoded bool                `json:"isBase64Encoded"`
}

type requestContext struct {
	ELB *struct{} `json:"elb"`
	// Authorizer is read by itself, since a form that nobody expects must not fail the event.
	Authorizer json.RawMessage `json:"authorizer"`
	DomainName string          `json:"domainName"`
	HTTP       *struct {
		Method   string `json:"method"`
		SourceIP string `json:"sourceIp"`
	} `json:"http"`
	Identity struct {
		SourceIP string `json:"sourceIp"`
		UserARN  string `json:"userArn"`
	} `json:"identity"`
	RequestID string `json:"requestId"`
}

// The payload formats of API Gateway. REST APIs and load balancers name none.
const (
	version1 = "1.0"
	version2 = "2.0"
)

// functionURL stands in the host name of every Function URL, which has no other name.
const functionURL = ".lambda-url."

func (e *event) kind() (Kind, error) {
	switch {
	case e.Type != "":
		return 0, fmt.Errorf("event is a request to an authorizer, of type %q", e.Type)
	case e.RequestContext.ELB != nil && e.MultiHeaders != nil:
		return ALBMulti, nil
	case e.RequestContext.ELB != nil:
		return ALB, nil
	case e.Version == version2 && strings.Contains(e.RequestContext.DomainName, functionURL):
		return FunctionURL, nil
	case e.Version == version2 && e.RequestContext.HTTP != nil:
		return HTTPAPI, nil
	case (e.Version == "" || e.Version == version1) && e.Method != "":
		return REST, nil
	}
	return 0, errors.New("event is of no HTTP API, Function URL, REST API or load balancer")
}

func (e *event) request(kind Kind) (routing.Request, error) {
	method, path := e.Method, e.Path
	if kind == HTTPAPI || kind == FunctionURL {
		path = e.RawPath
		if e.RequestContext.HTTP != nil {
			method = e.RequestContext.HTTP.Method
		}
	}
	// An HTTP API decodes the path in both formats, despite the name of the field; the others do not.
	if decoded := kind == HTTPAPI || e.Version == version1; decoded {
		path = (&url.URL{Path: path}).EscapedPath()
	} else {
		path = escapePath(path)
	}
	switch {
	case method == "":
		return routing.Request{}, errors.New("it names no method")
	case !strings.HasPrefix(path, "/"):
		return routing.Request{}, errors.New("it has no path that begins with /")
	}
	query, err := e.query(kind)
	if err != nil {
		return routing.Request{}, err
	}
	body, err := decodeBody(e.Body, e.IsBase64Encoded)
	if err != nil {
		return routing.Request{}, err
	}
	return routing.Request{Method: method, Path: path, RawQuery: query, Header: e.header(), Body: body}, nil
}

// query is the raw query, put together where the format has none.
func (e *event) query(kind Kind) (string, error) {
	if kind == HTTPAPI || kind == FunctionURL {
		return e.RawQueryString, nil
	}
	text := e.MultiQuery
	if len(text) == 0 || string(text) == "null" {
		text = e.Query
	}
	p, err := readParameters(text)
	if err != nil {
		return "", err
	}
	if kind == REST {
		return p.encoded(), nil
	}
	return p.asSent(), nil
}

// header is the request's headers; several values stay several where the sender kept them. A host without a name,
// which a load balancer sends for an HTTP/1.0 client, is none.
func (e *event) header() http.Header {
	header := make(http.Header, len(e.Headers)+len(e.MultiHeaders)+1)
	// In order, so that names that differ in case alone give their values in the same order each time.
	for _, name := range sortedKeys(e.MultiHeaders) {
		key := http.CanonicalHeaderKey(name)
		header[key] = append(header[key], e.MultiHeaders[name]...)
	}
	if e.MultiHeaders == nil {
		for _, name := range sortedKeys(e.Headers) {
			key := http.CanonicalHeaderKey(name)
			header[key] = append(header[key], e.Headers[name])
		}
	}
	if len(e.Cookies) > 0 {
		header["Cookie"] = []string{strings.Join(e.Cookies, "; ")}
	}
	if hosts := slices.DeleteFunc(header["Host"], func(h string) bool { return h == "" }); len(hosts) > 0 {
		header["Host"] = hosts
	} else {
		delete(header, "Host")
	}
	return header
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func decodeBody(body string, isBase64 bool) ([]byte, error) {
	if !isBase64 {
		return []byte(body), nil
	}
	decoded, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		return nil, fmt.Errorf("its body: %w", err)
	}
	return decoded, nil
}
