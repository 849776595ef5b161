package shardkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
)

// Config is what a Guard is made of. Only Items is needed.
type Config struct {
	Items  Items        // of this shard
	Shard  string       // this shard's id; "" takes requests for any
	Secret string       // what Cellwall-Secret must hold, where others than the router can connect; "" for none
	Log    *slog.Logger // default slog.Default()
}

// Guard lets the requests through that are this shard's business.
type Guard struct{ c Config }

// NewGuard returns the guard of a shard.
func NewGuard(c Config) (*Guard, error) {
	if c.Items == nil {
		return nil, errors.New("a guard needs the store that says whom its shard holds")
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return &Guard{c}, nil
}

// Wrap returns a handler that asks next for what is this shard's business, with the tenant in the
// request's context, and refuses the rest: 403 what the router did not send, 401 what names no tenant,
// 421 what is another shard's or out of date, 503 when the store does not say.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.c.Secret != "" && !shows(r.Header, g.c.Secret) {
			refuse(w, http.StatusForbidden, "only the router may ask")
			return
		}
		c, err := parseCall(r.Header)
		if err != nil {
			refuse(w, http.StatusUnauthorized, err.Error())
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
			g.c.Log.Error("the store does not say whom this shard holds", "err", err)
			refuse(w, http.StatusServiceUnavailable, "the store did not answer; nothing was done")
		case !held || since > c.epoch:
			g.c.Log.Info("request for a tenant that this shard does not hold", "held", held, "since", since, "epoch", c.epoch)
			Fail(w, ErrNotHeld)
		default:
			t := &Tenant{call: c, items: g.c.Items}
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), contextKey{}, t)))
		}
	})
}

type contextKey struct{}

// From returns the tenant of a request that a Guard let through, and nil for any other.
func From(ctx context.Context) *Tenant {
	t, _ := ctx.Value(contextKey{}).(*Tenant)
	return t
}

// Tenant is who a request is from, and the way to that tenant's state. It is safe for concurrent use,
// and of no use after the request.
type Tenant struct {
	call
	items Items
	done  atomic.Int64 // writes that are done, may be, or are on their way
}

// ID is the tenant's id.
func (t *Tenant) ID() string { return t.tenant }

// Epoch is the epoch of the request.
func (t *Tenant) Epoch() uint64 { return t.epoch }

// Get returns what the tenant has under the key.
func (t *Tenant) Get(ctx context.Context, key string) (value []byte, found bool, err error) {
	return t.items.Get(ctx, t.tenant, key)
}

// List returns the tenant's keys that begin with the prefix, in byte order. Those that say who holds the
// tenant are not among them.
func (t *Tenant) List(ctx context.Context, prefix string) ([]string, error) {
	return t.items.List(ctx, t.tenant, prefix)
}

// Write does all of the writes or none, in one transaction, provided that the shard still holds the
// tenant at an epoch that is not above the request's. ErrNotHeld when not, or ErrLetGo when the request
// wrote before, or may have; ErrInvalid as Check says. After another error they may be done or not.
func (t *Tenant) Write(ctx context.Context, writes ...Write) error {
	if err := Check(writes...); err != nil {
		return err
	}
	t.done.Add(1)
	err := t.items.Write(ctx, t.tenant, t.epoch, writes...)
	if !errors.Is(err, ErrNotHeld) && !errors.Is(err, ErrInvalid) {
		return err
	}
	if t.done.Add(-1) > 0 && errors.Is(err, ErrNotHeld) {
		return fmt.Errorf("%w: it may have taken effect in part", ErrLetGo)
	}
	return err
}

// Fail answers a request whose Write, Get or List failed: 421 for ErrNotHeld, upon which the router asks
// where the tenant is now; 400 for ErrInvalid; 503 for all else, since another shard of the tenant may
// reach the store.
func Fail(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, ErrNotHeld):
		refuse(w, http.StatusMisdirectedRequest, "the tenant is not here; nothing was done")
	case errors.Is(err, ErrInvalid):
		refuse(w, http.StatusBadRequest, "the request cannot be stored; nothing was done")
	case errors.Is(err, ErrLetGo):
		refuse(w, http.StatusServiceUnavailable, "the tenant moved on; the request may have taken effect in part")
	default:
		refuse(w, http.StatusServiceUnavailable, "the store did not answer")
	}
}

// refuse answers with a problem document (RFC 9457).
func refuse(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// Past the header an error can only be a client that has gone.
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": detail})
}
