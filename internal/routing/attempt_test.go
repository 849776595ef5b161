package routing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/routing/limit"
)

// fate is what a shard does with a request.
type fate struct {
	name string
	resp *Response
	err  error
}

var errBroken = errors.New("inside: connection reset")

// fates are all that a transport may report.
var fates = []fate{
	{"answers", ok("fine"), nil},
	{"is wrong", &Response{Status: 500, Body: []byte("bug")}, nil},
	{"refuses", &Response{Status: 422}, nil},
	{"says too much", AnswerTooLarge(), nil},
	{"cannot", &Response{Status: 503}, nil},
	{"is cut off", &Response{Status: 502}, nil},
	{"is slow behind", &Response{Status: 504}, nil},
	{"does not hold", &Response{Status: 421}, nil},
	{"talks nonsense", &Response{Status: 99}, nil},
	{"throttles", nil, fmt.Errorf("inside: %w", ErrNotSent)},
	{"breaks", nil, errBroken},
	{"hangs", nil, fmt.Errorf("inside: %w", context.DeadlineExceeded)},
	{"is too small", nil, fmt.Errorf("inside: %w", ErrTooLarge)},
}

func fateOf(name string) fate {
	i := slices.IndexFunc(fates, func(f fate) bool { return f.name == name })
	return fates[i]
}

func TestFallback(t *testing.T) {
	tests := []struct {
		method        string
		first, second string
		status        int
		attempts      int
		kind          string // of the problem document; "" when a shard's answer is passed on
	}{
		{"GET", "answers", "breaks", 200, 1, ""},
		{"GET", "breaks", "answers", 200, 2, ""},
		{"GET", "cannot", "answers", 200, 2, ""},
		{"GET", "is cut off", "answers", 200, 2, ""},
		{"GET", "is slow behind", "answers", 200, 2, ""},
		{"GET", "talks nonsense", "answers", 200, 2, ""},
		{"GET", "hangs", "answers", 200, 2, ""},
		{"GET", "is wrong", "answers", 200, 2, ""},
		{"GET", "is wrong", "is wrong", 500, 2, ""},
		{"GET", "is wrong", "breaks", 500, 2, ""},
		{"PUT", "is wrong", "throttles", 500, 2, ""},
		{"PUT", "is wrong", "cannot", 500, 2, ""},
		{"PUT", "is wrong", "does not hold", 500, 2, ""},
		{"PUT", "breaks", "is wrong", 500, 2, ""},
		{"GET", "refuses", "answers", 422, 1, ""},
		{"GET", "says too much", "answers", 500, 1, ""},
		{"GET", "breaks", "cannot", 503, 2, ""},
		{"GET", "breaks", "breaks", 502, 2, "about:blank"},
		{"GET", "breaks", "talks nonsense", 502, 2, "about:blank"},
		{"GET", "breaks", "hangs", 504, 2, "about:blank"},
		{"GET", "throttles", "throttles", 503, 2, "about:blank"},
		{"GET", "does not hold", "answers", 200, 2, ""},
		{"GET", "does not hold", "does not hold", 503, 2, "about:blank"},
		{"GET", "is too small", "answers", 413, 1, "about:blank"},
		{"HEAD", "breaks", "answers", 200, 2, ""},
		{"OPTIONS", "breaks", "answers", 200, 2, ""},
		{"PUT", "breaks", "answers", 200, 2, ""},
		{"DELETE", "breaks", "answers", 200, 2, ""},
		{"POST", "answers", "breaks", 200, 1, ""},
		{"POST", "breaks", "answers", 502, 1, TypeMaybeDone},
		{"POST", "hangs", "answers", 504, 1, TypeMaybeDone},
		{"POST", "talks nonsense", "answers", 502, 1, TypeMaybeDone},
		{"POST", "cannot", "answers", 503, 1, ""},
		{"POST", "is wrong", "answers", 500, 1, ""},
		{"POST", "throttles", "is wrong", 500, 2, ""},
		{"POST", "throttles", "answers", 200, 2, ""},
		{"POST", "throttles", "breaks", 502, 2, TypeMaybeDone},
		{"POST", "throttles", "throttles", 503, 2, "about:blank"},
		{"POST", "does not hold", "answers", 200, 2, ""},
		{"PATCH", "breaks", "answers", 502, 1, TypeMaybeDone},
		{"get", "breaks", "answers", 502, 1, TypeMaybeDone}, // methods are case-sensitive
		{"REPORT", "breaks", "answers", 502, 1, TypeMaybeDone},
	}
	for _, test := range tests {
		t.Run(test.method+" "+test.first+", then "+test.second, func(t *testing.T) {
			sent := 0
			c := testConfig(fixed{"acme": pinned("acme", "s01", "s02")}, sender(func(context.Context, Call, *Request) (*Response, error) {
				sent++
				f := fateOf([]string{test.first, test.second}[sent-1])
				return f.resp, f.err
			}))
			var seen Outcome
			c.Observe = func(o Outcome) { seen = o }
			resp := newEngine(t, c).Serve(t.Context(), "acme", &Request{Method: test.method, Path: "/x"})
			if sent != test.attempts || len(seen.Attempts) != sent {
				t.Errorf("sent %d times and told %d, want %d", sent, len(seen.Attempts), test.attempts)
			}
			if test.kind == "" {
				if resp.Status != test.status || seen.Err != nil {
					t.Errorf("answered %d (%v), want the shard's %d", resp.Status, seen.Err, test.status)
				}
				return
			}
			if kind := wantProblem(t, resp, test.status); kind != test.kind {
				t.Errorf("problem type %q, want %q", kind, test.kind)
			}
			if seen.Err == nil {
				t.Error("operators are not told why")
			}
		})
	}
}

