package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"cellwall.dev/cellwall/internal/routing"
)

type response struct {
	StatusCode      int                        `json:"statusCode"`
	Headers         map[string]json.RawMessage `json:"headers,omitempty"`
	Cookies         []string                   `json:"cookies,omitempty"`
	Body            string                     `json:"body"`
	IsBase64Encoded bool                       `json:"isBase64Encoded"`
}

// ParseResponse reads what a function answered. It must name its status: the other form that API
// Gateway takes, any JSON value as the body of a 200, would make an answer of every mistake.
func ParseResponse(payload []byte) (*routing.Response, error) {
	var in response
	if err := json.Unmarshal(payload, &in); err != nil {
		return nil, fmt.Errorf("answer is not of payload format 2.0: %w", err)
	}
	if in.StatusCode < 100 || in.StatusCode > 999 {
		return nil, errors.New("answer has no statusCode")
	}
	out := &routing.Response{Status: in.StatusCode, Header: http.Header{}, Body: []byte(in.Body)}
	if in.IsBase64Encoded {
		var err error
		if out.Body, err = base64.StdEncoding.DecodeString(in.Body); err != nil {
			return nil, fmt.Errorf("answer's body: %w", err)
		}
	}
	for name, raw := range in.Headers {
		value, err := scalar(raw)
		if err != nil {
			return nil, fmt.Errorf("answer's header %q: %w", name, err)
		}
		out.Header.Add(name, value)
	}
	for _, cookie := range in.Cookies {
		out.Header.Add("Set-Cookie", cookie)
	}
	return out, nil
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

// FormatResponse writes a response as a function answers it. Values of one header are joined by
// commas, as the format wants; cookies stay apart.
func FormatResponse(resp *routing.Response) ([]byte, error) {
	out := response{StatusCode: resp.Status, Headers: make(map[string]json.RawMessage, len(resp.Header))}
	for name, values := range resp.Header {
		if http.CanonicalHeaderKey(name) == "Set-Cookie" {
			out.Cookies = append(out.Cookies, values...)
			continue
		}
		raw, err := marshal(strings.Join(values, ","))
		if err != nil {
			return nil, err
		}
		out.Headers[strings.ToLower(name)] = raw
	}
	out.Body, out.IsBase64Encoded = text(resp.Body)
	return marshal(out)
}
