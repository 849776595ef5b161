package routing

import (
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

var trio = []string{"a", "b", "c"}

// last is a pick that leaves the order of the fit members as it is given.
func last(n int) int { return n - 1 }

func newTestHealth() (*health, *clock) {
	c := newClock()
	return newHealth(c.now, last), c
}

func wantOrder(t *testing.T, h *health, repeatable bool, want ...string) {
	t.Helper()
	if got := h.order(trio, repeatable); !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestOneFailureChangesNothing(t *testing.T) {
	h, _ := newTestHealth()
	h.failed("a")
	wantOrder(t, h, true, "a", "b", "c")
	h.succeeded("a")
	h.failed("a")
	wantOrder(t, h, true, "a", "b", "c")
}

func TestFailingShardIsAskedLast(t *testing.T) {
	h, _ := newTestHealth()
	h.failed("a")
	h.failed("a")
	wantOrder(t, h, true, "b", "c", "a")
	h.succeeded("a") // it was asked as a fallback, and answered
	wantOrder(t, h, true, "a", "b", "c")
}

func TestOneProbeAtATime(t *testing.T) {
	h, c := newTestHealth()
	h.failed("a")
	h.failed("a")
	c.pass(firstRest)
	wantOrder(t, h, true, "a", "b", "c") // the probe
	wantOrder(t, h, true, "b", "c", "a") // everybody else meanwhile
	c.pass(firstRest)
	wantOrder(t, h, true, "a", "b", "c") // the probe was never heard of again
	h.succeeded("a")
	wantOrder(t, h, true, "a", "b", "c")
	wantOrder(t, h, true, "a", "b", "c")
}

func TestProbeIsClaimedOnce(t *testing.T) {
	h, c := newTestHealth()
	h.failed("a")
	h.failed("a")
	c.pass(firstRest)
	// Two requests come as soon as the rest is over.
	if a := h.failing["a"]; !a.fit(c.now(), true) || !a.claim(c.now()) || a.claim(c.now()) {
		t.Error("a probe is claimed twice, or not at all")
	}
}

func TestRestDoublesUpToItsLimit(t *testing.T) {
	h, c := newTestHealth()
	h.failed("a")
	h.failed("a")
	for rest := firstRest; rest < longestRest; rest *= 2 {
		c.pass(rest - 1)
		wantOrder(t, h, true, "b", "c", "a")
		c.pass(1)
		wantOrder(t, h, true, "a", "b", "c")
		h.failed("a")
	}
	for range 3 {
		c.pass(longestRest - 1)
		wantOrder(t, h, true, "b", "c", "a")
		c.pass(1)
		wantOrder(t, h, true, "a", "b", "c")
		h.failed("a")
	}
}

func TestBurstIsOneFailure(t *testing.T) {
	h, c := newTestHealth()
	for range 1000 {
		h.failed("a")
	}
	c.pass(firstRest)
	wantOrder(t, h, true, "a", "b", "c")
}

func TestUnrepeatableRequestsProbeLate(t *testing.T) {
	h, c := newTestHealth()
	h.failed("a")
	h.failed("a")
	c.pass(firstRest)
	wantOrder(t, h, false, "b", "c", "a")
	c.pass(longestRest)
	wantOrder(t, h, false, "a", "b", "c")
}

func TestAllBad(t *testing.T) {
	h, c := newTestHealth()
	for _, id := range []string{"b", "c", "a"} {
		h.failed(id)
		h.failed(id)
		c.pass(time.Millisecond)
	}
	wantOrder(t, h, true, "b", "c", "a") // the one whose rest ends first
}

// TestHealthOrders holds rule 3: whatever happened, an order is a permutation of the members.
func TestHealthOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClock()
		shards := []string{"a", "b", "c", "d", "e"}
		h := newHealth(c.now, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") })
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			shard := rapid.SampledFrom(shards).Draw(t, "shard")
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				h.failed(shard)
			case 2:
				h.succeeded(shard)
			case 3:
				c.pass(time.Duration(rapid.IntRange(0, 40_000).Draw(t, "ms")) * time.Millisecond)
			}
			members := rapid.SliceOfNDistinct(rapid.SampledFrom(shards), 1, 5, rapid.ID).Draw(t, "members")
			order := h.order(members, rapid.Bool().Draw(t, "repeatable"))
			slices.Sort(order)
			slices.Sort(members)
			if !slices.Equal(order, members) {
				t.Fatalf("order %v of members %v", order, members)
			}
		}
	})
}

func TestHealthyMembersAreAskedBeforeOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClock()
		shards := []string{"a", "b", "c", "d", "e"}
		h := newHealth(c.now, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") })
		bad := rapid.SliceOfNDistinct(rapid.SampledFrom(shards), 0, 5, rapid.ID).Draw(t, "bad")
		for _, id := range bad {
			h.failed(id)
			h.failed(id)
		}
		order := h.order(shards, true)
		for i, id := range order {
			if isBad := slices.Contains(bad, id); isBad != (i >= len(shards)-len(bad)) {
				t.Fatalf("order %v with %v resting", order, bad)
			}
		}
	})
}