// TestQueueIsAskedAgainOnlyWhenNothingWasSent: a second message may be a second job.
func TestQueueIsAskedAgainOnlyWhenNothingWasSent(t *testing.T) {
	for _, method := range []string{"PUT", "DELETE", "POST"} {
		for fate, want := range map[string]struct{ sent, status int }{
			"throttles": {2, 202}, "breaks": {1, 502}, "hangs": {1, 504},
		} {
			sent := 0
			c := testConfig(fixed{"acme": pinned("acme", "s01", "s02")}, nil)
			c.Routes = []Route{{Path: "/*", Via: ViaQueue}}
			c.Transports = map[string]Transport{ViaQueue: sender(func(context.Context, Call, *Request) (*Response, error) {
				if sent++; sent == 1 {
					return nil, fateOf(fate).err
				}
				return &Response{Status: 202}, nil
			})}
			resp := newEngine(t, c).Serve(t.Context(), "acme", &Request{Method: method, Path: "/jobs/7"})
			if sent != want.sent || resp.Status != want.status {
				t.Errorf("%s to a queue that first %s: sent %d times, answered %d; want %d, %d", method, fate, sent, resp.Status, want.sent, want.status)
			}
			if resp.Status >= 500 && wantProblem(t, resp, want.status) != TypeMaybeDone {
				t.Errorf("%s to a queue that %s: the client is told %s", method, fate, resp.Body)
			}
		}
	}
}

// TestWhatHealthIsTold: one of the worst is enough for a shard to rest, of others it takes more in a process that
// sees many, and what was not the shard's fault counts for nothing.
func TestWhatHealthIsTold(t *testing.T) {
	for what, rests := range map[string][2]bool{ // in one that sees many, and in one that sees few
		"answers": {false, false}, "is wrong": {false, false}, "does not hold": {false, false}, "is too small": {false, false},
		"throttles": {false, true}, "has enough": {false, false}, "breaks": {false, true}, "cannot": {false, true}, "hangs": {true, true},
	} {
		for i, single := range []bool{false, true} {
			c := testConfig(fixed{"acme": pinned("acme", "s01")}, sender(func(context.Context, Call, *Request) (*Response, error) {
				if what == "has enough" {
					return nil, fmt.Errorf("inside: %w", ErrThrottled)
				}
				f := fateOf(what)
				return f.resp, f.err
			}))
			c.Single = single
			e := newEngine(t, c)
			e.Serve(t.Context(), "acme", get("/x"))
			state := e.config.Health[ViaLambda].State("s01")
			if state.Resting != rests[i] || state.InFlight != 0 {
				t.Errorf("single %t: a shard that %s rests: %t; %d requests in flight", single, what, state.Resting, state.InFlight)
			}
		}
	}
}

// TestAFaultIsTheShardsWhenAnotherHasNone: a shard that answers 500 to what the other member can do comes to rest; of
// what nobody can do, no shard does.
func TestAFaultIsTheShardsWhenAnotherHasNone(t *testing.T) {
	for _, all := range []bool{false, true} {
		c := testConfig(fixed{"acme": pinned("acme", "s01", "s02")}, sender(func(_ context.Context, call Call, _ *Request) (*Response, error) {
			if all || call.Shard == "s01" {
				return &Response{Status: 500}, nil
			}
			return ok(""), nil
		}))
		c.Pick, c.Now = random(t), newClock().now
		e := newEngine(t, c)
		failed := 0
		for range 50 {
			if e.Serve(t.Context(), "acme", get("/x")).Status != 200 {
				failed++
			}
		}
		if want := map[bool]int{false: 0, true: 50}[all]; failed != want {
			t.Errorf("all wrong %t: %d of 50 questions failed", all, failed)
		}
		for _, shard := range []string{"s01", "s02"} {
			if got := e.config.Health[ViaLambda].State(shard); got.Resting != (!all && shard == "s01") || got.InFlight != 0 {
				t.Errorf("all wrong %t: %s rests %t, %d in flight", all, shard, got.Resting, got.InFlight)
			}
		}
	}
}

