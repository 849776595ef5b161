package routing

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/directory"
)

// sender is a Transport made of a function.
type sender func(ctx context.Context, call Call, req *Request) (*Response, error)

func (s sender) Send(ctx context.Context, call Call, req *Request) (*Response, error) {
	return s(ctx, call, req)
}

// getter is a directory that is asked each time.
type getter interface {
	Get(ctx context.Context, tenant string) (directory.Entry, error)
}

// uncached is Entries that remember nothing.
type uncached struct{ getter }

func (u uncached) Entry(ctx context.Context, tenant string) (Known, error) {
	e, err := u.Get(ctx, tenant)
	return Known{Entry: e}, err
}

func (u uncached) Fresh(ctx context.Context, tenant string, _ uint64) (Known, error) {
	return u.Entry(ctx, tenant)
}

// fixed is a getter of entries that tests write directly.
type fixed map[string]directory.Entry

func (f fixed) Get(_ context.Context, tenant string) (directory.Entry, error) {
	e, ok := f[tenant]
	if !ok {
		return directory.Entry{}, fmt.Errorf("tenant %q: %w", tenant, directory.ErrNotFound)
	}
	return e, nil
}

// lookup is a getter made of a function.
type lookup func(tenant string) (directory.Entry, error)

func (l lookup) Get(_ context.Context, tenant string) (directory.Entry, error) { return l(tenant) }

// pinned is an active tenant of cell eu-1 with an explicit subset.
func pinned(tenant string, pins ...string) directory.Entry {
	return directory.Entry{Tenant: tenant, Cell: "eu-1", State: directory.Active, Epoch: 7, Pins: pins, Topology: 1}
}

// published is Topologies that tests write directly, by version.
type published map[uint64]directory.Topology

func (p published) Topology(_ context.Context, _ string, version uint64) (directory.Topology, error) {
	t, ok := p[version]
	if !ok {
		return directory.Topology{}, fmt.Errorf("topology %d: %w", version, directory.ErrUnknownTopology)
	}
	return t, nil
}

// topology is a version of cell eu-1 over these shards.
func topology(version uint64, shards ...string) directory.Topology {
	t := directory.Topology{
		Cell: "eu-1", Version: version, Scheme: "rendezvous/v1", KBySize: map[string]int{"": 2, "whale": 4}, KeyVersion: "1",
	}
	for _, id := range shards {
		t.Shards = append(t.Shards, directory.Shard{ID: id, Weight: 1, State: directory.InUse})
	}
	return t
}

var eight = []string{"s01", "s02", "s03", "s04", "s05", "s06", "s07", "s08"}

// testKey has version 1 alone.
func testKey(_ context.Context, _, version string) ([]byte, error) {
	if version != "1" {
		return nil, errors.New("no such version")
	}
	return []byte("test key"), nil
}

// computed is the subset of an entry by a topology under the test's key.
func computed(t testing.TB, top directory.Topology, e directory.Entry) []string {
	t.Helper()
	p, err := top.Placer([]byte("test key"))
	if err != nil {
		t.Fatal(err)
	}
	subset, err := p.Subset(e)
	if err != nil {
		t.Fatal(err)
	}
	return subset
}

// testConfig is a cell of eight shards in which everything goes to one transport.
func testConfig(dir getter, transport Transport) Config {
	return Config{
		Cell: "eu-1", Entries: uncached{dir}, Topologies: published{1: topology(1, eight...)}, Keys: testKey,
		Routes:     []Route{{Path: "/*", Via: ViaLambda}},
		Transports: map[string]Transport{ViaLambda: transport},
		Timeout:    5 * time.Second,
		Pick:       func(int) int { return 0 },
		NewID:      func() string { return "r1" },
	}
}

func newEngine(t testing.TB, c Config) *Engine {
	t.Helper()
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// random is a pick at random, for one goroutine, whose seed is logged.
func random(t *testing.T) func(int) int {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0)).IntN
}

func ok(body string) *Response {
	return &Response{Status: 200, Header: http.Header{"X-Service": {"orders"}}, Body: []byte(body)}
}

func get(path string) *Request {
	return &Request{Method: http.MethodGet, Path: path, Header: http.Header{}}
}

