package shardhttp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/routing"
)

// TestSwitchedProtocol: a shard that changes the protocol, which nobody asked it for, has not answered. net/http
// hands its connection over, to which no context applies any more: who reads on waits for as long as the shard likes.
func TestSwitchedProtocol(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		conn.Read(make([]byte, 4096))
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n")
		conn.Read(make([]byte, 1)) // until the router lets go
	}()
	defer listener.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := transport(t, at("http://"+listener.Addr().String()), nil).Send(ctx, call, &routing.Request{Method: "GET", Path: "/", Header: http.Header{}})
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil || errors.Is(err, routing.ErrNotSent) {
			t.Errorf("a shard that switched the protocol: %v", err)
		}
	case <-ctx.Done():
		t.Fatal("Send waits for the shard beyond its context")
	}
	<-closed
}

// TestLocationsAreOfTheService: services and the servers before them make absolute addresses of the host that they
// are asked by, which is the shard's name. It goes no further.
func TestLocationsAreOfTheService(t *testing.T) {
	var location string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Location"] = []string{location}
		w.Header()["Content-Location"] = []string{location}
		w.WriteHeader(http.StatusMovedPermanently)
	}))
	defer server.Close()
	port := strings.TrimPrefix(server.URL, "http://127.0.0.1")
	tr := transport(t, at("http://localhost"+port), nil)
	for given, want := range map[string]string{
		"http://localhost" + port + "/a%2Fb/?q=%20&x#f": "/a%2Fb/?q=%20&x#f",
		"https://LOCALHOST/a":                           "/a",
		"http://localhost:8080/a":                       "/a", // the port behind the load balancer
		"//localhost/a":                                 "/a",
		"http://user:pw@localhost/a":                    "/a",
		"http://localhost":                              "/",
		"http://localhost?q":                            "/?q",
		"http://localhost//evil.example/":               "/.//evil.example/",
		"http://localhost/%zz":                          "",
		"http://localhost.example.com/a":                "http://localhost.example.com/a",
		"https://login.example.com/?back=localhost":     "https://login.example.com/?back=localhost",
		"/a": "/a",
		"b":  "b",
	} {
		location = given
		resp, err := tr.Send(t.Context(), call, &routing.Request{Method: "GET", Path: "/", Header: http.Header{}})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"Location", "Content-Location"} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s %q became %q, want %q", name, given, got, want)
			}
		}
	}
}
