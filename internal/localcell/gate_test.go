package localcell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/routing"
)

// gated runs a gate before a worker and returns its address.
func gated(t *testing.T, spec gateSpec, worker http.Handler, strike func(context.Context) error) (url string, server *httptest.Server) {
	t.Helper()
	server = httptest.NewServer(worker)
	t.Cleanup(server.Close)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	spec.Listen, spec.Target = free.Addr().String(), server.Listener.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	if strike == nil {
		strike = func(context.Context) error { t.Error("the worker was to be killed"); return nil }
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- newGate(spec, strike, slog.New(slog.DiscardHandler)).run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the gate listens", func() bool { return probeGate(t.Context(), spec.Listen) == nil })
	return "http://" + spec.Listen, server
}

// sent sends one request on a connection of its own.
func sent(t *testing.T, method, url, tenant string) (*http.Response, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(routing.HeaderTenant, routing.EncodeTenant(tenant))
	if tenant != "spoof" {
		req.Header.Set("Cellwall-Secret", "secret")
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("X-Seen", r.Header.Get("Cellwall-Tenant"))
	w.WriteHeader(http.StatusTeapot)
	fmt.Fprintf(w, "%s %s %s %s", r.Method, r.RequestURI, r.Host, body)
})

// TestAGatePassesOn: what a fault does not touch reaches the worker as it was sent.
func TestAGatePassesOn(t *testing.T) {
	url, _ := gated(t, gateSpec{Poisoned: []string{"bad"}}, echo, nil)
	host := strings.TrimPrefix(url, "http://")
	resp, text, err := sent(t, "PUT", url+"/a%2Fb?x=%31;y&&z", "ümbrella")
	if err != nil || resp.StatusCode != http.StatusTeapot || resp.Header.Get("X-Seen") != "%C3%BCmbrella" {
		t.Fatalf("%+v, %v", resp, err)
	}
	if want := "PUT /a%2Fb?x=%31;y&&z " + host + " body"; text != want {
		t.Errorf("the worker saw %q, want %q", text, want)
	}
}

func TestAGateAnswersErrorsAndThrottles(t *testing.T) {
	none := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the worker was asked") })
	url, _ := gated(t, gateSpec{Fault: &Fault{How: HowErrors, Status: 503}}, none, nil)
	if resp, text, err := sent(t, "PUT", url+"/orders/1", "acme"); err != nil || resp.StatusCode != 503 || strings.Contains(text, "purpose") || strings.Contains(text, "shard") || !strings.Contains(text, `"status":503`) {
		t.Errorf("errors: %+v %s, %v", resp, text, err)
	}
	url, _ = gated(t, gateSpec{Fault: &Fault{How: HowThrottle}}, none, nil)
	resp, text, err := sent(t, "PUT", url+"/orders/1", "acme")
	if err != nil || resp.StatusCode != 429 || resp.Header.Get(headerErrorType) != throttledType || !strings.Contains(text, "ConcurrentInvocationLimit") {
		t.Errorf("throttle: %+v %s, %v", resp, text, err)
	}
	workers := sliceWorkers{transportFunc(func() (*routing.Response, error) {
		return &routing.Response{Status: resp.StatusCode, Header: resp.Header}, nil
	})}
	if _, err := workers.Send(t.Context(), routing.Call{Shard: "s01"}, nil); !errors.Is(err, routing.ErrThrottled) || !errors.Is(err, routing.ErrNotSent) {
		t.Errorf("the router takes it for %v", err)
	}
	plain := sliceWorkers{transportFunc(func() (*routing.Response, error) { return &routing.Response{Status: 429}, nil })}
	if got, err := plain.Send(t.Context(), routing.Call{}, nil); err != nil || got.Status != 429 {
		t.Errorf("a service's own 429: %+v, %v", got, err)
	}
}

type transportFunc func() (*routing.Response, error)

func (f transportFunc) Send(context.Context, routing.Call, *routing.Request) (*routing.Response, error) {
	return f()
}

// TestAGateDawdles: an answer takes at least so many times as long as the worker's.
func TestAGateDawdles(t *testing.T) {
	const own = 20 * time.Millisecond
	url, _ := gated(t, gateSpec{Fault: &Fault{How: HowSlow, Factor: 5}}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { time.Sleep(own) }), nil)
	begun := time.Now()
	if _, _, err := sent(t, "GET", url, "acme"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < 5*own {
		t.Errorf("%v, and the worker alone takes %v", took, own)
	}
}

// TestAGateIsDownWithItsWorker: whoever connects is refused, as by a worker that is down, and served again
// when it is up.
func TestAGateIsDownWithItsWorker(t *testing.T) {
	url, server := gated(t, gateSpec{Fault: &Fault{How: HowSlow, Factor: 2}}, echo, nil)
	address := server.Listener.Addr().String()
	server.Close()
	eventually(t, "connections are refused", func() bool {
		_, _, err := sent(t, "GET", url, "acme")
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	again := httptest.NewUnstartedServer(echo)
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	again.Listener.Close()
	again.Listener = l
	again.Start()
	defer again.Close()
	eventually(t, "it serves again", func() bool {
		resp, _, err := sent(t, "GET", url, "acme")
		return err == nil && resp.StatusCode == http.StatusTeapot
	})
}

// TestAPoisonousRequestKillsTheWorker before it is asked, and nobody else's does.
func TestAPoisonousRequestKillsTheWorker(t *testing.T) {
	var strikes, asked atomic.Int64
	url, _ := gated(t, gateSpec{Poisoned: []string{"bad", "spoof"}, Secret: "secret"},
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }),
		func(context.Context) error { strikes.Add(1); return nil })
	if _, _, err := sent(t, "GET", url, "good"); err != nil || strikes.Load() != 0 || asked.Load() != 1 {
		t.Errorf("a good tenant: %v, %d strikes, asked %d times", err, strikes.Load(), asked.Load())
	}
	if _, _, err := sent(t, "GET", url, "spoof"); err != nil || strikes.Load() != 0 || asked.Load() != 2 {
		t.Errorf("not by the router: %v, %d strikes, asked %d times", err, strikes.Load(), asked.Load())
	}
	if resp, _, err := sent(t, "GET", url, "bad"); err == nil || strikes.Load() != 1 || asked.Load() != 2 {
		t.Errorf("a poisonous tenant: %+v, %v, %d strikes, asked %d times", resp, err, strikes.Load(), asked.Load())
	}
}
