package localcell

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// envGate is how a gate process is told what to do.
const envGate = "CELLWALL_GATE"

const (
	dialEvery = 20 * time.Millisecond // while the worker behind a gate is down
	dialLimit = time.Second           // for loopback, where it takes microseconds
)

// How Lambda's Invoke API says that a function's reserved concurrency is used up (Lambda API reference,
// Invoke, TooManyRequestsException). The router's transport reads it as not sent.
const (
	headerErrorType   = "X-Amzn-Errortype"
	throttledType     = "TooManyRequestsException"
	throttledDocument = `{"Type":"User","message":"Rate Exceeded.","Reason":"ReservedFunctionConcurrentInvocationLimitExceeded"}`
)

// gateSpec is what one gate does.
type gateSpec struct {
	Shard    string   `json:"shard"`  // as the supervisor names its process
	Listen   string   `json:"listen"` // where the router sends the shard's requests
	Target   string   `json:"target"` // where the worker listens meanwhile
	Fault    *Fault   `json:"fault,omitempty"`
	Poisoned []string `json:"poisoned,omitempty"` // tenants whose requests kill the worker
	Secret   string   `json:"secret"`             // the router's: nobody else's requests kill anything
}

// RunGate is a gate process: while a shard is slow, answers errors or throttles on purpose, and while a tenant
// is poisonous, it stands between the router and the shard's worker. To the router it is the worker: when that
// is down, nobody listens. It returns when ctx has ended.
func RunGate(ctx context.Context, d Dir) error {
	var spec gateSpec
	if err := json.Unmarshal([]byte(os.Getenv(envGate)), &spec); err != nil {
		return fmt.Errorf("the gate's settings in %s; `cellwall local fail` starts this process: %w", envGate, err)
	}
	strike := func(ctx context.Context) error {
		r, err := d.traces()
		if err != nil {
			return err
		}
		return r.control().Do(ctx, http.MethodPost, "/v1/strike", processRequest{spec.Shard}, nil)
	}
	return newGate(spec, strike, slog.New(slog.NewTextHandler(os.Stderr, nil))).run(ctx)
}

// gate is a gate process's state.
type gate struct {
	spec   gateSpec
	strike func(context.Context) error // kills the worker
	log    *slog.Logger
	proxy  *httputil.ReverseProxy

	mu   sync.Mutex
	down chan struct{} // closed once the worker is found gone
}

func newGate(spec gateSpec, strike func(context.Context) error, log *slog.Logger) *gate {
	g := &gate{spec: spec, strike: strike, log: log, down: make(chan struct{})}
	g.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", spec.Target
			r.Out.URL.RawQuery = r.In.URL.RawQuery // also what a proxy would tidy up
			r.Out.Host = r.In.Host
			if r.In.Header.Get("User-Agent") == "" {
				r.Out.Header.Set("User-Agent", "") // net/http would put its own name there
			}
		},
		// A connection each: whoever reuses one that broke asks again by itself, and that is the router's to decide.
		Transport:      &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		FlushInterval:  -1,
		ModifyResponse: g.dawdle,
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			if errors.As(err, new(*net.OpError)) {
				g.gone()
			}
			panic(http.ErrAbortHandler) // the router sees what it would see of the worker: a connection that ends
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	return g
}

type arrivedKey struct{}

// dawdle makes an answer take as many times as long as the worker took.
func (g *gate) dawdle(resp *http.Response) error {
	if g.spec.Fault == nil || g.spec.Fault.How != HowSlow {
		return nil
	}
	ctx := resp.Request.Context()
	arrived, ok := ctx.Value(arrivedKey{}).(time.Time)
	if !ok {
		return errors.New("a request without its time of arrival")
	}
	timer := time.NewTimer(time.Duration(float64(time.Since(arrived)) * (g.spec.Fault.Factor - 1)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tenant, err := routing.DecodeTenant(r.Header.Get(routing.HeaderTenant))
	shown := r.Header.Get(shardkit.HeaderSecret)
	if err == nil && slices.Contains(g.spec.Poisoned, tenant) && subtle.ConstantTimeCompare([]byte(shown), []byte(g.spec.Secret)) == 1 {
		if err := g.strike(r.Context()); err != nil {
			g.log.Error("the worker was not killed", "why", err)
		}
		g.gone()
		panic(http.ErrAbortHandler)
	}
	switch f := g.spec.Fault; {
	case f != nil && f.How == HowErrors:
		// As a service that fails would say it: the client gets this, and is to learn nothing of shards.
		problem(w, f.Status, "the request could not be served")
	case f != nil && f.How == HowThrottle:
		w.Header().Set(headerErrorType, throttledType)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		w.Write([]byte(throttledDocument))
	default:
		g.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), arrivedKey{}, time.Now())))
	}
}

// gone says that the worker is down.
func (g *gate) gone() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.down:
	default:
		close(g.down)
	}
}

// run listens while the worker does.
func (g *gate) run(ctx context.Context) error {
	for ctx.Err() == nil {
		worker, err := g.dial(ctx)
		if err != nil {
			pause(ctx, dialEvery)
			continue
		}
		l, err := net.Listen("tcp", g.spec.Listen)
		if err != nil { // the worker has not let go of it yet
			worker.Close()
			pause(ctx, dialEvery)
			continue
		}
		up, end := context.WithCancel(ctx)
		g.mu.Lock()
		g.down = make(chan struct{})
		down := g.down
		g.mu.Unlock()
		var watcher sync.WaitGroup
		watcher.Go(func() { g.watch(up, worker) })
		watcher.Go(func() {
			select {
			case <-down:
			case <-up.Done():
			}
			end()
		})
		err = serveUntilGone(ctx, up, l, g)
		end()
		watcher.Wait()
		if err != nil {
			return err
		}
	}
	return nil
}

// serveUntilGone serves until up ends: at once when it is the worker's end, and in good order when it is that
// of the process.
func serveUntilGone(ctx, up context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	stopped := make(chan struct{})
	unhook := context.AfterFunc(up, func() {
		defer close(stopped)
		if ctx.Err() != nil {
			grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			if server.Shutdown(grace) == nil {
				return
			}
		}
		server.Close()
	})
	err := server.Serve(l)
	if !unhook() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve on %s: %w", l.Addr(), err)
}

// watch says when the worker is gone: its end ends the connection, and then nobody answers another.
func (g *gate) watch(ctx context.Context, worker net.Conn) {
	for {
		unhook := context.AfterFunc(ctx, func() { worker.Close() })
		_, err := worker.Read(make([]byte, 1))
		unhook()
		worker.Close()
		if err == nil || ctx.Err() != nil {
			return
		}
		if worker, err = g.dial(ctx); err != nil {
			if ctx.Err() == nil {
				g.gone()
			}
			return
		}
		pause(ctx, dialEvery) // a worker that lets nobody stay is no reason to be busy
	}
}

func (g *gate) dial(ctx context.Context) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialLimit}
	return dialer.DialContext(ctx, "tcp", g.spec.Target)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// probeGate says whether a gate listens.
func probeGate(ctx context.Context, address string) error {
	dialer := net.Dialer{Timeout: dialLimit}
	c, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return c.Close()
}

// problem answers with a problem document (RFC 9457).
func problem(w http.ResponseWriter, status int, detail string) {
	resp := routing.Problem(status, detail)
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.Status)
	w.Write(resp.Body) // an error means that the client left
}

// host is the host and port of a URL that the supervisor made.
func host(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return strings.TrimPrefix(base, "http://")
	}
	return u.Host
}
