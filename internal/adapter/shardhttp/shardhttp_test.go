package shardhttp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/routing"
)

var call = routing.Call{Tenant: "acme", Epoch: 3, Shard: "s01"}

func at(url string) func(string) (string, error) {
	return func(string) (string, error) { return url, nil }
}

func transport(t *testing.T, base func(string) (string, error), header http.Header) *Transport {
	t.Helper()
	tr := New(base, header)
	t.Cleanup(tr.CloseIdle)
	return tr
}

func TestCarriesTheRequestAsItIs(t *testing.T) {
	type seen struct {
		Method, URI, Host, Body string
		Header                  http.Header
	}
	var got seen
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = seen{r.Method, r.RequestURI, r.Host, string(body), r.Header}
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Add("Set-Cookie", "b=2")
		w.Header().Set("Content-Encoding", "gzip") // says so and is not; nobody looks
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusFound)
		io.WriteString(w, "body")
	}))
	defer server.Close()
	tr := transport(t, at(server.URL), http.Header{"cellwall-secret": {"s"}})
	sent := http.Header{"Accept": {"a", "b"}, "Idempotency-Key": {"k"}, "Host": {"api.example.com"}, "Cellwall-Tenant": {"acme"}, "Cellwall-Secret": {"forged"}}
	before := sent.Clone()
	resp, err := tr.Send(t.Context(), call, &routing.Request{Method: "PUT", Path: "/a%2Fb/%C3%BC//c:d", RawQuery: "q=1&q=%20&x", Header: sent, Body: []byte("text")})
	if err != nil {
		t.Fatal(err)
	}
	want := seen{"PUT", "/a%2Fb/%C3%BC//c:d?q=1&q=%20&x", strings.TrimPrefix(server.URL, "http://"), "text",
		http.Header{"Accept": {"a", "b"}, "Idempotency-Key": {"k"}, "Cellwall-Tenant": {"acme"}, "Cellwall-Secret": {"s"}, "Content-Length": {"4"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("at the shard (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, sent); diff != "" {
		t.Errorf("the request's headers were changed:\n%s", diff)
	}
	if resp.Status != 302 || string(resp.Body) != "body" || resp.Header.Get("Location") != "/elsewhere" || len(resp.Header.Values("Set-Cookie")) != 2 {
		t.Errorf("answered %d %v %q", resp.Status, resp.Header, resp.Body)
	}
}

func TestMethodsWithoutABody(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "DELETE", "POST", "PUT", "PATCH", "OPTIONS"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if len(body) > 0 || len(r.TransferEncoding) > 0 || r.ContentLength > 0 {
				t.Errorf("%s: body %q, encoding %v, length %d", r.Method, body, r.TransferEncoding, r.ContentLength)
			}
			w.Header().Set("Content-Length", "3")
			io.WriteString(w, "abc")
		}))
		resp, err := transport(t, at(server.URL), nil).Send(t.Context(), call, &routing.Request{Method: method, Path: "/", Header: http.Header{}})
		server.Close()
		if err != nil || resp.Status != 200 {
			t.Errorf("%s: %+v, %v", method, resp, err)
			continue
		}
		if wantBody := method != "HEAD"; (string(resp.Body) == "abc") != wantBody {
			t.Errorf("%s: body %q", method, resp.Body)
		}
	}
}

