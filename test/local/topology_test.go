package local

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/localcell"
)

// clients write orders of all of a cell's tenants, and remember which writes were acknowledged.
type clients struct {
	t      *testing.T
	r      *localcell.Running
	tokens map[string]string

	mu           sync.Mutex
	acknowledged map[string][]string // order ids by tenant
	requests     int
}

func newClients(t *testing.T, r *localcell.Running, tenants []string) *clients {
	t.Helper()
	tokens, err := r.Tokens(t.Context(), tenants...)
	if err != nil {
		t.Fatal(err)
	}
	c := &clients{t: t, r: r, tokens: map[string]string{}, acknowledged: map[string][]string{}}
	for i, tenant := range tenants {
		c.tokens[tenant] = tokens[i]
	}
	return c
}

// expect sends one request, which must be answered with the status.
func (c *clients) expect(want int, tenant, method, path, body string) bool {
	got := send(c.t, c.r, method, path, c.tokens[tenant], body)
	if got != want {
		c.t.Errorf("%s %s of %s is answered %d, want %d", method, path, tenant, got, want)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	return got == want
}

// run has the tenants write and read in turns until it is stopped. No request may fail.
func (c *clients) run(tenants []string) (stop func()) {
	const workers = 8
	ended := make(chan struct{})
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for n := worker; ; n += workers {
				select {
				case <-ended:
					return
				default:
				}
				tenant, id := tenants[n%len(tenants)], fmt.Sprint(n)
				if c.expect(http.StatusNoContent, tenant, "PUT", "/orders/"+id, id) {
					c.mu.Lock()
					c.acknowledged[tenant] = append(c.acknowledged[tenant], id)
					c.mu.Unlock()
					c.expect(http.StatusOK, tenant, "GET", "/orders/"+id, "")
				}
			}
		})
	}
	return func() { close(ended); wg.Wait() }
}

// sent waits until so many requests more were answered.
func (c *clients) sent(more int) {
	c.t.Helper()
	total := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.requests
	}
	want := total() + more
	for deadline := time.Now().Add(time.Minute); total() < want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("the traffic stands still after %d requests", total())
		}
	}
}

