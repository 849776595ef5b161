// Package routing sends an authenticated tenant's request to one shard of its own subset.
//
// An Engine holds the rules: whom to serve, which shards may be asked, in which order, and when a
// request may be repeated. How a request arrived (package handler) and how it reaches a shard (the
// Transport adapters) is outside. The rules:
//
//  1. A tenant that the directory does not know, or that lives in another cell, is refused. There is no
//     default shard.
//  2. Only members of the tenant's subset are ever asked: its pins, or what the topology computes whose
//     version its entry names.
//  3. Health orders the members and never removes one.
//  4. A request is sent at most twice, the second time to another member, and only when its method is
//     idempotent (RFC 9110, section 9.2.2) and its way no queue, or the first attempt provably had no effect.
//  5. Of what a replica of the directory says, only a tenant that is served here, or suspended, is taken as
//     it is. Before the engine refuses a tenant that the replica does not know or sees in another cell, one
//     that is placing or moving, one that a shard refused, or one whose topology the replica does not have,
//     it asks the home region. While that does not answer, the replica's word stands, and is marked.
//  6. Nothing that a client sends reaches a shard under a cellwall-* header, and no answer tells a client
//     which shard gave it.
package routing

import (
	"context"
	"errors"
	"io"
	"net/http"

	"cellwall.dev/cellwall/internal/directory"
)

// MaxBody is the largest body of a request or response, in bytes: what one synchronous Lambda
// invocation carries (Lambda quotas, invocation payload).
const MaxBody = 6 << 20

// Request is one tenant request, free of how it arrived. The engine does not change it.
type Request struct {
	Method   string
	Path     string // as sent, percent-encoded, begins with /
	RawQuery string // without the question mark
	Header   http.Header
	Body     []byte

	// Stream says that the way back to the client takes an answer while it is being made. A transport may then
	// answer with Response.Stream; without it, never.
	Stream bool
}

// Response is a shard's answer, or the engine's own when no shard could give one.
type Response struct {
	Status int
	Header http.Header
	Body   []byte

	// Stream is the body where it is not nil, of unknown length, and Body is empty. Who gets the response reads
	// it to its end and closes it. A Read that fails with anything but io.EOF means that the shard did not end
	// its answer: the request was executed, perhaps in part, and is never sent again.
	Stream io.ReadCloser
}

// Call is what a shard is told beside the request: on whose behalf, and at which epoch. The request that
// a Transport gets carries the same in its cellwall-* headers.
type Call struct {
	Tenant string
	Epoch  uint64
	Shard  string
}

// Transport carries a request to one shard. An error means that no answer of the service came back;
// wrap ErrNotSent when the request provably had no effect, context.DeadlineExceeded when the shard took
// too long, and ErrTooLarge when this transport can never carry it. Send keeps nothing of req.
type Transport interface {
	Send(ctx context.Context, call Call, req *Request) (*Response, error)
}

// ErrNotSent marks a failure before the request could have had any effect, so that it may be repeated
// whatever its method.
var ErrNotSent = errors.New("request was not sent")

// ErrTooLarge marks a request that is larger than its transport carries.
var ErrTooLarge = errors.New("request is too large")

// Directory is what the engine needs of the directory. directory.ErrNotFound when it does not know the
// tenant; any other error says that it did not answer.
type Directory interface {
	Get(ctx context.Context, tenant string) (directory.Entry, error)
}

// Topologies is what the engine needs to know of how its cell places tenants. A version that is there never
// changes in what it says of placement, so that it is read once; directory.ErrUnknownTopology when there is
// none.
type Topologies interface {
	Topology(ctx context.Context, cell string, version uint64) (directory.Topology, error)
}

// Replica is a copy of the directory and of the topologies that is near and may be behind.
type Replica interface {
	Directory
	Topologies
}
