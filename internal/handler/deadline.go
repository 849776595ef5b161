package handler

import (
	"context"
	"net/http"
	"time"

	"cellwall.dev/cellwall/internal/routing"
)

// UntilDeadline ends a request's context at the deadline that the router states in the cellwall-deadline
// header, after which it may have asked another shard. What comes later is refused, before any effect.
//
// A service that looks at the context right before a write leaves a window: the time between that look
// and the moment at which the write counts, plus what the two machines' clocks differ by.
func UntilDeadline(service http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deadline, ok, err := routing.Deadline(r.Header)
		switch {
		case err != nil:
			write(w, r, routing.Problem(http.StatusBadRequest, "the deadline could not be read; nothing was done"))
			return
		case ok && !time.Now().Before(deadline):
			write(w, r, routing.Problem(http.StatusGatewayTimeout, "the request came after its deadline; nothing was done"))
			return
		case ok:
			ctx, cancel := context.WithDeadline(r.Context(), deadline)
			defer cancel()
			r = r.WithContext(ctx)
		}
		service.ServeHTTP(w, r)
	})
}
