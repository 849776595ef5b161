package routing

import (
	"errors"
	"net/http"
	"strings"
)

// HeaderIdempotencyKey is how a client names a request that it may send again
// (draft-ietf-httpapi-idempotency-key-header).
const HeaderIdempotencyKey = "Idempotency-Key"

// maxKey bounds an Idempotency-Key, in bytes, of a quoted one between its quotes.
const maxKey = 255

var (
	errKeySeveral   = errors.New("several Idempotency-Keys stand at the request; one is needed")
	errKeyStays     = errors.New("the Idempotency-Key would not reach the service: its name is spelled with an underscore, or Connection names it")
	errKeyMalformed = errors.New(`the Idempotency-Key is not one key of 1 to 255 ASCII characters: in quotes, such as "8e03978e-40d5-43dd-bc93-6894a57f9324", or bare, then without spaces, quotes and commas`)
)

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

// preconditioned says whether a request may depend on the state that it finds (RFC 9110, section 13.1): by If-Match,
// If-None-Match, If-Unmodified-Since, or what others named like them, as WebDAV's If.
func preconditioned(h http.Header) bool {
	for name := range h {
		if len(name) >= 2 && name[0]|0x20 == 'i' && name[1]|0x20 == 'f' && (len(name) == 2 || name[2] == '-') {
			return true
		}
	}
	return false
}

// takesKey says for which methods the draft defines an Idempotency-Key: those that it makes repeatable.
func takesKey(method string) bool { return method == http.MethodPost || method == http.MethodPatch }

// keyed says whether a request carries an Idempotency-Key. What is not exactly one is an error, rather than no
// key: its sender counts on being able to repeat. So is one that does not travel on to the shard, which would
// execute each sending.
func keyed(h http.Header) (bool, error) {
	found, stays := "", false
	n := 0
	for name, values := range h {
		if len(name) == len(HeaderIdempotencyKey) && fold(name) == foldedKey && len(values) > 0 {
			n += len(values)
			found = values[0]
			stays = stays || !strings.EqualFold(name, HeaderIdempotencyKey)
		}
	}
	switch {
	case n == 0:
		return false, nil
	case n > 1:
		return false, errKeySeveral
	case !validKey(found):
		return false, errKeyMalformed
	case stays || connectionOptions(h)[foldedKey]:
		return false, errKeyStays
	}
	return true, nil
}

// foldedKey is HeaderIdempotencyKey, folded.
const foldedKey = "idempotency-key"

// validKey says whether a field value is one key: quoted, or bare as most clients send it. They are two keys, even
// with the same characters, since services compare values byte for byte.
func validKey(value string) bool {
	key := strings.Trim(value, " \t")
	return bareKey(key) || quotedKey(key)
}

// bareKey says whether a key is one of visible ASCII characters. A comma may be what joined two headers, and a quote
// begins what only looks like a quoted key.
func bareKey(key string) bool {
	for i := 0; i < len(key); i++ {
		if c := key[i]; c <= ' ' || c > '~' || c == '"' || c == ',' {
			return false
		}
	}
	return 0 < len(key) && len(key) <= maxKey
}

// quotedKey says whether a key is one string of structured fields (RFC 9651, section 3.3.3) without parameters, of
// which the draft defines none.
func quotedKey(key string) bool {
	if len(key) < 3 || len(key) > maxKey+2 || key[0] != '"' || key[len(key)-1] != '"' {
		return false
	}
	key = key[1 : len(key)-1]
	for i := 0; i < len(key); i++ {
		switch c := key[i]; {
		case c < ' ' || c > '~' || c == '"':
			return false
		case c == '\\':
			if i++; i == len(key) || key[i] != '"' && key[i] != '\\' {
				return false
			}
		}
	}
	return true
}

// setRepeatable decides whether the request may be sent again when nobody knows what a sending of it did. A job
// that is queued twice is done twice, by two shards, at any time: whether that is harmless, only its consumer
// could tell. A write with a precondition is done once, but its repeat finds the precondition broken by the first
// sending, and says 412 of what was done; with a key's record, it gives the first one's answer.
func (s *serving) setRepeatable() error {
	queued := s.route.via == ViaQueue
	conditional := !safe(s.req.Method) && preconditioned(s.req.Header)
	s.repeatable = idempotent(s.req.Method) && !conditional && !queued
	if !s.config.IdempotencyKeys || !takesKey(s.req.Method) && !(conditional && idempotent(s.req.Method)) {
		return nil
	}
	has, err := keyed(s.req.Header)
	s.keyed = has
	s.repeatable = has && !queued
	return err
}

// again says whether after this attempt the request may be sent once more, as far as its effect goes.
func (s *serving) again(a attempt) bool {
	return a.failed() && (s.repeatable || a.noEffect()) || a.wrong() && s.repeatable
}
