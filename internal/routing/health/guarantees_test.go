package health

import (
	"math"
	"math/rand/v2"
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

// middle is the pick by which a rest on Lambda takes just its length.
func middle(n int) int { return n / 2 }

var trio = []string{"a", "b", "c"}

func made(c *clock, lambda bool) *Tracker {
	return New(Config{Now: c.now, Pick: middle, Lambda: lambda})
}

// ask is one attempt that took no time.
func ask(t *Tracker, shard string, o Result) {
	t.Begin(shard)
	t.End(shard, o, 0)
}

func asked(t *Tracker, n int, shard string, o Result) {
	for range n {
		ask(t, shard, o)
	}
}

// steps does whatever may happen to a tracker, n times.
func steps(t *rapid.T, c *clock, h *Tracker, n int, names []string) {
	for range n {
		shard := rapid.SampledFrom(names).Draw(t, "shard")
		switch rapid.IntRange(0, 5).Draw(t, "step") {
		case 0:
			h.Begin(shard)
		case 1, 2:
			h.Begin(shard)
			h.End(shard, rapid.SampledFrom([]Result{Answered, Failed, TimedOut, Throttled, Unknown}).Draw(t, "result"),
				time.Duration(rapid.IntRange(-1, 5000).Draw(t, "took"))*time.Millisecond)
		case 3:
			c.pass(time.Duration(rapid.IntRange(0, 40_000).Draw(t, "ms")) * time.Millisecond)
		case 4:
			var rs []Report
			for _, n := range rapid.SliceOf(rapid.SampledFrom(names)).Draw(t, "reported") {
				rs = append(rs, Report{
					Shard: n, Healthy: rapid.IntRange(-1, 3).Draw(t, "healthy"), Targets: rapid.IntRange(-1, 3).Draw(t, "targets"),
					Throttled: rapid.SampledFrom([]float64{0, 1, 1e300, math.NaN(), math.Inf(1), -1}).Draw(t, "throttled"),
					QueueAge:  time.Duration(rapid.IntRange(-1, 1000).Draw(t, "age")) * time.Second,
					Drained:   rapid.Bool().Draw(t, "drained"),
				})
			}
			h.Report(c.now().Add(time.Duration(rapid.IntRange(-300, 10).Draw(t, "taken"))*time.Second), rs)
		case 5:
			h.Order(nil, names, rapid.Bool().Draw(t, "repeatable"))
		}
	}
}

// anyTracker is one of either form, with chance from rapid.
func anyTracker(t *rapid.T, c *clock) *Tracker {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	return New(Config{Now: c.now, Pick: rng.IntN, Lambda: rapid.Bool().Draw(t, "lambda"), Queue: rapid.Bool().Draw(t, "queue")})
}

func TestComplete(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	rapid.Check(t, func(t *rapid.T) {
		c := newClock()
		h := anyTracker(t, c)
		steps(t, c, h, rapid.IntRange(0, 60).Draw(t, "steps"), names)
		members := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, len(names), rapid.ID).Draw(t, "members")
		order := h.Order([]string{"before"}, members, rapid.Bool().Draw(t, "repeatable"))
		if order[0] != "before" {
			t.Fatalf("order %v does not follow what was there", order)
		}
		order = order[1:]
		slices.Sort(order)
		slices.Sort(members)
		if !slices.Equal(order, members) {
			t.Fatalf("order %v of members %v", order, members)
		}
	})
}

func TestHealthyFirst(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	rapid.Check(t, func(t *rapid.T) {
		c := newClock()
		h := anyTracker(t, c)
		steps(t, c, h, rapid.IntRange(0, 60).Draw(t, "steps"), names)
		rank := func(n string) tier {
			switch s := h.State(n); {
			case s.Drained:
				return drained
			case s.Resting, s.Unhealthy:
				return ill
			}
			return well
		}
		before := map[string]tier{}
		for _, n := range names {
			before[n] = rank(n)
		}
		order := h.Order(nil, names, rapid.Bool().Draw(t, "repeatable"))
		first := 0
		if s := h.shards.Find(order[0]); s != nil && s.probing && before[order[0]] == ill {
			first = 1 // the probe
		}
		if !slices.IsSortedFunc(order[first:], func(a, b string) int { return int(before[a]) - int(before[b]) }) {
			t.Fatalf("order %v of %v", order, before)
		}
	})
}

