package routing

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
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
