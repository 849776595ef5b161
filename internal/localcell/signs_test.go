package localcell

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var begun = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func moment(seconds float64) time.Time {
	return begun.Add(time.Duration(seconds * float64(time.Second)))
}

// watched is a memory of three cells of which one shard each is seen.
type watched struct {
	*signs
	t        *testing.T
	counters map[string]*Counters
	starts   int
}

func newWatched(t *testing.T) *watched {
	w := &watched{newSigns(begun, []string{"a", "b", "c"}, nil), t, map[string]*Counters{}, 1}
	for _, cell := range []string{"a", "b", "c"} {
		w.counters[cell] = &Counters{Shards: map[string]ShardCounter{"s01": {}}}
	}
	return w
}

// glance sees a cell at which some attempts were made since the last time.
func (w *watched) glance(seconds float64, cell string, tried, failed, refused int64, change func(*shardGlance)) {
	c := w.counters[cell]
	c.Requests += tried
	n := c.Shards["s01"]
	n.Attempts, n.Failures, n.NotSent = n.Attempts+tried, n.Failures+failed+refused, n.NotSent+refused
	c.Shards["s01"] = n
	told := *c
	told.Shards = map[string]ShardCounter{"s01": n}
	shard := shardGlance{healthy: true}
	if change != nil {
		change(&shard)
	}
	w.see(moment(seconds), cell, glance{&told, w.starts, map[string]shardGlance{"s01": shard}, true})
}

func (w *watched) want(seconds float64, in lookRequest, requests int64, firing, fired, missing, elsewhere []string) {
	w.t.Helper()
	s, err := w.look(moment(seconds), in)
	if err != nil {
		w.t.Fatal(err)
	}
	if s.Requests != requests || !slices.Equal(s.Firing, firing) || !slices.Equal(s.Fired, fired) || !slices.Equal(s.Missing, missing) || !slices.Equal(s.Elsewhere, elsewhere) {
		w.t.Errorf("at %v s: %+v, want %d requests, firing %q, fired %q, missing %q, elsewhere %q", seconds, s.Observation, requests, firing, fired, missing, elsewhere)
	}
}

// TestAvailabilityRings by a share of what reached the shard, not by what was refused, nor by what a deployment costs.
func TestAvailabilityRings(t *testing.T) {
	availability := []string{AlarmAvailability}
	w := newWatched(t)
	w.glance(1, "a", 100, 4, 0, nil)
	w.want(1, lookRequest{Cell: "a", Since: moment(0), From: moment(0)}, 0, nil, nil, nil, nil) // four are too few
	w.glance(2, "a", 100, 0, 90, nil)
	w.glance(3, "a", 1, 1, 0, nil)
	w.want(3, lookRequest{Cell: "a", Since: moment(1), From: moment(0)}, 101, nil, nil, nil, nil) // 5 of 111
	w.glance(3.5, "a", 50, 50, 0, func(s *shardGlance) { s.planned = true })
	w.want(3.5, lookRequest{Cell: "a", From: moment(0)}, 0, nil, nil, nil, nil)
	w.glance(3.8, "a", 4, 4, 0, nil)
	w.want(3.8, lookRequest{Cell: "a", From: moment(0)}, 0, nil, nil, nil, nil)
	w.glance(4, "a", 9, 1, 0, nil)
	w.want(4, lookRequest{Cell: "a", From: moment(0)}, 0, availability, availability, nil, nil) // 5 of 13
	w.glance(5, "a", 1000, 1, 0, nil)
	w.want(5, lookRequest{Cell: "a", From: moment(4)}, 0, availability, availability, nil, nil)
	w.want(5, lookRequest{Cell: "a", From: moment(4.5)}, 0, availability, nil, nil, nil) // it had its cause before
	w.glance(14, "a", 10, 0, 0, nil)
	w.want(14, lookRequest{Cell: "a", From: moment(0)}, 0, nil, availability, nil, nil) // it came and went
	w.glance(33, "a", 4, 4, 0, nil)
	w.want(33, lookRequest{Cell: "a", From: moment(5)}, 0, nil, nil, nil, nil) // 5 of 1014
	w.glance(40, "a", 1, 1, 0, nil)
	w.want(40, lookRequest{Cell: "a", From: moment(5)}, 0, availability, availability, nil, nil) // 5 of 15
}

