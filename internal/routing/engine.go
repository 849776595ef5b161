package routing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

// Config is what an Engine is made of. All but the last four fields are needed.
type Config struct {
	Cell       string               // the cell that this router belongs to
	Entries    Entries              // asked for every request
	Topologies Topologies           // asked once for each version that an entry names
	Keys       directory.Keys       // asked once for each topology that computes a subset
	Routes     []Route              // the first that matches wins
	Transports map[string]Transport // by Route.Via
	Timeout    time.Duration        // for one request, both attempts together

	// LookUp is the time for one reading of a topology or of a key, 1 s by default. A directory that hangs
	// must not hold what other requests wait for. Entries look to their time themselves.
	LookUp time.Duration

	Now     func() time.Time // default time.Now
	Pick    func(n int) int  // a number from 0 to n-1, to spread load with; default random
	Observe func(Outcome)    // told of each request when it is answered; default nobody
}

// defaultLookUp is ample: a consistent read takes milliseconds, and a new connection to another region a
// few round trips.
const defaultLookUp = time.Second

// Outcome is what became of one request, for logs and metrics of the operators. It names shards and must
// not reach a tenant.
type Outcome struct {
	Tenant   string
	Status   int // as answered to the client
	Attempts []Attempt
	Err      error // why the engine itself refused or gave up; nil when a shard's answer was passed on

	// MayBeStale is Known.Stale of the tenant's entry.
	MayBeStale bool
	// ReplicaErr and HomeErr are why the replica, or the home region behind it, did not answer when it was
	// asked for the entry.
	ReplicaErr, HomeErr error
}

// Attempt is one sending to one shard.
type Attempt struct {
	Shard  string
	Status int   // 0 when no answer came
	Err    error // nil when an answer came
	Took   time.Duration
}

// Engine routes requests by the rules of this package. It is safe for concurrent use.
type Engine struct {
	config Config
	places places
	routes routes
	health *health
}

// New checks a configuration. After that, serving cannot meet a broken one.
func New(c Config) (*Engine, error) {
	rs, err := newRoutes(c.Routes)
	if err != nil {
		return nil, err
	}
	for _, r := range rs {
		if c.Transports[r.via] == nil {
			return nil, fmt.Errorf("routes go via %s, for which there is no transport", r.via)
		}
	}
	if c.Cell == "" || c.Entries == nil || c.Topologies == nil || c.Keys == nil || c.Timeout <= 0 {
		return nil, errors.New("a router needs a cell, entries, topologies, placement keys and a time limit")
	}
	if c.LookUp < 0 {
		return nil, fmt.Errorf("%v to look a tenant up: want more than nothing", c.LookUp)
	}
	if c.LookUp == 0 {
		c.LookUp = defaultLookUp
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Pick == nil {
		c.Pick = rand.IntN
	}
	if c.Observe == nil {
		c.Observe = func(Outcome) {}
	}
	c.Transports = maps.Clone(c.Transports)
	return &Engine{config: c, places: newPlaces(c), routes: rs, health: newHealth(c.Now, c.Pick)}, nil
}

// Serve answers one request of a tenant, whose id the caller took from a verified token; "" means that
// there was none. It always answers; what no shard answered is a problem document (RFC 9457).
func (e *Engine) Serve(ctx context.Context, tenant string, req *Request) *Response {
	ctx, cancel := context.WithTimeout(ctx, e.config.Timeout)
	defer cancel()
	s := serving{Engine: e, out: Outcome{Tenant: tenant}, req: req}
	resp := s.serve(ctx)
	s.out.Status = resp.Status
	e.config.Observe(s.out)
	return resp
}

// serving is one request on its way.
type serving struct {
	*Engine
	req        *Request
	via        Transport
	repeatable bool // whether it may be sent again when nobody knows what the first sending did
	out        Outcome
}

func (s *serving) serve(ctx context.Context) *Response {
	if !directory.ValidTenant(s.out.Tenant) {
		return s.refuse(http.StatusUnauthorized, "a verified token that names one tenant is needed", nil)
	}
	via, err := s.routes.match(s.req.Method, s.req.Path)
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
	case len(s.req.Body) > MaxBody:
		return s.refuse(http.StatusRequestEntityTooLarge, "the body is larger than 6 MB", ErrTooLarge)
	}
	s.via = s.config.Transports[via]
	// A job that is queued twice is done twice, by two shards, at any time: whether that is harmless, only
	// its consumer could tell.
	s.repeatable = idempotent(s.req.Method) && via != ViaQueue

	entry, refusal := s.look(ctx)
	if refusal != nil {
		return refusal
	}
	order, refusal := s.order(ctx, entry)
	if refusal != nil {
		return refusal
	}
	first := s.attempt(ctx, entry, order[0], s.repeatable && len(order) > 1)
	if !first.failed() || !s.repeatable && !first.noEffect() || ctx.Err() != nil {
		return s.answer(first)
	}
	order = order[1:]
	if first.misdirected() {
		// The shard knows better where the tenant lives. Only a higher epoch is news.
		if fresh, err := s.follow(ctx, entry.Epoch); err == nil && fresh.Epoch > entry.Epoch {
			if refusal = s.admit(fresh); refusal != nil {
				return refusal
			}
			if order, refusal = s.order(ctx, fresh); refusal != nil {
				return refusal
			}
			entry = fresh
		}
	}
	if len(order) == 0 {
		return s.answer(first)
	}
	return s.answer(s.attempt(ctx, entry, order[0], false))
}

