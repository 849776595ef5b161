package handler

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/dircache"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/internal/sample"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// slowOnce is a store to which the first write takes long, however little time its caller has.
type slowOnce struct {
	shardkit.Items
	delayed atomic.Bool
}

func (s *slowOnce) Write(ctx context.Context, tenant string, epoch uint64, writes ...shardkit.Write) error {
	if !s.delayed.Swap(true) {
		time.Sleep(time.Minute)
	}
	return s.Items.Write(ctx, tenant, epoch, writes...)
}

// inProcess is a Transport whose slices are workers here, which go on when the router gives up.
type inProcess map[string]*Worker

func (p inProcess) Send(ctx context.Context, call routing.Call, req *routing.Request) (*routing.Response, error) {
	payload, err := awsevent.FormatRequest(req)
	if err != nil {
		return nil, err
	}
	answer := make(chan *routing.Response, 1)
	go func() {
		out, err := p[call.Shard].Invoke(context.WithoutCancel(ctx), payload)
		if err != nil {
			return
		}
		if resp, err := awsevent.ParseAnswer(out); err == nil {
			answer <- resp
		}
	}()
	select {
	case resp := <-answer:
		return resp, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestALateWriteUndoesNothing: the first shard gets a write and hangs, the second executes it, and so it
// does the next one. When the first shard wakes up, it must not write.
func TestALateWriteUndoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := shardkit.NewMemory()
		store.Hold("acme", 1)
		service := func(shard string, items shardkit.Items) *Worker {
			h, err := sample.New(sample.Config{Items: items, Shard: shard, Log: quiet()})
			if err != nil {
				t.Fatal(err)
			}
			return NewWorker(h, quiet())
		}
		dir := directorytest.Fill(t, directory.NewMemory())
		if _, err := dir.Store("test").Create(t.Context(), directory.Entry{Tenant: "acme", Cell: "eu-1", State: directory.Active, Topology: 1,
			Operation: "test", Pins: []string{"s02", "s01"}}); err != nil {
			t.Fatal(err)
		}
		entries, err := dircache.New(dircache.Config{Cell: "eu-1", Directory: dir})
		if err != nil {
			t.Fatal(err)
		}
		engine, err := routing.New(routing.Config{
			Cell: "eu-1", Entries: entries, Topologies: dir, Keys: func(context.Context, string, string) ([]byte, error) { return []byte("test key"), nil },
			Routes: []routing.Route{{Path: "/*", Via: routing.ViaLambda}},
			Transports: map[string]routing.Transport{routing.ViaLambda: inProcess{
				"s01": service("s01", &slowOnce{Items: store}), "s02": service("s02", store),
			}},
			Timeout: 28 * time.Second,
			Pick:    func(int) int { return 0 }, // of two fit members this asks the last first
		})
		if err != nil {
			t.Fatal(err)
		}
		put := func(body string) {
			resp := engine.Serve(t.Context(), "acme", &routing.Request{Method: "PUT", Path: "/orders/1", Body: []byte(body)})
			if resp.Status != http.StatusNoContent {
				t.Fatalf("PUT %s is answered %d %s", body, resp.Status, resp.Body)
			}
		}
		start := time.Now()
		put("v1")
		if waited := time.Since(start); waited != 14*time.Second {
			t.Fatalf("the first shard was waited for %v, want half of the time: was it asked?", waited)
		}
		put("v2")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if value, _, err := store.Get(t.Context(), "acme", "ORDER#1"); err != nil || string(value) != "v2" {
			t.Errorf("the order is %q, %v; v2 was acknowledged last", value, err)
		}
	})
}

func TestUntilDeadline(t *testing.T) {
	served := 0
	h := UntilDeadline(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		served++
		if deadline, ok := r.Context().Deadline(); ok != (r.Header.Get(routing.HeaderDeadline) != "") || ok && time.Until(deadline) < 50*time.Minute {
			t.Errorf("the service may take until %v, %t", deadline, ok)
		}
	}))
	in := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).UnixMilli(), 10) }
	for _, test := range []struct {
		values []string
		status int
	}{
		{nil, 200}, {[]string{in(time.Hour)}, 200}, {[]string{in(-time.Second)}, 504}, {[]string{"0"}, 504}, {[]string{"-1"}, 504},
		{[]string{""}, 400}, {[]string{"soon"}, 400}, {[]string{"1e99"}, 400}, {[]string{in(time.Hour), in(time.Hour)}, 400},
	} {
		before := served
		r := httptest.NewRequest("PUT", "/orders/1", strings.NewReader("x"))
		r.Header[routing.HeaderDeadline] = test.values
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != test.status || (served > before) != (test.status == 200) {
			t.Errorf("deadline %q: answered %d, served %t", test.values, w.Code, served > before)
		}
	}
}
