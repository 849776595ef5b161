package routing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

// A tenant that moves is read at its source, and its writes wait until the move is over, which takes moments.
// The waits double, from firstWait on, each give or take a half, so that those who were held together do not
// ask together. On Lambda a write that waits holds its environment: for 1.75 s on average and 2.6 s at most,
// which counts in what a router needs of its reserved concurrency while a busy tenant moves.
const (
	maxLooks  = 4 // look-ups of one request in all, the first included
	firstWait = 250 * time.Millisecond
)

// doubtAfter is how long the directory's word is taken without asking again where it makes the engine refuse a
// tenant of its own cell, as one that was suspended. Strangers are not asked for again here: what is not known and
// what is known to be elsewhere cost the same and take as long.
const doubtAfter = time.Second

// look reads the tenant's entry, and refuses whoever is not served here.
func (s *serving) look(ctx context.Context) (directory.Entry, *Response) {
	s.looks++
	known, err := s.learn(s.config.Entries.Entry(ctx, s.out.Tenant))
	if told := s.toldEpoch(); told > known.Epoch && (err == nil || errors.Is(err, directory.ErrNotFound)) {
		if fresh, ok := s.news(ctx, known.Entry); ok {
			known, err = Known{Entry: fresh}, nil
		}
	}
	if err == nil && s.own(known.Entry) && known.Age > doubtAfter && known.State != directory.Active && known.State != directory.Moving {
		if fresh, ok := s.news(ctx, known.Entry); ok {
			known.Entry = fresh
		}
	}
	switch {
	case errors.Is(err, directory.ErrNotFound):
		return known.Entry, s.refuse(http.StatusNotFound, notKnownHere, err)
	case err != nil:
		return known.Entry, s.refuseUndone("the tenant could not be looked up", err).retryAfter(1)
	}
	return s.settle(ctx, known.Entry)
}

// news reads the entry afresh; ok says that it is a later one. An answer that is not later may be older than
// the one at hand, and an error is no news either.
func (s *serving) news(ctx context.Context, than directory.Entry) (fresh directory.Entry, ok bool) {
	s.looks++
	known, err := s.learn(s.config.Entries.Fresh(ctx, s.out.Tenant, than.Epoch))
	return known.Entry, err == nil && known.Epoch > than.Epoch
}

// toldEpoch is the epoch of the entry by which an authenticated front door chose this cell, 0 where none says so. One
// above what is known here is of a tenant that has come since: without another look, it would be sent back and forth
// until what is remembered here expires.
func (s *serving) toldEpoch() uint64 {
	values := s.req.Header[HeaderEpoch]
	if !s.req.FrontDoor || len(values) != 1 {
		return 0
	}
	told, err := strconv.ParseUint(values[0], 10, 64)
	if err != nil {
		return 0
	}
	return told
}

// learn remembers for the operators how an entry came to be known.
func (s *serving) learn(k Known, err error) (Known, error) {
	s.out.Age, s.out.Stale = k.Age, k.Stale
	s.memo, s.memoOf = k.Memo, k.Epoch
	if k.ReplicaErr != nil {
		s.out.ReplicaErr = k.ReplicaErr
	}
	if k.HomeErr != nil {
		s.out.HomeErr = k.HomeErr
	}
	return k, err
}

// settle waits while the entry says that a write is held, and then says whether the tenant is served here.
func (s *serving) settle(ctx context.Context, entry directory.Entry) (directory.Entry, *Response) {
	for wait := firstWait; s.held(entry) && s.looks < maxLooks && s.pause(ctx, wait); wait *= 2 {
		if fresh, ok := s.news(ctx, entry); ok {
			entry = fresh
		}
	}
	return entry, s.admit(entry)
}

func (s *serving) held(entry directory.Entry) bool {
	return !s.config.Cells && entry.State == directory.Moving && s.own(entry) && !safe(s.req.Method)
}

// own says whether the tenant is one of those that are served here.
func (s *serving) own(entry directory.Entry) bool {
	return s.config.Cells || entry.Cell == s.config.Cell
}

// pause waits for half of d to one and a half, and says whether the request may go on: its client is there, and
// it has time left.
func (s *serving) pause(ctx context.Context, d time.Duration) bool {
	d = d/2 + time.Duration(s.config.Pick(int(d/time.Millisecond)))*time.Millisecond
	if s.left() <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// notKnownHere is said of a tenant that is nowhere and of one of another cell: where somebody lives is no
// business of the asker.
const notKnownHere = "this tenant is not known here"

// admit says whether a tenant with this entry is served here; nil when it is.
func (s *serving) admit(entry directory.Entry) *Response {
	switch {
	case !s.own(entry) && s.req.FrontDoor:
		return s.refuse(http.StatusMisdirectedRequest, "this tenant is of another cell", errElsewhere)
	case !s.own(entry):
		return s.refuse(http.StatusNotFound, notKnownHere, errElsewhere)
	case entry.State == directory.Placing:
		return s.refuseUndone("this tenant is being set up", errPlacing).retryAfter(2)
	case s.held(entry):
		return s.refuseUndone("writes are held for a moment", errMoving).retryAfter(2)
	case entry.State != directory.Active && entry.State != directory.Moving:
		return s.refuse(http.StatusForbidden, "this tenant is suspended", fmt.Errorf("tenant is %q", entry.State))
	}
	return nil
}

var (
	errElsewhere = errors.New("tenant lives in another cell")
	errPlacing   = errors.New("tenant is placing")
	errMoving    = errors.New("tenant is moving")
)