// wantProblem fails unless resp is a problem document of that status which names nothing of the inside.
func wantProblem(t *testing.T, resp *Response, status int) (kind string) {
	t.Helper()
	var p problem
	if err := json.Unmarshal(resp.Body, &p); err != nil {
		t.Fatalf("status %d, body %q is no problem document: %v", resp.Status, resp.Body, err)
	}
	if resp.Status != status || p.Status != status || p.Title != http.StatusText(status) || p.Detail == "" {
		t.Errorf("answered %d with %s, want status %d", resp.Status, resp.Body, status)
	}
	if got := resp.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type %q", got)
	}
	for _, inside := range []string{"s01", "s02", "s03", "eu-1", "us-1", "acme", "inside"} {
		if bytes.Contains(resp.Body, []byte(inside)) {
			t.Errorf("problem document names %q: %s", inside, resp.Body)
		}
	}
	return p.Type
}

func TestRefusals(t *testing.T) {
	suspended := pinned("suspended", "s01")
	suspended.State = directory.Suspended
	elsewhere := pinned("elsewhere", "s01")
	elsewhere.Cell = "us-1"
	damaged := pinned("damaged", "s01")
	damaged.State = "inside"
	placing := pinned("placing", "s01")
	placing.State = directory.Placing
	odd := pinned("odd")
	odd.Size = "inside"
	lost := pinned("lost", "s98", "s99")
	dir := fixed{"acme": pinned("acme", "s01"), "suspended": suspended, "elsewhere": elsewhere,
		"damaged": damaged, "placing": placing, "odd": odd, "lost": lost}
	tests := []struct {
		name, tenant string
		req          *Request
		status       int
	}{
		{"nobody", "", get("/x"), 401},
		{"too long", strings.Repeat("a", 129), get("/x"), 401},
		{"not UTF-8", "a\xff", get("/x"), 401},
		{"unknown", "mallory", get("/x"), 404},
		{"of another cell", "elsewhere", get("/x"), 404},
		{"suspended", "suspended", get("/x"), 403},
		{"in a state that is none", "damaged", get("/x"), 403},
		{"placing", "placing", get("/x"), 503},
		{"size class that is not declared", "odd", get("/x"), 503},
		{"pins outside the cell", "lost", get("/x"), 503},
		{"path without a slash", "acme", get("x"), 400},
		{"tunnel", "acme", &Request{Method: "CONNECT", Path: "/x"}, 501},
		{"trace", "acme", &Request{Method: "TRACE", Path: "/x"}, 501},
		{"method that is none", "acme", &Request{Method: "GET /", Path: "/x"}, 400},
		{"no method", "acme", &Request{Path: "/x"}, 400},
		{"body too large", "acme", &Request{Method: "PUT", Path: "/x", Body: make([]byte, MaxBody+1)}, 413},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := testConfig(dir, sender(func(context.Context, Call, *Request) (*Response, error) {
				t.Error("a shard was asked")
				return ok(""), nil
			}))
			var seen Outcome
			c.Observe = func(o Outcome) { seen = o }
			resp := newEngine(t, c).Serve(t.Context(), test.tenant, test.req)
			wantProblem(t, resp, test.status)
			if seen.Err == nil || seen.Status != test.status || len(seen.Attempts) > 0 {
				t.Errorf("operators are told %+v", seen)
			}
			if challenge := resp.Header.Get("WWW-Authenticate"); (test.status == 401) != (challenge == "Bearer") {
				t.Errorf("challenge %q with status %d", challenge, test.status)
			}
		})
	}
}

