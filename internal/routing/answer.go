package routing

import (
	"context"
	"errors"
	"net/http"
)

// answer turns the last attempt into what the client gets.
func (s *serving) answer(a attempt) *Response {
	switch {
	case a.misdirected():
		return s.refuseUndone("the tenant is being placed", errMisdirected).retryAfter(1)
	case a.err == nil:
		return &Response{
			Status: a.resp.Status,
			Header: forClient(a.resp.Header, s.req.Method, a.resp.Status),
			Body:   a.resp.Body,
			Stream: a.resp.Stream,
		}
	case errors.Is(a.err, ErrTooLarge):
		return s.refuse(http.StatusRequestEntityTooLarge, "the request is larger than this route carries", a.err)
	case a.noEffect():
		return s.refuseUndone("the service is not available", a.err).retryAfter(1)
	}
	status, what := http.StatusBadGateway, "the service gave no valid answer"
	if errors.Is(a.err, context.DeadlineExceeded) {
		status, what = http.StatusGatewayTimeout, "the service did not answer in time"
	}
	if s.repeatable {
		return s.refuse(status, what+s.mayRepeat(), a.err)
	}
	s.out.Err = a.err
	return problemOf(TypeMaybeDone, status, what+"; the request may have taken effect, so it was not repeated")
}

var errMisdirected = errors.New("every shard that was asked refused the tenant")

// refuse answers without having asked a shard, or having asked in vain.
func (s *serving) refuse(status int, detail string, why error) *Response {
	if why == nil {
		why = errors.New(detail)
	}
	s.out.Err = why
	return Problem(status, detail)
}

// refuseUndone is refuse with 503 for what was not done, unless an earlier attempt may have done it. That one's
// request may be repeated, or it would not have been followed by another attempt.
func (s *serving) refuseUndone(detail string, why error) *Response {
	if s.maybeDone {
		return s.refuse(http.StatusServiceUnavailable, detail+s.mayRepeat(), why)
	}
	return s.refuse(http.StatusServiceUnavailable, detail+"; nothing was done", why)
}

func (s *serving) mayRepeat() string {
	if s.keyed {
		return "; the request may be repeated with the same Idempotency-Key"
	}
	return "; the request may be repeated"
}
