package sample

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"cellwall.dev/cellwall/lambda/shardkit"
)

// tries is how often a job reads its order again because another changed it meanwhile.
const tries = 5

// work does a job. Its result and what it does to an order are one transaction, and the record that it is done
// another part of it: a queue delivers a job again when it does not know how it ended.
func (s *service) work(w http.ResponseWriter, r *http.Request) {
	key, ok := named(w, r, jobs)
	if !ok {
		return
	}
	value, ok := body(w, r, maxItem)
	if !ok {
		return
	}
	result := shardkit.Write{Key: key, Value: value}
	if !r.URL.Query().Has("append") {
		if err := s.commit(w, r, done, result); err != nil {
			shardkit.Fail(w, err)
		}
		return
	}
	order, ok := keyOf(w, r.URL.Query().Get("append"), orders)
	if !ok {
		return
	}
	for range tries {
		was, found, err := shardkit.From(r.Context()).Get(r.Context(), order)
		switch {
		case err != nil:
			s.log.Error("store failed", "err", err)
			shardkit.Fail(w, err)
			return
		case !found:
			refuse(w, http.StatusNotFound, "there is no such order")
			return
		case len(was)+len(value) > maxItem:
			refuse(w, http.StatusRequestEntityTooLarge, "the order would be larger than 350 KB")
			return
		}
		longer := append(append(make([]byte, 0, len(was)+len(value)), was...), value...)
		switch err := s.commit(w, r, done, result, shardkit.Write{Key: order, Value: longer, Was: was}); {
		case errors.Is(err, shardkit.ErrChanged):
		case err != nil:
			shardkit.Fail(w, err)
			return
		default:
			return
		}
	}
	w.Header().Set("Retry-After", "1")
	refuse(w, http.StatusServiceUnavailable, "others keep changing the order; nothing was done")
}

// send sends a message to a tenant, wherever that one is: the cell's router finds it.
func (s *service) send(w http.ResponseWriter, r *http.Request) {
	value, ok := body(w, r, maxMessage)
	if !ok {
		return
	}
	message := shardkit.Message{Path: "/inbox", ContentType: r.Header.Get("Content-Type"), Body: value}
	job, err := shardkit.From(r.Context()).Send(r.Context(), r.PathValue("tenant"), message)
	switch {
	case errors.Is(err, shardkit.ErrJob):
		refuse(w, http.StatusBadRequest, "the message cannot be sent")
		return
	case errors.Is(err, shardkit.ErrNoDispatch):
		refuse(w, http.StatusNotImplemented, "this cell has no dispatch queue")
		return
	case errors.Is(err, shardkit.ErrHops):
		shardkit.Fail(w, err)
		return
	case err != nil:
		s.log.Error("message not sent", "err", err)
		refuse(w, http.StatusServiceUnavailable, "the message may not have been sent")
		return
	}
	// A string encodes.
	text, _ := json.Marshal(map[string]string{"job": job})
	answer := shardkit.Answer{Status: http.StatusAccepted, Header: http.Header{"Content-Type": {"application/json"}}, Body: append(text, '\n')}
	if err := s.commit(w, r, answer); err != nil {
		shardkit.Fail(w, err)
	}
}

// letter is a message as it is stored, and read.
type letter struct {
	From string `json:"from"`
	Body []byte `json:"body"`
}

// receive takes a message. A client cannot ask for it: its request is no job.
func (s *service) receive(w http.ResponseWriter, r *http.Request) {
	t := shardkit.From(r.Context())
	if t.Sender() == "" {
		refuse(w, http.StatusForbidden, "messages come from tenants, through /messages")
		return
	}
	value, ok := body(w, r, maxMessage)
	if !ok {
		return
	}
	// Strings and bytes encode.
	text, _ := json.Marshal(letter{t.Sender(), value})
	if err := s.commit(w, r, done, shardkit.Write{Key: inbox + t.Job(), Value: text}); err != nil {
		shardkit.Fail(w, err)
	}
}

// tick says that a schedule is due. All state here is some tenant's, which a tick has none of: a service that has
// something to do at night sends its tenants jobs from here (shardkit.Tick.Send).
func (s *service) tick(_ context.Context, t shardkit.Tick) error {
	s.log.Info("schedule is due", "schedule", t.Name, "shard", t.Shard, "due", t.Due)
	return nil
}
