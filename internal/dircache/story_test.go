package dircache_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cellwall.dev/cellwall/internal/dircache"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing"
)

// table is a directory that tests change and stop.
type table struct {
	mu      sync.Mutex
	entries fixed
	down    bool
	reads   int
}

func (d *table) Get(ctx context.Context, tenant string) (directory.Entry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads++
	if d.down {
		return directory.Entry{}, errors.New("no route to host")
	}
	return d.entries.Get(ctx, tenant)
}

func (d *table) set(e directory.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries[e.Tenant] = e
}

func (d *table) stop(down bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = down
}

// frozen is a snapshot.
type frozen struct {
	entries fixed
	taken   time.Time
}

func (f frozen) Entry(tenant string) (directory.Entry, time.Time, bool) {
	e, ok := f.entries[tenant]
	return e, f.taken, ok
}

// holding is who holds which tenant at which epoch, by cell and shard, as the shards' own stores say.
type holding struct {
	mu   sync.Mutex
	held map[string]uint64
}

func (h *holding) hold(cell, shard string, epoch uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[cell+"/"+shard] = epoch
}

func (h *holding) letGo(cell, shard string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.held, cell+"/"+shard)
}

// of is the way to a cell's shards.
func (h *holding) of(cell string) routing.Transport {
	return sender(func(_ context.Context, call routing.Call, _ *routing.Request) (*routing.Response, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if epoch := h.held[cell+"/"+call.Shard]; epoch == 0 || call.Epoch < epoch {
			return &routing.Response{Status: http.StatusMisdirectedRequest}, nil
		}
		return ok(cell), nil
	})
}

// TestStaleCacheDuringAChangeOfCell: a tenant moves from one cell to another while its clients ask both cells'
// routers, in both forms, which remember what was. No answer comes from a cell that does not hold it, none is
// a 421, and once the move is over the old cell's routers know it at once, the new one's within Negative.
func TestStaleCacheDuringAChangeOfCell(t *testing.T) {
	for _, single := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const routers = 3
			dir := &table{entries: fixed{}}
			shards := &holding{held: map[string]uint64{}}
			engines := map[string][]*routing.Engine{}
			for _, cell := range []string{"eu-1", "us-1"} {
				for range routers {
					cache, err := dircache.New(dircache.Config{Cell: cell, Directory: dir, Single: single})
					if err != nil {
						t.Fatal(err)
					}
					c := testConfig(cache, shards.of(cell))
					c.Cell, c.Single = cell, single
					engines[cell] = append(engines[cell], newEngine(t, c))
				}
			}
			entry := pinned("acme", "s01")
			entry.Topology = 0
			step := func(cell string, state directory.State) {
				entry.Cell, entry.State = cell, state
				entry.Epoch++
				dir.set(entry)
			}
			ask := func(cell, method string) map[int]int {
				t.Helper()
				got := map[int]int{}
				for _, e := range engines[cell] {
					resp := e.Serve(t.Context(), "acme", &routing.Request{Method: method, Path: "/x", Header: http.Header{}})
					got[resp.Status]++
					if resp.Status == 200 && string(resp.Body) != cell {
						t.Errorf("the router of %s got an answer of %s", cell, resp.Body)
					}
				}
				return got
			}
			want := func(when, cell, method string, status int) {
				t.Helper()
				if got := ask(cell, method); got[status] != routers {
					t.Errorf("single %t, %s: a %s in %s is answered %v, want %d", single, when, method, cell, got, status)
				}
			}
			step("eu-1", directory.Active)
			shards.hold("eu-1", "s01", entry.Epoch)
			want("before", "eu-1", "GET", 200)
			want("before", "eu-1", "POST", 200)
			want("before", "us-1", "GET", 404)

			step("eu-1", directory.Moving)
			shards.hold("eu-1", "s01", entry.Epoch) // it takes no request of before
			want("moving", "eu-1", "GET", 200)
			want("moving", "eu-1", "POST", 503)
			time.Sleep(3 * time.Second)
			want("moving", "eu-1", "GET", 200)

			shards.hold("us-1", "s01", entry.Epoch+1)
			step("us-1", directory.Active)
			shards.letGo("eu-1", "s01")
			want("moved", "eu-1", "GET", 404)
			want("moved", "eu-1", "POST", 404)
			time.Sleep(6 * time.Second)
			want("after", "us-1", "GET", 200)
			want("after", "us-1", "POST", 200)
			want("after", "eu-1", "GET", 404)
			time.Sleep(5 * time.Second)
		})
	}
}

