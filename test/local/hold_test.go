package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/adapter/shardhttp"
	"cellwall.dev/cellwall/internal/dircache"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/localcell"
	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// operate runs a command over the directory of the running cell.
func (c *cell) operate(args ...string) string {
	c.t.Helper()
	cmd := exec.Command(filepath.Join(bin, "cellwall"), append(args, "--state-dir", c.state)...)
	cmd.Dir = "../.."
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("cellwall %s: %v\n%s%s", strings.Join(args, " "), err, out, &errs)
	}
	return string(out)
}

// pin pins the tenant as an operator does, and returns the entry's epoch.
func (c *cell) pin(tenant string, shards ...string) uint64 {
	c.t.Helper()
	c.operate(append([]string{"tenant", "pin", tenant}, shards...)...)
	e, err := c.entries().Get(c.t.Context(), tenant)
	if err != nil {
		c.t.Fatal(err)
	}
	return e.Epoch
}

func (c *cell) entries() *directory.Directory {
	c.t.Helper()
	home, err := c.running().Directory()
	if err != nil {
		c.t.Fatal(err)
	}
	d, err := directory.Open(c.t.Context(), home)
	if err != nil {
		c.t.Fatal(err)
	}
	return d
}

// workers reach the shards' processes as the router does, with its secret.
func (c *cell) workers() routing.Transport {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.state, "router.json"))
	if err != nil {
		c.t.Fatal(err)
	}
	var settings struct {
		WorkerSecret string            `json:"workerSecret"`
		Workers      map[string]string `json:"workers"`
	}
	if err := json.Unmarshal(text, &settings); err != nil {
		c.t.Fatal(err)
	}
	return shardhttp.New(func(shard string) (string, error) {
		if base, ok := settings.Workers[shard]; ok {
			return base, nil
		}
		return "", errors.New("no such shard")
	}, http.Header{shardkit.HeaderSecret: {settings.WorkerSecret}})
}

