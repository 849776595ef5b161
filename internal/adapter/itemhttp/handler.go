package itemhttp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// Backend is the store of a cell, for all of its shards.
type Backend interface {
	// Held is that of directory.Holder.
	Held(ctx context.Context, cell, shard, tenant string) (directory.Holding, bool, error)
	// Get is that of shardkit.Items.
	Get(ctx context.Context, tenant, key string) (value []byte, found bool, err error)
	// List returns some of the tenant's keys that begin with the prefix and come after the given one, in
	// byte order; none when there are no more.
	List(ctx context.Context, tenant, prefix, after string) ([]string, error)
	// Write is that of shardkit.Items, for a shard of a cell.
	Write(ctx context.Context, cell, shard string, h directory.Holding, writes ...shardkit.Write) error
}

// maxTransaction bounds the body of a write: values stand in base64.
const maxTransaction = 2 * (shardkit.MaxTotal + shardkit.MaxValue) // bytes

// Handler serves the paths of this package.
func Handler(store Backend) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathItem, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		value, found, err := store.Get(r.Context(), q.Get("tenant"), q.Get("key"))
		answer(w, found, value, err)
	})
	mux.HandleFunc("GET "+pathKeys, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		keys, err := store.List(r.Context(), q.Get("tenant"), q.Get("prefix"), q.Get("after"))
		text := []byte("[]")
		if err == nil && len(keys) > 0 {
			text, err = json.Marshal(keys)
		}
		answer(w, true, text, err)
	})
	mux.HandleFunc("GET "+pathHeld, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		h, held, err := store.Held(r.Context(), q.Get("cell"), q.Get("shard"), q.Get("tenant"))
		answer(w, held, strconv.AppendUint(nil, h.Epoch, 10), err)
	})
	mux.HandleFunc("POST "+pathWrite, func(w http.ResponseWriter, r *http.Request) {
		var tx transaction
		// Half a body is no transaction: the decoder wants all of it.
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxTransaction))
		if err == nil {
			err = json.Unmarshal(body, &tx)
		}
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		err = store.Write(r.Context(), tx.Cell, tx.Shard, directory.Holding{Tenant: tx.Tenant, Epoch: tx.Epoch}, tx.Writes...)
		switch {
		case errors.Is(err, shardkit.ErrNotHeld):
			w.WriteHeader(http.StatusMisdirectedRequest)
		case errors.Is(err, shardkit.ErrChanged):
			w.WriteHeader(http.StatusConflict)
		case errors.Is(err, shardkit.ErrInvalid):
			w.WriteHeader(http.StatusBadRequest)
		case err != nil:
			w.WriteHeader(http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
	return mux
}

func answer(w http.ResponseWriter, found bool, body []byte, err error) {
	switch {
	case err != nil:
		w.WriteHeader(http.StatusInternalServerError)
	case !found:
		w.WriteHeader(http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		// Past the header an error can only be a client that has gone.
		_, _ = w.Write(body)
	}
}
