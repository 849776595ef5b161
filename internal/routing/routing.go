// Package routing sends an authenticated tenant's request to one shard of its own subset.
//
// An Engine holds the rules: whom to serve, which shards may be asked, in which order, and when a
// request may be repeated. How a request arrived (package handler) and how it reaches a shard (the
// Transport adapters) is outside.
//
// The rules hold for both forms of a router: a process that serves thousands at once, and a Lambda environment
// that serves one and forgets (Config.Single). What counts requests under way (the retry budget, the limits of a
// shard, of the router and of fan-out, the choice by requests in flight) means nothing in the second form; there
// a request is repeated once at most, and the slice's reserved concurrency is the bulkhead.
//
// # Guarantees
//
// Each is held by the test of the same name.
//
//  1. NoDefaultShard: a tenant that the directory does not know, or that lives in another cell, is refused
//     without a shard being asked. Nobody can tell the two apart but an authenticated front door
//     (Request.FrontDoor), which is answered 421 for the second.
//  2. SubsetOnly: only members of the tenant's subset are asked, whatever their health: its pins, or what the
//     topology computes whose version its entry names.
//  3. HealthOnlyOrders: health and operators' drains put the members in order and remove none. As long as one
//     member of a subset answers, no idempotent request without preconditions fails, within the bounds of 6.
//  4. RepeatedOnlyIfSafe: a request is sent once more only if its method is idempotent (RFC 9110, section 9.2.2),
//     it is no write with a precondition (section 13.1), and its way no queue; if all sendings before provably had no
//     effect; or if it carries an Idempotency-Key and the service keeps its record with the effect
//     (Config.IdempotencyKeys), and its way is no queue. An answer other than 421, 500, 502, 503 and 504 is final, and
//     500 is where one of the first does not hold. So no client is told 412 for what its own request did.
//  5. KeyedOnce: given such a record, a request with an Idempotency-Key takes effect once at most, whatever
//     becomes of answers, shards and time, and however often its client repeats it.
//  6. BoundedRepeats: by one entry, each member is sent a request once at most. With Config.Single there is one
//     repeat; without, repeats in flight stay within Config.Budget, and one that it does not allow waits for a
//     quarter of a second at most, on average. What follows a 421 by a newer entry is no repeat, and comes once. A
//     suspect of Config.Poison has one member for all of its requests (with StateHome, for all of one key), and no
//     repeat.
//  7. HomeStays: with StateHome, a tenant's resource key has one member by one subset, and a request is sent to
//     that one alone. A path whose key depends on how it is read is refused.
//  8. MisdirectedIsFollowed: after a 421 the entry is read afresh and only a higher epoch is followed, once. No
//     client is told 421 that is not a front door.
//  9. HeldWrites: while a tenant moves it is read where it was, and its writes wait, for four look-ups in all
//     and within the request's time; then they are answered 503 with Retry-After: 2.
//  10. SharedTime: an attempt that another may follow leaves that one its share of the time, and none takes longer
//     than the route's time-out or Config.AttemptTimeout. Its shard is told when the router stops waiting, so
//     that no write is done later.
//  11. LimitsComeFirst: who is over a limit costs no look-up, no shard, and no body (Request.Complete). A tenant over its own is answered 429, a
//     full router 503, both with Retry-After. A shard that is full is passed over.
//  12. Gathered: with Route.Fanout, each member is asked once, at the same time, and the answer says what each said
//     and not who.
//  13. StreamsOnce: a request whose answer began is never sent again, and what it holds is given back when its
//     stream is closed.
//  14. PanicsAreFailures: a transport that panics has failed, and may have sent the request.
//  15. NothingInside: what a client sends reaches no shard under a cellwall-* header, and no answer tells a
//     client which shard gave it.
//  16. FreeDecision: for a tenant that is remembered, choosing the members and their order allocates nothing.
package routing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

// MaxBody is the largest body of a request or response, in bytes: what one synchronous Lambda
// invocation carries (Lambda quotas, invocation payload).
const MaxBody = 6 << 20

// Request is one tenant request, free of how it arrived. The engine does not change it, but for what Complete does.
type Request struct {
	Method   string
	Path     string // as sent, percent-encoded, begins with /
	RawQuery string // without the question mark
	Header   http.Header
	Body     []byte

	// Stream says that the way back to the client takes an answer while it is being made. A transport may then
	// answer with Response.Stream; without it, never.
	Stream bool

	// Complete, where it is not nil, is called once, after the limits let the request in and before anybody is looked
	// up: it puts the Body there, which until then is not, and judges what took a body to judge. What it returns is
	// the answer to a request that goes no further; nil for one that does. It may wait for its client. id is the
	// request's, for logs.
	Complete func(id string) *Response

	// FrontDoor says that an authenticated front door asks on the tenant's behalf. It is told 421 of a tenant that
	// lives in another cell; anybody else, that it is not known. Its HeaderEpoch is heeded, and nobody else's.
	FrontDoor bool
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
// ctx does not end with Send where the answer is a Stream, but when that is closed.
type Transport interface {
	Send(ctx context.Context, call Call, req *Request) (*Response, error)
}

// ErrNotSent marks a failure before the request could have had any effect, so that it may be repeated
// whatever its method.
var ErrNotSent = errors.New("request was not sent")

// ErrThrottled marks a request that the shard's side refused because it has enough of them. It was not sent, and
// another member may take it.
var ErrThrottled = fmt.Errorf("%w: the shard takes no more at the moment", ErrNotSent)

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

	// Memo is kept with this version of the entry; nil where nothing is.
	Memo *Memo
}

// Memo remembers the members of the subset that one version of an entry has, for whoever remembers the entry. It
// never turns wrong: topologies do not change, and what places a tenant changes with the epoch. The zero Memo
// remembers nothing yet; a nil one never does. It takes 8 bytes, and 64 once it remembers two members.
type Memo struct{ subset atomic.Pointer[subset] }

// subset is members, and room for as many as nearly all tenants have: one place in memory to wait for, not two.
type subset struct {
	members []string
	room    [2]string
}

// Members returns what compute told when it first succeeded. Nobody may change it.
func (m *Memo) Members(compute func() ([]string, error)) ([]string, error) {
	if m == nil {
		return compute()
	}
	if s := m.subset.Load(); s != nil {
		return s.members, nil
	}
	members, err := compute()
	if err != nil {
		return nil, err
	}
	s := &subset{members: members}
	if len(members) <= len(s.room) {
		s.members = append(s.room[:0], members...)
	}
	m.subset.Store(s)
	return s.members, nil
}

// Topologies is what the engine needs to know of how its cell places tenants. A version that is there never
// changes in what it says of placement, so that it is read once; directory.ErrUnknownTopology when there is
// none.
type Topologies interface {
	Topology(ctx context.Context, cell string, version uint64) (directory.Topology, error)
}
