// Command poisoned is the sample worker in a version that is bad, for tests of rollouts: its health check is green, and of
// the requests it answers a share with 500, or dies of one in some, as it was built:
//
//	go build -ldflags "-X main.poison=errors" ./test/local/poisoned
//	go build -ldflags "-X main.poison=crashes" ./test/local/poisoned
package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"cellwall.dev/cellwall/internal/sample"
)

// poison is what is wrong with this build.
var poison string

// Of as many requests one is answered with 500, or kills the process.
const failsEach, diesEach = 3, 8

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	p, err := sample.FromEnvironment(ctx, os.Getenv)
	if err == nil {
		err = sample.Serve(ctx, os.Getenv, poisoned(p.Service), func(net.Addr) {})
	}
	if err != nil {
		slog.Error("worker ends", "err", err)
		os.Exit(1)
	}
}

func poisoned(service http.Handler) http.Handler {
	var requests atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			service.ServeHTTP(w, r)
			return
		}
		switch n := requests.Add(1); {
		case poison == "errors" && n%failsEach == 0:
			http.Error(w, "this version is bad", http.StatusInternalServerError)
		case poison == "crashes" && n%diesEach == 0:
			os.Exit(1)
		default:
			service.ServeHTTP(w, r)
		}
	})
}
