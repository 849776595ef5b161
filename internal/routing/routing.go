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
//  5. What Entries knows of a tenant is enough to serve it. After a shard refused it, the directory is asked
//     anew, once, and only a higher epoch is believed.
//  6. Nothing that a client sends reaches a shard under a cellwall-* header, and no answer tells a client
//     which shard gave it.
package routing

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

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

// Entries is what the engine needs of the directory: what is known of tenants, and at what cost it is known.
// What Known says beside the entry holds of an error, too. Both methods end in a bounded time of their own.
type Entries interface {
	// Entry returns what is known of a tenant: remembered, near, or read. directory.ErrNotFound when the tenant
	// is known not to exist; any other error says that nobody knows.
	Entry(ctx context.Context, tenant string) (Known, error)
	// Fresh reads the entry consistently, after a shard refused the tenant at the epoch than, or before a refusal
	// that a stale answer may have caused. The epoch that it returns may be than or lower: that is no news.
	Fresh(ctx context.Context, tenant string, than uint64) (Known, error)
}

// Known is an entry and how it came to be known. Nobody may change its Pins.
type Known struct {
	directory.Entry
	Age time.Duration // since the directory said so
	// Stale says that the entry is older than its time to live, because the directory does not answer, or a
	// replica's word, which the home region did not confirm.
	Stale bool
	// ReplicaErr and HomeErr are why the replica, or the directory itself, did not answer when it was asked.
	ReplicaErr, HomeErr error
}

// Topologies is what the engine needs to know of how its cell places tenants. A version that is there never
// changes in what it says of placement, so that it is read once; directory.ErrUnknownTopology when there is
// none.
type Topologies interface {
	Topology(ctx context.Context, cell string, version uint64) (directory.Topology, error)
}
