package shardhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"cellwall.dev/cellwall/internal/routing"
)

// page is what an Application Load Balancer says by itself.
func page(title string) string {
	return fmt.Sprintf("<html>\r\n<head><title>%s</title></head>\r\n<body>\r\n<center><h1>%s</h1></center>\r\n</body>\r\n</html>\r\n", title, title)
}

// TestTheLoadBalancersOwnAnswers are no answers of the service: the client of a POST that may have been executed must
// be told so. A service's own pass, and nobody takes one for the load balancer's word that it has no targets.
func TestTheLoadBalancersOwnAnswers(t *testing.T) {
	const html, problem = "text/html; charset=utf-8", "application/problem+json"
	for _, c := range []struct {
		name, server, contentType, body string
		status                          int
		want                            error // nil: the answer passes; io.EOF stands for any other error
	}{
		{"its 502", "awselb/2.0", "text/html", page("502 Bad Gateway"), 502, io.EOF},
		{"its 503", "awselb/2.0", html, page("503 Service Temporarily Unavailable"), 503, routing.ErrNotSent},
		{"its 504", "awselb/2.0", "text/html", page("504 Gateway Time-out"), 504, context.DeadlineExceeded},
		{"a 503 of a function behind it, in HTML", "awselb/2.0", html, page("We are down"), 503, io.EOF},
		{"a problem of a function behind it", "awselb/2.0", problem, "{}", 503, nil},
		{"a service's 502", "", problem, "{}", 502, nil},
		{"a service's 504 in HTML", "nginx", html, page("504 Gateway Time-out"), 504, nil},
		{"a service's 503 in the same words", "", html, page("503 Service Temporarily Unavailable"), 503, nil},
		{"its 404", "awselb/2.0", html, page("404 Not Found"), 404, nil},
		{"a rule's fixed answer", "awselb/2.0", "text/plain", "no such shard here", 421, nil},
	} {
		for _, stream := range []bool{false, true} {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if c.server != "" {
					w.Header().Set("Server", c.server)
				}
				w.Header().Set("Content-Type", c.contentType)
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			}))
			resp, err := transport(t, at(server.URL), nil).Send(t.Context(), call, &routing.Request{Method: "POST", Path: "/", Header: http.Header{}, Stream: stream})
			switch {
			case c.want == nil && (err != nil || resp.Status != c.status):
				t.Errorf("%s: %+v, %v; want it to pass", c.name, resp, err)
			case c.want != nil && err == nil:
				t.Errorf("%s: passed on with %d", c.name, resp.Status)
			case c.want != nil && errors.Is(err, routing.ErrNotSent) != (c.want == routing.ErrNotSent),
				c.want != nil && errors.Is(err, context.DeadlineExceeded) != (c.want == context.DeadlineExceeded):
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
			if resp != nil && resp.Stream != nil {
				resp.Stream.Close()
			}
			server.Close()
		}
	}
}
