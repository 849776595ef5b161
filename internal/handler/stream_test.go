package handler

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/awsevent/awseventtest"
	"cellwall.dev/cellwall/internal/identity"
	"cellwall.dev/cellwall/internal/routing"
)

// closing is a stream that says when it is closed.
type closing struct {
	io.Reader
	closed chan struct{}
}

func newClosing(r io.Reader) *closing { return &closing{r, make(chan struct{})} }

func (c *closing) Close() error {
	select {
	case <-c.closed:
	default:
		close(c.closed)
	}
	return nil
}

// streams is a Router whose answer is a stream where the request allows it.
func streams(t *testing.T, stream io.ReadCloser) Router {
	return served(func(_ context.Context, _ string, req *routing.Request) *routing.Response {
		if !req.Stream {
			t.Error("the router is not told that the answer may be a stream")
		}
		return &routing.Response{Status: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Stream: stream}
	})
}

func streamingGateway(router Router) *Gateway {
	return NewGateway(GatewayConfig{Router: router, Identity: anybody{}, Log: quiet(), Stream: true})
}

var get = awseventtest.Client{Method: "GET", Path: "/feed"}

// answered reads what a function answered with a stream.
func answered(t *testing.T, answer io.ReadCloser) (*routing.Response, string, error) {
	t.Helper()
	typed, ok := answer.(interface{ ContentType() string })
	if !ok || typed.ContentType() != awsevent.StreamContentType {
		t.Fatalf("the answer is no stream: %T", answer)
	}
	resp, err := awsevent.ReadAnswer(answer)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Stream)
	return resp, string(body), err
}

// TestGatewayStreams: by a streaming Function URL, and only by that, everything is answered as a stream.
func TestGatewayStreams(t *testing.T) {
	stream := newClosing(strings.NewReader("one two"))
	answer, err := streamingGateway(streams(t, stream)).Answer(t.Context(), awseventtest.FunctionURL(get))
	if err != nil {
		t.Fatal(err)
	}
	resp, body, err := answered(t, answer)
	if err != nil || resp.Status != 200 || body != "one two" || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%+v %q, %v", resp, body, err)
	}
	answer.Close()
	<-stream.closed

	// What is whole, and what is refused, too.
	for payload, status := range map[string]int{string(awseventtest.FunctionURL(get)): 299, `{"version":"2.0","rawPath":"x","requestContext":{"domainName":"x.lambda-url.eu-west-1.on.aws"}}`: 400} {
		g := streamingGateway(served(func(context.Context, string, *routing.Request) *routing.Response {
			return &routing.Response{Status: 299, Body: []byte("whole")}
		}))
		answer, err := g.Answer(t.Context(), []byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		if resp, _, err := answered(t, answer); err != nil || resp.Status != status {
			t.Errorf("%+v, %v; want %d", resp, err, status)
		}
		answer.Close()
	}
	for _, sender := range awseventtest.Senders() {
		if sender.Name == "Function URL" {
			continue
		}
		g := streamingGateway(served(func(_ context.Context, _ string, req *routing.Request) *routing.Response {
			if req.Stream {
				t.Errorf("%s: the router is told that the answer may be a stream", sender.Name)
			}
			return &routing.Response{Status: 200, Body: []byte("whole")}
		}))
		answer, err := g.Answer(t.Context(), sender.Event(get))
		if err != nil {
			t.Fatal(err)
		}
		payload, err := io.ReadAll(answer)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := sender.Answer("GET", payload); err != nil || string(got.Body) != "whole" {
			t.Errorf("%s: %+v, %v", sender.Name, got, err)
		}
	}
}

// TestStreamsThroughTheRuntime: aws-lambda-go takes an answer for what is to be read, and not for a value.
func TestStreamsThroughTheRuntime(t *testing.T) {
	for name, payload := range map[string][]byte{"stream": awseventtest.FunctionURL(get), "whole": awseventtest.ALB(get)} {
		g := streamingGateway(served(func(_ context.Context, _ string, req *routing.Request) *routing.Response {
			return &routing.Response{Status: 200, Body: []byte("a body")}
		}))
		got, err := lambda.NewHandler(Lambda(g)).Invoke(t.Context(), payload)
		if err != nil || !strings.HasPrefix(string(got), `{"statusCode":200`) || strings.Contains(string(got), "\x00a body") != (name == "stream") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestGatewayStreamThatBreaks ends with an error, which says nothing of what broke.
func TestGatewayStreamThatBreaks(t *testing.T) {
	secret := errors.New("shard s01 of eu-1")
	stream := newClosing(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(secret)))
	answer, err := streamingGateway(streams(t, stream)).Answer(t.Context(), awseventtest.FunctionURL(get))
	if err != nil {
		t.Fatal(err)
	}
	if _, body, err := answered(t, answer); body != "half" || err == nil || errors.Is(err, secret) || strings.Contains(err.Error(), "s01") {
		t.Errorf("%q, %v", body, err)
	}
	answer.Close()
	<-stream.closed

	// Where the sender takes no stream, a router's is read whole, and one that breaks is no answer.
	stream = newClosing(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(secret)))
	g := gateway(served(func(context.Context, string, *routing.Request) *routing.Response {
		return &routing.Response{Status: 200, Header: http.Header{}, Stream: stream}
	}))
	resp := invoke(t, g, event(`{"tenant_id":"acme"}`, `{}`))
	if resp.Status != 502 || strings.Contains(string(resp.Body), "half") || strings.Contains(string(resp.Body), "s01") {
		t.Errorf("answered %d %s", resp.Status, resp.Body)
	}
	<-stream.closed
}