func TestCounted(t *testing.T) {
	for _, c := range []struct {
		lambda  bool
		results []Result
		rests   bool
	}{
		{false, []Result{Failed}, false},
		{false, []Result{Failed, Failed}, true},
		{false, []Result{Failed, Answered, Failed}, false},
		{false, []Result{TimedOut}, true},
		{false, []Result{Throttled, Throttled, Throttled}, false},
		{false, []Result{Throttled, Throttled, Throttled, Throttled}, true},
		{false, []Result{Throttled, Throttled, Failed}, true},
		{false, []Result{Failed, Unknown, Unknown}, false},
		{true, []Result{Failed}, true},
		{true, []Result{TimedOut}, true},
		{true, []Result{Throttled}, false},
		{true, []Result{Throttled, Throttled}, true},
		{true, []Result{Throttled, Answered, Throttled}, false},
		{true, []Result{Unknown}, false},
	} {
		h := made(newClock(), c.lambda)
		for _, r := range c.results {
			ask(h, "a", r)
		}
		if got := h.State("a").Resting; got != c.rests {
			t.Errorf("lambda %v, results %v: rests %v, want %v", c.lambda, c.results, got, c.rests)
		}
	}
	// Never by less than the limit in a row.
	rapid.Check(t, func(t *rapid.T) {
		c := newClock()
		h := anyTracker(t, c)
		points := 0
		for !h.State("a").Resting && rapid.IntRange(0, 20).Draw(t, "more") > 0 {
			r := rapid.SampledFrom([]Result{Answered, Failed, TimedOut, Throttled}).Draw(t, "result")
			if r == Answered {
				points = 0
			} else {
				points += weights[r]
			}
			ask(h, "a", r)
			if rests := points >= h.rules.limit; rests != h.State("a").Resting {
				t.Fatalf("%d points in a row: rests %v", points, !rests)
			}
		}
	})
}

func TestDoubling(t *testing.T) {
	for _, f := range []struct {
		lambda         bool
		how            Result
		first, longest time.Duration
	}{
		{false, Failed, time.Second, 30 * time.Second},
		{false, TimedOut, time.Second, 30 * time.Second},
		{false, Throttled, time.Second, 4 * time.Second},
		{true, Failed, 8 * time.Second, 2 * time.Minute},
		{true, Throttled, 8 * time.Second, 16 * time.Second},
	} {
		c := newClock()
		h := made(c, f.lambda)
		asked(h, 4, "a", f.how)
		for i, rest := 0, f.first; i < 9; i, rest = i+1, min(2*rest, f.longest) {
			c.pass(rest - 1)
			if o := h.Order(nil, trio, true); o[0] == "a" {
				t.Fatalf("%+v: probed %v before the end of rest %d", f, rest, i)
			}
			c.pass(1)
			if o := h.Order(nil, trio, true); o[0] != "a" {
				t.Fatalf("%+v: not probed %v after the beginning of rest %d", f, rest, i)
			}
			ask(h, "a", f.how)
		}
		// It answers, and is on probation for as long as it rested last.
		ask(h, "a", Answered)
		if h.State("a").Resting {
			t.Fatalf("%+v: rests after an answer", f)
		}
		c.pass(f.longest - 1)
		ask(h, "a", Failed)
		if !h.State("a").Resting {
			t.Fatalf("%+v: one failure on probation is forgiven", f)
		}
		ask(h, "a", Answered)
		c.pass(2 * time.Minute)
		ask(h, "a", Answered)
		ask(h, "a", Throttled)
		if h.State("a").Resting {
			t.Fatalf("%+v: still on probation", f)
		}
		asked(h, 4, "a", f.how)
		c.pass(f.first)
		if o := h.Order(nil, trio, true); o[0] != "a" {
			t.Fatalf("%+v: after a good time the first rest is not the shortest", f)
		}
	}
}

func TestBurst(t *testing.T) {
	c := newClock()
	h := made(c, false)
	asked(h, 1000, "a", TimedOut)
	c.pass(time.Second)
	if o := h.Order(nil, trio, true); o[0] != "a" {
		t.Errorf("order %v: a thousand failures at once are more than one", o)
	}
	asked(h, 1000, "a", TimedOut) // the probe, and others that were still out
	c.pass(2 * time.Second)
	if o := h.Order(nil, trio, true); o[0] != "a" {
		t.Errorf("order %v: what failed beside the probe prolonged the rest", o)
	}
}

