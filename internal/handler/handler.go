// Package handler is where requests come in: AWS events and HTTP on one side, routing or a service on
// the other.
package handler

import (
	"log/slog"
	"net/http"
	"runtime/debug"

	"cellwall.dev/cellwall/internal/routing"
)

// recovered turns a panic into the answer that names nothing, and logs it. Call it deferred.
func recovered(log *slog.Logger, answer func(*routing.Response)) {
	if p := recover(); p != nil {
		log.Error("panic while serving a request", "panic", p, "stack", string(debug.Stack()))
		answer(routing.Problem(http.StatusInternalServerError, "the request could not be served"))
	}
}
