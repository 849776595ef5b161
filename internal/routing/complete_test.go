package routing

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing/limit"
)

// TestComplete: the rest of a request comes once and before anybody is looked up, as its client is let in; its time
// begins when it is there. Who sends it slowly is no reason for others to repeat more.
func TestComplete(t *testing.T) { synctest.Test(t, testComplete) }

func testComplete(t *testing.T) {
	const timeout = 10 * time.Second
	looks, calls := 0, 0
	c := testConfig(lookup(func(string) (directory.Entry, error) {
		looks++
		return pinned("acme", "s01"), nil
	}), sender(func(ctx context.Context, _ Call, req *Request) (*Response, error) {
		deadline, _ := ctx.Deadline()
		if left := time.Until(deadline); left != timeout || string(req.Body) != "body" {
			t.Errorf("sent %q with %v to go", req.Body, left)
		}
		return ok(""), nil
	}))
	c.Timeout, c.Budget = timeout, limit.NewBudget(1, 0)
	req := &Request{Method: "PUT", Path: "/x"}
	req.Complete = func(id string) *Response {
		if calls++; looks > 0 || id == "" {
			t.Errorf("%d look-ups before the body came; request %q", looks, id)
		}
		if c.Budget.Spend() {
			t.Error("a request whose body is not there yet makes room for a repeat")
		}
		time.Sleep(timeout - time.Second)
		req.Body = []byte("body")
		return nil
	}
	if resp := newEngine(t, c).Serve(t.Context(), "acme", req); resp.Status != 200 || calls != 1 {
		t.Errorf("answered %d after %d calls", resp.Status, calls)
	}
}

// TestIncomplete: a request that its handler refuses costs no look-up, and gives its place back, also when the handler
// panics; so does one whose body turns out too large.
func TestIncomplete(t *testing.T) {
	c := testConfig(lookup(func(string) (directory.Entry, error) {
		t.Error("looked up")
		return directory.Entry{}, directory.ErrNotFound
	}), naming)
	c.Tenants, c.Shed = tenants(t, limit.Config{Concurrent: 1}), limit.NewShed(1)
	var seen Outcome
	c.Observe = func(o Outcome) { seen = o }
	e := newEngine(t, c)
	serve := func(complete func(*Request) *Response) (resp *Response) {
		defer func() {
			if recover() != nil {
				resp = Problem(500, "")
			}
		}()
		req := &Request{Method: "PUT", Path: "/x"}
		req.Complete = func(string) *Response { return complete(req) }
		return e.Serve(t.Context(), "acme", req)
	}
	for range 3 { // each would be refused if the one before held its place
		if resp := serve(func(*Request) *Response { return Problem(403, "another tenant") }); resp.Status != 403 || resp.Header.Get(HeaderRequestID) == "" ||
			seen.Status != 403 || seen.Err == nil {
			t.Errorf("refused with %d; operators are told %+v", resp.Status, seen)
		}
		if resp := serve(func(*Request) *Response { panic("handler") }); resp.Status != 500 {
			t.Errorf("after a panic: %d", resp.Status)
		}
		if resp := serve(func(req *Request) *Response { req.Body = make([]byte, MaxBody+1); return nil }); resp.Status != 413 {
			t.Errorf("a large body: %d", resp.Status)
		}
	}
}
