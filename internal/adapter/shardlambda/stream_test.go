package shardlambda

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/routing"
)

// frames writes a streamed invocation as Lambda's API does.
type frames struct {
	t *testing.T
	w http.ResponseWriter
}

func (f frames) send(kind, contentType string, payload []byte) {
	var m eventstream.Message
	m.Headers.Set(":message-type", eventstream.StringValue("event"))
	m.Headers.Set(":event-type", eventstream.StringValue(kind))
	m.Headers.Set(":content-type", eventstream.StringValue(contentType))
	m.Payload = payload
	if err := eventstream.NewEncoder().Encode(f.w, m); err != nil {
		f.t.Log(err) // the client left
	}
	f.w.(http.Flusher).Flush()
}

func (f frames) chunk(text string) { f.send("PayloadChunk", "application/octet-stream", []byte(text)) }

func (f frames) complete(code, details string) {
	event := map[string]string{}
	if code != "" {
		event = map[string]string{"ErrorCode": code, "ErrorDetails": details}
	}
	payload, err := json.Marshal(event)
	if err != nil {
		f.t.Error(err)
	}
	f.send("InvokeComplete", "application/json", payload)
}

// asNetworks is waited before an answer. The SDK closes the request's body when it has the answer's head, and net/http
// closes the connection if it has not seen that body's end by then. No network answers so fast; loopback does.
const asNetworks = 20 * time.Millisecond

// streaming is a Transport whose slice's invocations are streamed so.
func streaming(t *testing.T, write func(frames)) *Transport {
	return api(t, func(w http.ResponseWriter, r *http.Request) {
		if want := "/2021-11-15/functions/orders-eu-1-s01-worker%3Alive/response-streaming-invocations"; r.URL.EscapedPath() != want {
			t.Errorf("path %s, want %s", r.URL.EscapedPath(), want)
		}
		payload, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if req, err := awsevent.ParseRequest(payload); err != nil || !req.Stream || req.Header.Get("Cellwall-Tenant") != "acme" {
			t.Errorf("the slice is told %s, %v", payload, err)
		}
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		time.Sleep(asNetworks)
		write(frames{t, w})
	})
}

var streamed = &routing.Request{Method: "GET", Path: "/feed", Header: http.Header{"Cellwall-Tenant": {"acme"}}, Stream: true}

const head = `{"statusCode":200,"headers":{"content-type":"text/event-stream"}}` + "\x00\x00\x00\x00\x00\x00\x00\x00"

// TestStream: the head is there while the body is being made.
func TestStream(t *testing.T) {
	more := make(chan struct{})
	tr := streaming(t, func(f frames) {
		f.chunk(head[:20])
		f.chunk(head[20:] + "one")
		<-more
		f.chunk(" two")
		f.complete("", "")
	})
	resp, err := tr.Send(t.Context(), call, streamed)
	if err != nil || resp.Status != 200 || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Stream == nil {
		t.Fatalf("%+v, %v", resp, err)
	}
	close(more)
	body, err := io.ReadAll(resp.Stream)
	if err != nil || string(body) != "one two" {
		t.Errorf("%q, %v", body, err)
	}
	if err := resp.Stream.Close(); err != nil {
		t.Error(err)
	}
}

// TestStreamThatBreaks ends with an error, whatever broke it, and was asked for once.
func TestStreamThatBreaks(t *testing.T) {
	for name, end := range map[string]func(frames){
		"the function fails": func(f frames) {
			f.complete("Unhandled", `{"errorType":"errorString","errorMessage":"the answer broke off"}`)
		},
		"it takes too long": func(f frames) { f.complete("Sandbox.Timedout", "Task timed out after 20.00 seconds") },
		"without a word":    func(frames) {},
		"the line breaks":   func(frames) { panic(http.ErrAbortHandler) },
	} {
		calls := 0
		tr := streaming(t, func(f frames) {
			calls++
			f.chunk(head + "one")
			end(f)
		})
		resp, err := tr.Send(t.Context(), call, streamed)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		body, err := io.ReadAll(resp.Stream)
		if err == nil || string(body) != "one" || calls != 1 {
			t.Errorf("%s: %q, %v, %d calls", name, body, err, calls)
		}
		resp.Stream.Close()
	}
}

// TestStreamWithoutHead is no answer, and says what it can of the effect.
func TestStreamWithoutHead(t *testing.T) {
	for name, test := range map[string]struct {
		write func(frames)
		slow  bool
	}{
		"crash": {write: func(f frames) {
			f.complete("Unhandled", `{"errorType":"Runtime.ExitError","errorMessage":"exit status 1"}`)
		}},
		"time-out": {write: func(f frames) {
			f.complete("Unhandled", `{"errorType":"Sandbox.Timedout","errorMessage":"Task timed out after 20.00 seconds"}`)
		}, slow: true},
		"half a head":  {write: func(f frames) { f.chunk(head[:20]); f.complete("", "") }},
		"no end":       {write: func(f frames) { f.chunk(head[:20]) }},
		"nothing":      {write: func(frames) {}},
		"an exception": {write: func(f frames) { panic(http.ErrAbortHandler) }},
	} {
		resp, err := streaming(t, test.write).Send(t.Context(), call, streamed)
		if err == nil || errors.Is(err, routing.ErrNotSent) || errors.Is(err, context.DeadlineExceeded) != test.slow {
			t.Errorf("%s: %+v, %v", name, resp, err)
		}
	}
}

// TestSliceThatDoesNotStream answers as ever.
func TestSliceThatDoesNotStream(t *testing.T) {
	tr := streaming(t, func(f frames) {
		f.chunk(`{"statusCode":201,`)
		f.chunk(`"body":"made"}`)
		f.complete("", "")
	})
	resp, err := tr.Send(t.Context(), call, streamed)
	if err != nil || resp.Status != 201 || resp.Stream != nil || string(resp.Body) != "made" {
		t.Errorf("%+v, %v", resp, err)
	}
}

// TestStreamIsRefused: refusals say the same of a streamed invocation.
func TestStreamIsRefused(t *testing.T) {
	tr := api(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amzn-ErrorType", "TooManyRequestsException")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	if _, err := tr.Send(t.Context(), call, streamed); !errors.Is(err, routing.ErrNotSent) {
		t.Errorf("a throttled slice: %v", err)
	}
}

// TestStreamThatHangs ends with the context, before its head and after it.
func TestStreamThatHangs(t *testing.T) {
	for name, text := range map[string]string{"before": head[:10], "after": head + "one"} {
		release := make(chan struct{})
		tr := streaming(t, func(f frames) {
			f.chunk(text)
			<-release
		})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		resp, err := tr.Send(ctx, call, streamed)
		if name == "after" {
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(resp.Stream); err == nil || string(body) != "one" {
				t.Errorf("after the head: %q, %v", body, err)
			}
			resp.Stream.Close()
		} else if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("before the head: %+v, %v", resp, err)
		}
		cancel()
		close(release)
	}
}

// TestClosedStreamLetsGo: who closes a stream waits for nobody, and the invocation's connection ends.
func TestClosedStreamLetsGo(t *testing.T) {
	gone := make(chan struct{})
	tr := api(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		time.Sleep(asNetworks)
		frames{t, w}.chunk(head + "one")
		<-r.Context().Done()
		close(gone)
	})
	resp, err := tr.Send(t.Context(), call, streamed)
	if err != nil {
		t.Fatal(err)
	}
	resp.Stream.Close()
	<-gone
}
