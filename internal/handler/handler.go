// Package handler is where requests come in: AWS events and HTTP on one side, routing or a service on
// the other.
package handler

import (
	"log/slog"
	"net/http"
	"runtime/debug"

	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/internal/routing/httpapi"
)

// format writes a function's answer. One that is larger than an invocation carries would be an error of
// the function, and end its environment on some runtimes; the problem in its place says what happened.
func format(log *slog.Logger, resp *routing.Response) ([]byte, error) {
	answer, err := httpapi.FormatResponse(resp)
	if err == nil && len(answer) > routing.MaxBody {
		log.Error("answer is larger than an invocation carries", "bytes", len(answer), "limit", routing.MaxBody)
		return httpapi.FormatResponse(routing.AnswerTooLarge())
	}
	return answer, err
}

// recovered turns a panic into the answer that names nothing, and logs it. Call it deferred.
func recovered(log *slog.Logger, answer func(*routing.Response)) {
	if p := recover(); p != nil {
		log.Error("panic while serving a request", "panic", p, "stack", string(debug.Stack()))
		answer(routing.Problem(http.StatusInternalServerError, "the request could not be served"))
	}
}
