package shardkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"unicode/utf8"
)

// Answer is what a request is answered with once its effect is durable. Where the request has an idempotency key,
// it is recorded with the effect, and a repeat of the request gets it again: all of it, and nothing that
// was set on the http.ResponseWriter beside it.
type Answer struct {
	Status int // 200 to 499, without 421, which says that nothing was done
	Header http.Header
	Body   []byte
}

// Limits of an Answer, which keep it within one record. They hold with and without an idempotency key, so
// that the first test of a service finds what is too large, and not the first client that sends a key. An
// answer with more belongs behind a Location.
const (
	MaxAnswer       = 256 << 10 // bytes of the body
	MaxAnswerHeader = 8 << 10   // bytes of the headers' names and values
)

// ErrAnswer means that an Answer is none, a mistake in the service. Nothing was done. It comes wrapped.
var ErrAnswer = errors.New("not a valid answer")

func (a Answer) check() error {
	size := 0
	for name, values := range a.Header {
		for _, value := range values {
			size += len(name) + len(value)
			if !printable(name) || !printable(value) || !utf8.ValidString(value) {
				return fmt.Errorf("%w: the answer's header %q cannot be sent", ErrAnswer, name)
			}
		}
	}
	switch {
	case a.Status < 200 || a.Status > 499 || a.Status == http.StatusMisdirectedRequest:
		return fmt.Errorf("%w: an answer of status %d to something that is done: want 200 to 499 and not 421", ErrAnswer, a.Status)
	case len(a.Body) > MaxAnswer:
		return fmt.Errorf("%w: an answer of %d bytes: want at most %d; answer with a Location instead", ErrAnswer, len(a.Body), MaxAnswer)
	case size > MaxAnswerHeader:
		return fmt.Errorf("%w: an answer with %d bytes of headers: want at most %d", ErrAnswer, size, MaxAnswerHeader)
	case len(a.Body) > 0 && (a.Status == http.StatusNoContent || a.Status == http.StatusNotModified):
		return fmt.Errorf("%w: an answer of status %d has no body", ErrAnswer, a.Status)
	}
	return nil
}

func (a Answer) write(w http.ResponseWriter) {
	for name, values := range a.Header {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	w.WriteHeader(a.Status)
	// Past the header an error can only be a client that has gone.
	_, _ = w.Write(a.Body)
}

// printable says whether a text can stand in a header: no control byte but the tab.
func printable(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// Fail answers a request whose Commit, Get, List or Send failed: 421 for ErrNotHeld, upon which the router
// asks where the tenant is now; 409 for ErrChanged; 400 for ErrInvalid; 500 for ErrEnded and ErrAnswer, mistakes in
// the service; 503 for all else, since another shard of the tenant may reach the store. Where an answer has
// begun, that one stands.
func Fail(w http.ResponseWriter, err error) {
	var late *notHeldError
	switch {
	case begun(w):
	case errors.As(err, &late):
		w.Header().Set(HeaderEpoch, strconv.FormatUint(late.since, 10))
		fallthrough
	case errors.Is(err, ErrNotHeld):
		refuse(w, http.StatusMisdirectedRequest, "the tenant is not here; nothing was done")
	case errors.Is(err, ErrChanged):
		refuse(w, http.StatusConflict, "what this was to change is not as it was to be; nothing was done")
	case errors.Is(err, ErrInvalid):
		refuse(w, http.StatusBadRequest, "the request cannot be stored; nothing was done")
	case errors.Is(err, ErrEnded):
		refuse(w, http.StatusInternalServerError, "the service failed; the request may have taken effect")
	case errors.Is(err, ErrAnswer):
		refuse(w, http.StatusInternalServerError, "the service failed; nothing was done")
	case errors.Is(err, ErrHops): // of a job, which comes again, and is among the dead letters then
		refuse(w, http.StatusLoopDetected, "jobs have led to jobs too many times; nothing more was sent")
	default:
		refuse(w, http.StatusServiceUnavailable, "the store did not answer")
	}
}

// notHeldError is ErrNotHeld of a shard that holds the tenant since a later epoch than the request's.
type notHeldError struct{ since uint64 }

func (e *notHeldError) Error() string {
	return fmt.Sprintf("%v: it does since epoch %d", ErrNotHeld, e.since)
}
func (e *notHeldError) Unwrap() error { return ErrNotHeld }

// refuse answers with a problem document (RFC 9457).
func refuse(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// Past the header an error can only be a client that has gone.
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": detail})
}