func TestNotSent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + listener.Addr().String()
	listener.Close()
	for name, base := range map[string]func(string) (string, error){
		"nobody listens": at(closed),
		"no address":     func(string) (string, error) { return "", errors.New("no process") },
		"bad address":    at("http://127.0.0.1:port"),
	} {
		_, err := transport(t, base, nil).Send(t.Context(), call, &routing.Request{Method: "POST", Path: "/", Header: http.Header{}})
		if !errors.Is(err, routing.ErrNotSent) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// breaking is a server that answers a first request on each connection and breaks the connection under
// the second, after having read it.
func breaking(t *testing.T) (url string, requests *atomic.Int32) {
	t.Helper()
	requests = new(atomic.Int32)
	var perConn atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		requests.Add(1)
		if perConn.Add(1)%2 == 0 {
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

// TestNothingIsRepeatedHere: net/http repeats by itself what it takes for repeatable when a kept-alive
// connection breaks, a POST with an Idempotency-Key among it.
func TestNothingIsRepeatedHere(t *testing.T) {
	for _, req := range []*routing.Request{
		{Method: "POST", Path: "/", Header: http.Header{"Idempotency-Key": {"k"}}, Body: []byte("x")},
		{Method: "POST", Path: "/", Header: http.Header{"Idempotency-Key": {"k"}}},
		{Method: "POST", Path: "/", Header: http.Header{"X-Idempotency-Key": {"k"}}},
		{Method: "PUT", Path: "/", Header: http.Header{}, Body: []byte("x")},
		{Method: "PUT", Path: "/", Header: http.Header{}},
		{Method: "GET", Path: "/", Header: http.Header{}},
		{Method: "HEAD", Path: "/", Header: http.Header{}},
		{Method: "DELETE", Path: "/", Header: http.Header{"Idempotency-Key": {"k"}}},
		{Method: "POST", Path: "/", Header: http.Header{}},
	} {
		url, requests := breaking(t)
		tr := transport(t, at(url), nil)
		if _, err := tr.Send(t.Context(), call, req); err != nil {
			t.Fatal(err)
		}
		_, err := tr.Send(t.Context(), call, req)
		if err == nil || errors.Is(err, routing.ErrNotSent) {
			t.Errorf("%s %v: a request that was read is reported as %v", req.Method, req.Header, err)
		}
		if n := requests.Load(); n != 2 {
			t.Errorf("%s %v: %d requests arrived, want 2", req.Method, req.Header, n)
		}
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	raw := func(t *testing.T, answer string) string {
		t.Helper()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				conn.Read(make([]byte, 4096))
				io.WriteString(conn, answer)
				conn.Close()
			}
		}()
		return "http://" + listener.Addr().String()
	}
	for name, answer := range map[string]string{
		"nothing": "", "no HTTP": "hello\r\n", "cut off in the header": "HTTP/1.1 200 OK\r\nX: y", "cut off in the body": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
		"header without end": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 2*maxHeader) + "\r\n\r\n",
	} {
		resp, err := transport(t, at(raw(t, answer)), nil).Send(t.Context(), call, &routing.Request{Method: "GET", Path: "/", Header: http.Header{}})
		if err == nil || errors.Is(err, routing.ErrNotSent) {
			t.Errorf("%s: %+v, %v", name, resp, err)
		}
	}
}

func TestAnswerTooLarge(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, routing.MaxBody+1)) }))
	defer server.Close()
	resp, err := transport(t, at(server.URL), nil).Send(t.Context(), call, &routing.Request{Method: "GET", Path: "/", Header: http.Header{}})
	if err != nil || resp.Status != 500 || !strings.Contains(string(resp.Body), routing.TypeAnswerTooLarge) {
		t.Errorf("answered %+v, %v; want the problem that says so, which no other shard is asked about", resp, err)
	}
}

func TestDeadline(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := transport(t, at(server.URL), nil).Send(ctx, call, &routing.Request{Method: "POST", Path: "/", Header: http.Header{}})
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, routing.ErrNotSent) {
		t.Errorf("a shard that hangs: %v", err)
	}
}

// TestStream: an answer that may be a stream is one, and ends well or not as the shard's does.
func TestStream(t *testing.T) {
	more := make(chan string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "one")
		w.(http.Flusher).Flush()
		if <-more == "break" {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, " two")
	}))
	defer server.Close()
	tr := transport(t, at(server.URL), nil)
	for how, want := range map[string]string{"end": "one two", "break": "one"} {
		resp, err := tr.Send(t.Context(), call, &routing.Request{Method: "GET", Path: "/", Header: http.Header{}, Stream: true})
		if err != nil || resp.Status != 200 || resp.Stream == nil {
			t.Fatalf("%+v, %v", resp, err)
		}
		more <- how
		body, err := io.ReadAll(resp.Stream)
		if string(body) != want || (err == nil) != (how == "end") {
			t.Errorf("%s: %q, %v", how, body, err)
		}
		resp.Stream.Close()
	}
}

// TestStreamThatHangs ends with the context, before its head and after it.
func TestStreamThatHangs(t *testing.T) {
	for _, begins := range []bool{false, true} {
		release := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if begins {
				io.WriteString(w, "one")
				w.(http.Flusher).Flush()
			}
			<-release
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		resp, err := transport(t, at(server.URL), nil).Send(ctx, call, &routing.Request{Method: "GET", Path: "/", Header: http.Header{}, Stream: true})
		switch {
		case !begins && !errors.Is(err, context.DeadlineExceeded):
			t.Errorf("before the head: %+v, %v", resp, err)
		case begins && err != nil:
			t.Errorf("after the head: %v", err)
		case begins:
			if body, err := io.ReadAll(resp.Stream); err == nil || string(body) != "one" {
				t.Errorf("after the head: %q, %v", body, err)
			}
			resp.Stream.Close()
		}
		cancel()
		close(release)
		server.Close()
	}
}

// TestClosedStreamLetsGo: who closes a stream waits for nobody, and the shard hears of it.
func TestClosedStreamLetsGo(t *testing.T) {
	gone := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	}))
	defer server.Close()
	resp, err := transport(t, at(server.URL), nil).Send(t.Context(), call, &routing.Request{Method: "GET", Path: "/", Header: http.Header{}, Stream: true})
	if err != nil {
		t.Fatal(err)
	}
	resp.Stream.Close()
	<-gone
}
