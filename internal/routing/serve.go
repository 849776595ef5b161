package routing

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing/health"
)

func (s *serving) serve(ctx context.Context) (resp *Response) {
	if refusal := s.check(); refusal != nil {
		return refusal
	}
	if refusal := s.enter(); refusal != nil {
		return refusal
	}
	defer func() { // also when something below panics
		if resp != nil && resp.Stream != nil {
			resp.Stream = &holding{ReadCloser: resp.Stream, release: s.leave}
		} else {
			s.leave()
		}
	}()
	if refusal := s.complete(); refusal != nil {
		return refusal
	}
	s.until = s.end(ctx)
	entry, refusal := s.look(ctx)
	switch {
	case refusal != nil:
		return refusal
	case s.route.fanout:
		return s.gather(ctx, entry)
	}
	return s.ask(ctx, entry)
}

// check refuses what no shard should see, and decides what the request alone can decide.
func (s *serving) check() *Response {
	if !directory.ValidTenant(s.out.Tenant) {
		return s.refuse(http.StatusUnauthorized, "a verified token that names one tenant is needed", nil)
	}
	if len(s.req.Path) > maxPath { // to read it in every way takes its time
		return s.refuse(http.StatusRequestURITooLong, "the path is longer than 16 KB", errLongPath)
	}
	var err error
	s.route, err = s.routes.match(s.req.Method, s.req.Path)
	switch {
	case !token(s.req.Method):
		return s.refuse(http.StatusBadRequest, "the method is not valid", nil)
	case s.req.Method == http.MethodConnect, s.req.Method == http.MethodTrace:
		// A tunnel is no request of a tenant, and TRACE would show the client what the shard was told.
		return s.refuse(http.StatusNotImplemented, "this method is not supported", nil)
	case errors.Is(err, errNoRoute):
		return s.refuse(http.StatusNotFound, "nothing is served under this path", err)
	case err != nil:
		return s.refuse(http.StatusBadRequest, err.Error(), err)
	}
	s.out.Route, s.out.Fanout = s.route.path, s.route.fanout
	s.queueInstead()
	if s.route.via == ViaQueue && max(len(s.req.Path), len(s.req.RawQuery)) > maxJobPath {
		return s.refuse(http.StatusRequestURITooLong, "the path or the query is longer than the 8 KB that this route carries", errLongPath)
	}
	if err = s.setRepeatable(); err == nil && s.config.State == StateHome && !s.route.fanout {
		s.key, err = s.route.homeKey(s.req.Path)
	}
	if err != nil {
		return s.refuse(http.StatusBadRequest, err.Error(), err)
	}
	return nil
}

// complete has the rest of a request come that was let in. While its client sends that, it is of no use to others'
// repeats.
func (s *serving) complete() *Response {
	if s.req.Complete != nil {
		s.config.Budget.End()
		defer s.config.Budget.Begin()
		if refusal := s.req.Complete(s.out.RequestID); refusal != nil {
			s.out.Err = fmt.Errorf("refused with %d for what its body or path says", refusal.Status)
			return refusal
		}
	}
	if len(s.req.Body) > MaxBody {
		return s.refuse(http.StatusRequestEntityTooLarge, "the body is larger than 6 MB", ErrTooLarge)
	}
	return nil
}

// ask sends the request to one member of the subset, and then to others as long as nobody has answered it, and
// as that is safe and allowed.
func (s *serving) ask(ctx context.Context, entry directory.Entry) *Response {
	s.out.Poisoned = s.config.Poison != nil && s.config.Poison.Suspect(s.out.Tenant)
	order, refusal := s.order(ctx, entry)
	if refusal != nil {
		return refusal
	}
	last := attempt{err: errFull}
	var wrong attempt // the last that was
	var wrongAt string
	repeating, followed := false, false
	for len(order) > 0 {
		shard := order[0]
		order = order[1:]
		if repeating && !s.spend(ctx) {
			break
		}
		if !s.acquire(shard) { // nothing was sent to it
			if repeating {
				s.unspend()
			}
			continue
		}
		last = s.attempt(ctx, entry, shard, s.share(len(order)))
		if repeating {
			s.spent()
		}
		if wrongAt != "" && last.answered() {
			s.blame(wrongAt)
		}
		if last.wrong() {
			wrong, wrongAt = last, shard
		}
		if !s.again(last) || ctx.Err() != nil || s.left() <= 0 {
			break
		}
		if last.misdirected() && (!followed || s.config.Cells && s.looks < maxLooks) {
			// The shard knows better where the tenant lives, or the cell, which a tenant may leave again while its
			// request is on its way. Only a higher epoch is news.
			followed, repeating = true, false
			if fresh, ok := s.news(ctx, entry); ok {
				if entry, refusal = s.settle(ctx, fresh); refusal != nil {
					return refusal
				}
				if order, refusal = s.order(ctx, entry); refusal != nil {
					return refusal
				}
				continue
			}
		}
		repeating = true
	}
	if wrongAt != "" && last.failed() {
		return s.answer(wrong) // the service's own word, where the others have none
	}
	return s.answer(last)
}

// blame counts a failure of a shard that answered with a fault of its own what another member could do. Without
// that proof, one tenant's request that nobody can do would make every shard of its subset look ill.
func (s *serving) blame(shard string) {
	s.health().Begin(shard)
	s.health().End(shard, health.Failed, 0)
}

// order returns the members of the entry's subset, at least one, in the order in which to ask them. With state
// home, that is the one member that has what the request is about. A suspect has one for all of its requests,
// whatever its health: by health, it would take down the next one with its next request.
func (s *serving) order(ctx context.Context, entry directory.Entry) ([]string, *Response) {
	members, refusal := s.place(ctx, entry)
	switch {
	case refusal != nil:
		return nil, refusal
	case s.out.Poisoned && s.config.State != StateHome:
		return append(s.members[:0], home(s.out.Tenant, "", members)), nil
	case s.config.State == StateHome:
		return append(s.members[:0], home(s.out.Tenant, s.key, members)), nil
	}
	return s.health().Order(s.members[:0], members, s.repeatable), nil
}

// place returns the members of the entry's subset, at least one, which nobody may change.
func (s *serving) place(ctx context.Context, entry directory.Entry) ([]string, *Response) {
	if s.config.Cells {
		return []string{entry.Cell}, nil
	}
	memo := s.memo
	if s.memoOf != entry.Epoch {
		memo = nil
	}
	members, err := memo.Members(func() ([]string, error) { return s.places.subset(ctx, entry) })
	switch {
	case errors.Is(err, directory.ErrInvalid), errors.Is(err, directory.ErrKey):
		// Asking again does not help: the entry names what its topology does not have, or the cell was given
		// another placement key than the topology's, by which the tenant would be looked for where it is not.
		return nil, s.refuseUndone("the tenant cannot be served at the moment", err)
	case err != nil:
		return nil, s.refuseUndone("the tenant's place could not be looked up", err).retryAfter(1)
	}
	return members, nil
}

// health is what is known of the shards by the request's way.
func (s *serving) health() *health.Tracker { return s.config.Health[s.route.via] }
