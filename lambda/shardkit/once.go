package shardkit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// HeaderIdempotencyKey names a request whose repetitions count once
// (draft-ietf-httpapi-idempotency-key-header). Its value, quotes included, is the key, compared byte for byte: 1 to
// 257 bytes of printable ASCII. A router lets clients' keys through that are strings in quotes, as the draft has it,
// or bare without spaces, quotes and commas; the kit takes any. It is heeded with every method but GET, HEAD,
// OPTIONS and TRACE.
const HeaderIdempotencyKey = "Idempotency-Key"

// HeaderReplayed, with the value true, marks an answer that was recorded when the request's effect was
// made, and is given again.
const HeaderReplayed = "Idempotency-Replayed"

const maxIdempotencyKey = 257 // bytes: 255 in quotes

// retryAfter is when a client should ask again for a request that is under way, in seconds.
const retryAfter = "1"

// How long a record is kept. A job waits in a queue for 7 days, and with the time among the dead letters for 14, which SQS
// counts from when it was sent: as long as it can come again, by a delivery or by somebody's hand.
const (
	keepRequests = 24 * time.Hour
	keepJobs     = 15 * 24 * time.Hour
)

// once is a request's idempotency key, and what it is bound to.
type once struct {
	key     string // of the record
	request string // SHA-256 of method, path and body, hexadecimal
	keep    time.Duration
}

// record is what is kept of a request that took effect, as JSON.
type record struct {
	Request string      `json:"request"`
	Status  int         `json:"status"`
	Header  http.Header `json:"header,omitempty"`
	Body    []byte      `json:"body,omitempty"`
}

// write is the record that an effect is made with, and never without.
func (o *once) write(a Answer, now time.Time) (Write, error) {
	value, err := json.Marshal(record{o.request, a.Status, a.Header, a.Body})
	if err != nil {
		return Write{}, fmt.Errorf("write the answer down: %w", err)
	}
	return Write{Key: o.key, Value: value, Absent: true, Expires: now.Add(o.keep).Unix()}, nil
}

// recorded returns what is kept of an earlier request with the key; nil when there was none.
func (o *once) recorded(ctx context.Context, items Items, tenant string) (*record, error) {
	value, found, err := items.Get(ctx, tenant, o.key)
	if err != nil || !found {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(value, &r); err != nil || r.Status < 200 || r.Status > 499 {
		return nil, fmt.Errorf("the idempotency record %s cannot be read: %w", o.key, errors.Join(err, errRecord))
	}
	return &r, nil
}

var errRecord = errors.New("it is no answer")

// replay answers as the record says, or that the key is another request's.
func (o *once) replay(w http.ResponseWriter, r *record) {
	if r.Request != o.request {
		refuseReuse(w)
		return
	}
	w.Header().Set(HeaderReplayed, "true")
	Answer{r.Status, r.Header, r.Body}.write(w)
}

func refuseReuse(w http.ResponseWriter) {
	refuse(w, http.StatusUnprocessableEntity, "the Idempotency-Key was used for another request; nothing was done")
}

// onceOf reads the key of a request, and its body to the end, which it gives back to the request. nil when
// the request has no key, or needs none. status is 0, or what to refuse the request with.
func onceOf(w http.ResponseWriter, r *http.Request, c call, maxBody int64, keep time.Duration) (o *once, status int, detail string) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return nil, 0, ""
	}
	all := r.Header.Values(HeaderIdempotencyKey)
	if len(all) == 0 {
		return nil, 0, ""
	}
	key := strings.Trim(all[0], " \t") // not every server does
	if len(all) > 1 || !validIdempotencyKey(key) {
		return nil, http.StatusBadRequest, "the Idempotency-Key is not one text of 1 to 257 printable characters; nothing was done"
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, http.StatusRequestEntityTooLarge, "the body is too large; nothing was done"
	case err != nil:
		return nil, http.StatusBadRequest, "the body could not be read; nothing was done"
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if c.job != "" {
		keep = max(keep, keepJobs)
	}
	return &once{recordKey(key), fingerprint(r.Method, r.URL.EscapedPath(), r.URL.RawQuery, body), keep}, 0, ""
}

func validIdempotencyKey(key string) bool {
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return false
		}
	}
	return key != "" && len(key) <= maxIdempotencyKey
}

// recordKey is the key under which a tenant's record lies.
func recordKey(key string) string { return Records + hashed(key) }

// fingerprint is what a key is bound to: SHA-256, in hexadecimal, of the method, the path, the query and the
// SHA-256 of the body in hexadecimal, each but the last followed by a line feed, of which none has one.
func fingerprint(method, path, query string, body []byte) string {
	of := sha256.Sum256(body)
	sum := sha256.Sum256([]byte(method + "\n" + path + "\n" + query + "\n" + hex.EncodeToString(of[:])))
	return hex.EncodeToString(sum[:])
}

// hashed is the name of what is too long or too strange for a name: lower-case base32 of its SHA-256 without
// padding, 52 characters.
func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
}

// flights are the requests with a key that are under way in this process.
type flights struct {
	mu sync.Mutex
	on map[[2]string]string // tenant and record → request
}

// begin says whether the request is the only one with its key. If so, end is called when it is over; if not,
// request is the one that is under way.
func (f *flights) begin(tenant string, o *once) (end func(), request string) {
	at := [2]string{tenant, o.key}
	f.mu.Lock()
	defer f.mu.Unlock()
	if request, busy := f.on[at]; busy {
		return nil, request
	}
	if f.on == nil {
		f.on = map[[2]string]string{}
	}
	f.on[at] = o.request
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.on, at)
	}, ""
}
