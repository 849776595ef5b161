package routing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing/limit"
	"cellwall.dev/cellwall/internal/routing/poison"
)

// full are shards that have as many requests in flight as each may have.
type full []string

func (f full) shards() *limit.Shards {
	s := limit.NewShards(1)
	for _, shard := range f {
		s.Acquire(shard)
	}
	return s
}

func tenants(t *testing.T, c limit.Config) *limit.Tenants {
	t.Helper()
	l, err := limit.NewTenants(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestLimitsComeFirst: who is over one costs nothing, and everybody who was let in is let out again.
func TestLimitsComeFirst(t *testing.T) {
	for name, test := range map[string]struct {
		limit  func(*Config)
		method string
		status int
		after  string
	}{
		"rate":             {func(c *Config) { c.Tenants = tenants(t, limit.Config{Rate: 0.1, Burst: 1, Now: c.Now}) }, "GET", 429, "10"},
		"requests at once": {func(c *Config) { c.Tenants = tenants(t, limit.Config{Concurrent: 1}) }, "PUT", 429, ""},
		"the router": {func(c *Config) {
			c.Shed, c.Tenants = limit.NewShed(1), tenants(t, limit.Config{Concurrent: 3})
		}, "GET", 503, "1"},
		"requests for all": {func(c *Config) {
			c.Fanouts, c.Shed, c.Tenants = limit.NewFanout(1), limit.NewShed(64), tenants(t, limit.Config{Concurrent: 3})
			c.Routes[0].Fanout = true
		}, "GET", 503, "1"},
		"none for others' way": {func(c *Config) { c.Fanouts = limit.NewFanout(1) }, "GET", 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			looks := 0
			inside, leave := make(chan struct{}, 2), make(chan struct{})
			c := testConfig(lookup(func(string) (directory.Entry, error) {
				looks++
				return pinned("acme", "s01"), nil
			}), sender(func(context.Context, Call, *Request) (*Response, error) {
				inside <- struct{}{}
				<-leave
				return ok(""), nil
			}))
			c.Now = newClock().now
			test.limit(&c)
			var seen Outcome
			c.Observe = func(o Outcome) { seen = o }
			e := newEngine(t, c)
			done := make(chan int)
			serve := func() { done <- e.Serve(t.Context(), "acme", &Request{Method: test.method, Path: "/x"}).Status }
			go serve()
			<-inside
			if test.status == 200 {
				go serve()
				<-inside
				leave <- struct{}{}
				if status := <-done; status != 200 {
					t.Errorf("answered %d", status)
				}
			} else {
				var resp *Response
				for range 70 { // who is refused holds nothing
					resp = e.Serve(t.Context(), "acme", &Request{Method: test.method, Path: "/x", Complete: func(string) *Response {
						t.Error("the body of a request over a limit is read")
						return nil
					}})
					wantProblem(t, resp, test.status)
				}
				seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
				if err != nil || seconds < 1 || test.after != "" && test.after != strconv.Itoa(seconds) {
					t.Errorf("Retry-After %q, want %q", resp.Header.Get("Retry-After"), test.after)
				}
				if looks != 1 || len(seen.Attempts) > 0 || seen.Err == nil {
					t.Errorf("%d look-ups; operators are told %+v", looks, seen)
				}
			}
			leave <- struct{}{}
			if status := <-done; status != 200 {
				t.Errorf("the one who was let in is answered %d", status)
			}
			if name == "rate" {
				return
			}
			for range 5 { // who left made room
				go serve()
				<-inside
				leave <- struct{}{}
				if status := <-done; status != 200 {
					t.Errorf("the next is answered %d", status)
				}
			}
		})
	}
}

// TestAFullShardIsPassedOver: it counts as not sent, whatever the method, and costs no repeat.
func TestAFullShardIsPassedOver(t *testing.T) {
	for _, single := range []bool{false, true} {
		for _, method := range []string{"GET", "POST"} {
			for full, want := range map[*full]string{{"s01"}: "s02", {"s02"}: "s01", {"s01", "s02"}: ""} {
				c := testConfig(fixed{"acme": pinned("acme", "s01", "s02")}, naming)
				c.Shards, c.Single = full.shards(), single
				var seen Outcome
				c.Observe = func(o Outcome) { seen = o }
				e := newEngine(t, c)
				for range 3 {
					resp := e.Serve(t.Context(), "acme", &Request{Method: method, Path: "/x"})
					if want == "" {
						wantProblem(t, resp, 503)
						if resp.Header.Get("Retry-After") != "1" || !errors.Is(seen.Err, errFull) {
							t.Errorf("Retry-After %q, %v", resp.Header.Get("Retry-After"), seen.Err)
						}
					} else if string(resp.Body) != want || len(seen.Attempts) != 1 || seen.Fallbacks != 0 {
						t.Errorf("with %v full, answered %d %s after %d attempts", *full, resp.Status, resp.Body, len(seen.Attempts))
					}
				}
			}
		}
	}
}

// TestSharedTime: how long each attempt may take, by the bubble's clock.
func TestSharedTime(t *testing.T) {
	whale := func(n int) directory.Entry { return pinned("acme", eight[:n]...) }
	for name, test := range map[string]struct {
		method        string
		members       int
		key           string
		route, most   time.Duration // time-outs
		single        bool
		status        int
		took, request []time.Duration // of each attempt, and then of the request
	}{
		"two share":                     {method: "GET", members: 2, status: 504, took: []time.Duration{14, 14}},
		"four share":                    {method: "GET", members: 4, status: 504, took: []time.Duration{7, 7, 7, 7}},
		"four in one environment":       {method: "GET", members: 4, single: true, status: 504, took: []time.Duration{14, 14}},
		"one has all":                   {method: "PUT", members: 1, status: 504, took: []time.Duration{28}},
		"one has the attempt's":         {method: "PUT", members: 1, most: 5, status: 504, took: []time.Duration{5}},
		"the attempt's is shorter":      {method: "GET", members: 2, most: 5, status: 504, took: []time.Duration{5, 5}},
		"the route's stands":            {method: "GET", members: 2, most: 5, route: 3, status: 504, took: []time.Duration{3, 3}},
		"the share is shorter":          {method: "GET", members: 4, most: 20, status: 504, took: []time.Duration{7, 7, 7, 7}},
		"what is not repeated":          {method: "POST", members: 2, status: 504, took: []time.Duration{28}},
		"what is not repeated, at most": {method: "POST", members: 2, most: 5, status: 504, took: []time.Duration{5}},
		"what has a key":                {method: "POST", members: 2, key: `"k"`, most: 5, status: 504, took: []time.Duration{5, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := testConfig(fixed{"acme": whale(test.members)}, sender(func(ctx context.Context, _ Call, req *Request) (*Response, error) {
					deadline, _ := ctx.Deadline()
					if told, ok, err := Deadline(req.Header); !ok || err != nil || told.UnixMilli() != deadline.UnixMilli() {
						t.Errorf("the shard is to stop at %v, %t, %v; the router waits until %v", told, ok, err, deadline)
					}
					<-ctx.Done()
					return nil, errors.New("cut off") // a transport that does not say why
				}))
				c.Timeout, c.AttemptTimeout, c.Single, c.IdempotencyKeys = 28*time.Second, test.most*time.Second, test.single, true
				c.Routes[0].Timeout = test.route * time.Second
				c.Pick = random(t)
				var seen Outcome
				c.Observe = func(o Outcome) { seen = o }
				header := http.Header{}
				if test.key != "" {
					header.Set("Idempotency-Key", test.key)
				}
				resp := newEngine(t, c).Serve(t.Context(), "acme", &Request{Method: test.method, Path: "/x", Header: header})
				kind := wantProblem(t, resp, test.status)
				if maybe := test.method == "POST" && test.key == ""; (kind == TypeMaybeDone) != maybe {
					t.Errorf("problem type %s", kind)
				}
				var took []time.Duration
				sum := time.Duration(0)
				for _, a := range seen.Attempts {
					took = append(took, a.Took/time.Second)
					sum += a.Took
				}
				if fmt.Sprint(took) != fmt.Sprint(test.took) || seen.Took != sum {
					t.Errorf("attempts took %d s of %v, want %d s", took, seen.Took, test.took)
				}
			})
		})
	}
	t.Run("client's deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := testConfig(fixed{"acme": whale(2)}, sender(func(ctx context.Context, _ Call, _ *Request) (*Response, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}))
			c.Timeout = time.Hour
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			start := time.Now()
			var seen Outcome
			c.Observe = func(o Outcome) { seen = o }
			wantProblem(t, newEngine(t, c).Serve(ctx, "acme", get("/x")), 504)
			if took := time.Since(start); took != 10*time.Second || len(seen.Attempts) != 2 || seen.Attempts[0].Took != 5*time.Second {
				t.Errorf("took %v of the Lambda function's 10 s, %+v", took, seen.Attempts)
			}
		})
	})
}

