package awseventtest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// answered is what a function may answer. The members that a sender does not look at are checked by it.
type answered struct {
	StatusCode        int                 `json:"statusCode"`
	StatusDescription *string             `json:"statusDescription"`
	Headers           map[string]string   `json:"headers"`
	MultiValueHeaders map[string][]string `json:"multiValueHeaders"`
	Cookies           []string            `json:"cookies"`
	Body              string              `json:"body"`
	IsBase64Encoded   bool                `json:"isBase64Encoded"`
}

// The largest answers that senders take, in bytes of JSON.
const (
	invocation = 6 << 20
	balancer   = 1 << 20
)

func read(payload []byte, limit int) (answered, error) {
	var a answered
	if len(payload) > limit {
		return a, fmt.Errorf("answer of %d bytes, and %d are taken", len(payload), limit)
	}
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil {
		return a, err
	}
	if a.StatusCode < 200 || a.StatusCode > 599 {
		return a, fmt.Errorf("status %d", a.StatusCode)
	}
	return a, nil
}

// to is what reaches the client: the length that the sender counts, and no body where HTTP has none.
func (a answered) to(method string, header http.Header) (Answer, error) {
	body := []byte(a.Body)
	if a.IsBase64Encoded {
		var err error
		if body, err = base64.StdEncoding.DecodeString(a.Body); err != nil {
			return Answer{}, err
		}
	}
	if method == http.MethodHead || a.StatusCode == http.StatusNoContent || a.StatusCode == http.StatusNotModified {
		if len(body) > 0 {
			return Answer{}, errors.New("a body where there is none")
		}
		return Answer{a.StatusCode, header, nil}, nil
	}
	if stated := header.Get("Content-Length"); stated != "" && stated != strconv.Itoa(len(body)) {
		return Answer{}, fmt.Errorf("length %s for a body of %d bytes", stated, len(body))
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	return Answer{a.StatusCode, header, body}, nil
}

// Answer2 is what an HTTP API or a buffered Function URL makes of an answer of format 2.0.
func Answer2(method string, payload []byte) (Answer, error) {
	a, err := read(payload, invocation)
	if err != nil {
		return Answer{}, err
	}
	if a.MultiValueHeaders != nil || a.StatusDescription != nil {
		return Answer{}, errors.New("members of another format")
	}
	header := http.Header{}
	for name, value := range a.Headers {
		header.Add(name, value)
	}
	for _, cookie := range a.Cookies {
		header.Add("Set-Cookie", cookie)
	}
	return a.to(method, header)
}

// AnswerREST is what a REST API makes of an answer. It refuses one with a member that it does not know.
func AnswerREST(method string, payload []byte) (Answer, error) {
	a, err := read(payload, invocation)
	if err != nil {
		return Answer{}, err
	}
	if a.Cookies != nil || a.StatusDescription != nil {
		return Answer{}, errors.New("malformed Lambda proxy response")
	}
	header := http.Header{}
	for name, value := range a.Headers {
		if _, listed := a.MultiValueHeaders[name]; !listed {
			header.Add(name, value)
		}
	}
	for name, values := range a.MultiValueHeaders {
		for _, value := range values {
			header.Add(name, value)
		}
	}
	return a.to(method, header)
}

// AnswerALB is what a load balancer makes of an answer.
func AnswerALB(method string, payload []byte) (Answer, error) {
	a, err := readALB(payload)
	if err != nil {
		return Answer{}, err
	}
	if a.Headers == nil || a.MultiValueHeaders != nil {
		return Answer{}, errors.New("headers are missing, or lists that are not taken")
	}
	header := http.Header{}
	for name, value := range a.Headers {
		header.Add(name, value)
	}
	return a.to(method, header)
}

// AnswerALBMulti is what a load balancer with multi-value headers makes of an answer.
func AnswerALBMulti(method string, payload []byte) (Answer, error) {
	a, err := readALB(payload)
	if err != nil {
		return Answer{}, err
	}
	if a.MultiValueHeaders == nil || a.Headers != nil {
		return Answer{}, errors.New("lists of headers are missing, or single ones that are not taken")
	}
	header := http.Header{}
	for name, values := range a.MultiValueHeaders {
		for _, value := range values {
			header.Add(name, value)
		}
	}
	return a.to(method, header)
}

func readALB(payload []byte) (answered, error) {
	a, err := read(payload, balancer)
	if err != nil {
		return a, err
	}
	if a.Cookies != nil {
		return a, errors.New("members of another format")
	}
	if a.StatusDescription != nil {
		var status int
		var phrase string
		if n, _ := fmt.Sscanf(*a.StatusDescription, "%d %s", &status, &phrase); n != 2 || status != a.StatusCode {
			return a, fmt.Errorf("status line %q", *a.StatusDescription)
		}
	}
	return a, nil
}
