package httpdir

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"cellwall.dev/cellwall/internal/directory"
)

// HomeHandler serves a home under /v1/directory/.
func HomeHandler(home directory.Home) http.Handler {
	mux := readers(home, func(directory.Key) bool { return true })
	mux.HandleFunc("POST "+pathWrite, handle(func(ctx context.Context, in writeRequest) (struct{}, error) {
		b := directory.Batch{Operation: in.Operation, Ops: make([]directory.Op, len(in.Ops))}
		for i, o := range in.Ops {
			b.Ops[i] = directory.Op{Key: o.key(), Expect: o.Expect, Put: o.Put, Body: o.Body, Index: o.Index, Deltas: o.Deltas}
		}
		return struct{}{}, home.Write(ctx, b)
	}))
	return mux
}

// ServingHandler serves what a router needs of a home under /v1/directory/, and nothing else: reads of
// entries, topologies and the format, and the feed of their changes.
func ServingHandler(home directory.Home) http.Handler {
	mux := readers(home, func(k directory.Key) bool { return directory.Announced(k) || k.Family() == "FORMAT" })
	mux.HandleFunc("POST "+pathWrite, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, nil, fmt.Errorf("%w: changes are the operator's", errHidden))
	})
	return mux
}

// readers serves the reads of keys that may be seen.
func readers(home directory.Home, visible func(directory.Key) bool) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pathRead, handle(func(ctx context.Context, in readRequest) (records, error) {
		if len(in.Keys) > maxKeys {
			return records{}, fmt.Errorf("%w: %d keys: want at most %d", errRequest, len(in.Keys), maxKeys)
		}
		keys := make([]directory.Key, len(in.Keys))
		for i, k := range in.Keys {
			if keys[i] = k.key(); !visible(keys[i]) {
				return records{}, fmt.Errorf("%w: %v", errHidden, keys[i])
			}
		}
		list, err := home.Read(ctx, in.Consistency, keys...)
		return records{Records: toWireRecords(list)}, err
	}))
	mux.HandleFunc("POST "+pathList, handle(func(ctx context.Context, in listRequest) (records, error) {
		if !visible(directory.Key{Sort: in.Family}) {
			return records{}, fmt.Errorf("%w: %s", errHidden, in.Family)
		}
		r := directory.Range{Family: in.Family, Part: in.Part, Index: in.Index, Value: in.Value}
		list, err := home.List(ctx, r, in.After.key(), min(in.Limit, maxPage))
		return page(list, in.Limit), err
	}))
	mux.HandleFunc("POST "+pathChanges, handle(func(ctx context.Context, in changesRequest) (records, error) {
		// A page of changes may be short without being the last, so that this limit needs no word to the client.
		list, next, err := home.Changes(ctx, in.After, min(in.Limit, maxKeys))
		return records{Records: toWireRecords(list), Next: next}, err
	}))
	return mux
}

// page cuts a listing where it becomes too long for one answer, and says when the asker should go on.
func page(list []directory.Record, limit int) records {
	size := 0
	for i, r := range list {
		if size += len(r.Body); size > fullPage {
			return records{Records: toWireRecords(list[:i+1]), More: i+1 < limit}
		}
	}
	return records{Records: toWireRecords(list), More: len(list) == maxPage && limit > maxPage}
}

// HoldsHandler serves the shards' holdings under /v1/holds/.
func HoldsHandler(h directory.ManyHolder) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pathHold, handle(func(ctx context.Context, in holdsRequest) (struct{}, error) {
		return struct{}{}, h.HoldMany(ctx, in.Cell, in.Shard, in.Holdings)
	}))
	mux.HandleFunc("POST "+pathRelease, handle(func(ctx context.Context, in holdsRequest) (struct{}, error) {
		for _, one := range in.Holdings {
			if err := h.Release(ctx, in.Cell, in.Shard, one); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	}))
	mux.HandleFunc("POST "+pathForget, handle(func(ctx context.Context, in holdsRequest) (struct{}, error) {
		forgetter, ok := h.(directory.Forgetter)
		if !ok {
			return struct{}{}, fmt.Errorf("%w: these shards cannot forget", errRequest)
		}
		for _, one := range in.Holdings {
			if err := forgetter.Forget(ctx, in.Cell, in.Shard, one); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	}))
	mux.HandleFunc("POST "+pathHeld, handle(func(ctx context.Context, in holdsRequest) (holdings, error) {
		one, ok, err := h.Held(ctx, in.Cell, in.Shard, in.Tenant)
		if !ok {
			return holdings{}, err
		}
		return holdings{[]directory.Holding{one}}, err
	}))
	mux.HandleFunc("POST "+pathHoldings, handle(func(ctx context.Context, in holdsRequest) (holdings, error) {
		list, err := h.Holdings(ctx, in.Cell, in.Shard, in.After, min(in.Limit, maxPage))
		return holdings{list}, err
	}))
	return mux
}

// handle turns a function into a handler of JSON.
func handle[In, Out any](f func(context.Context, In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&in); err != nil {
			answer(w, nil, fmt.Errorf("%w: %w", errRequest, err))
			return
		}
		out, err := f(r.Context(), in)
		answer(w, out, err)
	}
}
