// Package sample is the small service that cellwall ships: orders, which are documents kept per tenant, jobs that
// work on them, and messages from tenant to tenant. Tests and the local cell run it, in a Lambda slice, on
// an instance and behind a queue; its handler is the same in all three.
//
// It shows how a service uses the shard kit: the kit says who asks, refuses whom this shard does not hold,
// has each request take effect at most once, in one transaction with the condition that the shard still
// holds the tenant, and acknowledges it only after the store has it.
package sample

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"

	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// Config is what the service is made of. Only the items are needed.
type Config struct {
	Items    shardkit.Items
	Shard    string            // this shard's id; a request meant for another one gets 421
	Secret   string            // what cellwall-secret must hold, where others than the router can connect; "" for none
	Dispatch shardkit.Dispatch // where messages to other tenants go; nil: they are refused
	// Poison, when set, is what POST /poison does: it is meant to kill the process.
	Poison func()
	Log    *slog.Logger // default slog.Default()
}

// Bounds of what is stored, in bytes: of an order and a job's result, and of a message, which is stored in
// base64.
const (
	maxItem    = 350 << 10
	maxMessage = 250 << 10
)

// id is what names an order, a job or a message.
var id = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// service is the handler's state.
type service struct{ log *slog.Logger }

// New returns the service:
//
//	GET    /healthz           200 while the process runs; asks nobody
//	POST   /orders            stores the body under an id of the service's, 201 with its Location
//	PUT    /orders/{id}       stores the body, 204; heeds If-Match and If-None-Match: *
//	GET    /orders/{id}       the stored body with its ETag, or 404; heeds If-None-Match
//	DELETE /orders/{id}       204, whether there was one or not; heeds If-Match
//	GET    /orders            the ids of the tenant's orders, a JSON list
//	POST   /jobs/{id}         does a job: stores the body as its result, 204; with ?append={order} it also
//	                          appends the body to that order, once however often the job is delivered
//	GET    /jobs/{id}         the result, or 404
//	POST   /messages/{tenant} sends the body to another tenant, 202 with the job's id
//	POST   /inbox             takes a message, from a queue only, 204
//	GET    /inbox             the ids of the messages that came, a JSON list
//	GET    /inbox/{id}        a message: {"from": tenant, "body": base64}
//	POST   /poison            kills the process, where that is switched on; else 404
//	POST   /cellwall/tick     a schedule of the fleet is due, of which the service has nothing to do but to say so in its
//	                          log; 404 to tenants
//
// All but /healthz and the tick stand behind a shardkit.Guard, so that an Idempotency-Key holds for all that change
// something.
func New(c Config) (http.Handler, error) {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	guard, err := shardkit.NewGuard(shardkit.Config{Items: c.Items, Shard: c.Shard, Secret: c.Secret, Dispatch: c.Dispatch, Log: c.Log})
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
	handle("POST /orders", s.create)
	handle("PUT /orders/{id}", s.put)
	handle("GET /orders/{id}", s.get(orders, binary))
	handle("DELETE /orders/{id}", s.remove)
	handle("GET /orders", s.list(orders))
	handle("POST /jobs/{id}", s.work)
	handle("GET /jobs/{id}", s.get(jobs, binary))
	handle("POST /messages/{tenant}", s.send)
	handle("POST /inbox", s.receive)
	handle("GET /inbox", s.list(inbox))
	handle("GET /inbox/{id}", s.get(inbox, "application/json"))
	mux.Handle("POST "+shardkit.TickPath, guard.Ticks(s.tick))
	if c.Poison != nil {
		handle("POST /poison", func(http.ResponseWriter, *http.Request) { c.Poison() })
	}
	return mux, nil
}

// binary is the media type of what a client stored: nobody else knows what it is.
const binary = "application/octet-stream"

// Kinds of items, which begin their keys.
const (
	orders = "ORDER#"
	jobs   = "JOB#"
	inbox  = "INBOX#"
)

// commit has the request take effect, and logs why it did not.
func (s *service) commit(w http.ResponseWriter, r *http.Request, a shardkit.Answer, writes ...shardkit.Write) error {
	err := shardkit.From(r.Context()).Commit(r.Context(), w, a, writes...)
	if err != nil {
		s.log.Error("request failed", "method", r.Method, "err", err)
	}
	return err
}

// done is the answer to what needs no other.
var done = shardkit.Answer{Status: http.StatusNoContent}

// body reads what came with the request, up to a number of bytes.
func body(w http.ResponseWriter, r *http.Request, most int64) ([]byte, bool) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d KiB", most>>10))
	case err != nil:
		refuse(w, http.StatusBadRequest, "the body could not be read")
	}
	return b, err == nil
}

// named is the key of what the request's path names.
func named(w http.ResponseWriter, r *http.Request, kind string) (key string, ok bool) {
	return keyOf(w, r.PathValue("id"), kind)
}

func keyOf(w http.ResponseWriter, name, kind string) (key string, ok bool) {
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
