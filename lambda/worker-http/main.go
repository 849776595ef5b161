// Command worker-http is the sample service as a process that answers HTTP, for instances and the local
// cell. It ends when it gets SIGTERM or SIGINT and the requests under way are answered.
package main

import (
	"context"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"

	"cellwall.dev/cellwall/internal/sample"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("worker ends", "err", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	p, err := sample.FromEnvironment(ctx, os.Getenv)
	if err != nil {
		return err
	}
	return sample.Serve(ctx, os.Getenv, p.Service, func(addr net.Addr) { slog.Info("worker listens", "address", addr.String()) })
}