// TestASuspectIsNotFailedOver: what it may do to one member it does to that one alone, with all of its requests.
func TestASuspectIsNotFailedOver(t *testing.T) {
	watch := poison.New(poison.Config{})
	watch.Hold("acme", time.Now().Add(time.Hour))
	for _, fanout := range []bool{false, true} {
		sent := map[string]map[string]int{"acme": {}, "zeta": {}}
		c := testConfig(fixed{"acme": pinned("acme", eight...), "zeta": pinned("zeta", eight...)},
			sender(func(_ context.Context, call Call, _ *Request) (*Response, error) {
				sent[call.Tenant][call.Shard]++
				return nil, errBroken
			}))
		c.Poison, c.Routes[0].Fanout, c.Pick = watch, fanout, random(t)
		var seen Outcome
		c.Observe = func(o Outcome) { seen = o }
		e := newEngine(t, c)
		for range 20 {
			resp := e.Serve(t.Context(), "acme", get("/x"))
			if wantProblem(t, resp, map[bool]int{false: 502, true: 503}[fanout]); !seen.Poisoned {
				t.Error("operators are not told")
			}
		}
		want := map[bool]int{false: 1, true: 0}[fanout]
		for _, n := range sent["acme"] {
			if n != 20 {
				want = -1
			}
		}
		if len(sent["acme"]) != want {
			t.Errorf("fan-out %t: 20 requests of a suspect were sent to %v", fanout, sent["acme"])
		}
		if fanout {
			continue
		}
		if e.Serve(t.Context(), "zeta", get("/x")); len(sent["zeta"]) != len(eight) || seen.Poisoned {
			t.Errorf("another tenant's was sent to %v, want all", sent["zeta"])
		}
	}
}

