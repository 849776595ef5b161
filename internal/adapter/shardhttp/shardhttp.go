// Package shardhttp carries requests to a shard over HTTP: to its load balancer on AWS, to its process
// in a local cell.
package shardhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"cellwall.dev/cellwall/internal/routing"
)

const (
	connectTimeout = 2 * time.Second  // inside a VPC a connection takes milliseconds
	idleTimeout    = 50 * time.Second // shorter than a load balancer's 60, which else closes under a request
	idlePerShard   = 64               // kept-alive connections
	maxHeader      = 64 << 10         // bytes of a response's header
)

// Transport is a routing.Transport.
type Transport struct {
	base   func(shard string) (string, error)
	header http.Header
	rt     *http.Transport
}

// New returns a transport. base gives the address at which a shard listens now, such as
// http://s01.eu-1.orders.internal; header is added to every request, and may be nil.
func New(base func(shard string) (string, error), header http.Header) *Transport {
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAlive: 15 * time.Second}
	own := http.Header{}
	for name, values := range header {
		own[http.CanonicalHeaderKey(name)] = slices.Clone(values)
	}
	return &Transport{base, own, &http.Transport{
		DialContext:            dialer.DialContext,
		Proxy:                  nil, // shards are neighbours
		MaxIdleConnsPerHost:    idlePerShard,
		IdleConnTimeout:        idleTimeout,
		DisableCompression:     true, // an answer travels as it is
		MaxResponseHeaderBytes: maxHeader,
	}}
}

// CloseIdle closes the connections that are kept alive.
func (t *Transport) CloseIdle() { t.rt.CloseIdleConnections() }

// Send implements routing.Transport. Redirects are the client's to follow.
func (t *Transport) Send(ctx context.Context, call routing.Call, req *routing.Request) (*routing.Response, error) {
	resp, err := t.send(ctx, call, req)
	if err == nil && !req.Stream {
		resp, err = routing.Whole(resp)
	}
	if err != nil {
		return nil, fmt.Errorf("shard %s: %w", call.Shard, err)
	}
	return resp, nil
}

// send returns the answer's head, and its body as a stream.
func (t *Transport) send(ctx context.Context, call routing.Call, req *routing.Request) (*routing.Response, error) {
	// Until a connection is there, nothing can have been sent.
	var connected atomic.Bool
	r, err := t.request(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}), call, req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", routing.ErrNotSent, err)
	}
	resp, err := t.rt.RoundTrip(r)
	if err != nil {
		if !connected.Load() {
			err = fmt.Errorf("%w: %w", routing.ErrNotSent, err)
		}
		return nil, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body.Close() // it is the connection, whose reading no context ends
		return nil, errors.New("it switched to another protocol, which nobody asked for")
	}
	if err := balancerError(resp); err != nil {
		return nil, err
	}
	withoutHost(resp.Header, r.URL.Hostname())
	return &routing.Response{Status: resp.StatusCode, Header: resp.Header, Stream: resp.Body}, nil
}

func (t *Transport) request(ctx context.Context, call routing.Call, req *routing.Request) (*http.Request, error) {
	base, err := t.base(call.Shard)
	if err != nil {
		return nil, err
	}
	target := base + req.Path
	if req.RawQuery != "" {
		target += "?" + req.RawQuery
	}
	u, err := url.Parse(target)
	if err != nil {
		return nil, errors.New("path does not make a URL")
	}
	r, err := http.NewRequestWithContext(ctx, req.Method, "/", body(req))
	if err != nil {
		return nil, err
	}
	r.URL = u
	r.Host = u.Host
	r.ContentLength = int64(len(req.Body))
	if r.ContentLength == 0 && r.Body != http.NoBody {
		r.TransferEncoding = identity
	}
	// net/http may still read this when the engine writes the next attempt's. Values are nobody's to change.
	r.Header = maps.Clone(req.Header)
	for _, name := range idempotencyKeys {
		if values, ok := r.Header[name]; ok {
			delete(r.Header, name)
			r.Header[strings.ToLower(name)] = values
		}
	}
	delete(r.Header, "Host")
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", "") // net/http would put its own name there
	}
	maps.Copy(r.Header, t.header)
	return r, nil
}

// http.Transport sends a request again by itself when a kept-alive connection breaks under it, if it
// takes the request for repeatable: a body that it can rewind or none, and either a method that only
// reads or one of these headers, which come from the client. Whether to repeat is the engine's decision,
// so a body cannot be rewound, and these names are sent in lower case, where it does not find them.
var idempotencyKeys = []string{"Idempotency-Key", "X-Idempotency-Key"}

// identity says of a body that it is not sent in chunks. Without, net/http looks in a goroutine of its own, for up to
// 200 ms, whether there is anything in an empty body that it does not know for empty.
var identity = []string{"identity"}

// body is a request's body. An empty one of a method that usually has one must be the one that net/http
// knows, or it would send the length as unknown. It is no *bytes.Reader, which net/http could rewind, and unwraps to
// one, which it sends with the head at once and copies without a buffer.
func body(req *routing.Request) io.Reader {
	if len(req.Body) == 0 {
		switch req.Method {
		case http.MethodPost, http.MethodPut, http.MethodPatch:
			return http.NoBody
		}
	}
	return io.NopCloser(bytes.NewReader(req.Body))
}
