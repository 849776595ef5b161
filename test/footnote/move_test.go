package footnote

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

// TestChangeOfCell: tenants go from one cell to the other and back, by the directory, while they write and read
// through the front door. It and the routers go by entries of before, for up to two seconds each. No request fails,
// none sees another's word, and 421, by which shards and cells say that they do not have the tenant, reaches nobody.
func TestChangeOfCell(t *testing.T) {
	const movers = 8
	c := newCell(t, movers, "--cells", "2")
	ctx := t.Context()
	home, err := c.running.Directory()
	c.must(err)
	dir, err := directory.Open(ctx, home)
	c.must(err)
	holder, err := c.running.Holder()
	c.must(err)
	residence := directory.NewResidence(dir, holder, func(_ context.Context, cell, version string) ([]byte, error) { return c.dir.Key(cell, version) })

	var requests, moves atomic.Int64
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	var tenants sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: movers}, Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	for _, tenant := range c.all {
		tenants.Go(func() {
			for n := 0; stop.Err() == nil; n++ {
				want := fmt.Sprintf("%s %d", tenant.ID, n)
				if status, answer := c.do(client, tenant.Token, http.MethodPut, "/orders/1", want); status != http.StatusNoContent {
					t.Errorf("PUT of %s was answered %d %q", tenant.ID, status, answer)
				}
				if status, got := c.do(client, tenant.Token, http.MethodGet, "/orders/1", ""); status != http.StatusOK || got != want {
					t.Errorf("GET of %s was answered %d %q, want %q", tenant.ID, status, got, want)
				}
				requests.Add(2)
			}
		})
	}
	for deadline := time.Now().Add(long(6*time.Second, 30*time.Second)); time.Now().Before(deadline) && !t.Failed(); {
		for n, tenant := range c.all {
			c.move(residence, tenant.ID, fmt.Sprintf("%d of %d", n, moves.Add(1)))
		}
		time.Sleep(300 * time.Millisecond)
	}
	cancel()
	tenants.Wait()
	for name, v := range c.vitals() {
		if v.Goroutines == 0 || v.Heap == 0 {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if status, answer := c.do(client, c.all[0].Token, http.MethodGet, "/.cellwall/vitals", ""); status != http.StatusUnauthorized {
		t.Errorf("what the front door holds is told to a tenant: %d %s", status, answer)
	}
	t.Logf("%d requests while %d tenants changed their cell %d times", requests.Load(), movers, moves.Load())
	if requests.Load() < movers*10 || moves.Load() < 2*movers {
		t.Errorf("%d requests and %d moves show little", requests.Load(), moves.Load())
	}
}

// move has a tenant change its cell. What it has lies in a store that both cells of this machine reach, so that
// nothing needs to be copied.
func (c *cell) move(r *directory.Residence, tenant, operation string) {
	c.Helper()
	change := directory.Change{Operation: operation, By: "test", At: time.Now()}
	entry, err := r.Get(c.Context(), tenant)
	c.must(err)
	moving := entry.Clone()
	moving.State = directory.Moving
	moving, err = r.Settle(c.Context(), entry, moving, change)
	c.must(err)
	there := moving.Clone()
	there.State, there.Cell, there.Topology = directory.Active, "us-1", 1
	if moving.Cell == "us-1" {
		there.Cell = "eu-1"
	}
	change.Operation += ", there"
	_, err = r.Settle(c.Context(), moving, there, change)
	c.must(err)
}