// asked is how often the router asked each shard.
func (c *cell) asked() map[string]int64 {
	c.t.Helper()
	counters, err := c.running().Counters(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	all := map[string]int64{}
	for shard, n := range counters.Shards {
		all[shard] = n.Attempts
	}
	return all
}

// TestMigrationUnderTraffic publishes a topology that lacks a shard, drains another and has a larger k, and
// migrates every tenant to it while all of them write and read: no request fails, nothing acknowledged is
// lost, and afterwards the router goes by the second version alone.
func TestMigrationUnderTraffic(t *testing.T) {
	const dropped, drained = "s07", "s03"
	c := newCell(t)
	r := c.up("--cell", "eu-1")
	entries, err := c.entries().List(t.Context(), "", 1000)
	if err != nil || len(entries) != 200 {
		t.Fatalf("%d tenants, %v", len(entries), err)
	}
	var tenants []string
	for _, e := range entries {
		tenants = append(tenants, e.Tenant)
	}
	traffic := newClients(t, r, append(tenants, "newcomer"))
	c.operate("cell", "open", "eu-1", "--capacity", "1000")

	stop := traffic.run(tenants)
	traffic.sent(800)
	before := c.asked()
	if before[dropped] == 0 || before[drained] == 0 {
		t.Fatalf("the shards to be emptied were never asked: %v", before)
	}

	var next directory.Topology
	if err := json.Unmarshal([]byte(c.operate("topology", "show", "eu-1", "1", "--json")), &next); err != nil {
		t.Fatal(err)
	}
	next.KBySize[""] = 3
	next.Shards = slices.DeleteFunc(next.Shards, func(s directory.Shard) bool { return s.ID == dropped })
	for i := range next.Shards {
		if next.Shards[i].ID == drained {
			next.Shards[i].State = directory.Drained
		}
	}
	text, err := json.Marshal(next)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "next.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c.operate("topology", "publish", "eu-1", "--file", file)
	c.operate("tenant", "add", "newcomer", "--load", "1")
	for n := range 6 { // side by side with those of the first version
		traffic.expect(http.StatusNoContent, "newcomer", "PUT", fmt.Sprintf("/orders/%d", n), "x")
	}
	if got := c.tenant("newcomer"); len(got) != 3 || slices.Contains(got, dropped) || slices.Contains(got, drained) {
		t.Errorf("the newcomer's subset by the second version: %v", got)
	}
	if got := c.tenant(tenants[0]); len(got) != 2 {
		t.Errorf("a subset by the first version: %v", got)
	}
	traffic.sent(200)
	c.operate("topology", "migrate", "eu-1")
	c.operate("topology", "retire", "eu-1", "1")

	// For a while a router goes by what it was told of a tenant before it moved; the shard that let go then
	// sends it to the directory.
	time.Sleep(4 * time.Second)
	traffic.sent(50)
	settled := c.asked()
	traffic.sent(800)
	stop()
	after := c.asked()
	for _, shard := range []string{dropped, drained} {
		if after[shard] != settled[shard] {
			t.Errorf("shard %s was asked %d times after the migration", shard, after[shard]-settled[shard])
		}
		if held := c.operate("shard", "tenants", "eu-1/"+shard, "--json"); strings.TrimSpace(held) != "" {
			t.Errorf("shard %s still holds\n%s", shard, held)
		}
	}
	for shard, n := range after {
		if shard != dropped && shard != drained && n == settled[shard] {
			t.Errorf("shard %s was not asked after the migration", shard)
		}
	}
	entries, err = c.entries().List(t.Context(), "", 1000)
	if err != nil || len(entries) != 201 {
		t.Errorf("%d tenants, %v", len(entries), err)
	}
	for _, e := range entries {
		if e.Topology != 2 {
			t.Errorf("%s is on topology %d", e.Tenant, e.Topology)
		}
	}

	writes := 0
	for tenant, ids := range traffic.acknowledged {
		for _, id := range ids {
			writes++
			resp := ask(t, "GET", r.Router+"/orders/"+id, "Bearer "+traffic.tokens[tenant], "")
			body, err := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusOK || string(body) != id || err != nil {
				t.Errorf("order %s of %s was acknowledged and is answered %d %q, %v", id, tenant, resp.StatusCode, body, err)
			}
		}
	}
	t.Logf("%d requests, %d writes acknowledged and read back", traffic.requests, writes)
}

// TestRotationUnderTraffic rotates the cell's placement key by the commands that cell rotate-key prints, as they
// stand there, while every tenant writes and reads: no request fails, and afterwards another key places them.
func TestRotationUnderTraffic(t *testing.T) {
	c := newCell(t)
	r := c.up("--cell", "eu-1")
	entries, err := c.entries().List(t.Context(), "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	var tenants []string
	subsets := map[string]string{}
	for _, e := range entries {
		tenants = append(tenants, e.Tenant)
	}
	for _, tenant := range tenants[:20] {
		subsets[tenant] = strings.Join(c.tenant(tenant), " ")
	}
	traffic := newClients(t, r, tenants)
	stop := traffic.run(tenants)
	traffic.sent(400)
	var rotated struct {
		Version string
		Added   []string
		Next    []string
	}
	for _, added := range []int{1, 0} { // given again, it finds the version there
		if err := json.Unmarshal([]byte(c.operate("cell", "rotate-key", "eu-1", "--json")), &rotated); err != nil {
			t.Fatal(err)
		}
		if rotated.Version != "2" || len(rotated.Added) != added || len(rotated.Next) != 4 {
			t.Fatalf("%+v", rotated)
		}
	}
	for _, command := range rotated.Next {
		c.operate(strings.Fields(command)[1:]...)
		traffic.sent(100)
	}
	time.Sleep(4 * time.Second) // as in TestMigrationUnderTraffic
	traffic.sent(400)
	stop()
	moved := 0
	for tenant, before := range subsets {
		if strings.Join(c.tenant(tenant), " ") != before {
			moved++
		}
	}
	if moved < len(subsets)/2 {
		t.Errorf("of %d tenants only %d have other shards under another key", len(subsets), moved)
	}
	var last directory.Topology
	if err := json.Unmarshal([]byte(c.operate("topology", "show", "eu-1", "2", "--json")), &last); err != nil || last.KeyVersion != "2" || last.KeyCheck == "" {
		t.Errorf("topology %+v, %v", last, err)
	}
}