func TestOneProbe(t *testing.T) {
	for _, lambda := range []bool{false, true} {
		c := newClock()
		h := made(c, lambda)
		rest, longest := h.rules.first, h.rules.longest
		asked(h, 2, "a", Failed)
		first := func(repeatable bool) string { return h.Order(nil, trio, repeatable)[0] }
		c.pass(rest)
		if first(false) == "a" || first(true) != "a" {
			t.Error("the probe is not the first repeatable request after the rest")
		}
		if first(true) == "a" || first(true) == "a" {
			t.Error("there is a second probe")
		}
		c.pass(rest)
		if first(true) != "a" || first(true) == "a" {
			t.Error("a probe that is never heard of again is the last, or followed by two")
		}
		c.pass(rest + longest)
		if first(false) != "a" {
			t.Error("a tenant that only writes never asks the shard again")
		}
		ask(h, "a", Answered)
		if h.State("a").Resting {
			t.Error("a probe was answered, and the shard rests")
		}

		asked(h, 2, "b", Failed)
		h.Report(c.now(), []Report{{Shard: "b", Targets: 2}})
		c.pass(rest)
		if first(true) == "b" {
			t.Error("a shard that is ill by a report is probed")
		}
	}
	// Of many requests at the same moment, one is the probe, though all saw that it was due.
	c := newClock()
	one := made(c, false)
	asked(one, 2, "a", Failed)
	c.pass(time.Second)
	if s := one.shards.Find("a"); !s.claim(one.at(), 0, one.jitter) || s.claim(one.at(), 0, one.jitter) {
		t.Error("a probe is claimed twice, or never")
	}
	h := New(Config{Now: c.now})
	asked(h, 2, "a", Failed)
	c.pass(time.Second)
	var probes sync.Map
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if h.Order(nil, trio, true)[0] == "a" {
				probes.Store(i, true)
			}
		})
	}
	wg.Wait()
	n := 0
	probes.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d probes at a time", n)
	}
}

func TestJittered(t *testing.T) {
	const seed, environments = 7, 2000
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var quarter [4]int // of the time from half to one and a half rests
	for range environments {
		c := newClock()
		h := New(Config{Now: c.now, Pick: rng.IntN, Lambda: true})
		ask(h, "a", Failed)
		rest := time.Duration(h.shards.Find("a").until.Load() - h.at())
		if rest < h.rules.first/2 || rest > h.rules.first*3/2 {
			t.Fatalf("rest of %v", rest)
		}
		quarter[min(3, (rest-h.rules.first/2)*4/h.rules.first)]++
	}
	for i, n := range quarter {
		if math.Abs(float64(n)-environments/4) > 100 { // five standard deviations
			t.Errorf("%d of %d environments probe in quarter %d", n, environments, i)
		}
	}
}

func TestLeastBad(t *testing.T) {
	c := newClock()
	h := made(c, false)
	for _, n := range []string{"b", "c", "a"} {
		asked(h, 2, n, Failed)
		c.pass(time.Millisecond)
	}
	if o := h.Order(nil, trio, true); !slices.Equal(o, []string{"b", "c", "a"}) {
		t.Errorf("order %v: the one whose rest ends first is not the first", o)
	}
	h.Report(c.now(), []Report{{Shard: "d", Targets: 1}})
	if o := h.Order(nil, []string{"a", "b", "c", "d"}, true); o[0] != "d" {
		t.Errorf("order %v: what failed here comes before what is ill by a report", o)
	}
}

