package dircache

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/directory"
)

// TestTable: a table with room does what a map does.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, model := newTable(1<<30), map[string]*record{}
		for range rapid.IntRange(0, 2000).Draw(t, "steps") {
			tenant := fmt.Sprint(rapid.IntRange(0, 700).Draw(t, "tenant"))
			if rapid.IntRange(0, 3).Draw(t, "what") == 0 {
				table.remove(tenant)
				delete(model, tenant)
				continue
			}
			r := &record{tenant: tenant, kind: &kind{}}
			table.put(r)
			model[tenant] = r
		}
		bytes := int64(0)
		for i := range 700 {
			tenant := fmt.Sprint(i)
			if table.get(tenant) != model[tenant] || table.certain(tenant) != model[tenant] {
				t.Fatalf("tenant %s: %p, want %p", tenant, table.get(tenant), model[tenant])
			}
		}
		for _, r := range model {
			bytes += r.weight()
		}
		if n, b := table.size(); n != len(model) || b != bytes {
			t.Fatalf("%d records of %d bytes, want %d of %d", n, b, len(model), bytes)
		}
	})
}

// TestReadersFindWhatStays: while others come and go, whoever stays is found under the lock always, and
// without it nearly so.
func TestReadersFindWhatStays(t *testing.T) {
	table := newTable(1 << 30)
	const stay = 1000
	for i := range stay {
		table.put(&record{tenant: fmt.Sprint("stays", i), kind: &kind{}})
	}
	var wg sync.WaitGroup
	var ended atomic.Bool
	for w := range 2 {
		wg.Go(func() {
			for n := 0; !ended.Load(); n++ {
				tenant := fmt.Sprint(w, "comes", n%5000)
				table.put(&record{tenant: tenant, kind: &kind{}})
				if n%3 == 0 {
					table.remove(tenant)
				}
			}
		})
	}
	missed := 0
	for n := range 300_000 {
		tenant := fmt.Sprint("stays", n%stay)
		if r := table.get(tenant); r == nil {
			missed++
			if table.certain(tenant) == nil {
				t.Fatalf("%s is lost", tenant)
			}
		} else if r.tenant != tenant {
			t.Fatalf("%s was asked for and %s found", tenant, r.tenant)
		}
	}
	ended.Store(true)
	wg.Wait()
	if missed > 3000 {
		t.Errorf("%d of 300000 readers without the lock missed what is there", missed)
	}
}

// realistic is the nth of many tenants, as they may be: a UUID for an id, one in a hundred pinned to two to
// eight shards, one in two hundred of another size class.
func realistic(n int) directory.Entry {
	e := directory.Entry{
		Tenant: fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(n)*2654435761, n), Cell: strings.Clone("eu-1"),
		State: directory.State(strings.Clone("active")), Epoch: uint64(n%50 + 1), Topology: uint64(n%3 + 1),
		Operation: fmt.Sprint("import-", n), Created: time.Unix(int64(n), 0), Updated: time.Unix(int64(n), 0),
	}
	if n%100 == 0 {
		for i := range 2 + n/100%7 {
			e.Pins = append(e.Pins, fmt.Sprintf("s%02d", (n/100+i)%64+1))
		}
	}
	if n%200 == 1 {
		e.Size = strings.Clone("whale")
	}
	return e
}

// TestBounded: records never weigh more than Memory, whatever their size; what is asked for again and again
// stays; and a record's weight is what it takes in the heap, within a fifth.
func TestBounded(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	c := cacheOf(t, Config{Directory: home{newWorld()}, Cell: "eu-1", Memory: 4 << 20})
	bytes := func() int64 {
		_, a := c.tenants.size()
		_, b := c.strangers.size()
		return a + b
	}
	now := c.now()
	const busy = 1000
	for n := range busy {
		c.learn(realistic(n), now, false)
	}
	for n := range 100_000 {
		e := realistic(busy + n)
		switch rng.IntN(4) {
		case 0:
			e.Tenant += strings.Repeat("x", rng.IntN(90))
		case 1:
			for len(e.Pins) < directory.MaxPins {
				e.Pins = append(e.Pins, fmt.Sprint("p", len(e.Pins)))
			}
		case 2:
			e.Cell = "us-1"
		}
		c.learn(e, now, false)
		c.learnUnknown(fmt.Sprint("nobody", n), now, false)
		if r := c.tenants.get(realistic(n % busy).Tenant); r != nil {
			if _, err := c.tell(r, now); err != nil {
				t.Fatal(err)
			}
		}
		if n%1000 == 0 {
			if b := bytes(); b > 4<<20 {
				t.Fatalf("%d bytes, want at most %d", b, 4<<20)
			}
		}
	}
	kept := 0
	for n := range busy {
		if c.tenants.certain(realistic(n).Tenant) != nil {
			kept++
		}
	}
	if kept < busy*95/100 {
		t.Errorf("%d of %d tenants who come all the time are remembered", kept, busy)
	}
	if n, _ := c.tenants.size(); n < 5000 {
		t.Errorf("only %d tenants fit", n)
	}
}

