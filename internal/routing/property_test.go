package routing

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing/health"
)

// trial is a cell in which each shard has a fate, drawn at random.
type trial struct {
	engine *Engine
	mu     sync.Mutex
	calls  []Call
	fates  map[string]fate
}

// trialTopologies are two versions of one cell; the second lacks two shards of the first and has another.
var trialTopologies = published{1: topology(1, eight...), 2: topology(2, append([]string{"s09"}, eight[2:]...)...)}

func newTrial(t *rapid.T, dir getter, changes ...func(*Config)) *trial {
	tr := &trial{fates: map[string]fate{}}
	c := testConfig(dir, sender(func(_ context.Context, call Call, _ *Request) (*Response, error) {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.calls = append(tr.calls, call)
		f := tr.fates[call.Shard]
		return f.resp, f.err
	}))
	c.Topologies = trialTopologies
	c.Pick = func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") }
	for _, shard := range append([]string{"s09", "gone"}, eight...) {
		tr.fates[shard] = rapid.SampledFrom(fates).Draw(t, "fate of "+shard)
	}
	for _, change := range changes {
		change(&c)
	}
	for _, r := range c.Routes {
		c.Transports[r.Via] = c.Transports[ViaLambda]
	}
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	tr.engine = e
	return tr
}

func drawEntry(t *rapid.T) directory.Entry {
	e := pinned("acme")
	e.Topology = rapid.Uint64Range(1, 2).Draw(t, "topology")
	e.Size = rapid.SampledFrom([]string{"", "whale"}).Draw(t, "size")
	e.Pins = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"s01", "s03", "s05", "s07", "gone"}), 0, 4, rapid.ID).Draw(t, "pins")
	return e
}

var methods = []string{"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST", "PATCH", "BREW"}

// TestSubsetOnly: whatever happened before, only members are asked, and as long as there is a member one is
// asked.
func TestSubsetOnly(t *testing.T) {
	subset := map[uint64]map[string][]string{}
	for version, top := range trialTopologies {
		subset[version] = map[string][]string{}
		for _, size := range []string{"", "whale"} {
			e := pinned("acme")
			e.Size = size
			subset[version][size] = computed(t, top, e)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		entry := drawEntry(t)
		tr := newTrial(t, fixed{"acme": entry})
		var members []string
		for _, pin := range entry.Pins {
			if slices.ContainsFunc(trialTopologies[entry.Topology].Shards, func(s directory.Shard) bool { return s.ID == pin }) {
				members = append(members, pin)
			}
		}
		if len(entry.Pins) == 0 {
			members = subset[entry.Topology][entry.Size]
		}
		for range rapid.IntRange(1, 30).Draw(t, "requests") {
			tr.calls = nil
			tr.engine.Serve(context.Background(), "acme", &Request{Method: rapid.SampledFrom(methods).Draw(t, "method"), Path: "/x"})
			if len(members) > 0 && len(tr.calls) == 0 {
				t.Fatal("no member was asked")
			}
			for _, call := range tr.calls {
				if !slices.Contains(members, call.Shard) {
					t.Fatalf("asked %s, which is not in %v", call.Shard, members)
				}
			}
		}
	})
}

// TestBoundedRepeats: however the shards of however large a subset fail, nobody is asked twice by one entry, one
// environment repeats once, and a process as often as its budget lets it.
func TestBoundedRepeats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		single := rapid.Bool().Draw(t, "single")
		tr := newTrial(t, fixed{"acme": drawEntry(t)}, func(c *Config) { c.Single = single })
		for range rapid.IntRange(1, 30).Draw(t, "requests") {
			tr.calls = nil
			tr.engine.Serve(context.Background(), "acme", &Request{Method: rapid.SampledFrom(methods).Draw(t, "method"), Path: "/x"})
			if single && len(tr.calls) > 2 {
				t.Fatalf("sent %d times", len(tr.calls))
			}
			asked := map[string]bool{}
			for _, call := range tr.calls {
				if asked[call.Shard] {
					t.Fatalf("sent to %s twice", call.Shard)
				}
				asked[call.Shard] = true
			}
		}
	})
	t.Run("budget", func(t *testing.T) {
		// Requests wait at their shard until all are there, and then all fail.
		const all = 40
		var arrived sync.WaitGroup
		arrived.Add(all)
		var first, repeats, most atomic.Int64
		held := make(chan struct{})
		c := testConfig(fixed{"acme": pinned("acme", "s01", "s02")}, sender(func(context.Context, Call, *Request) (*Response, error) {
			if first.Add(1) <= all {
				arrived.Done()
				arrived.Wait()
				return nil, errBroken
			}
			now := repeats.Add(1)
			for {
				seen := most.Load()
				if now <= seen || most.CompareAndSwap(seen, now) {
					break
				}
			}
			<-held
			repeats.Add(-1)
			return ok(""), nil
		}))
		e := newEngine(t, c)
		statuses := make(chan int, all)
		for range all {
			go func() { statuses <- e.Serve(t.Context(), "acme", get("/x")).Status }()
		}
		count := map[int]int{}
		for range all - all/5 {
			count[<-statuses]++
		}
		for deadline := time.Now().Add(10 * time.Second); repeats.Load() < all/5 && time.Now().Before(deadline); { // the last are on their way
			time.Sleep(time.Millisecond)
		}
		close(held)
		for range all / 5 {
			count[<-statuses]++
		}
		if most.Load() != all/5 || count[200] != all/5 || count[502] != all-all/5 {
			t.Errorf("of %d requests at once whose shard failed, %d were repeated at once; answers %v", all, most.Load(), count)
		}
	})
}

