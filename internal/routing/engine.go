package routing

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing/health"
	"cellwall.dev/cellwall/internal/routing/limit"
	"cellwall.dev/cellwall/internal/routing/poison"
)

// Config is what an Engine is made of. The first seven fields are needed.
type Config struct {
	Cell       string               // the cell that this router belongs to
	Entries    Entries              // asked for every request
	Topologies Topologies           // asked once for each version that an entry names
	Keys       directory.Keys       // asked once for each topology that computes a subset
	Routes     []Route              // the first that matches wins
	Transports map[string]Transport // by Route.Via
	Timeout    time.Duration        // for one request that is there whole until its answer begins, all attempts together

	// Cells is the form of a fleet's front door: a tenant is sent to the cell that its entry names, and what the
	// entry says beyond that is that cell's to judge. Cell, Topologies and Keys stay empty, every route goes via
	// ViaCell, and nothing is repeated but what a cell refused as another's.
	Cells bool

	// AttemptTimeout is for one attempt at one shard, where its route says nothing else; 0 is Timeout. An attempt
	// that another may follow has no more than its share of what is left.
	AttemptTimeout time.Duration

	State State // where the service's state lives; "" is StateNone
	// IdempotencyKeys says that the service writes the record of an Idempotency-Key in the transaction of the
	// effect, in a store that every member of a subset reaches. Not with StateHome.
	IdempotencyKeys bool

	// Single is the form of a router that serves one request at a time and forgets, as a Lambda environment does.
	// A request is repeated once at most, and Budget is not asked.
	Single bool

	// Health is the record of the shards by way (Route.Via), for a shard whose slice throttles has a queue as good
	// as ever; one that is missing is made.
	Health map[string]*health.Tracker

	// How much is let through. Of these, nil is the usual budget (20 % of the requests under way, at least 3), and
	// no limit.
	Budget  *limit.Budget
	Tenants *limit.Tenants // of one tenant
	Shed    *limit.Shed    // of the whole router
	Fanouts *limit.Fanout  // of routes with fan-out
	Shards  *limit.Shards  // at one shard
	Poison  *poison.Watch  // whose requests are not repeated

	// LookUp is the time for one reading of a topology or of a key, 1 s by default. A directory that hangs
	// must not hold what other requests wait for. Entries look to their time themselves.
	LookUp time.Duration

	Now     func() time.Time // default time.Now
	Pick    func(n int) int  // a number from 0 to n-1, to spread load with; default random
	NewID   func() string    // of a request whose client gave none; default 26 random characters
	Observe func(Outcome)    // told of each request when its answer begins; default nobody
}

// defaultLookUp is ample: a consistent read takes milliseconds, and a new connection to another region a
// few round trips.
const defaultLookUp = time.Second

// The retry budget of a router that serves many at once.
const (
	budgetRatio = 0.2
	budgetFloor = 3
)

// Outcome is what became of one request, for logs and metrics of the operators. It names shards and must
// not reach a tenant.
type Outcome struct {
	RequestID string // as the shard and the client were told
	TraceID   string // of the client's traceparent, "" without one
	Tenant    string
	Method    string
	Route     string // the Path of the Route; "" when none matched
	Fanout    bool   // every member was asked
	Status    int    // as answered to the client
	Attempts  []Attempt
	Fallbacks int   // attempts that followed one which failed
	Err       error // why the engine itself refused or gave up; nil when a shard's answer was passed on
	Took      time.Duration

	// Left says that the client left before there was an answer for it. Whatever Status and Err say then, nobody
	// failed and nobody was told.
	Left bool

	// Poisoned says that the tenant is suspected of taking down who serves it, so that it was not sent to another.
	Poisoned bool

	Age   time.Duration // of what was known of the tenant
	Stale bool          // Known.Stale of the tenant's entry
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
	Left   bool // no answer came, since the client left; it says nothing of the shard
}

// Engine routes requests by the rules of this package. It is safe for concurrent use.
type Engine struct {
	config Config
	places places
	routes routes
}

