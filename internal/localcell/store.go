package localcell

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"cellwall.dev/cellwall/internal/adapter/boltdir"
	"cellwall.dev/cellwall/internal/adapter/boltitems"
	"cellwall.dev/cellwall/internal/adapter/httpdir"
	"cellwall.dev/cellwall/internal/adapter/itemhttp"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/handler"
	"cellwall.dev/cellwall/internal/localcell/jobqueue"
	"cellwall.dev/cellwall/internal/localcell/loopback"
	"cellwall.dev/cellwall/internal/localcell/proc"
)

// The first file that a process of the cell inherits beside its standard streams.
const firstInherited = 3

// storeSecrets say who may do what at the addresses of the directory and the store.
type storeSecrets struct {
	Workers  string `json:"workers"`  // tenants' state
	Router   string `json:"router"`   // reads of what it serves from
	Operator string `json:"operator"` // everything
}

// RunDirectory is the directory process: it serves the tenant directory on the listener that it inherited, until
// ctx ends.
func RunDirectory(ctx context.Context, d Dir) (err error) {
	var secrets storeSecrets
	if err := d.readJSON(fileStore, &secrets); err != nil {
		return fmt.Errorf("the directory's settings: %w", err)
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
	return loopback.Serve(ctx, listener, directoryHandler(home, secrets))
}

// RunStore is the store process: it serves the cells' items, whom their shards hold, and their queues on the
// listener that it inherited, until ctx ends.
func RunStore(ctx context.Context, d Dir) (err error) {
	var secrets storeSecrets
	if err := d.readJSON(fileStore, &secrets); err != nil {
		return fmt.Errorf("the store's settings: %w", err)
	}
	listener, err := inheritListener(firstInherited)
	if err != nil {
		return err
	}
	items, err := boltitems.Open(d.file(fileItems))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, items.Close()) }()
	queues, err := jobqueue.Open(d.file(fileQueues))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, queues.Close()) }()
	return loopback.Serve(ctx, listener, storeHandler(items, queues, secrets))
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

// directoryHandler lets the operator do everything, and the router read what it serves from.
func directoryHandler(home directory.Home, secrets storeSecrets) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/v1/directory/", loopback.By(map[string]http.Handler{
		secrets.Operator: httpdir.HomeHandler(home),
		secrets.Router:   httpdir.ServingHandler(home),
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return loopback.Only(mux)
}

// storeHandler lets the operator do everything, the router use the queues, and workers use the tenants' state as
// far as their shards hold them, and send jobs to where the router takes them from. Whom a shard holds is not
// theirs to write.
func storeHandler(items *boltitems.Items, queues *jobqueue.Queues, secrets storeSecrets) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/v1/holds/", loopback.Require(httpdir.HoldsHandler(items.Holds()), secrets.Operator))
	state := loopback.Require(handler.UntilDeadline(itemhttp.Handler(items)), secrets.Workers, secrets.Operator)
	mux.Handle("/v1/items", state)
	mux.Handle("/v1/items/", state)
	mux.Handle("POST /v1/dispatch/{cell}", loopback.Require(dispatchHandler(queues), secrets.Workers, secrets.Operator))
	mux.Handle("/v1/queues/", loopback.By(map[string]http.Handler{
		secrets.Operator: jobqueue.Handler(queues),
		secrets.Router:   jobqueue.Handler(queues), // it sends, and takes what is to be placed again
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return loopback.Only(mux)
}
