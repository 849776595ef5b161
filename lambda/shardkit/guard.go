package shardkit

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"time"
)

// Config is what a Guard is made of. Only Items is needed.
type Config struct {
	Items  Items        // of this shard
	Shard  string       // this shard's id; "" takes requests for any
	Secret string       // what Cellwall-Secret must hold, where others than the router can connect; "" for none
	Log    *slog.Logger // default slog.Default()

	// Keep is how long an idempotency record is kept, at least a minute; default 24 hours. That of a job is
	// kept for 15 days at least, since it may come again, from the dead letters, for 14.
	Keep time.Duration
	// MaxBody is the largest body of a request with an idempotency key, which is read before the service
	// is asked, in bytes; default 6 MiB, as much as invokes a Lambda function.
	MaxBody int64
	// Dispatch has a job placed by the cell's router; see Tenant.Send.
	Dispatch Dispatch
	Now      func() time.Time // default time.Now
}

// Guard lets the requests through that are this shard's business, each as often as it may take effect.
type Guard struct {
	c Config
	f flights
}

// NewGuard returns the guard of a shard.
func NewGuard(c Config) (*Guard, error) {
	if c.Items == nil {
		return nil, errors.New("a guard needs the store that says whom its shard holds")
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Keep == 0 {
		c.Keep = keepRequests
	}
	if c.MaxBody == 0 {
		c.MaxBody = 6 << 20
	}
	if c.Keep < time.Minute || c.MaxBody < 0 {
		return nil, errors.New("a guard keeps idempotency records for a minute at least, and no body is smaller than nothing")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Guard{c: c}, nil
}

// Wrap returns a handler that asks next for what is this shard's business, with the tenant in the
// request's context, and refuses the rest: 504 what comes after its deadline, 403 what the router did not
// send, 401 what names no tenant, 421 what is another shard's or out of date, 503 when the store does not say.
// The request's context ends at the deadline, when the router asks elsewhere.
//
// A request with an idempotency key that took effect before is answered as it was then, without asking next;
// 422 when the key was another request's, 409 with Retry-After while this process is at it.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, end := g.admit(w, r)
		if r == nil {
			return
		}
		defer end()
		c, err := parseCall(r.Header)
		if err != nil {
			refuseAsker(w, http.StatusUnauthorized, err.Error())
			return
		}
		if g.c.Shard != "" && c.shard != g.c.Shard {
			g.c.Log.Warn("request for another shard", "meant", c.shard, "here", g.c.Shard)
			refuse(w, http.StatusMisdirectedRequest, "the request is meant for another shard")
			return
		}
		since, held, err := g.c.Items.Held(r.Context(), c.tenant)
		switch {
		case err != nil:
			g.unanswered(w, err)
		case held && since > c.epoch:
			g.c.Log.Info("request from before the tenant came", "since", since, "epoch", c.epoch)
			Fail(w, &notHeldError{since})
		case !held:
			g.c.Log.Info("request for a tenant that this shard does not hold", "epoch", c.epoch)
			Fail(w, ErrNotHeld)
		default:
			g.serve(next, w, r, c)
		}
	})
}

// admit looks at what is no matter of a tenant: deadline and secret. It returns the request, whose context ends at
// the deadline, and what gives that up; nil when it has refused it.
func (g *Guard) admit(w http.ResponseWriter, r *http.Request) (admitted *http.Request, end func()) {
	deadline, ok := parseDeadline(r.Header)
	switch {
	case !ok:
		refuseAsker(w, http.StatusBadRequest, "the deadline could not be read; nothing was done")
		return nil, nil
	case !deadline.IsZero() && !g.c.Now().Before(deadline):
		refuse(w, http.StatusGatewayTimeout, "the request came after its deadline; nothing was done")
		return nil, nil
	case g.c.Secret != "" && !shows(r.Header, g.c.Secret):
		refuseAsker(w, http.StatusForbidden, "only the router may ask")
		return nil, nil
	case deadline.IsZero():
		return r, func() {}
	}
	ctx, cancel := context.WithDeadline(r.Context(), deadline)
	return r.WithContext(ctx), cancel
}

// refuseAsker refuses for what a router would have said otherwise.
func refuseAsker(w http.ResponseWriter, status int, detail string) {
	w.Header().Set(HeaderGuard, guardRefused)
	refuse(w, status, detail)
}

const guardRefused = "refused"

func (g *Guard) unanswered(w http.ResponseWriter, err error) {
	g.c.Log.Error("the store does not answer", "err", err)
	refuse(w, http.StatusServiceUnavailable, "the store did not answer; nothing was done")
}

// serve answers what is this shard's business.
func (g *Guard) serve(next http.Handler, w http.ResponseWriter, r *http.Request, c call) {
	o, status, detail := onceOf(w, r, c, g.c.MaxBody, g.c.Keep)
	if status != 0 {
		refuse(w, status, detail)
		return
	}
	if o != nil {
		end, other := g.f.begin(c.tenant, o)
		switch {
		case end != nil:
			defer end()
		case other != o.request:
			refuseReuse(w)
			return
		default:
			w.Header().Set("Retry-After", retryAfter)
			refuse(w, http.StatusConflict, "a request with this Idempotency-Key is under way")
			return
		}
		before, err := o.recorded(r.Context(), g.c.Items, c.tenant)
		switch {
		case err != nil:
			g.unanswered(w, err)
			return
		case before != nil:
			o.replay(w, before)
			return
		}
	}
	out := &writer{ResponseWriter: w}
	t := &Tenant{call: c, g: g, once: o, out: out, header: r.Header}
	if o != nil {
		around := w.Header().Clone()
		out.instead = func() bool { return !t.committing() && g.unrefuse(w, r, t, around) }
	}
	next.ServeHTTP(out, r.WithContext(context.WithValue(r.Context(), contextKey{}, t)))
	if err := t.failure(); err != nil && !out.begun.Load() {
		// The service said nothing of it, and silence would be 200.
		Fail(out, err)
	}
}

// unrefuse answers a request that the service refuses as an execution of it was answered that took effect meanwhile, in
// another process whose router had given up: the refusal would be for what that one did, as of a precondition that it
// broke. around are the headers that whoever is around the guard set.
func (g *Guard) unrefuse(w http.ResponseWriter, r *http.Request, t *Tenant, around http.Header) bool {
	before, err := t.once.recorded(r.Context(), g.c.Items, t.tenant)
	if err == nil && before == nil {
		return false
	}
	clear(w.Header())
	maps.Copy(w.Header(), around)
	if err != nil {
		g.c.Log.Error("the store does not answer", "err", err)
		refuse(w, http.StatusServiceUnavailable, "the store did not answer")
		return true
	}
	t.once.replay(w, before)
	return true
}
