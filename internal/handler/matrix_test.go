package handler

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/adapter/shardhttp"
	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/awsevent/awseventtest"
	"cellwall.dev/cellwall/internal/identity"
	"cellwall.dev/cellwall/internal/routing"
)

// anybody is an identity.Source for events of which some carry no token.
type anybody struct{}

func (anybody) Caller(context.Context, *awsevent.Event) (identity.Caller, error) {
	return identity.Caller{Tenant: "acme"}, nil
}

// received is a request as a shard's service sees it.
type received struct {
	Method, URI, Body string
	Length            int64
	Header            http.Header
}

// shard is a service that keeps what it sees, and answers.
type shard struct {
	got    received
	answer func(http.ResponseWriter)
}

func (s *shard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	s.got = received{r.Method, r.RequestURI, string(body), r.ContentLength, r.Header}
	s.answer(w)
}

// ways are the transports of requests to a shard: its slice, and its target group.
func ways(t *testing.T, s *shard) map[string]routing.Transport {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	target := shardhttp.New(func(string) (string, error) { return server.URL, nil }, nil)
	t.Cleanup(target.CloseIdle)
	return map[string]routing.Transport{"slice": slice{NewWorker(s, quiet())}, "target group": target}
}

// slice invokes a worker in this process.
type slice struct{ worker *Worker }

func (s slice) Send(ctx context.Context, _ routing.Call, req *routing.Request) (*routing.Response, error) {
	payload, err := awsevent.FormatRequest(req)
	if err != nil {
		return nil, err
	}
	answer, err := s.worker.Invoke(ctx, payload)
	if err != nil {
		return nil, err
	}
	return awsevent.ParseAnswer(answer)
}

// direct is a Router that sends every request one way, as it is.
func direct(t *testing.T, way routing.Transport) Router {
	return served(func(ctx context.Context, _ string, req *routing.Request) *routing.Response {
		sent := *req
		sent.Header = req.Header.Clone()
		sent.Header.Del("Content-Length") // each transport states the length of what it carries
		resp, err := way.Send(ctx, routing.Call{}, &sent)
		if err != nil {
			t.Error(err)
			return routing.Problem(502, "x")
		}
		return resp
	})
}

// matrix sends a request by every sender and every way to a shard that answers so, and has check look at what the
// shard saw and the client got.
func matrix(t *testing.T, client awseventtest.Client, answer func(http.ResponseWriter), check func(t *testing.T, sender, way string, got received, answer awseventtest.Answer)) {
	t.Helper()
	for _, sender := range awseventtest.Senders() {
		s := &shard{answer: answer}
		for way, transport := range ways(t, s) {
			g := NewGateway(GatewayConfig{Router: direct(t, transport), Identity: anybody{}, Log: quiet()})
			s.got = received{}
			payload, err := g.Invoke(t.Context(), sender.Event(client))
			if err != nil {
				t.Fatalf("%s, %s: %v", sender.Name, way, err)
			}
			got, err := sender.Answer(client.Method, payload)
			if err != nil {
				t.Errorf("%s, %s: the client gets an error of the sender for %s: %v", sender.Name, way, payload, err)
				continue
			}
			check(t, sender.Name, way, s.got, got)
		}
	}
}

func ok(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) }

const (
	httpAPI, restAPI, alb, albMulti = "HTTP API", "REST API", "ALB", "multi-value ALB"
	everybody                       = "" // the senders that are not named
)

// seen picks what is expected of a sender.
func seen(want map[string]string, sender string) string {
	if special, ok := want[sender]; ok {
		return special
	}
	return want[everybody]
}

// TestMatrixPath: the shard sees the bytes that the client sent, but behind an HTTP API, which decodes them: there
// it sees a path that decodes to the same, and never a query.
func TestMatrixPath(t *testing.T) {
	for path, decodedWay := range map[string]string{
		"/a/b": "/a/b", "/a%2Fb": "/a/b", "/a%2fb": "/a/b", "/a%3Ab": "/a:b", "/a:b": "/a:b", "/100%25": "/100%25", "/a%252Fb": "/a%252Fb",
		"/a+b": "/a+b", "/a%2Bb": "/a+b", "/a%20b": "/a%20b", "/%C3%BC": "/%C3%BC", "/%E6%97%A5/%F0%9F%98%80": "/%E6%97%A5/%F0%9F%98%80",
		"/users/me%3Fadmin=true": "/users/me%3Fadmin=true", "/a%23b": "/a%23b", "/a%00b": "/a%00b", "//x//y/": "//x//y/", "/a;b,c@d": "/a;b,c@d",
		"/%2e%2e/b": "/../b", "/a%5Cb": "/a%5Cb", "/a%22b%7B": "/a%22b%7B",
	} {
		matrix(t, awseventtest.Client{Method: "GET", Path: path}, ok, func(t *testing.T, sender, way string, got received, _ awseventtest.Answer) {
			if want := seen(map[string]string{everybody: path, httpAPI: decodedWay}, sender); got.URI != want {
				t.Errorf("%s, %s: %s arrives as %s, want %s", sender, way, path, got.URI, want)
			}
		})
	}
}

