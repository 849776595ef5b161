package routing

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
)

// TypeMaybeDone is the problem type of a request whose effect is not known: it was sent, no answer came,
// and its method does not allow the router to send it again.
const TypeMaybeDone = "tag:cellwall.dev,2026:maybe-done"

// TypeAnswerTooLarge is the problem type of a request that the service answered with more than can be
// carried.
const TypeAnswerTooLarge = "tag:cellwall.dev,2026:answer-too-large"

// problem is a problem document (RFC 9457).
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

// Problem is an answer of the router's own, as a problem document (RFC 9457) of the type about:blank.
// detail is for the client: it names no shard, no host and no other tenant.
func Problem(status int, detail string) *Response {
	return problemOf("about:blank", status, detail)
}

// AnswerTooLarge stands for an answer of the service that is larger than MaxBody as it travels. It is a
// 500, which is an answer: the request was executed, another shard would answer the same, and this one is
// as healthy as any.
func AnswerTooLarge() *Response {
	return problemOf(TypeAnswerTooLarge, http.StatusInternalServerError, "the answer is larger than 6 MB; the request was executed")
}

// AnswerTooLargeForLoadBalancer stands for an answer that the load balancer, by which the request came, would not
// take. It would answer 502 with a page of its own that says nothing; this one does.
func AnswerTooLargeForLoadBalancer() *Response {
	return problemOf(TypeAnswerTooLarge, http.StatusBadGateway, "the answer is larger than the 1 MB that can be sent; the request was executed")
}

// isAnswerTooLarge says whether resp is what AnswerTooLarge returns.
func isAnswerTooLarge(resp *Response) bool {
	return resp.Header.Get("Content-Type") == "application/problem+json" && bytes.Contains(resp.Body, []byte(TypeAnswerTooLarge))
}

func problemOf(kind string, status int, detail string) *Response {
	// A struct of strings and an int always encodes.
	body, _ := json.Marshal(problem{kind, http.StatusText(status), status, detail})
	header := http.Header{
		"Content-Type":  {"application/problem+json"},
		"Cache-Control": {"no-store"},
	}
	if status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", "Bearer")
	}
	return &Response{Status: status, Header: header, Body: body}
}

// retryAfter adds when to ask again, in seconds.
func (r *Response) retryAfter(seconds int) *Response {
	r.Header.Set("Retry-After", strconv.Itoa(seconds))
	return r
}
