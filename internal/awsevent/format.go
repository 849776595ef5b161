package awsevent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"cellwall.dev/cellwall/internal/routing"
)

// MaxALBAnswer is the largest answer that a load balancer takes of a function, in bytes of JSON ("Use Lambda
// functions as targets of an Application Load Balancer", limits).
const MaxALBAnswer = 1 << 20

// ErrAnswerTooLarge marks an answer that the sender of the event would not take.
var ErrAnswerTooLarge = errors.New("answer is too large")

// answer is the union of the shapes that the senders want. A REST API refuses a member that it does not know.
type answer struct {
	StatusCode        int                 `json:"statusCode"`
	StatusDescription string              `json:"statusDescription,omitempty"`
	Headers           map[string]string   `json:"headers,omitzero"`
	MultiValueHeaders map[string][]string `json:"multiValueHeaders,omitzero"`
	Cookies           []string            `json:"cookies,omitempty"`
	Body              string              `json:"body"`
	IsBase64Encoded   bool                `json:"isBase64Encoded"`
}

// Format writes an answer, which is no stream, as the sender of the event wants it. The error wraps
// ErrAnswerTooLarge; TooLarge is what to answer then.
func (e *Event) Format(resp *routing.Response) ([]byte, error) {
	header, body := e.whole(resp)
	out := answer{StatusCode: resp.Status}
	switch e.Kind {
	case HTTPAPI, FunctionURL:
		out.Headers, out.Cookies = joined(header)
	case REST:
		out.MultiValueHeaders = header
	case ALB:
		out.StatusDescription, out.Headers = description(resp.Status), single(header)
	case ALBMulti:
		out.StatusDescription, out.MultiValueHeaders = description(resp.Status), header
	}
	if e.Kind == REST && readable(body) {
		// A REST API decodes base64 only of the media types that it was told to be binary.
		out.Body = string(body)
	} else {
		out.Body, out.IsBase64Encoded = text(body)
	}
	payload, err := marshal(out)
	if err != nil {
		return nil, err
	}
	if limit := e.limit(); len(payload) > limit {
		return nil, fmt.Errorf("%w: %d bytes, and %v takes %d", ErrAnswerTooLarge, len(payload), e.Kind, limit)
	}
	return payload, nil
}

// limit is how large an answer the sender takes, in bytes.
func (e *Event) limit() int {
	if e.Kind == ALB || e.Kind == ALBMulti {
		return MaxALBAnswer
	}
	return routing.MaxBody
}

// TooLarge is the answer in place of one for which Format has no room.
func (e *Event) TooLarge() *routing.Response {
	if e.Kind == ALB || e.Kind == ALBMulti {
		return routing.AnswerTooLargeForLoadBalancer()
	}
	return routing.AnswerTooLarge()
}

// whole is what of an answer travels: no body where HTTP has none, and no length that the body does not have.
func (e *Event) whole(resp *routing.Response) (http.Header, []byte) {
	header := make(http.Header, len(resp.Header))
	for name, values := range resp.Header {
		key := http.CanonicalHeaderKey(name)
		header[key] = append(header[key], values...)
	}
	if !hasBody(e.Request.Method, resp.Status) {
		return header, nil
	}
	if header.Get("Content-Length") != "" {
		header.Set("Content-Length", strconv.Itoa(len(resp.Body)))
	}
	return header, resp.Body
}

// hasBody says whether an answer has a body (RFC 9110, section 6.4.1).
func hasBody(method string, status int) bool {
	return method != http.MethodHead && status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// joined is headers as format 2.0 has them: the values of a name joined by commas (RFC 9110, section 5.3), and
// cookies apart, since theirs hold commas.
func joined(header http.Header) (headers map[string]string, cookies []string) {
	headers = make(map[string]string, len(header))
	for name, values := range header {
		if name == "Set-Cookie" {
			cookies = values
			continue
		}
		headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	return headers, cookies
}

// single is headers as a load balancer without multi-value headers takes them. It has no list for cookies, but
// takes names that differ in case alone for several headers.
func single(header http.Header) map[string]string {
	headers, cookies := joined(header)
	for i, cookie := range cookies {
		headers[spelling("set-cookie", i)] = cookie
	}
	return headers
}

// spelling is the nth way to write a name in upper and lower case, which come again after 2 to the power of its
// letters.
func spelling(name string, n int) string {
	b := []byte(name)
	for i, c := range b {
		if c < 'a' || c > 'z' {
			continue
		}
		if n&1 == 1 {
			b[i] = c - 'a' + 'A'
		}
		n >>= 1
	}
	return string(b)
}

// description is the status line that a load balancer wants: a number, a space and a phrase.
func description(status int) string {
	phrase := http.StatusText(status)
	if phrase == "" {
		phrase = "Status"
	}
	return strconv.Itoa(status) + " " + phrase
}

// scalar reads a header's value. Services in languages without types send numbers and booleans.
func scalar(raw json.RawMessage) (string, error) {
	var s string
	switch {
	case json.Unmarshal(raw, &s) == nil:
		return s, nil
	case len(raw) > 0 && raw[0] != '{' && raw[0] != '[':
		return string(raw), nil
	}
	return "", errors.New("want a string, a number or a boolean")
}