// look reads the tenant's entry, and refuses whoever is not served here.
func (s *serving) look(ctx context.Context) (directory.Entry, *Response) {
	entry, err := s.note(s.config.Entries.Entry(ctx, s.out.Tenant))
	switch {
	case errors.Is(err, directory.ErrNotFound):
		return entry, s.refuse(http.StatusNotFound, "this tenant is not known here", err)
	case err != nil:
		return entry, s.refuse(http.StatusServiceUnavailable, "the tenant could not be looked up; nothing was done", err).retryAfter(1)
	}
	return entry, s.admit(entry)
}

// follow reads the entry anew after a shard refused the tenant at the epoch than.
func (s *serving) follow(ctx context.Context, than uint64) (directory.Entry, error) {
	return s.note(s.config.Entries.Fresh(ctx, s.out.Tenant, than))
}

// note remembers for the operators how an entry came to be known.
func (s *serving) note(k Known, err error) (directory.Entry, error) {
	s.out.MayBeStale = k.Stale
	if k.ReplicaErr != nil {
		s.out.ReplicaErr = k.ReplicaErr
	}
	if k.HomeErr != nil {
		s.out.HomeErr = k.HomeErr
	}
	return k.Entry, err
}

// admit says whether a tenant with this entry is served here; nil when it is.
func (s *serving) admit(entry directory.Entry) *Response {
	switch {
	case entry.Cell != s.config.Cell:
		// The same words as for a tenant that is nowhere: where it lives is no business of the asker.
		return s.refuse(http.StatusNotFound, "this tenant is not known here", fmt.Errorf("tenant lives in cell %q", entry.Cell))
	case entry.State == directory.Placing:
		return s.refuse(http.StatusServiceUnavailable, "this tenant is being set up; nothing was done",
			errors.New("tenant is placing")).retryAfter(2)
	case entry.State == directory.Moving && !safe(s.req.Method):
		return s.refuse(http.StatusServiceUnavailable, "writes are held for a moment; nothing was done",
			errors.New("tenant is moving")).retryAfter(2)
	case entry.State != directory.Active && entry.State != directory.Moving:
		return s.refuse(http.StatusForbidden, "this tenant is suspended", fmt.Errorf("tenant is %q", entry.State))
	}
	return nil
}

// order returns the members of the entry's subset, at least one, in the order in which to ask them.
func (s *serving) order(ctx context.Context, entry directory.Entry) ([]string, *Response) {
	members, err := s.places.subset(ctx, entry)
	switch {
	case errors.Is(err, directory.ErrInvalid), errors.Is(err, directory.ErrKey):
		// Asking again does not help: the entry names what its topology does not have, or the cell was given
		// another placement key than the topology's, by which the tenant would be looked for where it is not.
		return nil, s.refuse(http.StatusServiceUnavailable, "the tenant cannot be served at the moment; nothing was done", err)
	case err != nil:
		return nil, s.refuse(http.StatusServiceUnavailable, "the tenant's place could not be looked up; nothing was done", err).retryAfter(1)
	}
	return s.health.order(members, s.repeatable), nil
}

// refuse answers without having asked a shard, or having asked in vain.
func (s *serving) refuse(status int, detail string, why error) *Response {
	if why == nil {
		why = errors.New(detail)
	}
	s.out.Err = why
	return Problem(status, detail)
}

// idempotent says whether a method may be repeated without another effect (RFC 9110, section 9.2.2).
// TRACE, which is too, never comes this far.
func idempotent(method string) bool {
	return safe(method) || method == http.MethodPut || method == http.MethodDelete
}

// safe says whether a method only reads (RFC 9110, section 9.2.1).
func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	}
	return false
}
