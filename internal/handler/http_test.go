package handler

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/identity"
	"cellwall.dev/cellwall/internal/routing"
)

// tokens is an identity.TokenVerifier in which a token is the tenant's name.
type tokens struct{ down bool }

func (v tokens) Verify(_ context.Context, token string) (string, error) {
	switch {
	case v.down:
		return "", errors.New("issuer does not answer")
	case token == "bad":
		return "", fmt.Errorf("%w: signature", routing.ErrToken)
	}
	return token, nil
}

func listen(t *testing.T, router Router, v identity.TokenVerifier) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(NewHTTP(HTTPConfig{Router: router, Identity: identity.NewVerified(v), Log: quiet()}))
	t.Cleanup(server.Close)
	return server
}

func ask(t *testing.T, method, url string, body io.Reader, headers ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

func TestHTTPRoutesTheTokensTenant(t *testing.T) {
	var got routing.Request
	server := listen(t, served(func(_ context.Context, tenant string, req *routing.Request) *routing.Response {
		got = *req
		return &routing.Response{Status: 201, Header: http.Header{"Set-Cookie": {"a=1", "b=2"}}, Body: []byte(tenant)}
	}), tokens{})
	status, header, body := ask(t, "PUT", server.URL+"/a%2Fb/..%20?q=1&q=%20", strings.NewReader("text"),
		"Authorization", "Bearer acme", "Cellwall-Tenant", "mallory", "Accept", "a", "Accept", "b")
	if status != 201 || body != "acme" || strings.Join(header.Values("Set-Cookie"), "|") != "a=1|b=2" {
		t.Errorf("answered %d %q %v", status, body, header)
	}
	if got.Method != "PUT" || got.Path != "/a%2Fb/..%20" || got.RawQuery != "q=1&q=%20" || string(got.Body) != "text" ||
		strings.Join(got.Header.Values("Accept"), "|") != "a|b" || got.Header.Get("Host") != strings.TrimPrefix(server.URL, "http://") {
		t.Errorf("routed %+v", got)
	}
	status, _, body = ask(t, "HEAD", server.URL+"/", nil, "Authorization", "bearer acme")
	if status != 201 || body != "" {
		t.Errorf("HEAD answered %d %q", status, body)
	}
}

func TestHTTPRefuses(t *testing.T) {
	router := served(func(context.Context, string, *routing.Request) *routing.Response {
		t.Error("routed")
		return routing.Problem(500, "x")
	})
	server := listen(t, router, tokens{})
	for _, headers := range [][]string{
		{}, {"Authorization", ""}, {"Authorization", "Bearer"}, {"Authorization", "Bearer "}, {"Authorization", "Basic acme"}, {"Authorization", "acme"},
		{"Authorization", "Bearer acme", "Authorization", "Bearer beta"}, {"Cellwall-Tenant", "acme"}, {"Authorization", "Bearer bad"},
	} {
		status, header, body := ask(t, "GET", server.URL+"/", nil, headers...)
		if status != 401 || header.Get("WWW-Authenticate") != "Bearer" || header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%v: answered %d %s", headers, status, body)
		}
	}
	if status, _, _ := ask(t, "GET", listen(t, router, tokens{down: true}).URL+"/", nil, "Authorization", "Bearer acme"); status != 503 {
		t.Errorf("issuer down: answered %d", status)
	}
	large := strings.NewReader(strings.Repeat("x", routing.MaxBody+1))
	if status, _, _ := ask(t, "PUT", server.URL+"/", large, "Authorization", "Bearer acme"); status != 413 {
		t.Errorf("large body: answered %d", status)
	}
}

// TestHTTPRefusesBeforeTheBody: who is over a limit is told so by the head of the request, whose body the router does
// not wait for.
func TestHTTPRefusesBeforeTheBody(t *testing.T) {
	server := listen(t, over{}, tokens{})
	conn, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PUT / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer acme\r\nContent-Length: %d\r\n\r\n", routing.MaxBody)
	conn.SetReadDeadline(time.Now().Add(10 * time.Second)) // of which nobody sends a byte
	head := make([]byte, len("HTTP/1.1 429 "))
	if _, err := io.ReadFull(conn, head); err != nil || string(head) != "HTTP/1.1 429 " {
		t.Errorf("answered %q, %v", head, err)
	}
}

// over is a Router by whose limits nobody is let in.
type over struct{}

func (over) Serve(context.Context, string, *routing.Request) *routing.Response {
	return routing.Problem(http.StatusTooManyRequests, "too much")
}

func TestHTTPPanicNamesNothing(t *testing.T) {
	server := listen(t, served(func(context.Context, string, *routing.Request) *routing.Response { panic("shard s01") }), tokens{})
	status, _, body := ask(t, "GET", server.URL+"/", nil, "Authorization", "Bearer acme")
	if status != 500 || strings.Contains(body, "s01") {
		t.Errorf("answered %d %s", status, body)
	}
}

func TestHTTPBodyThatBreaksOff(t *testing.T) {
	server := listen(t, served(echo), tokens{})
	conn, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PUT / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer acme\r\nContent-Length: 10\r\n\r\nabc")
	conn.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") {
		t.Errorf("answered %s", answer)
	}
}

// TestAnnouncedTooLargeIsRefusedAtOnce: nobody waits for, or reads, what no shard will get.
func TestAnnouncedTooLargeIsRefusedAtOnce(t *testing.T) {
	server := listen(t, served(func(context.Context, string, *routing.Request) *routing.Response {
		t.Error("routed")
		return &routing.Response{Status: 200}
	}), tokens{})
	conn, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "PUT / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer acme\r\nContent-Length: %d\r\n\r\n", routing.MaxBody+1)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("answered %d", resp.StatusCode)
	}
}
