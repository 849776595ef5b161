package routing

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"testing"
)

func mustRoutes(t testing.TB, rs ...Route) routes {
	t.Helper()
	out, err := newRoutes(rs)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// way is a route of a path and a way alone.
func way(path, via string) Route { return Route{Path: path, Via: via} }

// wayOf is the way of the route that takes a request.
func wayOf(rs routes, method, rawPath string) (string, error) {
	r, err := rs.match(method, rawPath)
	return r.via, err
}

func testRoutes(t testing.TB) routes {
	return mustRoutes(t, way("/jobs/*", ViaQueue), way("/status", ViaHTTP), way("/api/*", ViaLambda), way("/*", ViaHTTP))
}

func TestMatch(t *testing.T) {
	tests := []struct {
		path string
		via  string
		err  error
	}{
		{"/jobs/1", ViaQueue, nil},
		{"/jobs/", ViaQueue, nil},
		{"/jobs/a%20b", ViaQueue, nil},
		{"/%6Aobs/1", ViaQueue, nil}, // every service reads /jobs/1
		{"/jobs/a%2Fb", ViaQueue, nil},
		{"/jobs/1/../2", ViaQueue, nil}, // a queue either way
		{"/jobs", ViaHTTP, nil},
		{"/Jobs/1", ViaHTTP, nil},
		{"/status", ViaHTTP, nil},
		{"/api/jobs/1", ViaLambda, nil},
		{"/", ViaHTTP, nil},
		{"/files/a%2Fb", ViaHTTP, nil},
		{"/files//b", ViaHTTP, nil},
		{"/ü", ViaHTTP, nil},
		{"/100%25", ViaHTTP, nil},
		{"/jobs%2F1", "", errAmbiguous},
		{"/jobs%5C1", "", errAmbiguous},
		{`/jobs\1`, "", errAmbiguous},
		{"/files/../jobs/1", "", errAmbiguous},
		{"/files/%2e%2e/jobs/1", "", errAmbiguous},
		{"/files/.%2E/jobs/1", "", errAmbiguous},
		{"/files/%2e%2e%2fjobs/1", "", errAmbiguous},
		{"/jobs/../api/x", "", errAmbiguous},
		{"/jobs/%2e%2e/x", "", errAmbiguous},
		{"/jobs/..", "", errAmbiguous},
		{"/./jobs/1", "", errAmbiguous},
		{"//jobs/1", "", errAmbiguous},
		{"/%2Fjobs/1", "", errAmbiguous},
		{"/status/", ViaHTTP, nil}, // by /*, as /status is
		{"/api/../status", "", errAmbiguous},
		{`/jobs/a\b/../../x`, "", errAmbiguous},
		{"/jobs/a%2Fb/../../x", "", errAmbiguous},
		{"/jobs;v=1/1", "", errAmbiguous}, // servlet containers read /jobs/1
		{"/files;/jobs/1", ViaHTTP, nil},
		{"/jobs/1;v=2", ViaQueue, nil},
		{"/jobs%3Bv/1", "", errAmbiguous},
		{"/jobs%252F1", "", errAmbiguous}, // who decodes twice reads /jobs/1
		{"/files/%252e%252e/jobs/1", "", errAmbiguous},
		{"/files/..;/jobs/1", "", errAmbiguous},
		{"/files/%25", ViaHTTP, nil},
		{"jobs/1", "", errBadPath},
		{"", "", errBadPath},
		{"*", "", errBadPath},
		{"/a%", "", errBadPath},
		{"/a%zz", "", errBadPath},
		{"/a%00", "", errBadPath},
		{"/a?b", "", errBadPath},
		{"/a#b", "", errBadPath},
	}
	rs := testRoutes(t)
	for _, test := range tests {
		via, err := wayOf(rs, "POST", test.path)
		if via != test.via || !errors.Is(err, test.err) {
			t.Errorf("%q: via %q, error %v; want %q, %v", test.path, via, err, test.via, test.err)
		}
	}
	if _, err := mustRoutes(t, way("/jobs/*", ViaQueue)).match("POST", "/x"); !errors.Is(err, errNoRoute) {
		t.Errorf("path that no route matches: %v", err)
	}
	// Written, by segments and with everything resolved this is under /jobs; decoded without backslashes,
	// it is /jobs/jobs/x.
	nested := mustRoutes(t, way("/jobs/jobs/*", ViaHTTP), way("/jobs/*", ViaQueue))
	if via, err := wayOf(nested, "POST", `/jobs/p%2Fq\r/../../jobs/x`); !errors.Is(err, errAmbiguous) {
		t.Errorf("path that one reading takes elsewhere: via %q, %v", via, err)
	}
}

// TestQueueTakesNoQuestions: what only asks goes on to the next route, or nowhere.
func TestQueueTakesNoQuestions(t *testing.T) {
	both := mustRoutes(t, way("/jobs/*", ViaQueue), way("/jobs/*", ViaLambda))
	alone := mustRoutes(t, way("/jobs/*", ViaQueue))
	for method, queued := range map[string]bool{
		"POST": true, "PUT": true, "PATCH": true, "DELETE": true,
		"GET": false, "HEAD": false, "OPTIONS": false, "QUERY": false, "PROPFIND": false, "post": false,
	} {
		want, wantErr := ViaLambda, errNoRoute
		if queued {
			want, wantErr = ViaQueue, nil
		}
		if via, err := wayOf(both, method, "/jobs/7"); via != want || err != nil {
			t.Errorf("%s goes via %q, %v; want %s", method, via, err, want)
		}
		if via, err := wayOf(alone, method, "/jobs/7"); !errors.Is(err, wantErr) {
			t.Errorf("%s without another route: via %q, %v; want %v", method, via, err, wantErr)
		}
	}
}

func TestRoutesRefused(t *testing.T) {
	for _, r := range [][2]string{
		{"", ViaHTTP}, {"jobs", ViaHTTP}, {"*", ViaHTTP}, {"/a*", ViaHTTP}, {"/*/a", ViaHTTP}, {"/a/*/*", ViaHTTP},
		{"/a%2Fb", ViaHTTP}, {"/a%", ViaHTTP}, {"/a/../b", ViaHTTP}, {"/a//b", ViaHTTP}, {"/./*", ViaHTTP},
		{"/x", ""}, {"/x", "ftp"},
	} {
		if _, err := newRoutes([]Route{way(r[0], r[1])}); err == nil {
			t.Errorf("%+v is accepted", r)
		}
	}
	if _, err := newRoutes(nil); err == nil {
		t.Error("no routes are accepted")
	}
}

// FuzzMatch holds that a path which is routed takes the same route however it is read: segment by
// segment, decoded as a whole, and tidied as http.ServeMux does.
func FuzzMatch(f *testing.F) {
	for _, seed := range []string{"/jobs/1", "/jobs%2F1", "/a/../jobs/1", "/%2e%2e/jobs/", "//jobs/", "/jobs/%2e", "/a%5Cb", "/api/..%2fjobs/x", "/jobs/.", "/ü/%00"} {
		f.Add("GET", seed)
		f.Add("POST", seed)
	}
	rs := testRoutes(f)
	wayOf := func(method, p string) string {
		if i := rs.first(method, p); i >= 0 {
			return rs[i].via
		}
		return ""
	}
	f.Fuzz(func(t *testing.T, method, raw string) {
		got, err := rs.match(method, raw)
		via := got.via
		if err != nil {
			return
		}
		decoded, err := url.PathUnescape(raw)
		if err != nil {
			t.Fatalf("%q is routed and cannot be decoded", raw)
		}
		var segments []string
		for segment := range strings.SplitSeq(raw, "/") {
			segment, _ = url.PathUnescape(segment)
			segments = append(segments, strings.ReplaceAll(segment, "/", "%2F"))
		}
		for _, read := range []string{decoded, strings.Join(segments, "/")} {
			for _, read := range []string{read, strings.ReplaceAll(read, `\`, "/")} {
				// A trailing dot segment is resolved with or without a slash behind it, and /jobs/* takes
				// only the one: there is no single right answer to compare with.
				if strings.HasSuffix(read, "/.") || strings.HasSuffix(read, "/..") {
					continue
				}
				cleaned := path.Clean(read)
				if strings.HasSuffix(read, "/") && cleaned != "/" {
					cleaned += "/"
				}
				if got := wayOf(method, cleaned); got != via {
					t.Fatalf("%q goes via %s, and read as %q via %s", raw, via, cleaned, got)
				}
			}
		}
		// What is sent on is a request line that net/http reads as the same path.
		sent := cleanPath(raw)
		u, err := url.ParseRequestURI(sent)
		if err != nil {
			t.Fatalf("%q is sent as %q, which is no URL: %v", raw, sent, err)
		}
		if u.Path != decoded || u.RawQuery != "" {
			t.Fatalf("%q arrives as path %q, query %q; want %q", raw, u.Path, u.RawQuery, decoded)
		}
		if strings.ContainsAny(sent, " \r\n\t") {
			t.Fatalf("%q is sent as %q", raw, sent)
		}
		httptest.NewRequest(http.MethodGet, sent, nil) // panics when the line cannot be parsed
	})
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "/a": "/a", "/a b": "/a%20b", "/ü": "/%C3%BC", "/a\r\nX: y": "/a%0D%0AX:%20y", "/%20": "/%20", "a#b": "a%23b", "\x7f": "%7F",
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestPathsKeepTheirSlashes: whatever else stands in a path, no encoded slash of it becomes another on the way.
func TestPathsKeepTheirSlashes(t *testing.T) {
	for c := range 256 {
		if c == '?' || c == '%' || c == 0 {
			continue // no path has them raw
		}
		path := "/a%2Fb/" + string([]byte{byte(c)})
		var got string
		c := testConfig(fixed{"acme": pinned("acme", "s01")}, sender(func(_ context.Context, _ Call, req *Request) (*Response, error) {
			u, err := url.Parse("http://s01" + req.Path)
			if err != nil {
				return nil, err
			}
			got = u.RequestURI()
			return &Response{Status: 200}, nil
		}))
		resp := newEngine(t, c).Serve(t.Context(), "acme", &Request{Method: "GET", Path: path, Header: http.Header{}})
		if byte(path[7]) == '#' {
			continue // refused
		}
		decoded, err := url.PathUnescape(got)
		if resp.Status != 200 || !strings.HasPrefix(got, "/a%2Fb/") || err != nil || decoded != "/a/b/"+path[7:] {
			t.Errorf("%q arrives as %q", path, got)
		}
	}
}

// TestLongPaths are refused before they are read in every way, and before the queue would refuse what it cannot carry.
func TestLongPaths(t *testing.T) {
	asked := 0
	c := testConfig(fixed{"acme": pinned("acme", "s01")}, sender(func(context.Context, Call, *Request) (*Response, error) {
		asked++
		return &Response{Status: 202}, nil
	}))
	c.Routes = []Route{way("/jobs/*", ViaQueue), way("/*", ViaLambda)}
	c.Transports = map[string]Transport{ViaQueue: c.Transports[ViaLambda], ViaLambda: c.Transports[ViaLambda]}
	e := newEngine(t, c)
	long := func(begin string, size int) string { return begin + strings.Repeat("%2E", size)[:size-len(begin)] }
	for _, test := range []struct {
		path, query string
		status      int
	}{
		{"/" + strings.Repeat("a", maxPath-1), "", 202},
		{"/" + strings.Repeat("a", maxPath), "", 414},
		{long("/", 1<<20), "", 414},
		{"/jobs/" + strings.Repeat("a", maxJobPath-6), "", 202},
		{"/jobs/" + strings.Repeat("a", maxJobPath-5), "", 414},
		{"/jobs/a", strings.Repeat("q", maxJobPath+1), 414},
		{"/a", strings.Repeat("q", maxJobPath+1), 202},
	} {
		asked = 0
		resp := e.Serve(t.Context(), "acme", &Request{Method: "POST", Path: test.path, RawQuery: test.query})
		if resp.Status != test.status || asked > 0 != (test.status == 202) {
			t.Errorf("a path of %d bytes and a query of %d: answered %d after %d sendings, want %d", len(test.path), len(test.query), resp.Status, asked, test.status)
		}
		if test.status == 414 {
			wantProblem(t, resp, 414)
		}
	}
}