// heapAfter is what is live in the heap.
func heapAfter() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// fill learns so many realistic tenants, each with a subset of its own, and returns the live heap that they
// take.
func fill(t testing.TB, c *Cache, n int) uint64 {
	t.Helper()
	shards := []string{"s01", "s02", "s03"}
	before, now := heapAfter(), c.now()
	for i := range n {
		k, err := c.tell(c.learn(realistic(i), now, false), now)
		if err != nil {
			t.Fatal(err)
		}
		k.Memo.Members(func() ([]string, error) { return []string{shards[i%3], shards[(i+1)%3]}, nil })
	}
	return heapAfter() - before
}

// TestAMillionTenants fit in 512 MB with the default bound: all are remembered, and the heap that the process
// needs for them, garbage collection included, stays below.
func TestAMillionTenants(t *testing.T) {
	if testing.Short() {
		t.Skip("a million entries take a quarter of a gigabyte and some seconds")
	}
	if raceEnabled {
		t.Skip("the race detector has memory of its own, and one goroutine writes here; make test runs this without it")
	}
	c := cacheOf(t, Config{Directory: home{newWorld()}, Cell: "eu-1"})
	const million = 1_000_000
	live := fill(t, c, million)
	n, weight := c.tenants.size()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("live heap %d MB, %d bytes a tenant, estimated %d; from the system %d MB", live>>20, live/million, weight/million, m.Sys>>20)
	if n != million {
		t.Errorf("%d tenants of a million are remembered", n)
	}
	if live > 256<<20 {
		t.Errorf("live heap of %d bytes, want at most 256 MiB: with the collector's default that is 512 MiB", live)
	}
	if off := float64(weight) / float64(live); off < 0.8 || off > 1.2 {
		t.Errorf("estimated %d bytes, and the heap has %d", weight, live)
	}
	runtime.KeepAlive(c)
}

func BenchmarkBytesPerTenant(b *testing.B) {
	const many = 200_000
	for b.Loop() {
		c := cacheOf(b, Config{Directory: home{newWorld()}, Cell: "eu-1"})
		b.ReportMetric(float64(fill(b, c, many))/many, "B/tenant")
		runtime.KeepAlive(c)
	}
}

// BenchmarkEntry is the cost of an entry that is remembered: of one tenant, of all, and by all processors.
func BenchmarkEntry(b *testing.B) {
	for _, n := range []int{1, 100_000} {
		c := cacheOf(b, Config{Directory: home{newWorld()}, Cell: "eu-1", TTL: 24 * time.Hour})
		ids := make([]string, n)
		for i := range ids {
			ids[i] = realistic(i).Tenant
			c.learn(realistic(i), c.now(), false)
		}
		b.Run(fmt.Sprintf("tenants=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if k, err := c.Entry(b.Context(), ids[i*7919%n]); err != nil || k.Epoch == 0 {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("tenants=%d,parallel", n), func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := rand.IntN(n); pb.Next(); i++ {
					if k, err := c.Entry(b.Context(), ids[i*7919%n]); err != nil || k.Epoch == 0 {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// TestRememberedEntriesCostNoMemory: no allocation for an answer from memory.
func TestRememberedEntriesCostNoMemory(t *testing.T) {
	c := cacheOf(t, Config{Directory: home{newWorld()}, Cell: "eu-1"})
	c.learn(realistic(0), c.now(), false)
	tenant := realistic(0).Tenant
	if n := testing.AllocsPerRun(1000, func() {
		if k, err := c.Entry(t.Context(), tenant); err != nil || len(k.Pins) != 2 {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