// TestPanicsAreFailures: the next member is asked where that is safe, and nothing stays held.
func TestPanicsAreFailures(t *testing.T) {
	for method, want := range map[string]int{"GET": 200, "PUT": 200, "POST": 502} {
		sent := 0
		c := testConfig(fixed{"acme": pinned("acme", "s01", "s02")}, sender(func(context.Context, Call, *Request) (*Response, error) {
			if sent++; sent%2 == 1 {
				panic("inside: nil map")
			}
			return ok(""), nil
		}))
		c.Shards, c.Shed = limit.NewShards(1), limit.NewShed(1)
		var seen Outcome
		c.Observe = func(o Outcome) { seen = o }
		e := newEngine(t, c)
		for range 3 {
			sent = 0
			resp := e.Serve(t.Context(), "acme", &Request{Method: method, Path: "/x"})
			if resp.Status != want {
				t.Fatalf("%s: answered %d, want %d", method, resp.Status, want)
			}
			if want == 502 && wantProblem(t, resp, 502) != TypeMaybeDone {
				t.Errorf("the client is told %s", resp.Body)
			}
			if seen.Attempts[0].Err == nil || !strings.Contains(seen.Attempts[0].Err.Error(), "nil map") {
				t.Errorf("operators are told %v", seen.Attempts[0].Err)
			}
		}
	}
}

// TestNothingDoneIsSaidOnlyWhenItIsTrue: after an attempt that may have had an effect, no later one's refusal
// makes the client believe that there was none.
func TestNothingDoneIsSaidOnlyWhenItIsTrue(t *testing.T) {
	for _, second := range []string{"throttles", "does not hold"} {
		for _, first := range []string{"breaks", "hangs", "throttles", "cannot", "does not hold"} {
			sent := 0
			c := testConfig(fixed{"acme": pinned("acme", "s01", "s02")}, sender(func(context.Context, Call, *Request) (*Response, error) {
				sent++
				f := fateOf([]string{first, second}[sent-1])
				return f.resp, f.err
			}))
			resp := newEngine(t, c).Serve(t.Context(), "acme", &Request{Method: "PUT", Path: "/x"})
			wantProblem(t, resp, 503)
			done := first == "throttles" || first == "does not hold"
			if strings.Contains(string(resp.Body), "nothing was done") != done {
				t.Errorf("%s, then %s: the client is told %s", first, second, resp.Body)
			}
		}
	}
}

// TestABurstOfRepeats: more requests meet a bad shard in one instant than the budget lets be repeated at once. All
// are answered, by no more repeats at once than it allows.
func TestABurstOfRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests = 60
		start := time.Now()
		var mu sync.Mutex
		repeats, most := 0, 0
		var met atomic.Int32
		c := testConfig(fixed{"acme": pinned("acme", "s01", "s02")}, sender(func(_ context.Context, call Call, _ *Request) (*Response, error) {
			if call.Shard == "s01" {
				time.Sleep(time.Millisecond)
				met.Add(1)
				return &Response{Status: 500}, nil
			}
			if time.Since(start) < time.Millisecond { // no repeat
				time.Sleep(time.Second)
				return ok(""), nil
			}
			mu.Lock()
			repeats++
			most = max(most, repeats)
			mu.Unlock()
			time.Sleep(20 * time.Millisecond)
			mu.Lock()
			repeats--
			mu.Unlock()
			return ok(""), nil
		}))
		e := newEngine(t, c)
		var wg sync.WaitGroup
		for range requests {
			wg.Go(func() {
				if resp := e.Serve(t.Context(), "acme", get("/x")); resp.Status != 200 {
					t.Errorf("answered %d", resp.Status)
				}
			})
		}
		wg.Wait()
		if allowed := requests / 5; most > allowed || int(met.Load()) <= allowed {
			t.Errorf("%d requests met the shard, %d were repeated at once; want more, and at most %d", met.Load(), most, allowed)
		}
	})
}
