// Package sample is the small service that cellwall ships: orders, kept per tenant, and jobs. Tests and
// the local cell run it, in a Lambda slice, on an instance and behind a queue; its handler is the same
// in all three.
//
// It shows how a service uses the shard kit: the kit says who asks, refuses whom this shard does not hold,
// and makes each write one transaction with the condition that it still does. A write is acknowledged only
// after the store has it.
package sample

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"

	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// Config is what the service is made of. Only the items are needed.
type Config struct {
	Items  shardkit.Items
	Shard  string // this shard's id; a request meant for another one gets 421
	Secret string // what cellwall-secret must hold, where others than the router can connect; "" for none
	// Poison, when set, is what POST /poison does: it is meant to kill the process.
	Poison func()
	Log    *slog.Logger // default slog.Default()
}

// maxItem bounds an order and a job's result, in bytes.
const maxItem = 350 << 10

// id is what names an order or a job.
var id = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// service is the handler's state.
type service struct{ log *slog.Logger }

// New returns the service:
//
//	GET  /healthz       200 while the process runs; asks nobody
//	PUT  /orders/{id}   stores the body, 204
//	GET  /orders/{id}   the stored body, or 404
//	GET  /orders        the ids of the tenant's orders, a JSON list
//	POST /jobs/{id}     does a job: stores the body as its result, 204
//	GET  /jobs/{id}     the result, or 404
//	POST /poison        kills the process, where that is switched on; else 404
//
// All but /healthz stand behind a shardkit.Guard.
func New(c Config) (http.Handler, error) {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	guard, err := shardkit.NewGuard(shardkit.Config{Items: c.Items, Shard: c.Shard, Secret: c.Secret, Log: c.Log})
	if err != nil {
		return nil, err
	}
	s := &service{c.Log}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, "ok\n")
	})
	handle := func(pattern string, h http.HandlerFunc) { mux.Handle(pattern, guard.Wrap(h)) }
	handle("PUT /orders/{id}", s.put("ORDER#"))
	handle("GET /orders/{id}", s.get("ORDER#"))
	handle("GET /orders", s.list("ORDER#"))
	handle("POST /jobs/{id}", s.put("JOB#"))
	handle("GET /jobs/{id}", s.get("JOB#"))
	if c.Poison != nil {
		handle("POST /poison", func(http.ResponseWriter, *http.Request) { c.Poison() })
	}
	return mux, nil
}

func (s *service) put(kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key, ok := itemKey(w, r, kind)
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
		if err := shardkit.From(r.Context()).Write(r.Context(), shardkit.Write{Key: key, Value: body}); err != nil {
			s.failed(w, "put", err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *service) get(kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key, ok := itemKey(w, r, kind)
		if !ok {
			return
		}
		value, found, err := shardkit.From(r.Context()).Get(r.Context(), key)
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

func (s *service) list(kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		keys, err := shardkit.From(r.Context()).List(r.Context(), kind)
		if err != nil {
			s.failed(w, "list", err)
			return
		}
		ids := []string{}
		for _, key := range keys {
			ids = append(ids, strings.TrimPrefix(key, kind))
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(ids)
	}
}

// failed answers that the store did not do it.
func (s *service) failed(w http.ResponseWriter, doing string, err error) {
	s.log.Error("store failed", "doing", doing, "err", err)
	shardkit.Fail(w, err)
}

func itemKey(w http.ResponseWriter, r *http.Request, kind string) (key string, ok bool) {
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
