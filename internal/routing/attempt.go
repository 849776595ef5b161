package routing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

// attempt is what became of one sending: an answer or an error, never both.
type attempt struct {
	resp *Response
	err  error
}

// attempt sends the request to one shard. With another attempt in hand it takes at most half of the time
// that is left, so that a shard that hangs leaves as much for the next.
func (s *serving) attempt(ctx context.Context, entry directory.Entry, shard string, another bool) attempt {
	try := ctx
	if deadline, ok := ctx.Deadline(); ok && another {
		var cancel context.CancelFunc
		try, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	call := Call{Tenant: s.out.Tenant, Epoch: entry.Epoch, Shard: shard}
	req := *s.req
	req.Path, req.RawQuery = clean(req.Path), clean(req.RawQuery)
	req.Header = forShard(s.req.Header, call)
	SetDeadline(try, req.Header)

	start := s.config.Now()
	resp, err := s.via.Send(try, call, &req)
	a := attempt{resp, err}
	note := Attempt{Shard: shard, Took: s.config.Now().Sub(start), Err: err}
	if err == nil && (resp.Status < 200 || resp.Status > 599) {
		a = attempt{err: fmt.Errorf("shard answered with status %d", resp.Status)}
		note.Err = a.err
	}
	if a.err == nil {
		note.Status = resp.Status
	}
	s.out.Attempts = append(s.out.Attempts, note)

	switch {
	case errors.Is(ctx.Err(), context.Canceled), errors.Is(a.err, ErrTooLarge), a.misdirected():
		// The client left, or the request was at fault, or the directory: that says nothing of the shard.
	case a.failed():
		s.health.failed(shard)
	default:
		s.health.succeeded(shard)
	}
	return a
}

// failed says whether another member should be asked: no answer came, or the shard's service or load
// balancer says that it cannot serve now. A 500 is an answer: it would be the same elsewhere.
func (a attempt) failed() bool {
	if a.err != nil {
		return !errors.Is(a.err, ErrTooLarge)
	}
	switch a.resp.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return a.misdirected()
}

// misdirected says whether the shard refused a tenant or an epoch that it does not hold.
func (a attempt) misdirected() bool {
	return a.err == nil && a.resp.Status == http.StatusMisdirectedRequest
}

// noEffect says whether the failed attempt certainly did nothing. A 421 comes before any effect.
func (a attempt) noEffect() bool { return errors.Is(a.err, ErrNotSent) || a.misdirected() }

// answer turns the last attempt into what the client gets.
func (s *serving) answer(a attempt) *Response {
	switch {
	case a.misdirected():
		return s.refuse(http.StatusServiceUnavailable, "the tenant is being placed; nothing was done",
			errors.New("every shard that was asked refused the tenant")).retryAfter(1)
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
		return s.refuse(http.StatusServiceUnavailable, "the service is not available; nothing was done", a.err).retryAfter(1)
	}
	status, what := http.StatusBadGateway, "the service gave no valid answer"
	if errors.Is(a.err, context.DeadlineExceeded) {
		status, what = http.StatusGatewayTimeout, "the service did not answer in time"
	}
	if s.repeatable {
		return s.refuse(status, what+"; the request may be repeated", a.err)
	}
	s.out.Err = a.err
	return problemOf(TypeMaybeDone, status, what+"; the request may have taken effect, so it was not repeated")
}
