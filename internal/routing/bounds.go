package routing

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// errFull is of a subset whose members all have as many requests in flight as one shard may have.
var errFull = fmt.Errorf("%w: every member that could be asked is as busy as it may be", ErrNotSent)

// enter asks the limits whether the request is let in. Whoever is, leaves.
func (s *serving) enter() *Response {
	c := &s.config
	if c.Tenants != nil {
		ticket, retry, ok := c.Tenants.Admit(s.out.Tenant)
		if !ok {
			return s.refuse(http.StatusTooManyRequests, "this tenant asks for more than it may; nothing was done", nil).
				retryAfter(max(1, int((retry+time.Second-1)/time.Second)))
		}
		s.ticket = ticket
	}
	if c.Shed != nil && !c.Shed.Enter(s.ticket.Others()) {
		s.leaveTenant()
		return s.busy()
	}
	if s.route.fanout && c.Fanouts != nil && !c.Fanouts.Enter() {
		if c.Shed != nil {
			c.Shed.Leave()
		}
		s.leaveTenant()
		return s.busy()
	}
	c.Budget.Begin()
	return nil
}

// leave gives back what enter took.
func (s *serving) leave() {
	c := &s.config
	c.Budget.End()
	if s.route.fanout && c.Fanouts != nil {
		c.Fanouts.Leave()
	}
	if c.Shed != nil {
		c.Shed.Leave()
	}
	s.leaveTenant()
}

func (s *serving) leaveTenant() {
	if s.config.Tenants != nil {
		s.ticket.Release()
	}
}

func (s *serving) busy() *Response {
	return s.refuse(http.StatusServiceUnavailable, "the service is busy; nothing was done", nil).retryAfter(1)
}

// acquire says whether the shard may be sent one more request.
func (s *serving) acquire(shard string) bool {
	return s.config.Shards == nil || s.config.Shards.Acquire(shard)
}

func (s *serving) release(shard string) {
	if s.config.Shards != nil {
		s.config.Shards.Release(shard)
	}
}

// A repeat that the budget does not allow now waits for others to be over, which takes them the time of an answer
// unless the shards have too much to do already.
const (
	budgetWait = 250 * time.Millisecond
	budgetLook = 10 * time.Millisecond
)

// spend says whether the request may be repeated once more, as far as its load goes. spent or unspend follows each
// time that it may.
func (s *serving) spend(ctx context.Context) bool {
	if s.config.Single && s.repeats > 0 || !s.config.Single && !s.config.Budget.Spend() && !s.awaitBudget(ctx) {
		return false
	}
	s.repeats++
	return true
}

func (s *serving) awaitBudget(ctx context.Context) bool {
	s.config.Budget.End() // who waits makes the budget no larger
	defer s.config.Budget.Begin()
	for waited := time.Duration(0); waited < budgetWait && s.pause(ctx, budgetLook); waited += budgetLook {
		if s.config.Budget.Spend() {
			return true
		}
	}
	return false
}

// unspend is spent for a repeat that was not sent.
func (s *serving) unspend() {
	s.repeats--
	s.spent()
}

func (s *serving) spent() {
	if !s.config.Single {
		s.config.Budget.Return()
	}
}

// share is how long an attempt may take when so many members are left to ask after it.
func (s *serving) share(others int) time.Duration {
	switch {
	case !s.repeatable:
		others = 0 // another is asked only if nothing was sent, which takes no time to speak of
	case s.config.Single:
		others = min(others, 1-s.repeats)
	}
	share := s.left() / time.Duration(others+1)
	if limit := s.attemptTimeout(); limit > 0 {
		share = min(share, limit)
	}
	return share
}

// attemptTimeout bounds each attempt; 0 is no bound but the request's own.
func (s *serving) attemptTimeout() time.Duration {
	if s.route.timeout > 0 {
		return s.route.timeout
	}
	return s.config.AttemptTimeout
}

// holding is a stream that holds something for as long as it is not closed.
type holding struct {
	io.ReadCloser
	release func()
	once    sync.Once
}

// Close implements io.Closer.
func (h *holding) Close() error {
	defer h.once.Do(h.release)
	return h.ReadCloser.Close()
}
