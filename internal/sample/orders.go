package sample

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"cellwall.dev/cellwall/lambda/shardkit"
)

// create stores an order under a new id. Repeated without an Idempotency-Key it makes another one.
func (s *service) create(w http.ResponseWriter, r *http.Request) {
	value, ok := body(w, r, maxItem)
	if !ok {
		return
	}
	name := strings.ToLower(rand.Text())
	// A string encodes.
	text, _ := json.Marshal(map[string]string{"id": name})
	answer := shardkit.Answer{
		Status: http.StatusCreated, Body: append(text, '\n'),
		Header: http.Header{"Location": {"/orders/" + name}, "Content-Type": {"application/json"}, "Etag": {etag(value)}},
	}
	if err := s.commit(w, r, answer, shardkit.Write{Key: orders + name, Value: value, Absent: true}); err != nil {
		shardkit.Fail(w, err)
	}
}

func (s *service) put(w http.ResponseWriter, r *http.Request) {
	key, ok := named(w, r, orders)
	if !ok {
		return
	}
	value, ok := body(w, r, maxItem)
	if !ok {
		return
	}
	answer := shardkit.Answer{Status: http.StatusNoContent, Header: http.Header{"Etag": {etag(value)}}}
	s.change(w, r, answer, shardkit.Write{Key: key, Value: value})
}

func (s *service) remove(w http.ResponseWriter, r *http.Request) {
	if key, ok := named(w, r, orders); ok {
		s.change(w, r, done, shardkit.Write{Key: key, Delete: true})
	}
}

// change writes an order as the request's preconditions want it (RFC 9110, sections 13.1.1 and 13.1.2).
func (s *service) change(w http.ResponseWriter, r *http.Request, a shardkit.Answer, write shardkit.Write) {
	write.Absent = r.Header.Get("If-None-Match") == "*" && !write.Delete
	if match := r.Header.Get("If-Match"); match != "" {
		value, found, err := shardkit.From(r.Context()).Get(r.Context(), write.Key)
		switch {
		case err != nil:
			s.log.Error("store failed", "err", err)
			shardkit.Fail(w, err)
			return
		case !found || write.Absent || match != "*" && !names(match, value):
			refusePrecondition(w)
			return
		}
		write.Was = value
	}
	switch err := s.commit(w, r, a, write); {
	case errors.Is(err, shardkit.ErrChanged):
		refusePrecondition(w)
	case err != nil:
		shardkit.Fail(w, err)
	}
}

func refusePrecondition(w http.ResponseWriter) {
	refuse(w, http.StatusPreconditionFailed, "the order is not as the request wants it to be; nothing was done")
}

// get answers with what is under an id.
func (s *service) get(kind, media string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key, ok := named(w, r, kind)
		if !ok {
			return
		}
		value, found, err := shardkit.From(r.Context()).Get(r.Context(), key)
		switch {
		case err != nil:
			s.log.Error("store failed", "err", err)
			shardkit.Fail(w, err)
		case !found:
			refuse(w, http.StatusNotFound, "there is nothing under this id")
		default:
			w.Header().Set("Etag", etag(value))
			if names(r.Header.Get("If-None-Match"), value) {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			w.Header().Set("Content-Type", media)
			w.Write(value)
		}
	}
}

func (s *service) list(kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		keys, err := shardkit.From(r.Context()).List(r.Context(), kind)
		if err != nil {
			s.log.Error("store failed", "err", err)
			shardkit.Fail(w, err)
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

func etag(value []byte) string {
	sum := sha256.Sum256(value)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// names says whether a list of entity tags has that of the value.
func names(tags string, value []byte) bool {
	for tag := range strings.SplitSeq(tags, ",") {
		if strings.TrimSpace(tag) == etag(value) {
			return true
		}
	}
	return false
}