// New checks a configuration. After that, serving cannot meet a broken one.
func New(c Config) (*Engine, error) {
	rs, err := newRoutes(c.Routes)
	if err != nil {
		return nil, err
	}
	for _, r := range rs {
		if (r.via == ViaCell) != c.Cells {
			return nil, fmt.Errorf("route %q goes via %s: a front door's go via %s, and a cell's do not", r.path, r.via, ViaCell)
		}
		if c.Transports[r.via] == nil {
			return nil, fmt.Errorf("routes go via %s, for which there is no transport", r.via)
		}
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	c = c.complete()
	return &Engine{config: c, places: newPlaces(c), routes: rs}, nil
}

func (c Config) check() error {
	switch {
	case c.Cells && (c.Entries == nil || c.Timeout <= 0):
		return errors.New("a front door needs entries and a time limit")
	case c.Cells && (c.Cell != "" || c.Topologies != nil || c.Keys != nil || c.State != "" || c.IdempotencyKeys):
		return errors.New("a front door has no cell, topologies, placement keys or state of its own")
	case !c.Cells && (c.Cell == "" || c.Entries == nil || c.Topologies == nil || c.Keys == nil || c.Timeout <= 0):
		return errors.New("a router needs a cell, entries, topologies, placement keys and a time limit")
	case c.LookUp < 0:
		return fmt.Errorf("%v to look a tenant up: want more than nothing", c.LookUp)
	case c.AttemptTimeout < 0:
		return fmt.Errorf("%v for one attempt: want more than nothing", c.AttemptTimeout)
	case c.State != "" && c.State != StateNone && c.State != StateCell && c.State != StateHome:
		return fmt.Errorf("state %q: want %s, %s or %s", c.State, StateNone, StateCell, StateHome)
	case c.State == StateHome && c.IdempotencyKeys:
		return errors.New("idempotency keys with state home: another member does not reach the record, so nothing may be repeated there; use state cell or none")
	}
	return nil
}

// complete puts the defaults in.
func (c Config) complete() Config {
	if c.LookUp == 0 {
		c.LookUp = defaultLookUp
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Pick == nil {
		c.Pick = mathrand.IntN
	}
	if c.NewID == nil {
		c.NewID = rand.Text
	}
	if c.Observe == nil {
		c.Observe = func(Outcome) {}
	}
	given := c.Health
	c.Health = map[string]*health.Tracker{}
	for via := range c.Transports {
		if c.Health[via] = given[via]; c.Health[via] == nil {
			c.Health[via] = health.New(health.Config{Now: c.Now, Pick: c.Pick, Lambda: c.Single, Queue: via == ViaQueue})
		}
	}
	if c.Budget == nil {
		c.Budget = limit.NewBudget(budgetRatio, budgetFloor)
	}
	c.Transports = maps.Clone(c.Transports)
	return c
}

// Serve answers one request of a tenant, whose id the caller took from a verified token; "" means that
// there was none. It always answers; what no shard answered is a problem document (RFC 9457). An answer with
// a Stream counts as under way until that is closed.
func (e *Engine) Serve(ctx context.Context, tenant string, req *Request) *Response {
	start := e.config.Now()
	s := &serving{Engine: e, req: req}
	s.out = Outcome{Tenant: tenant, Method: req.Method, RequestID: RequestID(req.Header), TraceID: traceID(req.Header), Attempts: s.room[:0]}
	if s.out.RequestID == "" {
		s.out.RequestID = e.config.NewID()
	}
	s.id[0] = s.out.RequestID
	resp := s.serve(ctx)
	s.applied(resp)
	resp.Header[HeaderRequestID] = s.id[:]
	s.out.Status, s.out.Took = resp.Status, e.config.Now().Sub(start)
	s.out.Left = s.out.Err != nil && errors.Is(ctx.Err(), context.Canceled)
	e.config.Observe(s.out)
	return resp
}

// serving is one request on its way.
type serving struct {
	*Engine
	req   *Request
	until time.Time // when its answer has to begin
	route route
	key   string // of its resource, with StateHome
	keyed bool   // it has an Idempotency-Key that says something

	queuedByWish bool // of the client, where the route says otherwise

	ticket     limit.Ticket
	repeats    int
	repeatable bool // it may be sent again when nobody knows what the first sending did
	maybeDone  bool // a sending that failed may have taken effect
	looks      int  // readings of the entry
	memo       *Memo
	memoOf     uint64 // the epoch of whose entry it is

	header http.Header // what the shards get of the client's
	out    Outcome

	id      [1]string  // the value of X-Request-Id
	room    [2]Attempt // of most requests
	members [4]string  // of most subsets, in order
}

// end is when the answer to a request that is there now has to begin.
func (e *Engine) end(ctx context.Context) time.Time {
	end := time.Now().Add(e.config.Timeout)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		return deadline
	}
	return end
}

// left is how much time the request still has.
func (s *serving) left() time.Duration { return time.Until(s.until) }