// TestRepeatedOnlyIfSafe: what every request was sent for, after what had become of the sendings before.
func TestRepeatedOnlyIfSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records, queue := rapid.Bool().Draw(t, "records"), rapid.Bool().Draw(t, "queue")
		tr := newTrial(t, fixed{"acme": drawEntry(t)}, func(c *Config) {
			c.IdempotencyKeys = records
			if queue {
				c.Routes = []Route{{Path: "/*", Via: ViaQueue}}
			}
		})
		for range rapid.IntRange(1, 30).Draw(t, "requests") {
			tr.calls = nil
			method, keyed := rapid.SampledFrom(methods).Draw(t, "method"), rapid.Bool().Draw(t, "keyed")
			header := http.Header{}
			if keyed {
				header.Set("Idempotency-Key", `"k"`)
			}
			condition := rapid.SampledFrom([]string{"", "", "If-Match", "if-none-match", "If-Unmodified-Since", "If"}).Draw(t, "condition")
			if condition != "" {
				header[condition] = []string{"*"}
			}
			tr.engine.Serve(context.Background(), "acme", &Request{Method: method, Path: "/x", Header: header})
			reads, writes := slices.Contains([]string{"GET", "HEAD", "OPTIONS"}, method), method == "PUT" || method == "DELETE"
			safe := !queue && (reads || writes && condition == "" ||
				records && keyed && (method == "POST" || method == "PATCH" || writes))
			for i, call := range tr.calls {
				if i == len(tr.calls)-1 {
					break
				}
				f := tr.fates[call.Shard]
				harmless := errors.Is(f.err, ErrNotSent) || f.resp != nil && f.resp.Status == 421
				if !safe && !harmless {
					t.Fatalf("%s was repeated after a shard that %s", method, f.name)
				}
				if f.resp != nil && (f.resp.Status == 200 || f.resp.Status == 422 || f.name == "says too much") || errors.Is(f.err, ErrTooLarge) {
					t.Fatalf("repeated after a shard that %s", f.name)
				}
			}
		}
	})
}

// TestHealthOnlyOrders is what the fallback is for: as long as one of the two members answers, no idempotent
// request fails, whatever the other does and has done, and whatever is said of the one.
func TestHealthOnlyOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		single := rapid.Bool().Draw(t, "single")
		tr := newTrial(t, fixed{"acme": pinned("acme", "s01", "s02")}, func(c *Config) { c.Single = single })
		for range rapid.IntRange(1, 20).Draw(t, "requests") {
			var reports []health.Report
			for _, shard := range []string{"s01", "s02"} {
				reports = append(reports, health.Report{
					Shard: shard, Targets: 2, Healthy: rapid.IntRange(0, 2).Draw(t, "healthy"), Drained: rapid.Bool().Draw(t, "drained"),
				})
			}
			tr.engine.config.Health[ViaLambda].Report(time.Now(), reports)
			bad := rapid.SampledFrom([]string{"cannot", "is cut off", "throttles", "breaks", "hangs", "does not hold", "talks nonsense"}).Draw(t, "bad")
			tr.fates["s01"], tr.fates["s02"] = fateOf(bad), fateOf("answers")
			if rapid.Bool().Draw(t, "swap") {
				tr.fates["s01"], tr.fates["s02"] = tr.fates["s02"], tr.fates["s01"]
			}
			method := rapid.SampledFrom([]string{"GET", "HEAD", "OPTIONS", "PUT", "DELETE"}).Draw(t, "method")
			if resp := tr.engine.Serve(context.Background(), "acme", &Request{Method: method, Path: "/x"}); resp.Status != 200 {
				t.Fatalf("%s answered %d", method, resp.Status)
			}
		}
	})
}