// TestDirectoryStoppedForAWholeRun: routers that start while the directory is down serve every tenant of the
// snapshot for a day, and tell nobody that it does not exist; those that knew more than the snapshot keep it.
func TestDirectoryStoppedForAWholeRun(t *testing.T) {
	for _, single := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			dir := &table{entries: fixed{}, down: true}
			base := frozen{fixed{}, time.Now()}
			for i := range 200 {
				e := pinned(fmt.Sprint("t", i))
				base.entries[e.Tenant] = e
			}
			c := testConfig(newCache(t, dircache.Config{Directory: dir, Base: base, Single: single}), naming)
			var seen routing.Outcome
			c.Observe = func(o routing.Outcome) { seen = o }
			e := newEngine(t, c)
			failed := 0
			for range 24 * 6 {
				for i := range 200 {
					tenant := fmt.Sprint("t", i)
					if resp := e.Serve(t.Context(), tenant, get("/x")); resp.Status != 200 {
						failed++
					}
					if age := time.Since(base.taken); seen.Age != age || seen.Stale != (age >= time.Minute) {
						t.Fatalf("an entry that is %v old is said to be %v, stale %t", age, seen.Age, seen.Stale)
					}
				}
				wantProblem(t, e.Serve(t.Context(), "signed-up-since", get("/x")), 503)
				time.Sleep(10 * time.Minute)
			}
			if failed > 0 {
				t.Errorf("single %t: %d requests failed", single, failed)
			}
			// Each tenth minute finds the pauses over: at most two probes, and the first failures.
			if dir.reads > 24*6*4+10 {
				t.Errorf("single %t: the directory was asked %d times", single, dir.reads)
			}
			dir.stop(false)
			dir.set(pinned("signed-up-since"))
			time.Sleep(time.Minute)
			if resp := e.Serve(t.Context(), "signed-up-since", get("/x")); resp.Status != 200 {
				t.Errorf("after the outage: %d", resp.Status)
			}
			time.Sleep(5 * time.Second)
		})
	}
}

// TestAFloodOfUnknownTenants: a hundred thousand of them who ask an engine cause at most so many readings as
// the cache's limits say, and tenants who exist are served all the while.
func TestAFloodOfUnknownTenants(t *testing.T) {
	for _, single := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			dir := &table{entries: fixed{}}
			for i := range 100 {
				dir.set(pinned(fmt.Sprint("t", i)))
			}
			e := newEngine(t, testConfig(newCache(t, dircache.Config{Directory: dir, Single: single}), naming))
			for i := range 100 {
				if single {
					time.Sleep(time.Second) // an environment meets its tenants one by one
				}
				e.Serve(t.Context(), fmt.Sprint("t", i), get("/x"))
			}
			before, start := dir.reads, time.Now()
			statuses := map[int]int{}
			for n := range 100_000 {
				statuses[e.Serve(t.Context(), fmt.Sprint("nobody", n), get("/x")).Status]++
				if n%100 == 0 {
					if resp := e.Serve(t.Context(), fmt.Sprint("t", n/100%100), get("/x")); resp.Status != 200 {
						t.Fatalf("a tenant is answered %d", resp.Status)
					}
				}
			}
			limits := dircache.LimitsOf(single)
			most := limits.Burst + limits.AtOnce + int(limits.PerSecond*time.Since(start).Seconds()) + 200
			if n := dir.reads - before; n > most {
				t.Errorf("single %t: %d readings, want at most %d", single, n, most)
			}
			if statuses[404]+statuses[503] != 100_000 || statuses[404] < limits.Burst {
				t.Errorf("single %t: strangers are answered %v", single, statuses)
			}
			t.Logf("single %t: %v, %d readings", single, statuses, dir.reads-before)
		})
	}
}
