package handler

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"cellwall.dev/cellwall/internal/routing"
)

// TokenVerifier tells whom a bearer token belongs to.
type TokenVerifier interface {
	// Verify returns the tenant that a token names. An error that wraps routing.ErrToken refuses the
	// token; any other says that it could not be judged.
	Verify(ctx context.Context, token string) (tenant string, err error)
}

// HTTP routes HTTP requests whose bearer token it verifies itself.
type HTTP struct {
	router Router
	tokens TokenVerifier
	log    *slog.Logger
}

// NewHTTP returns a handler for a router's own listener.
func NewHTTP(router Router, tokens TokenVerifier, log *slog.Logger) *HTTP {
	return &HTTP{router, tokens, log}
}

// ServeHTTP implements http.Handler.
func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	write(w, r, h.serve(w, r))
}

// write answers r with resp.
func write(w http.ResponseWriter, r *http.Request, resp *routing.Response) {
	header := w.Header()
	for name, values := range resp.Header {
		header[name] = values
	}
	w.WriteHeader(resp.Status)
	if r.Method != http.MethodHead {
		w.Write(resp.Body) // an error means that the client left
	}
}

func (h *HTTP) serve(w http.ResponseWriter, r *http.Request) (resp *routing.Response) {
	defer recovered(h.log, func(problem *routing.Response) { resp = problem })
	token, ok := bearer(r.Header)
	if !ok {
		return routing.Problem(http.StatusUnauthorized, "a bearer token is needed")
	}
	tenant, err := h.tokens.Verify(r.Context(), token)
	switch {
	case errors.Is(err, routing.ErrToken):
		h.log.Warn("token refused", "err", err)
		return routing.Problem(http.StatusUnauthorized, "the token is not acceptable")
	case err != nil:
		h.log.Error("token could not be judged", "err", err)
		return routing.Problem(http.StatusServiceUnavailable, "tokens cannot be verified at the moment; nothing was done")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, routing.MaxBody))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return routing.Problem(http.StatusRequestEntityTooLarge, "the body is larger than 6 MB")
		}
		return routing.Problem(http.StatusBadRequest, "the body could not be read")
	}
	header := r.Header.Clone()
	header.Set("Host", r.Host) // net/http keeps it apart
	return h.router.Serve(r.Context(), tenant, &routing.Request{
		Method: r.Method, Path: r.URL.EscapedPath(), RawQuery: r.URL.RawQuery, Header: header, Body: body,
	})
}

// bearer returns the token of the one Authorization header (RFC 6750, section 2.1).
func bearer(h http.Header) (token string, ok bool) {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	return token, ok && strings.EqualFold(scheme, "Bearer") && token != ""
}
