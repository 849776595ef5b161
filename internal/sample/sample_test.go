package sample

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// request asks the service as the router would; pairs are headers, which may replace the router's.
func request(h http.Handler, method, path, body string, pairs ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set(routing.HeaderTenant, "acme")
	r.Header.Set(routing.HeaderEpoch, "4")
	r.Header.Set(routing.HeaderShard, "s01")
	for i := 0; i < len(pairs); i += 2 {
		if r.Header.Del(pairs[i]); pairs[i+1] != "" {
			r.Header.Add(pairs[i], pairs[i+1])
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// holding returns items of a shard that holds the tenants since epoch 4.
func holding(tenants ...string) *shardkit.Memory {
	m := shardkit.NewMemory()
	for _, t := range tenants {
		m.Hold(t, 4)
	}
	return m
}

func newService(t *testing.T, c Config) http.Handler {
	t.Helper()
	if c.Items == nil {
		c.Items = holding("acme")
	}
	c.Log = quiet()
	h, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestOrders(t *testing.T) {
	h := newService(t, Config{Shard: "s01"})
	steps := []struct {
		method, path, body string
		status             int
		answer             string
	}{
		{"GET", "/healthz", "", 200, "ok\n"},
		{"GET", "/orders/1", "", 404, ""},
		{"GET", "/orders", "", 200, "[]\n"},
		{"PUT", "/orders/1", "one", 204, ""},
		{"PUT", "/orders/2.b_c-D", "\x00two", 204, ""},
		{"PUT", "/orders/1", "one again", 204, ""},
		{"GET", "/orders/1", "", 200, "one again"},
		{"GET", "/orders/2.b_c-D", "", 200, "\x00two"},
		{"GET", "/orders", "", 200, `["1","2.b_c-D"]` + "\n"},
		{"POST", "/jobs/1", "work", 204, ""},
		{"GET", "/jobs/1", "", 200, "work"},
		{"GET", "/jobs/2", "", 404, ""},
		{"GET", "/orders", "", 200, `["1","2.b_c-D"]` + "\n"},
		{"PUT", "/orders/a%2Fb", "x", 400, ""},
		{"PUT", "/orders/-a", "x", 400, ""},
		{"PUT", "/orders/" + strings.Repeat("a", 65), "x", 400, ""},
		{"PUT", "/orders/3", strings.Repeat("x", maxItem+1), 413, ""},
		{"GET", "/orders/3", "", 404, ""},
		{"POST", "/orders/1", "", 405, ""},
		{"GET", "/elsewhere", "", 404, ""},
		{"POST", "/poison", "", 404, ""},
	}
	for _, step := range steps {
		w := request(h, step.method, step.path, step.body)
		if w.Code != step.status || step.answer != "" && w.Body.String() != step.answer {
			t.Errorf("%s %s: answered %d %q, want %d %q", step.method, step.path, w.Code, w.Body, step.status, step.answer)
		}
	}
}

func TestTenantsAreApart(t *testing.T) {
	h := newService(t, Config{Items: holding("acme", "Acme", "acme ", "acm", "ä")})
	request(h, "PUT", "/orders/1", "acme's")
	for _, tenant := range []string{"Acme", "acme%20", "acm", "%C3%A4"} {
		if w := request(h, "GET", "/orders/1", "", routing.HeaderTenant, tenant); w.Code != 404 {
			t.Errorf("tenant %s reads %q", tenant, w.Body)
		}
		if w := request(h, "GET", "/orders", "", routing.HeaderTenant, tenant); w.Body.String() != "[]\n" {
			t.Errorf("tenant %s lists %q", tenant, w.Body)
		}
	}
}

// TestWhoMayAsk: who asks, and for whom, is the kit's to judge; here it is that every path asks it.
func TestWhoMayAsk(t *testing.T) {
	tests := []struct {
		name    string
		config  Config
		headers []string
		status  int
	}{
		{"no tenant", Config{}, []string{routing.HeaderTenant, ""}, 401},
		{"no epoch", Config{}, []string{routing.HeaderEpoch, ""}, 401},
		{"another shard", Config{Shard: "s02"}, nil, 421},
		{"another tenant", Config{Shard: "s01"}, []string{routing.HeaderTenant, "beta"}, 421},
		{"an epoch of before", Config{Shard: "s01"}, []string{routing.HeaderEpoch, "3"}, 421},
		{"no secret", Config{Secret: "s"}, nil, 403},
		{"wrong secret", Config{Secret: "s"}, []string{shardkit.HeaderSecret, "S"}, 403},
	}
	paths := []string{
		"POST /orders", "PUT /orders/1", "GET /orders/1", "DELETE /orders/1", "GET /orders", "POST /jobs/1", "POST /jobs/1?append=1", "GET /jobs/1",
		"POST /messages/beta", "POST /inbox", "GET /inbox", "GET /inbox/1", "POST /poison",
	}
	for _, test := range tests {
		items := holding("acme")
		test.config.Items, test.config.Poison = items, func() { t.Errorf("%s: poisoned", test.name) }
		h := newService(t, test.config)
		for _, path := range paths {
			method, path, _ := strings.Cut(path, " ")
			if w := request(h, method, path, "x", test.headers...); w.Code != test.status {
				t.Errorf("%s: %s %s answered %d %q, want %d", test.name, method, path, w.Code, w.Body, test.status)
			}
		}
		if w := request(h, "GET", "/healthz", "", test.headers...); w.Code != 200 {
			t.Errorf("%s: health answered %d", test.name, w.Code)
		}
		for _, tenant := range []string{"acme", "beta"} {
			if keys, err := items.List(t.Context(), tenant, ""); err != nil || len(keys) > 0 {
				t.Errorf("%s: an effect: %q of %s, %v", test.name, keys, tenant, err)
			}
		}
	}
}

// TestKeysAreTheServices: the kit takes every key of the service, and it is spelled as it was.
func TestKeysAreTheServices(t *testing.T) {
	items := holding("acme")
	h := newService(t, Config{Items: items})
	for _, path := range []string{"PUT /orders/1", "POST /jobs/1", "PUT /orders/" + strings.Repeat("x", 64)} {
		method, path, _ := strings.Cut(path, " ")
		if w := request(h, method, path, strings.Repeat("v", maxItem)); w.Code != 204 {
			t.Errorf("%s %s: answered %d %q", method, path, w.Code, w.Body)
		}
	}
	want := []string{"JOB#1", "ORDER#1", "ORDER#" + strings.Repeat("x", 64)}
	if keys, err := items.List(t.Context(), "acme", ""); err != nil || !slices.Equal(keys, want) {
		t.Errorf("keys %q, %v; want %q", keys, err, want)
	}
}

func TestPoison(t *testing.T) {
	killed := 0
	h := newService(t, Config{Poison: func() { killed++ }, Secret: "s"})
	if request(h, "POST", "/poison", ""); killed != 0 {
		t.Error("anybody can poison it")
	}
	if request(h, "POST", "/poison", "", shardkit.HeaderSecret, "s"); killed != 1 {
		t.Errorf("killed %d times", killed)
	}
}

// broken is a store whose answers are lost, though it says whom the shard holds.
type broken struct{ *shardkit.Memory }

func (broken) Write(context.Context, string, uint64, ...shardkit.Write) error {
	return errors.New("secret detail")
}
func (broken) Get(context.Context, string, string) ([]byte, bool, error) {
	return nil, false, errors.New("secret detail")
}
func (broken) List(context.Context, string, string) ([]string, error) {
	return nil, errors.New("secret detail")
}

func TestNothingIsAcknowledgedThatTheStoreDoesNotHave(t *testing.T) {
	h := newService(t, Config{Items: broken{holding("acme")}})
	for _, step := range [][2]string{{"POST", "/orders"}, {"PUT", "/orders/1"}, {"GET", "/orders/1"}, {"DELETE", "/orders/1"}, {"GET", "/orders"}, {"POST", "/jobs/1"}, {"POST", "/jobs/1?append=1"}} {
		w := request(h, step[0], step[1], "x")
		if w.Code != 503 || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s %s: answered %d %s", step[0], step[1], w.Code, w.Body)
		}
	}
}

func TestConcurrentWrites(t *testing.T) {
	h := newService(t, Config{})
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			path := fmt.Sprintf("/orders/%d", n)
			for range 20 {
				if w := request(h, "PUT", path, path); w.Code != 204 {
					t.Errorf("%s: %d", path, w.Code)
				}
				if w := request(h, "GET", path, ""); w.Body.String() != path {
					t.Errorf("%s: read back %q", path, w.Body)
				}
				request(h, "GET", "/orders", "")
			}
		})
	}
	wg.Wait()
}

