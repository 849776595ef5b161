// Package httpdir carries the directory over HTTP: Handler serves a directory.Store, Client is one. They
// stand together because they are the two ends of one wire format. Whom to let in is the caller's task.
package httpdir

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"cellwall.dev/cellwall/internal/directory"
)

const (
	pathEntry   = "/v1/directory/entry"   // GET ?tenant=
	pathCreate  = "/v1/directory/create"  // POST entry
	pathReplace = "/v1/directory/replace" // POST ?expect= entry
	pathList    = "/v1/directory/list"    // GET ?after=&limit=

	maxPage  = 1000     // entries in one answer
	maxEntry = 64 << 10 // bytes of one entry as JSON
)

// fault is the body of every answer that is no success. Code names the directory's error.
type fault struct {
	Code  string `json:"code,omitempty"`
	Error string `json:"error"`
}

// The directory's errors on the wire.
var codes = []struct {
	code   string
	status int
	err    error
}{
	{"not-found", http.StatusNotFound, directory.ErrNotFound},
	{"exists", http.StatusConflict, directory.ErrExists},
	{"stale", http.StatusConflict, directory.ErrStale},
	{"invalid", http.StatusBadRequest, directory.ErrInvalid},
}

// errQuery is a request that the client of this package does not send.
var errQuery = errors.New("not a valid request")

// Handler serves the paths under /v1/directory/.
func Handler(store directory.Store) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathEntry, func(w http.ResponseWriter, r *http.Request) {
		e, err := store.Get(r.Context(), r.URL.Query().Get("tenant"))
		answer(w, e, err)
	})
	mux.HandleFunc("POST "+pathCreate, func(w http.ResponseWriter, r *http.Request) {
		e, err := body(w, r)
		if err == nil {
			e, err = store.Create(r.Context(), e)
		}
		answer(w, e, err)
	})
	mux.HandleFunc("POST "+pathReplace, func(w http.ResponseWriter, r *http.Request) {
		expect, err := strconv.ParseUint(r.URL.Query().Get("expect"), 10, 64)
		if err != nil {
			answer(w, nil, fmt.Errorf("%w: expect: %w", errQuery, err))
			return
		}
		e, err := body(w, r)
		if err == nil {
			e, err = store.CompareAndSet(r.Context(), expect, e)
		}
		answer(w, e, err)
	})
	mux.HandleFunc("GET "+pathList, func(w http.ResponseWriter, r *http.Request) {
		limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
		if err != nil || limit < 1 || limit > maxPage {
			answer(w, nil, fmt.Errorf("%w: limit %q: want 1 to %d", errQuery, r.URL.Query().Get("limit"), maxPage))
			return
		}
		entries, err := store.List(r.Context(), r.URL.Query().Get("after"), limit)
		answer(w, entries, err)
	})
	return mux
}

func body(w http.ResponseWriter, r *http.Request) (directory.Entry, error) {
	var e directory.Entry
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxEntry)).Decode(&e); err != nil {
		return e, fmt.Errorf("%w: the body is no entry: %w", errQuery, err)
	}
	return e, nil
}

func answer(w http.ResponseWriter, value any, err error) {
	status := http.StatusOK
	if err != nil {
		f := fault{Error: err.Error()}
		status = http.StatusInternalServerError
		if errors.Is(err, errQuery) {
			status = http.StatusBadRequest
		}
		for _, c := range codes {
			if errors.Is(err, c.err) {
				f.Code, status = c.code, c.status
				break
			}
		}
		value = f
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// Past the header an error can only be a client that has gone.
	_ = json.NewEncoder(w).Encode(value)
}