// TestMatrixQuery: format 2.0 hands the query over as it was sent; a REST API decodes it; a load balancer keeps the
// bytes, and of several values the last where it has no lists. Lists bring the values of a key together, in order.
func TestMatrixQuery(t *testing.T) {
	for _, test := range []struct {
		sent, rest, alb, albMulti string // as sent where the others are empty
	}{
		{sent: "a=1&b=2"},
		{"a=1&b=2&a=3&a=2", "a=1&a=3&a=2&b=2", "a=2&b=2", "a=1&a=3&a=2&b=2"},
		{"b=1&a=&c", "b=1&a=&c=", "b=1&a=&c=", "b=1&a=&c="},
		{"a=&a=1&a=", "", "a=", ""},
		{sent: "t=10%3A30%3A00"},
		{sent: "q=%26%3D%25%23%2B"},
		{"q=a+b%20c", "q=a%20b%20c", "", ""},
		{sent: "u=%C3%BC%E6%97%A5"},
		{"filter[x]=1&k%5B%5D=a", "filter%5Bx%5D=1&k%5B%5D=a", "", ""},
		{"e=a=b=c", "e=a%3Db%3Dc", "", ""},
		{"p=%2e%2F%2f", "p=.%2F%2F", "", ""},
		{sent: "back=https%3A%2F%2Fexample.com%2F%3Fa%3D1%26b%3D2"},
		{"list=a,b&list=c%2Cd", "list=a%2Cb&list=c%2Cd", "list=c%2Cd", ""},
	} {
		want := map[string]string{everybody: test.sent}
		for name, special := range map[string]string{restAPI: test.rest, alb: test.alb, albMulti: test.albMulti} {
			if special != "" {
				want[name] = special
			}
		}
		matrix(t, awseventtest.Client{Method: "GET", Path: "/q", Query: test.sent}, ok, func(t *testing.T, sender, way string, got received, _ awseventtest.Answer) {
			if want := "/q?" + seen(want, sender); got.URI != want {
				t.Errorf("%s, %s: %s arrives as %s, want %s", sender, way, test.sent, got.URI, want)
			}
		})
	}
}

// TestMatrixHeaders: several values of a header stay apart where the sender has lists and the way is HTTP; format 2.0
// joins them, on the way in or to a slice; a load balancer without lists keeps the last.
func TestMatrixHeaders(t *testing.T) {
	client := awseventtest.Client{Method: "GET", Path: "/", Header: [][2]string{
		{"X-Several", "one"}, {"x-several", "two, three"}, {"X-Empty", ""}, {"Cookie", `a=1; b="2, 3"`}, {"Accept", "text/html;q=0.9,*/*"},
		{"X-Text", `quote " back \ tab	ü`},
	}}
	matrix(t, client, ok, func(t *testing.T, sender, way string, got received, _ awseventtest.Answer) {
		several := []string{"one,two, three"}
		switch {
		case sender == alb:
			several = []string{"two, three"}
		case (sender == restAPI || sender == albMulti) && way == "target group":
			several = []string{"one", "two, three"}
		}
		for name, want := range map[string][]string{
			"X-Several": several, "X-Empty": {""}, "Cookie": {`a=1; b="2, 3"`}, "Accept": {"text/html;q=0.9,*/*"}, "X-Text": {"quote \" back \\ tab\tü"},
		} {
			values := got.Header[name]
			if name == "X-Several" {
				slices.Sort(values) // a REST API's names differ in case, and their order is lost
			}
			if diff := cmp.Diff(want, values); diff != "" {
				t.Errorf("%s, %s: %s (-sent +arrived):\n%s", sender, way, name, diff)
			}
		}
	})
}

