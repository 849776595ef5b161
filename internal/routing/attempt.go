package routing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing/health"
)

// attempt is what became of one sending: an answer or an error, never both.
type attempt struct {
	resp *Response
	err  error
}

// attempt sends the request to one shard, which has a slot for it, and remembers what became of it.
func (s *serving) attempt(ctx context.Context, entry directory.Entry, shard string, limit time.Duration) attempt {
	a, note := s.try(ctx, entry, shard, limit, s.shardHeader())
	if len(s.out.Attempts) > 0 {
		s.out.Fallbacks++
	}
	s.note(a, note)
	return a
}

// note remembers an attempt.
func (s *serving) note(a attempt, note Attempt) {
	s.out.Attempts = append(s.out.Attempts, note)
	if a.failed() && !a.noEffect() {
		s.maybeDone = true
	}
}

// try sends the request to one shard with a header that it may change, and gives the shard's slot back. It
// changes nothing of s.
func (s *serving) try(ctx context.Context, entry directory.Entry, shard string, limit time.Duration, header http.Header) (attempt, Attempt) {
	w := s.wait(ctx, limit)
	call := Call{Tenant: s.out.Tenant, Epoch: entry.Epoch, Shard: shard}
	req := *s.req
	req.Path, req.RawQuery, req.Header = cleanPath(req.Path), clean(req.RawQuery), header
	req.Stream = req.Stream && !s.route.fanout
	tell(header, call, w.deadline)

	s.health().Begin(shard)
	start := s.config.Now()
	a := s.send(w.ctx, call, &req)
	took := s.config.Now().Sub(start)
	if a.resp != nil && a.resp.Stream != nil && !w.headArrived() {
		// The time was over in the moment in which the head came: what follows it breaks off.
		a.resp.Stream.Close()
		a = attempt{err: fmt.Errorf("%w: the answer began as its time was over", context.DeadlineExceeded)}
	}
	result := s.result(ctx, w, &a)
	s.health().End(shard, result, took)
	if s.config.Poison != nil && !errors.Is(a.err, ErrNotSent) && result != health.Unknown {
		s.config.Poison.Observe(s.out.Tenant, shard, result != health.Answered)
	}
	if a.resp != nil && a.resp.Stream != nil {
		answer := *a.resp
		answer.Stream = &holding{ReadCloser: a.resp.Stream, release: func() {
			w.cancel()
			s.release(shard)
		}}
		a.resp = &answer
	} else {
		w.cancel()
		s.release(shard)
	}
	note := Attempt{Shard: shard, Took: took, Err: a.err, Left: a.err != nil && errors.Is(ctx.Err(), context.Canceled)}
	if a.err == nil {
		note.Status = a.resp.Status
	}
	return a, note
}

// send asks the transport. A panic there is a failed attempt like any other: nobody knows what the shard did.
func (s *serving) send(ctx context.Context, call Call, req *Request) (a attempt) {
	defer func() {
		if v := recover(); v != nil {
			a = attempt{err: fmt.Errorf("the transport panicked: %v\n%s", v, debug.Stack())}
		}
	}()
	resp, err := s.config.Transports[s.route.via].Send(ctx, call, req)
	switch {
	case err != nil:
		return attempt{err: err}
	case resp == nil:
		return attempt{err: errors.New("the transport gave neither an answer nor an error")}
	case resp.Status < 200 || resp.Status > 599:
		if resp.Stream != nil {
			resp.Stream.Close()
		}
		return attempt{err: fmt.Errorf("shard answered with status %d", resp.Status)}
	}
	a = attempt{resp: resp}
	if resp.Stream != nil && (!req.Stream || a.failed() || a.wrong()) {
		// Nobody can take a stream; or it is passed on only if no other member answers, and those are asked when
		// this one is done with.
		if a.resp, err = Whole(resp); err != nil {
			return attempt{err: err}
		}
	}
	return a
}

// result is what an attempt says of the shard. An attempt that ran out of its time is marked so.
func (s *serving) result(ctx context.Context, w waiting, a *attempt) health.Result {
	switch {
	case a.err == nil && (a.misdirected() || a.wrong()):
		return health.Unknown // the directory was at fault, or the request, perhaps
	case a.err == nil && a.failed():
		return health.Failed
	case a.err == nil:
		return health.Answered
	case errors.Is(ctx.Err(), context.Canceled), errors.Is(a.err, ErrTooLarge):
		return health.Unknown // the client left, or the request was at fault
	case errors.Is(a.err, ErrThrottled):
		return health.Throttled
	case errors.Is(a.err, ErrNotSent):
		return health.Failed
	case errors.Is(a.err, context.DeadlineExceeded):
		return health.TimedOut
	case errors.Is(context.Cause(w.ctx), context.DeadlineExceeded):
		a.err = fmt.Errorf("%w: %w", context.DeadlineExceeded, a.err)
		return health.TimedOut
	}
	return health.Failed
}

// failed says whether another member should be asked: no answer came, or the shard's service or load
// balancer says that it cannot serve now.
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

// wrong says whether the service met a fault of its own. That is an answer, and nobody knows whether it would be
// the same elsewhere: the request may be what no member can do, or the shard what can do no request.
func (a attempt) wrong() bool {
	return a.err == nil && a.resp.Status == http.StatusInternalServerError && !isAnswerTooLarge(a.resp)
}

// answered says whether a member did what it was asked for, or said why not.
func (a attempt) answered() bool { return a.err == nil && !a.failed() && !a.wrong() }

// misdirected says whether the shard refused a tenant or an epoch that it does not hold.
func (a attempt) misdirected() bool {
	return a.err == nil && a.resp.Status == http.StatusMisdirectedRequest
}

// noEffect says whether the failed attempt certainly did nothing. A 421 comes before any effect.
func (a attempt) noEffect() bool { return errors.Is(a.err, ErrNotSent) || a.misdirected() }

// waiting is the time that an attempt has.
type waiting struct {
	ctx         context.Context
	cancel      func()
	deadline    time.Time   // until when the shard may have effects; zero for no bound
	headArrived func() bool // the answer has begun and may go on for longer; false says that its time was over
}

// wait gives an attempt its time. That of an answer that streams ends with its head: from there on it goes on
// for as long as the client stays. Its deadline is not told to the shard when it only reads, for no answer to a
// question can overwrite anything, however late.
func (s *serving) wait(ctx context.Context, limit time.Duration) waiting {
	deadline := time.Now().Add(limit)
	if !s.req.Stream || s.route.fanout {
		try, cancel := context.WithDeadline(ctx, deadline)
		return waiting{try, cancel, deadline, nil}
	}
	try, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(limit, func() { cancel(context.DeadlineExceeded) })
	w := waiting{ctx: try, deadline: deadline, headArrived: timer.Stop}
	w.cancel = func() {
		timer.Stop()
		cancel(nil)
	}
	if safe(s.req.Method) {
		w.deadline, _ = ctx.Deadline()
	}
	return w
}

// shardHeader is what a shard gets of the client's header. It is made once: attempts follow one another, and
// a transport keeps nothing of it.
func (s *serving) shardHeader() http.Header {
	if s.header == nil {
		s.header = fromClient(s.req.Header)
		s.header[HeaderRequestID] = s.id[:]
	}
	return s.header
}

// ownHeader is shardHeader for attempts at the same time.
func (s *serving) ownHeader() http.Header { return maps.Clone(s.shardHeader()) }
