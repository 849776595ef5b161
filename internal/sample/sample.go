// Package sample is the small service that cellwall ships: orders, kept per tenant, and jobs. Tests and
// the local cell run it, in a Lambda slice, on an instance and behind a queue; its handler is the same
// in all three.
//
// The tenant comes from the cellwall-tenant header alone, which nobody but the router can set. A write
// is acknowledged only after the store has it.
package sample

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"regexp"

	"cellwall.dev/cellwall/internal/routing"
)

// Store keeps items by two keys, as a DynamoDB table does. It is safe for concurrent use.
type Store interface {
	// Put writes an item, over an older one, and returns nil only when it is durable. It writes nothing
	// when ctx is over before the write begins.
	Put(ctx context.Context, pk, sk string, value []byte) error
	// Get returns an item; found is false when there is none.
	Get(ctx context.Context, pk, sk string) (value []byte, found bool, err error)
	// List returns the sort keys under pk, in byte order.
	List(ctx context.Context, pk string) ([]string, error)
}

// Config is what the service is made of. Only the store is needed.
type Config struct {
	Store  Store
	Shard  string // this shard's id; a request meant for another one gets 421
	Secret string // what cellwall-secret must hold, where others than the router can connect; "" for none
	// Poison, when set, is what POST /poison does: it is meant to kill the process.
	Poison func()
	Log    *slog.Logger // default slog.Default()
}

// HeaderSecret proves, where a network does not, that a request comes from the router.
const HeaderSecret = "Cellwall-Secret"

// maxItem keeps an item with its keys below DynamoDB's 400 KB.
const maxItem = 350 << 10

// id is what names an order or a job.
var id = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// service is the handler's state.
type service struct{ Config }

// New returns the service:
//
//	GET  /healthz       200 while the process runs; asks nobody
//	PUT  /orders/{id}   stores the body, 204
//	GET  /orders/{id}   the stored body, or 404
//	GET  /orders        the ids of the tenant's orders, a JSON list
//	POST /jobs/{id}     does a job: stores the body as its result, 204
//	GET  /jobs/{id}     the result, or 404
//	POST /poison        kills the process, where that is switched on; else 404
func New(c Config) http.Handler {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	s := &service{c}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("PUT /orders/{id}", s.tenant(s.put("ORDER#")))
	mux.HandleFunc("GET /orders/{id}", s.tenant(s.get("ORDER#")))
	mux.HandleFunc("GET /orders", s.tenant(s.list("ORDER#")))
	mux.HandleFunc("POST /jobs/{id}", s.tenant(s.put("JOB#")))
	mux.HandleFunc("GET /jobs/{id}", s.tenant(s.get("JOB#")))
	if c.Poison != nil {
		mux.HandleFunc("POST /poison", s.tenant(func(http.ResponseWriter, *http.Request, string) { c.Poison() }))
	}
	return mux
}

// tenant lets through what the router sent for this shard, and names the tenant.
func (s *service) tenant(next func(w http.ResponseWriter, r *http.Request, tenant string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.Secret != "" && subtle.ConstantTimeCompare([]byte(r.Header.Get(HeaderSecret)), []byte(s.Secret)) != 1 {
			refuse(w, http.StatusForbidden, "only the router may ask")
			return
		}
		tenants := r.Header.Values(routing.HeaderTenant)
		if len(tenants) != 1 {
			refuse(w, http.StatusUnauthorized, "the request names no tenant")
			return
		}
		tenant, err := routing.DecodeTenant(tenants[0])
		if err != nil {
			refuse(w, http.StatusUnauthorized, "the request names no valid tenant")
			return
		}
		if meant := r.Header.Get(routing.HeaderShard); s.Shard != "" && meant != s.Shard {
			s.Log.Warn("request for another shard", "meant", meant, "here", s.Shard)
			refuse(w, http.StatusMisdirectedRequest, "the request is meant for another shard")
			return
		}
		next(w, r, tenant)
	}
}

func (s *service) put(kind string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, r *http.Request, tenant string) {
		sk, ok := sortKey(w, r, kind)
		if !ok {
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxItem))
		if err != nil {
			var tooLarge *http.MaxBytesError
			if errors.As(err, &tooLarge) {
				refuse(w, http.StatusRequestEntityTooLarge, "the body is larger than 350 KB")
				return
			}
			refuse(w, http.StatusBadRequest, "the body could not be read")
			return
		}
		if err := s.Store.Put(r.Context(), partition(tenant), sk, body); err != nil {
			s.failed(w, "put", err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *service) get(kind string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, r *http.Request, tenant string) {
		sk, ok := sortKey(w, r, kind)
		if !ok {
			return
		}
		value, found, err := s.Store.Get(r.Context(), partition(tenant), sk)
		switch {
		case err != nil:
			s.failed(w, "get", err)
		case !found:
			refuse(w, http.StatusNotFound, "there is nothing under this id")
		default:
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Write(value)
		}
	}
}

func (s *service) list(kind string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, r *http.Request, tenant string) {
		keys, err := s.Store.List(r.Context(), partition(tenant))
		if err != nil {
			s.failed(w, "list", err)
			return
		}
		ids := []string{}
		for _, sk := range keys {
			if len(sk) > len(kind) && sk[:len(kind)] == kind {
				ids = append(ids, sk[len(kind):])
			}
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(ids)
	}
}

// failed answers that the store did not do it. 503 and not 500: another member of the subset may well
// reach the store.
func (s *service) failed(w http.ResponseWriter, doing string, err error) {
	s.Log.Error("store failed", "doing", doing, "err", err)
	refuse(w, http.StatusServiceUnavailable, "the store did not answer")
}

// partition is a tenant's own partition. The prefix keeps tenants apart from whatever else a table holds.
func partition(tenant string) string { return "TENANT#" + tenant }

func sortKey(w http.ResponseWriter, r *http.Request, kind string) (sk string, ok bool) {
	name := r.PathValue("id")
	if !id.MatchString(name) {
		refuse(w, http.StatusBadRequest, "an id is 1 to 64 letters, digits, dots, hyphens and underscores")
		return "", false
	}
	return kind + name, true
}

func refuse(w http.ResponseWriter, status int, detail string) {
	resp := routing.Problem(status, detail)
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.Status)
	w.Write(resp.Body)
}