func env(pairs ...string) func(string) string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return m[name] }
}

func TestFromEnvironment(t *testing.T) {
	slog.SetDefault(quiet())
	for _, good := range [][]string{
		{}, {"CELLWALL_SAMPLE_POISON", "0"}, {"CELLWALL_SAMPLE_POISON", "1"}, {"CELLWALL_SHARD", "s01"},
		{"CELLWALL_DISPATCH_QUEUE", "orders-eu-1-dispatch"}, {"CELLWALL_DEAD_QUEUE", "orders-eu-1-dead"},
		{"CELLWALL_TABLE", "orders", "CELLWALL_SHARD", "s01"}, {"CELLWALL_SHARD_TABLE", "orders", "CELLWALL_SHARD", "s01"},
		{"CELLWALL_TABLE", "orders", "CELLWALL_SHARD_TABLE", "own", "CELLWALL_SHARD", "s01"},
		{"CELLWALL_STORE_URL", "http://127.0.0.1:1", "CELLWALL_CELL", "eu-1", "CELLWALL_SHARD", "s01"},
	} {
		p, err := FromEnvironment(t.Context(), env(good...))
		if err != nil || p.Service == nil {
			t.Fatalf("%v: %v", good, err)
		}
		if (p.Dispatch != nil) != slices.Contains(good, "CELLWALL_DISPATCH_QUEUE") || (p.DeadLetter != nil) != slices.Contains(good, "CELLWALL_DEAD_QUEUE") {
			t.Errorf("%v: dispatches %t, has dead letters %t", good, p.Dispatch != nil, p.DeadLetter != nil)
		}
	}
	for _, bad := range [][]string{
		{"CELLWALL_SAMPLE_POISON", "yes"}, {"CELLWALL_TABLE", "orders", "CELLWALL_STORE_URL", "http://127.0.0.1:1"},
		{"CELLWALL_SHARD_TABLE", "orders", "CELLWALL_STORE_URL", "http://127.0.0.1:1"}, {"CELLWALL_STORE_URL", "127.0.0.1:1", "CELLWALL_CELL", "eu-1", "CELLWALL_SHARD", "s01"},
		{"CELLWALL_CELL", "", "CELLWALL_STORE_URL", "http://127.0.0.1:1", "CELLWALL_SHARD", "s01"},
		{"CELLWALL_SHARD", "", "CELLWALL_STORE_URL", "http://127.0.0.1:1", "CELLWALL_CELL", "eu-1"}, {"CELLWALL_SHARD", "", "CELLWALL_TABLE", "orders"},
	} {
		if _, err := FromEnvironment(t.Context(), env(bad...)); err == nil || !strings.Contains(err.Error(), bad[0]) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// TestServeFinishesWhatItBegan: a request under way when the process is told to end is answered, and
// none is taken afterwards.
func TestServeFinishesWhatItBegan(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	slow := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-release
		io.WriteString(w, "done")
	})
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- Serve(ctx, env("PORT", "0", "CELLWALL_BIND", "127.0.0.1"), slow, func(a net.Addr) { ready <- a })
	}()
	addr := (<-ready).String()
	if !strings.HasPrefix(addr, "127.0.0.1:") {
		t.Errorf("listens on %s", addr)
	}
	answer := make(chan string, 1)
	go func() {
		resp, err := http.Get("http://" + addr)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		answer <- string(body)
	}()
	<-begun
	cancel()
	for { // until the listener is closed
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			break
		}
		conn.Close()
	}
	time.Sleep(20 * time.Millisecond) // in which a Serve that does not wait returns
	select {
	case err := <-ended:
		t.Errorf("ended with a request under way: %v", err)
		ended <- err
	default:
	}
	close(release)
	if got := <-answer; got != "done" {
		t.Errorf("the request under way got %q", got)
	}
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestServeRefuses(t *testing.T) {
	for _, bad := range [][]string{{"PORT", "http"}, {"PORT", "-1"}, {"PORT", "65536"}, {"PORT", "0", "CELLWALL_BIND", "192.0.2.1"}} {
		err := Serve(t.Context(), env(bad...), http.NotFoundHandler(), func(net.Addr) {})
		if err == nil || !strings.Contains(err.Error(), "PORT") {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