func TestPeak(t *testing.T) {
	c := newClock()
	h := made(c, false)
	is := func(want time.Duration, what string) {
		t.Helper()
		if got := h.State("a").Latency; got < want*99/100 || got > want*101/100 {
			t.Errorf("%s: latency %v, want %v", what, got, want)
		}
	}
	took := func(o Result, d time.Duration) { h.Begin("a"); h.End("a", o, d) }
	took(Answered, 20*time.Millisecond)
	is(20*time.Millisecond, "the first answer")
	took(Answered, 200*time.Millisecond)
	is(200*time.Millisecond, "a peak")
	took(Answered, 20*time.Millisecond)
	is(200*time.Millisecond, "a quick answer at the same moment")
	c.pass(10 * time.Second)
	is(200*time.Millisecond*1000/2718, "10 s later")
	took(Answered, 50*time.Millisecond)
	is(105140*time.Microsecond, "a quick answer 10 s later") // 200/e + 50 (1 - 1/e)
	took(Failed, time.Microsecond)
	is(105140*time.Microsecond, "a quick failure")
	took(Throttled, time.Microsecond)
	is(210280*time.Microsecond, "a throttle")
	took(TimedOut, 5*time.Second)
	is(5*time.Second, "a time-out")

	// What is out and silent counts as slow, before anything times out.
	h = made(c, false)
	ask(h, "b", Answered)
	h.Begin("a")
	h.Begin("b")
	c.pass(50 * time.Millisecond)
	h.End("b", Answered, 50*time.Millisecond)
	h.Begin("b")
	c.pass(30 * time.Millisecond)
	if o := h.Order(nil, []string{"a", "b"}, true); o[0] != "b" {
		t.Errorf("order %v: 80 ms of silence are not slower than 50 ms", o)
	}
	h.Begin("a")
	h.End("a", TimedOut, time.Millisecond)
	if m := h.look("a", h.shards.Find("a"), h.at()); m.latency < float64(80*time.Millisecond) {
		t.Errorf("latency %v: a time-out is taken for a sign of life", time.Duration(m.latency))
	}
}

func TestFaded(t *testing.T) {
	for idle := int64(0); idle < int64(time.Second); idle += int64(time.Millisecond) {
		if got, want := faded(idle, 10*time.Second), math.Exp(-float64(idle)/1e10); math.Abs(got-want) > 1e-6 {
			t.Fatalf("after %v: %v, want %v", time.Duration(idle), got, want)
		}
	}
}

func TestDrained(t *testing.T) {
	c := newClock()
	h := made(c, false)
	taken := c.now()
	h.Report(taken, []Report{{Shard: "a", Drained: true}})
	asked(h, 2, "b", Failed)
	asked(h, 2, "c", Failed)
	for _, later := range []time.Duration{0, time.Minute, 365 * 24 * time.Hour} {
		c.pass(later)
		for range 2 { // the first one may be a probe of another
			if o := h.Order(nil, trio, true); o[2] != "a" {
				t.Errorf("%v later: order %v", later, o)
			}
		}
	}
	ask(h, "a", Answered)
	if !h.State("a").Drained {
		t.Error("an answer ends a drain")
	}
	h.Report(taken, nil)
	if !h.State("a").Drained {
		t.Error("a report that is no later ends a drain")
	}
	h.Report(c.now(), []Report{{Shard: "b"}})
	if h.State("a").Drained {
		t.Error("a later report does not end a drain")
	}
}

func TestBounded(t *testing.T) {
	h := New(Config{})
	for i := range 5000 {
		n := string(rune('a'+i%26)) + string(rune(0x100+i))
		asked(h, 2, n, Failed)
	}
	n := 0
	h.shards.All(func(string, *shard) { n++ })
	if n != 4096 {
		t.Errorf("%d shards are remembered", n)
	}
	asked(h, 2, "late", Failed)
	if s := h.State("late"); s.Resting || s.Known >= 0 {
		t.Errorf("a shard beyond the bound is known: %+v", s)
	}
}

func TestNoAllocations(t *testing.T) {
	for _, lambda := range []bool{false, true} {
		h := New(Config{Lambda: lambda})
		members := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		h.Report(time.Now(), []Report{{Shard: "a", Targets: 1}, {Shard: "b", Throttled: 3}, {Shard: "c", Drained: true}})
		asked(h, 2, "d", Failed)
		dst := make([]string, 0, len(members))
		if n := testing.AllocsPerRun(100, func() {
			o := h.Order(dst, members, true)
			h.Begin(o[0])
			h.End(o[0], Answered, time.Millisecond)
			h.Begin("d")
			h.End("d", Failed, time.Millisecond)
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

// TestTogether lets the race detector see everything at once, and holds that no request in flight is lost.
func TestTogether(t *testing.T) {
	h := New(Config{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			dst := make([]string, 0, 3)
			for i := range 500 {
				o := h.Order(dst, trio, i%3 > 0)
				h.Begin(o[0])
				h.Report(time.Now(), []Report{{Shard: trio[i%3], Targets: 2, Healthy: i % 3}})
				h.State(o[1])
				h.End(o[0], Result((i+g)%5), time.Millisecond)
			}
		})
	}
	wg.Wait()
	for _, n := range trio {
		if s := h.State(n); s.InFlight != 0 {
			t.Errorf("%s: %d in flight", n, s.InFlight)
		}
	}
}
