package localcell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"cellwall.dev/cellwall/internal/adapter/boltdir"
	"cellwall.dev/cellwall/internal/adapter/boltitems"
	"cellwall.dev/cellwall/internal/adapter/httpdir"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/localcell/loopback"
	"cellwall.dev/cellwall/internal/localcell/proc"
)

// The first file that a process of the cell inherits beside its standard streams.
const firstInherited = 3

// storeSecrets say who may do what at the store's address.
type storeSecrets struct {
	Workers  string `json:"workers"`  // items
	Router   string `json:"router"`   // reads of what it serves from
	Operator string `json:"operator"` // everything
}

// RunStore is the store process: it serves the directory and the cell's items on the listener that it
// inherited, until ctx ends.
func RunStore(ctx context.Context, d Dir) (err error) {
	var secrets storeSecrets
	if err := d.readJSON(fileStore, &secrets); err != nil {
		return fmt.Errorf("the store's settings: %w", err)
	}
	listener, err := inheritListener(firstInherited)
	if err != nil {
		return err
	}
	home, err := boltdir.Open(d.file(fileDirectory))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, home.Close()) }()
	if _, err := directory.Open(ctx, home); err != nil { // one of a newer version is left alone
		return err
	}
	items, err := boltitems.Open(d.file(fileItems))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, items.Close()) }()
	return loopback.Serve(ctx, listener, storeHandler(home, items, secrets))
}

func inheritListener(fd int) (net.Listener, error) {
	file := proc.Inherited(fd, "listener")
	if file == nil {
		return nil, proc.ErrUnsupported
	}
	defer file.Close() // FileListener has a copy
	l, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("file %d is no listener; `cellwall local up` starts this process: %w", fd, err)
	}
	return l, nil
}

// storeHandler lets the operator do everything, the router read what it serves from, and workers use
// items.
func storeHandler(home directory.Home, items *boltitems.Items, secrets storeSecrets) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/v1/directory/", loopback.By(map[string]http.Handler{
		secrets.Operator: httpdir.HomeHandler(home),
		secrets.Router:   httpdir.ServingHandler(home),
	}))
	mux.Handle("/v1/holds/", loopback.Require(httpdir.HoldsHandler(items.Holds()), secrets.Operator))
	mux.Handle("/v1/items", loopback.Require(itemsHandler(items), secrets.Workers, secrets.Operator))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return loopback.Only(mux)
}

// itemsHandler is the cell's store over HTTP:
//
//	PUT /v1/items?pk=P&sk=S   the body becomes the item; 204 once it is on disk
//	GET /v1/items?pk=P&sk=S   200 with the item, or 404
//	GET /v1/items?pk=P        200 with a JSON list of up to 1,000 sort keys, those after &after=S
func itemsHandler(items *boltitems.Items) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /v1/items", func(w http.ResponseWriter, r *http.Request) {
		value, err := io.ReadAll(http.MaxBytesReader(w, r.Body, boltitems.MaxValue+1))
		var tooLarge *http.MaxBytesError
		switch {
		case errors.As(err, &tooLarge):
			loopback.Fail(w, http.StatusRequestEntityTooLarge, fmt.Errorf("an item has at most %d bytes", boltitems.MaxValue))
			return
		case err != nil: // half a body is no item
			loopback.Fail(w, http.StatusBadRequest, err)
			return
		}
		q := r.URL.Query()
		if err := items.Put(r.Context(), q.Get("pk"), q.Get("sk"), value); err != nil {
			failItem(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /v1/items", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if !q.Has("sk") {
			keys, err := items.List(r.Context(), q.Get("pk"), q.Get("after"))
			if err != nil {
				failItem(w, err)
				return
			}
			loopback.Answer(w, http.StatusOK, keys)
			return
		}
		value, err := items.Get(r.Context(), q.Get("pk"), q.Get("sk"))
		if err != nil {
			failItem(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		// Past the header an error can only be a client that has gone.
		_, _ = w.Write(value)
	})
	return mux
}

func failItem(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, boltitems.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, boltitems.ErrInvalid):
		status = http.StatusBadRequest
	}
	loopback.Fail(w, status, err)
}
