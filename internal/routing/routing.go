// Package routing sends an authenticated tenant's request to one shard of its own subset.
package routing

import (
	"context"
	"errors"
	"net/http"

	"cellwall.dev/cellwall/internal/directory"
)

// Request is one tenant request, free of how it arrived. The engine does not change it.
type Request struct {
	Method   string
	Path     string // as sent, percent-encoded, begins with /
	RawQuery string // without the question mark
	Header   http.Header
	Body     []byte
}

// Response is a shard's answer, or the engine's own when no shard could give one.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Call is what a shard is told beside the request: on whose behalf, and at which epoch.
type Call struct {
	Tenant string
	Epoch  uint64
	Shard  string
}

// Transport carries a request to one shard. An error means that no answer of the service came back;
// wrap ErrNotSent when the request provably had no effect.
type Transport interface {
	Send(ctx context.Context, call Call, req *Request) (*Response, error)
}

// ErrNotSent marks a failure before the request could have had any effect, so that it may be repeated
// whatever its method.
var ErrNotSent = errors.New("request was not sent")

// Directory is what the engine needs of the directory.
type Directory interface {
	Get(ctx context.Context, tenant string) (directory.Entry, error)
}
