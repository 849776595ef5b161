package awsevent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"cellwall.dev/cellwall/internal/routing"
)

// A slice is invoked with an event of payload format 2.0, so that a service needs no adapter of cellwall's, and
// answers in that format. In this event rawPath is what its name says: the path as the client sent it.

// defaultRoute is how API Gateway names the catch-all route and the stage without a name.
const defaultRoute = "$default"

type sliceEvent struct {
	Version         string            `json:"version"`
	RouteKey        string            `json:"routeKey"`
	RawPath         string            `json:"rawPath"`
	RawQueryString  string            `json:"rawQueryString"`
	Cookies         []string          `json:"cookies,omitempty"`
	Headers         map[string]string `json:"headers"`
	Query           map[string]string `json:"queryStringParameters,omitempty"`
	RequestContext  sliceContext      `json:"requestContext"`
	Body            string            `json:"body,omitempty"`
	IsBase64Encoded bool              `json:"isBase64Encoded"`
}

type sliceContext struct {
	Authorizer   *forwarded `json:"authorizer,omitempty"`
	AccountID    string     `json:"accountId"`
	APIID        string     `json:"apiId"`
	DomainName   string     `json:"domainName"`
	DomainPrefix string     `json:"domainPrefix"`
	HTTP         sliceHTTP  `json:"http"`
	RequestID    string     `json:"requestId"`
	RouteKey     string     `json:"routeKey"`
	Stage        string     `json:"stage"`
	Time         string     `json:"time"`
	TimeEpoch    int64      `json:"timeEpoch"`
}

type sliceHTTP struct {
	Method    string `json:"method"`
	Path      string `json:"path"`
	Protocol  string `json:"protocol"`
	SourceIP  string `json:"sourceIp"`
	UserAgent string `json:"userAgent"`
}

// forwarded says who forwards an event, where a Function URL has the caller that IAM verified.
type forwarded struct {
	IAM struct {
		UserARN string `json:"userArn"`
	} `json:"iam"`
}

// forwardingDomain stands for the host name of a forwarded event, whose path is as raw as a Function URL's.
const forwardingDomain = "frontdoor" + functionURL + "internal"

// FormatForwarded writes the event with which a front door that runs as the role principal, by its ARN, invokes a
// cell's router. Parse reads it as a Function URL's, and the principal as IAM's word: rightly so, since IAM alone
// decides who may invoke the router beside its API, and an API writes who asks by itself. Errors as FormatRequest's.
func FormatForwarded(req *routing.Request, principal string) ([]byte, error) {
	return formatRequest(req, func(c *sliceContext) {
		c.DomainName, c.Authorizer = forwardingDomain, &forwarded{}
		c.Authorizer.IAM.UserARN = principal
	})
}

// FormatRequest writes the event with which a slice is invoked. An event of more than routing.MaxBody bytes is an
// error that wraps routing.ErrTooLarge: that is about 4.5 MB of binary, which travels in base64.
func FormatRequest(req *routing.Request) ([]byte, error) {
	return formatRequest(req, func(*sliceContext) {})
}

func formatRequest(req *routing.Request, edit func(*sliceContext)) ([]byte, error) {
	out := sliceEvent{
		Version: version2, RouteKey: defaultRoute, RawPath: req.Path, RawQueryString: req.RawQuery,
		Headers: make(map[string]string, len(req.Header)+1),
		Query:   joinedQuery(req.RawQuery),
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
	if len(req.Body) > 0 {
		out.Headers["content-length"] = strconv.Itoa(len(req.Body)) // of the body, not of its base64
	}
	if req.Stream {
		out.Headers[strings.ToLower(headerStream)] = "1"
	}
	out.Body, out.IsBase64Encoded = text(req.Body)
	addresses := strings.Split(out.Headers["x-forwarded-for"], ",")
	out.RequestContext = sliceContext{
		DomainName: out.Headers["host"], RouteKey: defaultRoute, Stage: defaultRoute,
		RequestID: out.Headers["x-request-id"],
		HTTP: sliceHTTP{
			Method: req.Method, Path: req.Path, Protocol: "HTTP/1.1",
			SourceIP:  strings.TrimSpace(addresses[len(addresses)-1]),
			UserAgent: out.Headers["user-agent"],
		},
	}
	edit(&out.RequestContext)
	payload, err := marshal(out)
	if err != nil {
		return nil, err
	}
	if len(payload) > routing.MaxBody {
		return nil, fmt.Errorf("%w: an event of %d bytes, and an invocation carries %d", routing.ErrTooLarge, len(payload), routing.MaxBody)
	}
	return payload, nil
}

// joinedQuery is the decoded query as the event repeats it: values of one key joined by commas. What cannot be
// decoded stands in rawQueryString only.
func joinedQuery(rawQuery string) map[string]string {
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

// ParseRequest reads the event with which a slice was invoked, as FormatRequest writes it.
func ParseRequest(payload []byte) (*routing.Request, error) {
	var in event
	if err := json.Unmarshal(payload, &in); err != nil {
		return nil, fmt.Errorf("event cannot be read: %w", err)
	}
	if in.Version != version2 {
		return nil, fmt.Errorf("event has payload format %q: want %q, in which the router invokes a slice", in.Version, version2)
	}
	req, err := in.request(FunctionURL)
	if err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	req.Stream = req.Header.Get(headerStream) != ""
	req.Header.Del(headerStream)
	return &req, nil
}

type sliceAnswer struct {
	StatusCode      int                        `json:"statusCode"`
	Headers         map[string]json.RawMessage `json:"headers"`
	Cookies         []string                   `json:"cookies"`
	Body            string                     `json:"body"`
	IsBase64Encoded bool                       `json:"isBase64Encoded"`
}

// ParseAnswer reads what a slice answered in payload format 2.0. It must name its status: the other form that API
// Gateway takes, any JSON value as the body of a 200, would make an answer of every mistake.
func ParseAnswer(payload []byte) (*routing.Response, error) {
	var in sliceAnswer
	if err := json.Unmarshal(payload, &in); err != nil {
		return nil, fmt.Errorf("answer is not of payload format 2.0: %w", err)
	}
	out, err := in.head()
	if err != nil {
		return nil, err
	}
	if out.Body, err = decodeBody(in.Body, in.IsBase64Encoded); err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	return out, nil
}

// head is the answer without its body.
func (a *sliceAnswer) head() (*routing.Response, error) {
	if a.StatusCode < 100 || a.StatusCode > 999 {
		return nil, errors.New("answer has no statusCode")
	}
	out := &routing.Response{Status: a.StatusCode, Header: make(http.Header, len(a.Headers)+1)}
	for name, raw := range a.Headers {
		value, err := scalar(raw)
		if err != nil {
			return nil, fmt.Errorf("answer's header %q: %w", name, err)
		}
		out.Header.Add(name, value)
	}
	if len(a.Cookies) > 0 {
		out.Header["Set-Cookie"] = append(out.Header["Set-Cookie"], a.Cookies...)
	}
	return out, nil
}

// FormatAnswer writes what a slice answers in payload format 2.0. The error wraps ErrAnswerTooLarge.
func FormatAnswer(method string, resp *routing.Response) ([]byte, error) {
	return (&Event{Kind: HTTPAPI, Request: routing.Request{Method: method}}).Format(resp)
}