// TestRestartsRing at once, and health after a while, but for a shard that is deployed to.
func TestRestartsRing(t *testing.T) {
	w := newWatched(t)
	w.glance(1, "a", 0, 0, 0, func(s *shardGlance) { s.crashed = moment(-1) }) // while the cell started
	w.want(1, lookRequest{Cell: "a", From: moment(-2)}, 0, nil, nil, nil, nil)
	w.glance(2, "a", 0, 0, 0, func(s *shardGlance) { s.crashed = moment(1.5) })
	w.want(2, lookRequest{Cell: "a", From: moment(0)}, 0, []string{AlarmRestarts}, []string{AlarmRestarts}, nil, nil)
	w.glance(20, "a", 0, 0, 0, func(s *shardGlance) { s.crashed = moment(1.5) })
	w.want(20, lookRequest{Cell: "a", From: moment(1.5)}, 0, nil, []string{AlarmRestarts}, nil, nil)

	for n := range 20 {
		w.glance(20+float64(n), "b", 0, 0, 0, func(s *shardGlance) { s.healthy, s.planned = false, true })
	}
	w.want(40, lookRequest{Cell: "b", From: moment(0)}, 0, nil, nil, nil, nil)
	w.glance(41, "b", 0, 0, 0, func(s *shardGlance) { s.healthy = false })
	w.glance(43, "b", 0, 0, 0, func(s *shardGlance) { s.healthy = false })
	w.want(43, lookRequest{Cell: "b", From: moment(0)}, 0, nil, nil, nil, nil)
	w.glance(44, "b", 0, 0, 0, func(s *shardGlance) { s.healthy = false })
	w.want(44, lookRequest{Cell: "b", From: moment(0)}, 0, []string{AlarmHealth}, []string{AlarmHealth}, nil, nil)
	w.glance(44, "a", 0, 0, 0, nil)
	w.want(44, lookRequest{Cell: "a", From: moment(30), Unreached: []string{"b"}}, 0, nil, nil, nil, []string{AlarmHealth})
}

// TestElsewhere: in more than half of the cells that were not reached.
func TestElsewhere(t *testing.T) {
	w := newWatched(t)
	for _, cell := range []string{"a", "b"} {
		w.glance(1, cell, 0, 0, 0, func(s *shardGlance) { s.crashed = moment(0.5) })
	}
	w.glance(1, "c", 0, 0, 0, nil)
	rings := []string{AlarmRestarts}
	w.want(1, lookRequest{Cell: "a", From: moment(0), Unreached: []string{"b", "c"}}, 0, rings, rings, nil, nil)
	w.want(1, lookRequest{Cell: "a", From: moment(0), Unreached: []string{"b"}}, 0, rings, rings, nil, rings)
	w.want(1, lookRequest{Cell: "a", From: moment(0), Unreached: []string{"b", "elsewhere"}}, 0, rings, rings, nil, nil)
	if _, err := w.look(moment(1), lookRequest{Cell: "d"}); err == nil {
		t.Error("a cell that is not there was seen")
	}
}

// TestASilentRouterIsMissingData, and one that starts anew counts from nothing.
func TestASilentRouterIsMissingData(t *testing.T) {
	w := newWatched(t)
	w.glance(1, "a", 100, 0, 0, nil)
	w.see(moment(7), "a", glance{nil, 1, map[string]shardGlance{"s01": {healthy: true}}, true})
	w.want(7, lookRequest{Cell: "a", Since: moment(0)}, 0, nil, nil, []string{AlarmAvailability, "requests"}, nil)
	w.starts, w.counters["a"] = 2, &Counters{Shards: map[string]ShardCounter{}}
	w.glance(8, "a", 150, 0, 0, nil) // more than the last one counted
	w.want(8, lookRequest{Cell: "a", Since: moment(1)}, 150, nil, nil, nil, nil)
	w.see(moment(9), "a", glance{nil, 2, nil, false})
	w.see(moment(12), "a", glance{nil, 2, nil, false})
	w.want(12, lookRequest{Cell: "a", From: moment(0)}, 0, []string{AlarmHealth}, []string{AlarmHealth}, nil, nil)
}

// TestRequestsAreNeverTooMany: however long the memory, it is bounded and tells no more than came.
func TestRequestsAreNeverTooMany(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c := &cellSigns{}
		n := rapid.IntRange(1, 5*maxSamples).Draw(r, "samples")
		var truth []int64
		for i := range n {
			c.total += int64(i % 7)
			c.samples = append(c.samples, requestSample{moment(float64(i)), c.total})
			truth = append(truth, c.total)
			c.thin()
		}
		if len(c.samples) >= maxSamples {
			r.Fatalf("%d samples", len(c.samples))
		}
		since := rapid.IntRange(0, n-1).Draw(r, "since")
		exact := c.total - truth[since]
		got := c.since(moment(float64(since)))
		if got > exact || n < maxSamples && got != exact {
			r.Fatalf("since %d of %d: %d requests, and there were %d", since, n, got, exact)
		}
		if got := c.since(moment(-1)); got > c.total || got < 0 {
			r.Fatalf("%d of %d", got, c.total)
		}
	})
}

// TestAlarmsAreRememberedBySupervisors: what is read back is the same, and nothing of a cell that is gone, or of a later time.
func TestAlarmsAreRememberedBySupervisors(t *testing.T) {
	w := newWatched(t)
	w.glance(1, "a", 0, 0, 0, func(s *shardGlance) { s.crashed = moment(0.5) })
	causes := w.all()
	causes["gone"] = map[string]time.Time{AlarmHealth: moment(1)}
	causes["b"][AlarmHealth], causes["b"]["other"] = moment(100), moment(1)
	next := &watched{newSigns(moment(50), []string{"a", "b"}, causes), t, nil, 1}
	next.want(50, lookRequest{Cell: "a", From: moment(0)}, 0, nil, []string{AlarmRestarts}, nil, nil)
	next.want(50, lookRequest{Cell: "b", From: moment(0)}, 0, nil, nil, nil, nil)
}