func TestDirectoryDown(t *testing.T) {
	e := newEngine(t, testConfig(lookup(func(string) (directory.Entry, error) {
		return directory.Entry{}, errors.New("inside: no route to host")
	}), sender(nil)))
	resp := e.Serve(t.Context(), "acme", get("/x"))
	wantProblem(t, resp, 503)
	if resp.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

// TestNothingInside: a shard is told for whom by the router alone, and a client is not told by whom.
func TestNothingInside(t *testing.T) {
	const tenant = "Ärzte & Co"
	entry := pinned(tenant, "s03")
	sent := &Request{
		Method: "POST", Path: "/a b/ü", RawQuery: "q=1 2", Body: []byte("body"),
		Header: http.Header{"Cellwall-Tenant": {"mallory"}, "Accept": {"a", "b"}},
	}
	before := *sent
	before.Header = sent.Header.Clone()
	var gotCall Call
	var got Request
	e := newEngine(t, testConfig(fixed{tenant: entry}, sender(func(_ context.Context, call Call, req *Request) (*Response, error) {
		gotCall, got = call, *req
		if until, ok, err := Deadline(req.Header); !ok || err != nil || time.Until(until) > 5*time.Second {
			t.Errorf("the shard is to stop at %v, %t, %v; want within the request's 5 s", until, ok, err)
		}
		req.Header.Del(HeaderDeadline)
		return &Response{Status: 201, Header: http.Header{
			"Cellwall-Shard": {"s03"}, "Connection": {"X-Hop"}, "X-Hop": {"1"}, "Set-Cookie": {"a=1", "b=2"}, "Content-Length": {"99"},
		}, Body: []byte("made")}, nil
	})))
	resp := e.Serve(t.Context(), tenant, sent)
	if diff := cmp.Diff(Call{Tenant: tenant, Epoch: 7, Shard: "s03"}, gotCall); diff != "" {
		t.Errorf("call (-want +got):\n%s", diff)
	}
	want := Request{
		Method: "POST", Path: "/a%20b/%C3%BC", RawQuery: "q=1%202", Body: []byte("body"),
		Header: http.Header{
			"Accept": {"a", "b"}, "Cellwall-Tenant": {"%C3%84rzte%20%26%20Co"}, "Cellwall-Epoch": {"7"}, "Cellwall-Shard": {"s03"},
			"X-Request-Id": {"r1"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request at the shard (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, *sent); diff != "" {
		t.Errorf("the client's request was changed:\n%s", diff)
	}
	wantResp := &Response{Status: 201, Header: http.Header{"Set-Cookie": {"a=1", "b=2"}, "X-Request-Id": {"r1"}}, Body: []byte("made")}
	if diff := cmp.Diff(wantResp, resp); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
}

func TestSubsetByScheme(t *testing.T) {
	small, whale := pinned("acme"), pinned("acme")
	whale.Size = "whale"
	for _, entry := range []directory.Entry{small, whale} {
		asked := map[string]bool{}
		c := testConfig(fixed{"acme": entry}, sender(func(_ context.Context, call Call, _ *Request) (*Response, error) {
			asked[call.Shard] = true
			return ok(""), nil
		}))
		c.Pick = random(t)
		e := newEngine(t, c)
		for range 500 {
			e.Serve(t.Context(), "acme", get("/x"))
		}
		want := map[string]bool{}
		for _, shard := range computed(t, topology(1, eight...), entry) {
			want[shard] = true
		}
		// A member of four is missed by 500 random picks with probability 1e-62.
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("size %q (-subset +asked):\n%s", entry.Size, diff)
		}
	}
}

func TestUnknownPinIsPassedOver(t *testing.T) {
	e := newEngine(t, testConfig(fixed{"acme": pinned("acme", "s99", "s05")}, sender(func(_ context.Context, call Call, _ *Request) (*Response, error) {
		return ok(call.Shard), nil
	})))
	if resp := e.Serve(t.Context(), "acme", get("/x")); string(resp.Body) != "s05" {
		t.Errorf("answered %d %s", resp.Status, resp.Body)
	}
}

func TestNewRefuses(t *testing.T) {
	tests := map[string]func(*Config){
		"no cell":          func(c *Config) { c.Cell = "" },
		"no entries":       func(c *Config) { c.Entries = nil },
		"no time":          func(c *Config) { c.Timeout = 0 },
		"negative time":    func(c *Config) { c.LookUp = -1 },
		"no topologies":    func(c *Config) { c.Topologies = nil },
		"no keys":          func(c *Config) { c.Keys = nil },
		"no routes":        func(c *Config) { c.Routes = nil },
		"negative attempt": func(c *Config) { c.AttemptTimeout = -1 },
		"state of no kind": func(c *Config) { c.State = "shard" },
		"keys at home":     func(c *Config) { c.State, c.IdempotencyKeys = StateHome, true },
		"queue to gather": func(c *Config) {
			c.Routes = []Route{{Path: "/*", Via: ViaQueue, Fanout: true}}
			c.Transports[ViaQueue] = sender(nil)
		},
		"negative route":    func(c *Config) { c.Routes[0].Timeout = -1 },
		"route without way": func(c *Config) { c.Routes = []Route{{Path: "/*", Via: ViaHTTP}} },
	}
	for name, spoil := range tests {
		c := testConfig(fixed{}, sender(nil))
		spoil(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestShardsAreSpreadOver(t *testing.T) {
	count := map[string]int{}
	c := testConfig(fixed{"acme": pinned("acme", "s01", "s02", "s03")}, sender(func(_ context.Context, call Call, _ *Request) (*Response, error) {
		count[call.Shard]++
		return ok(""), nil
	}))
	c.Pick = random(t)
	c.Now = newClock().now // by which all are as fast
	e := newEngine(t, c)
	for range 3000 {
		e.Serve(t.Context(), "acme", get("/x"))
	}
	for _, shard := range []string{"s01", "s02", "s03"} {
		// 1,000 expected, standard deviation 26: ten of them.
		if n := count[shard]; n < 740 || n > 1260 {
			t.Errorf("%s was asked %d times of 3000", shard, n)
		}
	}
}
