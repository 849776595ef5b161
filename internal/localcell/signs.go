package localcell

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
)

// Alarms of a cell of this machine, as a rollout's gate names them.
const (
	AlarmRestarts     = "worker-restarts" // a worker died and nobody had asked it to
	AlarmAvailability = "availability"    // a shard fails too many of the attempts that reach it
	AlarmHealth       = "health"          // a worker, or the router, is not healthy for a while
)

const (
	// Availability looks back as long, to the shard's last deployment at most, and rings with so many failures that are
	// such a share of the attempts. Of attempts there need not be many: the router asks others than a shard that fails.
	signWindow   = 30 * time.Second
	minFailures  = 5
	failingShare = 0.05
	sickAfter    = 3 * time.Second  // a worker that is not healthy for as long rings
	holdAlarm    = 10 * time.Second // an alarm fires for as long after its last cause
	deafAfter    = 5 * time.Second  // a router that does not tell its counters for as long is missing data
	maxSamples   = 4096             // of a cell's requests; older ones are thinned out
)

// signs is the supervisor's memory of how its cells fare. It is a plain value with a lock: whoever watches tells it what
// is seen at a time.
type signs struct {
	begun time.Time

	mu    sync.Mutex
	cells map[string]*cellSigns
}

// cellSigns is the memory of one cell.
type cellSigns struct {
	causes   map[string]time.Time // by alarm, when it had its last cause
	total    int64                // requests answered since begun
	samples  []requestSample      // of the total, the oldest first
	heard    time.Time            // the router's counters, last
	router   int                  // starts of the router then
	counters Counters             // then
	attempts map[string][]attemptSample
	sick     map[string]time.Time // since when a process is not healthy
}

type requestSample struct {
	at    time.Time
	total int64
}

// attemptSample is attempts that reached a shard, and those of them that failed.
type attemptSample struct {
	at             time.Time
	tried, failing int64
}

// glance is what is seen of a cell at a time.
type glance struct {
	counters *Counters // nil when the router does not tell
	starts   int       // of the router
	shards   map[string]shardGlance
	healthy  bool // the router
}

type shardGlance struct {
	healthy bool
	planned bool      // a deployment is, or was since the last glance, at it
	crashed time.Time // the worker's last death that nobody had asked for; zero for none
}

// newSigns begins to watch cells. causes are what is remembered from before.
func newSigns(begun time.Time, cells []string, causes map[string]map[string]time.Time) *signs {
	s := &signs{begun: begun, cells: map[string]*cellSigns{}}
	for _, cell := range cells {
		c := &cellSigns{causes: map[string]time.Time{}, attempts: map[string][]attemptSample{}, sick: map[string]time.Time{}, heard: begun}
		for _, alarm := range []string{AlarmRestarts, AlarmAvailability, AlarmHealth} {
			if at := causes[cell][alarm]; !at.IsZero() && !at.After(begun) {
				c.causes[alarm] = at
			}
		}
		s.cells[cell] = c
	}
	return s
}

// see takes a glance at a cell.
func (s *signs) see(now time.Time, cell string, g glance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cells[cell]
	if c == nil {
		return
	}
	c.process(now, "router", g.healthy)
	for shard, seen := range g.shards {
		if seen.planned {
			delete(c.sick, "shard "+shard)
		} else {
			c.process(now, "shard "+shard, seen.healthy)
		}
		// What was before the watch began belongs to the start of the cell.
		if seen.crashed.After(s.begun) {
			c.cause(AlarmRestarts, seen.crashed)
		}
	}
	if g.counters == nil {
		return
	}
	was := c.counters
	if g.starts != c.router || g.counters.Requests < was.Requests {
		was = Counters{} // another router counts from nothing; what the last one counted since the last glance is lost
	}
	c.total += g.counters.Requests - was.Requests
	c.samples = append(c.samples, requestSample{now, c.total})
	c.thin()
	for shard, n := range g.counters.Shards {
		before := was.Shards[shard]
		// What was refused is not the shard's answer: that a shard is not there is another alarm, or a deployment.
		tried := n.Attempts - n.NotSent - (before.Attempts - before.NotSent)
		failing := n.Failures - n.NotSent - (before.Failures - before.NotSent)
		if g.shards[shard].planned {
			delete(c.attempts, shard) // of the version before
			continue
		}
		c.attempt(now, shard, tried, failing)
	}
	c.heard, c.router, c.counters = now, g.starts, *g.counters
}

