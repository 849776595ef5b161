package sample

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Time limits of the service's own listener. The shutdown's fits in the 30 seconds that a target group
// and systemd are configured to wait.
const (
	readHeaderTimeout = 5 * time.Second
	idleTimeout       = 75 * time.Second // longer than a load balancer's 60, so that it closes first
	shutdownTimeout   = 20 * time.Second
)

// Serve answers HTTP until ctx is done, then lets the requests under way finish. It listens on
// CELLWALL_BIND (default: every interface) and PORT (default 8080; 0 for a free one), and tells ready
// where.
func Serve(ctx context.Context, getenv func(string) string, service http.Handler, ready func(net.Addr)) error {
	port := getenv("PORT")
	if port == "" {
		port = "8080"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("PORT is %q: want a number from 0 to 65535", port)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(getenv("CELLWALL_BIND"), port))
	if err != nil {
		return fmt.Errorf("listen as CELLWALL_BIND and PORT say: %w", err)
	}
	server := &http.Server{Handler: service, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		// ctx is over; the shutdown has a time of its own.
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		stopped <- server.Shutdown(limit)
	}()
	ready(listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return <-stopped
}