func TestSlowShardLeavesTimeForAnother(t *testing.T) {
	var first, second time.Duration
	sent := 0
	start := time.Now()
	c := testConfig(fixed{"acme": pinned("acme", "s01", "s02")}, sender(func(ctx context.Context, _ Call, req *Request) (*Response, error) {
		deadline, _ := ctx.Deadline()
		if told, ok, err := Deadline(req.Header); !ok || err != nil || told.UnixMilli() != deadline.UnixMilli() {
			t.Errorf("the shard is to stop at %v, %t, %v; the router waits until %v", told, ok, err, deadline)
		}
		if sent++; sent == 1 {
			first = deadline.Sub(start)
			return nil, context.DeadlineExceeded
		}
		second = deadline.Sub(start)
		return ok(""), nil
	}))
	c.Timeout = 10 * time.Minute
	e := newEngine(t, c)
	e.Serve(t.Context(), "acme", get("/x"))
	if first > 6*time.Minute || second < 9*time.Minute {
		t.Errorf("of 10 minutes the first attempt may take until %v, the second until %v", first, second)
	}
	sent = 0
	e.Serve(t.Context(), "acme", &Request{Method: "POST", Path: "/x"})
	if first < 9*time.Minute {
		t.Errorf("a request that is not repeated may take until %v of 10 minutes", first)
	}
}

func TestClientThatLeaves(t *testing.T) {
	sent := 0
	ctx, cancel := context.WithCancel(t.Context())
	c := testConfig(fixed{"acme": pinned("acme", "s01", "s02")}, sender(func(ctx context.Context, _ Call, _ *Request) (*Response, error) {
		sent++
		cancel()
		return nil, ctx.Err()
	}))
	var seen []Outcome
	c.Observe = func(o Outcome) { seen = append(seen, o) }
	e := newEngine(t, c)
	for range 5 {
		e.Serve(ctx, "acme", get("/x"))
	}
	for _, o := range seen {
		if !o.Left || len(o.Attempts) != 1 || !o.Attempts[0].Left {
			t.Errorf("a request whose client left is told as %+v", o)
		}
	}
	if sent != 5 {
		t.Errorf("sent %d times for 5 requests whose client left", sent)
	}
	for _, shard := range []string{"s01", "s02"} {
		if e.config.Health[ViaLambda].State(shard).Resting {
			t.Errorf("shard %s is held responsible for a client that left", shard)
		}
	}
}

// TestWhoStaysHasNotLeft: neither one that was answered nor one whose time ran out, nor what failed of itself.
func TestWhoStaysHasNotLeft(t *testing.T) {
	leaving, leave := context.WithCancel(t.Context())
	overdue, end := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer end()
	for name, test := range map[string]struct {
		ctx  context.Context
		send sender
	}{
		"answered, and then gone": {leaving, func(context.Context, Call, *Request) (*Response, error) {
			leave()
			return ok(""), nil
		}},
		"no time": {overdue, func(ctx context.Context, _ Call, _ *Request) (*Response, error) { return nil, context.DeadlineExceeded }},
		"a shard's fault": {t.Context(), func(context.Context, Call, *Request) (*Response, error) {
			return nil, fmt.Errorf("reset: %w", context.Canceled)
		}},
	} {
		c := testConfig(fixed{"acme": pinned("acme", "s01")}, test.send)
		var seen Outcome
		c.Observe = func(o Outcome) { seen = o }
		newEngine(t, c).Serve(test.ctx, "acme", get("/x"))
		if seen.Left || slices.ContainsFunc(seen.Attempts, func(a Attempt) bool { return a.Left }) {
			t.Errorf("%s: told as %+v", name, seen)
		}
	}
}

func TestDeadlineBoundsTheRequest(t *testing.T) {
	c := testConfig(fixed{"acme": pinned("acme", "s01", "s02")}, sender(func(ctx context.Context, _ Call, _ *Request) (*Response, error) {
		<-ctx.Done() // a transport that hangs until it is told to stop
		return nil, ctx.Err()
	}))
	c.Timeout = 20 * time.Millisecond
	wantProblem(t, newEngine(t, c).Serve(t.Context(), "acme", get("/x")), http.StatusGatewayTimeout)
}

// TestConcurrent is for the race detector: only members are asked under load, and every request is answered.
func TestConcurrent(t *testing.T) {
	var sent, broken atomic.Int64
	c := testConfig(fixed{"acme": pinned("acme", "s01", "s02"), "zeta": pinned("zeta", "s02", "s03")},
		sender(func(_ context.Context, call Call, _ *Request) (*Response, error) {
			sent.Add(1)
			if call.Tenant == "acme" && call.Shard == "s03" || call.Tenant == "zeta" && call.Shard == "s01" {
				t.Errorf("%s was sent to %s", call.Tenant, call.Shard)
			}
			if call.Shard == "s02" {
				broken.Add(1)
				return nil, errBroken
			}
			return ok(""), nil
		}))
	c.Pick = nil
	c.Budget = limit.NewBudget(1, 3)
	e := newEngine(t, c)
	const workers, each = 32, 200
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			tenant := []string{"acme", "zeta"}[w%2]
			for range each {
				if resp := e.Serve(t.Context(), tenant, get("/x")); resp.Status != 200 {
					t.Errorf("%s: %d", tenant, resp.Status)
				}
			}
		})
	}
	wg.Wait()
	if got := sent.Load() - broken.Load(); got != workers*each {
		t.Errorf("%d answers for %d requests", got, workers*each)
	}
}
