package routing

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cellwall.dev/cellwall/internal/routing/limit"
)

// TestStreamsOnce: the head is the answer, whatever becomes of the rest, and what the request holds is held until
// the stream is closed, once.
func TestStreamsOnce(t *testing.T) {
	sent := 0
	var during context.Context
	closed := 0
	c := testConfig(fixed{"acme": pinned("acme", "s01", "s02"), "zeta": pinned("zeta", "s01", "s02")}, sender(func(ctx context.Context, _ Call, req *Request) (*Response, error) {
		sent++
		during = ctx
		if !req.Stream {
			t.Error("the shard is not asked for a stream")
		}
		if _, ok, _ := Deadline(req.Header); ok {
			t.Error("a question that streams is told a deadline")
		}
		return &Response{Status: 200, Header: http.Header{"Content-Length": {"9"}, "X-A": {"1"}}, Stream: &broken{closed: &closed}}, nil
	}))
	c.AttemptTimeout = 20 * time.Millisecond
	c.Shards, c.Tenants, c.Shed = limit.NewShards(1), tenants(t, limit.Config{Concurrent: 1}), limit.NewShed(1)
	e := newEngine(t, c)
	req := get("/x")
	req.Stream = true
	resp := e.Serve(t.Context(), "acme", req)
	if resp.Status != 200 || resp.Stream == nil || sent != 1 || resp.Header.Get("Content-Length") != "" {
		t.Fatalf("answered %+v after %d sendings", resp, sent)
	}
	select {
	case <-during.Done():
		t.Error("the stream ended with the time for its head")
	case <-time.After(50 * time.Millisecond):
	}
	if body, err := io.ReadAll(resp.Stream); string(body) != "half" || !errors.Is(err, errBroken) {
		t.Errorf("read %q, %v", body, err)
	}
	if second := e.Serve(t.Context(), "acme", req); second.Status != 429 {
		t.Errorf("while it streams, the next is answered %d", second.Status)
	}
	resp.Stream.Close()
	resp.Stream.Close()
	if during.Err() == nil || closed == 0 {
		t.Error("closing the stream does not end it")
	}
	for range 3 {
		next := e.Serve(t.Context(), "acme", req)
		if next.Status != 200 {
			t.Fatalf("after it was closed, the next is answered %d", next.Status)
		}
		if other := e.Serve(t.Context(), "zeta", req); other.Status != 503 {
			t.Errorf("closing twice gave back twice: two are let in where one may be, answered %d", other.Status)
		}
		next.Stream.Close()
		next.Stream.Close()
	}
	if sent != 4 {
		t.Errorf("sent %d times for 4 requests", sent)
	}
}

// broken is a stream that breaks in the middle.
type broken struct {
	read   bool
	closed *int
}

func (b *broken) Read(p []byte) (int, error) {
	if b.read {
		return 0, errBroken
	}
	b.read = true
	return copy(p, "half"), nil
}

func (b *broken) Close() error { *b.closed++; return nil }

// TestAStreamThatFailsIsReadWhole: it is no answer yet, so the other member is asked; if that fails too, the first
// one's words are passed on whole.
func TestAStreamThatFailsIsReadWhole(t *testing.T) {
	for second, want := range map[string]struct {
		status int
		body   string
	}{"answers": {200, "fine"}, "throttles": {503, ""}} {
		sent := 0
		c := testConfig(fixed{"acme": pinned("acme", "s01", "s02")}, sender(func(context.Context, Call, *Request) (*Response, error) {
			if sent++; sent == 1 {
				return &Response{Status: 503, Stream: io.NopCloser(strings.NewReader("sorry"))}, nil
			}
			f := fateOf(second)
			return f.resp, f.err
		}))
		req := get("/x")
		req.Stream = true
		resp := newEngine(t, c).Serve(t.Context(), "acme", req)
		if resp.Status != want.status || want.body != "" && string(resp.Body) != want.body || sent != 2 || resp.Stream != nil {
			t.Errorf("then one that %s: answered %d %s after %d sendings", second, resp.Status, resp.Body, sent)
		}
	}
}

// TestNobodyGetsAStreamUnasked, whatever a transport does.
func TestNobodyGetsAStreamUnasked(t *testing.T) {
	for _, fanout := range []bool{false, true} {
		c := testConfig(fixed{"acme": pinned("acme", "s01", "s02")}, sender(func(context.Context, Call, *Request) (*Response, error) {
			return &Response{Status: 200, Stream: io.NopCloser(strings.NewReader("fine"))}, nil
		}))
		c.Routes[0].Fanout = fanout
		want := map[bool]string{false: "fine", true: `{"answers":[{"status":200,"base64":"ZmluZQ=="},{"status":200,"base64":"ZmluZQ=="}]}`}[fanout]
		if resp := newEngine(t, c).Serve(t.Context(), "acme", get("/x")); resp.Stream != nil || string(resp.Body) != want {
			t.Errorf("fan-out %t: answered %+v", fanout, resp)
		}
	}
}

// TestAStreamWithoutAHeadTimesOut as any attempt does, and the other member is asked.
func TestAStreamWithoutAHeadTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		c := testConfig(fixed{"acme": pinned("acme", "s01", "s02")}, sender(func(ctx context.Context, _ Call, _ *Request) (*Response, error) {
			if sent++; sent == 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return &Response{Status: 200, Stream: io.NopCloser(strings.NewReader("fine"))}, nil
		}))
		c.AttemptTimeout = time.Second
		var seen Outcome
		c.Observe = func(o Outcome) { seen = o }
		req := get("/x")
		req.Stream = true
		start := time.Now()
		resp := newEngine(t, c).Serve(t.Context(), "acme", req)
		if took := time.Since(start); resp.Status != 200 || resp.Stream == nil || took != time.Second || !errors.Is(seen.Attempts[0].Err, context.DeadlineExceeded) {
			t.Fatalf("answered %d after %v: %+v", resp.Status, took, seen.Attempts)
		}
		resp.Stream.Close()
	})
}

// TestAHeadThatComesAsTheTimeIsOver is no answer: what follows it would break off. It is closed, and the other member
// is asked.
func TestAHeadThatComesAsTheTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent, closed := 0, 0
		c := testConfig(fixed{"acme": pinned("acme", "s01", "s02")}, sender(func(ctx context.Context, _ Call, _ *Request) (*Response, error) {
			if sent++; sent == 1 {
				<-ctx.Done()
				return &Response{Status: 200, Stream: &broken{closed: &closed}}, nil
			}
			return &Response{Status: 200, Stream: io.NopCloser(strings.NewReader("fine"))}, nil
		}))
		c.AttemptTimeout = time.Second
		var seen Outcome
		c.Observe = func(o Outcome) { seen = o }
		req := get("/x")
		req.Stream = true
		resp := newEngine(t, c).Serve(t.Context(), "acme", req)
		if body, err := io.ReadAll(resp.Stream); err != nil || string(body) != "fine" || closed != 1 {
			t.Errorf("answered %d %q, %v after %d sendings; the first stream was closed %d times", resp.Status, body, err, sent, closed)
		}
		resp.Stream.Close()
		if !errors.Is(seen.Attempts[0].Err, context.DeadlineExceeded) {
			t.Errorf("the first attempt: %v", seen.Attempts[0].Err)
		}
	})
}