// TestMatrixBody: every byte arrives, and the length that is stated is the body's, not that of its base64.
func TestMatrixBody(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for kind, body := range map[string]string{
		"application/octet-stream": string(all), "image/png": "\x89PNG\r\n\x1a\n\x00", "text/plain": "grün, 日本\r\n\t\u2028", "application/json": `{"a":"\u0000<&>"}`,
		"": "no type", "application/x-www-form-urlencoded": "a=1&b=%3A", "text/html": "",
	} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
			client := awseventtest.Client{Method: method, Path: "/", Body: []byte(body), Header: [][2]string{{"Content-Length", fmt.Sprint(len(body))}}}
			if kind != "" {
				client.Header = append(client.Header, [2]string{"Content-Type", kind})
			}
			matrix(t, client, ok, func(t *testing.T, sender, way string, got received, _ awseventtest.Answer) {
				if got.Method != method || got.Body != body || got.Length != int64(len(body)) {
					t.Errorf("%s, %s: %s of %q arrives as %s of %q, length %d", sender, way, method, body, got.Method, got.Body, got.Length)
				}
				if stated := got.Header.Get("Content-Length"); stated != "" && stated != fmt.Sprint(len(body)) {
					t.Errorf("%s, %s: %s of %d bytes says that it has %s", sender, way, method, len(body), stated)
				}
				if got.Header.Get("Content-Type") != kind {
					t.Errorf("%s, %s: type %q, want %q", sender, way, got.Header.Get("Content-Type"), kind)
				}
			})
		}
	}
}

// TestMatrixAnswer: the client gets every byte, every header with every value, and every cookie, and nothing that
// contradicts the body.
func TestMatrixAnswer(t *testing.T) {
	all := strings.Repeat("\x00\xff\x80 ü", 50)
	for name, test := range map[string]struct {
		method string
		status int
		body   string
		length string // as the shard states it
	}{
		"binary": {"GET", 200, all, "300"}, "text": {"GET", 200, "grün\n", ""}, "nothing": {"GET", 200, "", "0"}, "made": {"PUT", 201, "x", "1"}, "no content": {"DELETE", 204, "", ""},
		"not modified": {"GET", 304, "", ""}, "not found": {"GET", 404, "<html>", ""}, "an odd status": {"GET", 299, "odd", ""}, "failed": {"POST", 500, "{}", "2"},
		"HEAD": {"HEAD", 200, "", "1234"}, "OPTIONS": {"OPTIONS", 204, "", ""}, "OPTIONS with a body": {"OPTIONS", 200, "GET, PUT", ""},
	} {
		answer := func(w http.ResponseWriter) {
			h := w.Header()
			h["X-Several"] = []string{"one", "two, three"}
			h["Set-Cookie"] = []string{"a=1; Expires=Wed, 09 Jun 2027 10:18:14 GMT", "b=2", "c=3"}
			h.Set("Content-Type", "application/octet-stream")
			h.Set("Access-Control-Allow-Methods", "GET, PUT")
			if test.length != "" {
				h.Set("Content-Length", test.length)
			}
			w.WriteHeader(test.status)
			io.WriteString(w, test.body)
		}
		matrix(t, awseventtest.Client{Method: test.method, Path: "/"}, answer, func(t *testing.T, sender, way string, got received, answer awseventtest.Answer) {
			if got.Method != test.method || answer.Status != test.status || string(answer.Body) != test.body {
				t.Errorf("%s, %s, %s: %s is answered %d %q, want %d %q", name, sender, way, got.Method, answer.Status, answer.Body, test.status, test.body)
			}
			if test.method == "HEAD" && answer.Header.Get("Content-Length") != test.length {
				t.Errorf("%s, %s: a HEAD is told the length %q, want %s", sender, way, answer.Header.Get("Content-Length"), test.length)
			}
			several := []string{"one,two, three"}
			if sender == restAPI || sender == albMulti {
				several = []string{"one", "two, three"}
			}
			if way == "slice" { // which joined them
				several = []string{"one,two, three"}
			}
			cookies := answer.Header["Set-Cookie"]
			slices.Sort(cookies)
			if diff := cmp.Diff([][]string{several, {"a=1; Expires=Wed, 09 Jun 2027 10:18:14 GMT", "b=2", "c=3"}, {"GET, PUT"}},
				[][]string{answer.Header["X-Several"], cookies, answer.Header["Access-Control-Allow-Methods"]}); diff != "" {
				t.Errorf("%s, %s, %s: headers (-want +got):\n%s", name, sender, way, diff)
			}
		})
	}
}