// TestGatewayStreamEndsInTime: before Lambda kills the function, and with it the environment.
func TestGatewayStreamEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		start := time.Now()
		answer, err := streamingGateway(streams(t, r)).Answer(ctx, awseventtest.FunctionURL(get))
		if err != nil {
			t.Fatal(err)
		}
		go io.WriteString(w, "one")
		_, body, err := answered(t, answer)
		if took := time.Since(start); body != "one" || err == nil || took != 20*time.Second-answerMargin {
			t.Errorf("%q, %v after %v", body, err, took)
		}
		answer.Close()
	})
}

// streamTo asks a worker for an answer that may be a stream.
func streamTo(t *testing.T, service http.HandlerFunc) io.ReadCloser {
	t.Helper()
	payload, err := awsevent.FormatRequest(&routing.Request{Method: "GET", Path: "/", Stream: true})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := NewWorker(service, quiet()).Answer(t.Context(), payload)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// TestWorkerStreams what its service flushes or makes large, while it is being made.
func TestWorkerStreams(t *testing.T) {
	more := make(chan struct{})
	answer := streamTo(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "one")
		http.NewResponseController(w).Flush()
		<-more
		w.Header().Set("X-Late", "too late")
		io.WriteString(w, " two")
	})
	resp, err := awsevent.ReadAnswer(answer)
	if err != nil || resp.Status != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%+v, %v", resp, err)
	}
	close(more)
	if body, err := io.ReadAll(resp.Stream); err != nil || string(body) != "one two" || resp.Header.Get("X-Late") != "" {
		t.Errorf("%q, %v, %v", body, resp.Header, err)
	}
	answer.Close()

	large := strings.Repeat("x", 2*routing.MaxBody)
	answer = streamTo(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, large) })
	if _, body, err := answered(t, answer); err != nil || body != large {
		t.Errorf("%d bytes, %v", len(body), err)
	}
	answer.Close()
}

// TestWorkerAnswersWhole what is small and not flushed, though it may stream: that can be asked for again elsewhere.
func TestWorkerAnswersWhole(t *testing.T) {
	for name, service := range map[string]http.HandlerFunc{
		"said": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); io.WriteString(w, "made") },
		"not":  func(http.ResponseWriter, *http.Request) {},
		"lost": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "half"); panic("secret") },
	} {
		payload, err := io.ReadAll(streamTo(t, service))
		if err != nil {
			t.Fatal(err)
		}
		got, err := awsevent.ParseAnswer(payload)
		want := map[string]int{"said": 201, "not": 200, "lost": 500}[name]
		if err != nil || got.Status != want || strings.Contains(string(got.Body), "secret") || strings.Contains(string(got.Body), "half") {
			t.Errorf("%s: %s, %v", name, payload, err)
		}
	}
}

// TestWorkerStreamThatBreaks ends with an error.
func TestWorkerStreamThatBreaks(t *testing.T) {
	answer := streamTo(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		panic("secret")
	})
	if _, body, err := answered(t, answer); body != "half" || err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%q, %v", body, err)
	}
	answer.Close()
}

// TestWorkerStreamIsLetGo: when nobody reads on, the service is told, and has ended before the next request.
func TestWorkerStreamIsLetGo(t *testing.T) {
	ended := false
	answer := streamTo(t, func(w http.ResponseWriter, r *http.Request) {
		defer func() { ended = true }()
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		if _, err := io.WriteString(w, "more"); err == nil {
			t.Error("the service may go on")
		}
	})
	answer.Close()
	if !ended {
		t.Error("the service is still at work")
	}
}

// TestHTTPStreams: the client gets what there is, and a broken answer as a broken one.
func TestHTTPStreams(t *testing.T) {
	more := make(chan error)
	stream := func() io.ReadCloser {
		r, w := io.Pipe()
		go func() {
			io.WriteString(w, "one")
			w.CloseWithError(<-more)
		}()
		return r
	}
	server := httptest.NewServer(NewHTTP(HTTPConfig{Identity: identity.NewVerified(tokens{}), Log: quiet(), Stream: true,
		Router: served(func(_ context.Context, _ string, req *routing.Request) *routing.Response {
			return streams(t, stream()).Serve(t.Context(), "acme", req)
		})}))
	defer server.Close()
	for name, end := range map[string]error{"whole": nil, "broken": errors.New("shard s01")} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer acme")
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 3)
		if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != "one" {
			t.Errorf("%s: %q, %v before the end", name, first, err)
		}
		more <- end
		if rest, err := io.ReadAll(resp.Body); (err == nil) != (end == nil) || len(rest) > 0 {
			t.Errorf("%s: then %q, %v", name, rest, err)
		}
		resp.Body.Close()
	}
}

// TestHTTPStreamOfAClientThatLeft is closed.
func TestHTTPStreamOfAClientThatLeft(t *testing.T) {
	r, w := io.Pipe()
	server := httptest.NewServer(NewHTTP(HTTPConfig{Router: streams(t, r), Identity: identity.NewVerified(tokens{}), Log: quiet(), Stream: true}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer acme")
	go func() {
		io.WriteString(w, "one")
		cancel()
	}()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err == nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	for err = nil; err == nil; {
		_, err = io.WriteString(w, "more")
	}
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}
