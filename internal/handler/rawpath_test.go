package handler

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/routing"
)

// TestHTTPKeepsThePathAsSent: also one with bytes that no client should send raw.
func TestHTTPKeepsThePathAsSent(t *testing.T) {
	var got string
	server := listen(t, served(func(_ context.Context, _ string, req *routing.Request) *routing.Response {
		got = req.Path
		return &routing.Response{Status: 204}
	}), tokens{})
	for _, path := range []string{"/a%2Fb/c", "/a%2Fb/{c}", `/a%2Fb/"\^|`, "/{c}", "/a b%2Fc", "/"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer acme\r\n\r\n", path)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		if resp.StatusCode == http.StatusBadRequest && strings.Contains(path, " ") {
			continue // no request line
		}
		decodes := func(s string) string { return strings.NewReplacer("{", "%7B", "}", "%7D").Replace(s) }
		if resp.StatusCode != 204 || decodes(got) != decodes(path) {
			t.Errorf("%s arrives as %s, answered %d", path, got, resp.StatusCode)
		}
	}
}