// process notes whether a process is healthy.
func (c *cellSigns) process(now time.Time, name string, healthy bool) {
	if healthy {
		delete(c.sick, name)
		return
	}
	since, known := c.sick[name]
	if !known {
		since = now
		c.sick[name] = now
	}
	if now.Sub(since) >= sickAfter {
		c.cause(AlarmHealth, now)
	}
}

// attempt notes what became of attempts at a shard.
func (c *cellSigns) attempt(now time.Time, shard string, tried, failing int64) {
	all := slices.DeleteFunc(c.attempts[shard], func(a attemptSample) bool { return now.Sub(a.at) >= signWindow })
	all = append(all, attemptSample{now, max(0, tried), max(0, failing)})
	c.attempts[shard] = all
	var sum attemptSample
	for _, a := range all {
		sum.tried += a.tried
		sum.failing += a.failing
	}
	if failing > 0 && sum.failing >= minFailures && float64(sum.failing) >= failingShare*float64(sum.tried) {
		c.cause(AlarmAvailability, now)
	}
}

func (c *cellSigns) cause(alarm string, at time.Time) {
	if at.After(c.causes[alarm]) {
		c.causes[alarm] = at
	}
}

// thin keeps the memory of requests bounded: of the older half every second sample goes. Who asks since a time between
// two samples is told of fewer requests than there were, never of more.
func (c *cellSigns) thin() {
	if len(c.samples) < maxSamples {
		return
	}
	half := len(c.samples) / 2
	kept := c.samples[:0]
	for i, s := range c.samples {
		if i >= half || i%2 == 0 {
			kept = append(kept, s)
		}
	}
	c.samples = kept
}

// since is the number of requests answered after a time.
func (c *cellSigns) since(at time.Time) int64 {
	i, _ := slices.BinarySearchFunc(c.samples, at, func(s requestSample, at time.Time) int { return s.at.Compare(at) })
	if i == len(c.samples) {
		return 0
	}
	return c.total - c.samples[i].total
}

// firing are the alarms that fire at a time.
func (c *cellSigns) firing(now time.Time) map[string]bool {
	all := map[string]bool{}
	for alarm, at := range c.causes {
		if now.Sub(at) < holdAlarm {
			all[alarm] = true
		}
	}
	return all
}

// look answers what a gate asks.
func (s *signs) look(now time.Time, in lookRequest) (Sight, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cells[in.Cell]
	if c == nil {
		return Sight{}, fmt.Errorf("cell %.80q does not run here", in.Cell)
	}
	o := rollout.Observation{Firing: slices.Sorted(maps.Keys(c.firing(now)))}
	if !in.Since.IsZero() {
		o.Requests = c.since(in.Since)
	}
	for alarm, at := range c.causes {
		if !in.From.IsZero() && !at.Before(in.From) {
			o.Fired = append(o.Fired, alarm)
		}
	}
	slices.Sort(o.Fired)
	if silent := now.Sub(c.heard); silent >= deafAfter {
		o.Missing = append(o.Missing, AlarmAvailability, "requests")
	}
	count := map[string]int{}
	for _, name := range in.Unreached {
		if u := s.cells[name]; u != nil {
			for alarm := range u.firing(now) {
				count[alarm]++
			}
		}
	}
	for alarm, n := range count {
		if 2*n > len(in.Unreached) {
			o.Elsewhere = append(o.Elsewhere, alarm)
		}
	}
	slices.Sort(o.Elsewhere)
	return Sight{o, s.begun.UTC()}, nil
}

// all are the last causes of all alarms.
func (s *signs) all() map[string]map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]map[string]time.Time{}
	for cell, c := range s.cells {
		all[cell] = maps.Clone(c.causes)
	}
	return all
}