// shard asks one shard's process by an entry of this epoch.
func (c *cell) shard(shard, tenant string, epoch uint64, method, path, body string) *routing.Response {
	c.t.Helper()
	resp, err := c.workers().Send(c.t.Context(), routing.Call{Tenant: tenant, Epoch: epoch, Shard: shard}, &routing.Request{
		Method: method, Path: path, Body: []byte(body),
		Header: http.Header{
			routing.HeaderTenant: {routing.EncodeTenant(tenant)}, routing.HeaderEpoch: {fmt.Sprint(epoch)}, routing.HeaderShard: {shard},
		},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return resp
}

// aTenant is one of the cell's.
func (c *cell) aTenant() string {
	c.t.Helper()
	all, err := c.entries().List(c.t.Context(), "", 1)
	if err != nil || len(all) == 0 {
		c.t.Fatalf("%d tenants, %v", len(all), err)
	}
	return all[0].Tenant
}

// late is a directory that answers once as it was, as a router's cache does.
type late struct {
	dircache.Directory
	was  *directory.Entry
	asks int
}

func (l *late) Get(ctx context.Context, tenant string) (directory.Entry, error) {
	if l.asks++; l.was != nil {
		e := *l.was
		l.was = nil
		return e, nil
	}
	return l.Directory.Get(ctx, tenant)
}

// TestAPinnedTenantLeavesItsShard: the shard that a tenant was pinned away from refuses it before any
// effect, whichever epoch the request has; the one that it came to takes no request of before; and a router
// that is late reads the directory afresh, once, and follows it.
func TestAPinnedTenantLeavesItsShard(t *testing.T) {
	c := newCell(t)
	c.up("--cell", "eu-canary")
	tenant := c.aTenant()
	first := c.pin(tenant, "s01")
	before, err := c.entries().Get(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	if resp := c.shard("s01", tenant, first, "PUT", "/orders/1", "one"); resp.Status != 204 {
		t.Errorf("s01 answers %d while it holds the tenant: %s", resp.Status, resp.Body)
	}
	second := c.pin(tenant, "s02")
	for _, a := range []struct {
		shard  string
		epoch  uint64
		status int
	}{
		{"s01", first, 421}, {"s01", second, 421}, {"s01", second + 1, 421}, {"s02", first, 421}, {"s03", second, 421},
		{"s02", second, 204}, {"s02", second + 1, 204},
	} {
		path := fmt.Sprintf("/orders/%s-%d", a.shard, a.epoch)
		if resp := c.shard(a.shard, tenant, a.epoch, "PUT", path, "x"); resp.Status != a.status {
			t.Errorf("%s at epoch %d answers %d, want %d: %s", a.shard, a.epoch, resp.Status, a.status, resp.Body)
		}
		want := map[int]int{204: 200, 421: 404}[a.status]
		if resp := c.shard("s02", tenant, second, "GET", path, ""); resp.Status != want {
			t.Errorf("after a %d, %s is answered %d, want %d", a.status, path, resp.Status, want)
		}
	}
	for shard, holds := range map[string]bool{"s01": false, "s02": true} {
		if listed := c.operate("shard", "tenants", "eu-canary/"+shard, "--json"); strings.Contains(listed, fmt.Sprintf("%q", tenant)) != holds {
			t.Errorf("the tenants of %s: %s", shard, listed)
		}
	}

	from := &late{Directory: c.entries(), was: &before}
	var outcome routing.Outcome
	entries, err := dircache.New(dircache.Config{Cell: "eu-canary", Directory: from})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := routing.New(routing.Config{
		Cell: "eu-canary", Entries: entries, Topologies: c.entries(),
		Keys:       func(_ context.Context, cell, version string) ([]byte, error) { return c.dir().Key(cell, version) },
		Routes:     []routing.Route{{Path: "/*", Via: routing.ViaHTTP}},
		Transports: map[string]routing.Transport{routing.ViaHTTP: c.workers()}, Timeout: 10 * time.Second,
		Observe: func(o routing.Outcome) { outcome = o },
	})
	if err != nil {
		t.Fatal(err)
	}
	resp := engine.Serve(t.Context(), tenant, &routing.Request{Method: "POST", Path: "/jobs/late", Body: []byte("done"), Header: http.Header{}})
	if a := outcome.Attempts; resp.Status != 204 || from.asks != 2 || len(a) != 2 || a[0].Shard != "s01" || a[0].Status != 421 || a[1].Shard != "s02" {
		t.Errorf("a router that is late: answered %d after %d looks, attempts %+v", resp.Status, from.asks, a)
	}
	if got := c.shard("s02", tenant, second, "GET", "/jobs/late", ""); got.Status != 200 || string(got.Body) != "done" {
		t.Errorf("what the follower wrote is answered %d %s", got.Status, got.Body)
	}
}

// TestPinsUnderTraffic pins a tenant from shard to shard while its clients write: each write is
// acknowledged, or refused as a whole; none is lost.
func TestPinsUnderTraffic(t *testing.T) {
	c := newCell(t)
	r := c.up("--cell", "eu-canary")
	tenant := c.aTenant()
	tokens, err := r.Tokens(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	c.pin(tenant, "s01")
	const clients, pins = 8, 12
	var mu sync.Mutex
	var acknowledged []string
	refused, ended := 0, make(chan struct{})
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-ended:
					return
				default:
				}
				id := fmt.Sprintf("%d-%d", client, n)
				resp := send(t, r, "PUT", "/orders/"+id, tokens[0], id)
				mu.Lock()
				switch resp {
				case 204:
					acknowledged = append(acknowledged, id)
				case 503:
					refused++
				default:
					t.Errorf("PUT is answered %d", resp)
				}
				mu.Unlock()
			}
		})
	}
	for i := range pins {
		c.pin(tenant, fmt.Sprintf("s%02d", (i+1)%4+1))
	}
	close(ended)
	wg.Wait()
	t.Logf("%d pins: %d writes acknowledged, %d refused", pins, len(acknowledged), refused)
	if len(acknowledged) == 0 || refused > len(acknowledged)/10 {
		t.Errorf("%d writes acknowledged, %d refused", len(acknowledged), refused)
	}
	for _, id := range acknowledged {
		if status := send(t, r, "GET", "/orders/"+id, tokens[0], ""); status != 200 {
			t.Errorf("order %s was acknowledged and is answered %d", id, status)
		}
	}
}

// send sends a request of a tenant to the cell's router and returns the status; 0 when no answer came.
func send(t *testing.T, r *localcell.Running, method, path, token, body string) int {
	req, err := http.NewRequestWithContext(t.Context(), method, r.Router+path, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	return resp.StatusCode
}
