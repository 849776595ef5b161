package health

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestTwoChoices counts who comes first, over many draws.
func TestTwoChoices(t *testing.T) {
	const seed, draws = 11, 20_000
	t.Logf("seed %d", seed)
	type shard struct {
		latency  time.Duration
		inFlight int
	}
	for _, c := range []struct {
		name    string
		lambda  bool
		members []shard
		want    []float64 // share of orders that each is the first of
	}{
		{"alike", false, []shard{{20 * time.Millisecond, 0}, {24 * time.Millisecond, 0}}, []float64{0.5, 0.5}},
		{"faster", false, []shard{{20 * time.Millisecond, 0}, {26 * time.Millisecond, 0}}, []float64{1, 0}},
		{"alike, less to do", false, []shard{{20 * time.Millisecond, 3}, {24 * time.Millisecond, 2}}, []float64{0, 1}},
		{"faster, more to do", false, []shard{{20 * time.Millisecond, 3}, {40 * time.Millisecond, 0}}, []float64{0, 1}},
		{"faster, a little more to do", false, []shard{{20 * time.Millisecond, 1}, {100 * time.Millisecond, 0}}, []float64{1, 0}},
		{"in flight, on Lambda", true, []shard{{20 * time.Millisecond, 3}, {24 * time.Millisecond, 0}}, []float64{0.5, 0.5}},
		{"under 1 ms", false, []shard{{10 * time.Microsecond, 0}, {900 * time.Microsecond, 0}}, []float64{0.5, 0.5}},
		{"nothing known", false, []shard{{}, {}}, []float64{0.5, 0.5}},
		// Of four, a pair is drawn: the best is in half of the pairs, the second in a third as the better one.
		{"four", false, []shard{{10 * time.Millisecond, 0}, {20 * time.Millisecond, 0}, {40 * time.Millisecond, 0}, {80 * time.Millisecond, 0}},
			[]float64{1. / 2, 1. / 3, 1. / 6, 0}},
		{"four, the other way round", false, []shard{{80 * time.Millisecond, 0}, {40 * time.Millisecond, 0}, {20 * time.Millisecond, 0}, {10 * time.Millisecond, 0}},
			[]float64{0, 1. / 6, 1. / 3, 1. / 2}},
	} {
		clk := newClock()
		h := New(Config{Now: clk.now, Pick: rand.New(rand.NewPCG(seed, 0)).IntN, Lambda: c.lambda})
		var names []string
		for i, m := range c.members {
			n := string(rune('a' + i))
			names = append(names, n)
			if m.latency > 0 {
				h.Begin(n)
				h.End(n, Answered, m.latency)
			}
			for range m.inFlight {
				h.Begin(n)
			}
		}
		first := map[string]int{}
		for range draws {
			first[h.Order(nil, names, true)[0]]++
		}
		for i, n := range names {
			if got := float64(first[n]) / draws; got < c.want[i]-0.02 || got > c.want[i]+0.02 {
				t.Errorf("%s: %s is the first of %.3f, want %.3f", c.name, n, got, c.want[i])
			}
		}
	}
}

// TestFading follows what a report does as it gets old.
func TestFading(t *testing.T) {
	weigh := func(r Report, age time.Duration, queue bool) (float64, bool) {
		c := newClock()
		h := New(Config{Now: c.now, Pick: middle, Queue: queue})
		h.Report(c.now(), []Report{r})
		c.pass(age)
		m := h.look("a", h.shards.Find("a"), h.at())
		return m.latency / float64(quick), m.tier == ill
	}
	for _, c := range []struct {
		r      Report
		age    time.Duration
		queue  bool
		factor float64
		ill    bool
	}{
		{Report{Targets: 2}, 0, false, 10, true},
		{Report{Targets: 2}, 4 * time.Minute, false, 1 + 9./4, true},
		{Report{Targets: 2}, 4*time.Minute + time.Second, false, 1 + 9./4, false},
		{Report{Targets: 2}, time.Hour, false, 1, false},
		{Report{Targets: 2, Healthy: 1}, 0, false, 1 + 9./4, false},
		{Report{Targets: 2, Healthy: 2}, 0, false, 1, false},
		{Report{Throttled: 60}, 0, false, 1 + 9./2, false},
		{Report{Throttled: 60}, 2 * time.Minute, false, 1 + 9./4, false},
		{Report{Throttled: 1e9}, 0, false, 10, false},
		{Report{QueueAge: 5 * time.Minute}, 0, false, 1, false},
		{Report{QueueAge: 5 * time.Minute}, 0, true, 1 + 9./2, false},
		{Report{Targets: 2, Throttled: 60}, 0, true, 1, false},
	} {
		c.r.Shard = "a"
		factor, isIll := weigh(c.r, c.age, c.queue)
		if factor < c.factor*0.99 || factor > c.factor*1.01 || isIll != c.ill {
			t.Errorf("%+v, %v old, by queue %v: factor %.3f, ill %v; want %.3f, %v", c.r, c.age, c.queue, factor, isIll, c.factor, c.ill)
		}
	}
	// Never more than when it was new, whatever it says.
	for _, r := range []Report{{Targets: 3}, {Targets: 3, Healthy: 1}, {Throttled: 10}} {
		r.Shard = "a"
		last := 11.0
		for age := time.Duration(0); age < time.Hour; age += 10 * time.Second {
			f, _ := weigh(r, age, false)
			if f > last || f < 1 {
				t.Fatalf("%+v weighs %v after %v, and %v before", r, f, age, last)
			}
			last = f
		}
	}
}

func TestOwnWord(t *testing.T) {
	c := newClock()
	h := made(c, false)
	c.pass(time.Minute)
	h.Report(c.now(), []Report{{Shard: "a", Targets: 2}, {Shard: "b", Targets: 2, Healthy: 2}})
	c.pass(time.Second)
	if !h.State("a").Unhealthy {
		t.Fatal("a shard without a healthy target is not ill")
	}
	ask(h, "a", Answered)
	if h.State("a").Unhealthy {
		t.Error("an own answer does not beat an earlier report")
	}
	if m := h.look("a", h.shards.Find("a"), h.at()); m.latency > float64(quick) {
		t.Errorf("latency %v: a report that was proved wrong still counts", time.Duration(m.latency))
	}
	c.pass(time.Second)
	h.Report(c.now(), []Report{{Shard: "a", Targets: 2}})
	if !h.State("a").Unhealthy {
		t.Error("a later report does not beat an own answer")
	}
	asked(h, 2, "b", Failed)
	c.pass(time.Millisecond)
	h.Report(c.now(), []Report{{Shard: "b", Targets: 2, Healthy: 2}})
	if !h.State("b").Resting {
		t.Error("a report mends what failed here")
	}
}

// TestClockAhead: a report by a clock that is far ahead does not shut out those that come after it.
func TestClockAhead(t *testing.T) {
	c := newClock()
	h := made(c, false)
	h.Report(c.now().Add(24*time.Hour), []Report{{Shard: "a", Drained: true}})
	if s := h.State("a"); !s.Drained || s.Known != 0 {
		t.Errorf("%+v", s)
	}
	c.pass(time.Second)
	h.Report(c.now(), nil)
	if h.State("a").Drained {
		t.Error("later reports are passed over")
	}
}
