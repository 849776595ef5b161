package health

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// How failures are weighed, and how long a shard rests for them. See guarantees 3 and 4.
const (
	quick   = time.Millisecond // latencies below are alike
	slowest = 10 * time.Second // up to which throttles double a latency
)

// weights of the results in points.
var weights = [...]int{Failed: 2, TimedOut: 4, Throttled: 1}

// rules are what differs between the two forms of a router, and between ways.
type rules struct {
	limit     int           // points in a row at which a shard rests
	first     time.Duration // rest
	longest   time.Duration // rest
	throttled time.Duration // longest rest of a shard that says that it has too much to do
	decay     time.Duration // time constant of a latency
	shared    bool          // one process has all requests, so that those in flight are known
	queue     bool
}

var (
	local  = rules{limit: 4, first: time.Second, longest: 30 * time.Second, throttled: 4 * time.Second, decay: 10 * time.Second, shared: true}
	lambda = rules{limit: 2, first: 8 * time.Second, longest: 2 * time.Minute, throttled: 16 * time.Second, decay: time.Minute}
)

// shard is the record of one. What Order reads is atomic; mu is held by those who change it together. Times
// are nanoseconds of the Tracker, 0 is never.
type shard struct {
	inFlight atomic.Int64
	heard    atomic.Int64 // last sign of life, or when the first of the requests in flight began
	answered atomic.Int64 // last
	failed   atomic.Int64 // last
	latency  atomic.Uint64
	measured atomic.Int64 // when latency was so
	until    atomic.Int64 // end of the rest, or of the time that a probe has; 0 when the shard is well
	report   atomic.Pointer[report]

	mu        sync.Mutex
	points    int   // of failures in a row
	rest      int64 // length of the last rest
	probation int64 // end of it
	probing   bool  // a probe is out, which moved until
}

// latencyAt is the estimate at that time, in nanoseconds: it fades when nobody asks.
func (s *shard) latencyAt(now int64, decay time.Duration) float64 {
	l := math.Float64frombits(s.latency.Load())
	if idle := now - s.measured.Load(); idle > 0 && l > 0 {
		l *= faded(idle, decay)
	}
	return l
}

// faded is e^(-idle/decay). For a shard that was asked a moment ago, which is most of them, three terms of the
// series are as good and much quicker: they err by less than a millionth.
func faded(idle int64, decay time.Duration) float64 {
	x := float64(idle) / float64(decay)
	if x < 1./64 {
		return 1 - x + x*x/2
	}
	return math.Exp(-x)
}

// measure takes the time that one attempt took into the latency.
func (s *shard) measure(now int64, took, decay time.Duration) {
	old, is := math.Float64frombits(s.latency.Load()), float64(max(took, 0))
	if is < old {
		w := faded(max(now-s.measured.Load(), 0), decay)
		is = old*w + is*(1-w)
	}
	s.latency.Store(math.Float64bits(is))
	s.measured.Store(now)
}

// answer records that the service answered.
func (s *shard) answer(now int64) {
	s.answered.Store(now)
	s.points = 0
	switch {
	case s.until.Load() != 0:
		s.until.Store(0)
		s.probing = false
		s.probation = now + s.rest
	case now >= s.probation:
		s.rest = 0
	}
}

// fail records that it did not.
func (s *shard) fail(now int64, o Result, r rules, jitter func(int64) int64) {
	s.failed.Store(now)
	until := s.until.Load()
	if until > now && !s.probing {
		return // one of many that were out when the shard failed, or one that had no better member
	}
	s.points = min(s.points+weights[o], r.limit)
	if s.points < r.limit && until == 0 && now >= s.probation {
		return
	}
	longest := r.longest
	if o == Throttled {
		longest = r.throttled
	}
	s.rest = min(max(int64(r.first), 2*s.rest), int64(longest))
	s.until.Store(now + jitter(s.rest))
	s.probing = false
}

// due says whether the rest has been over for so long.
func (s *shard) due(now int64, since time.Duration) bool {
	until := s.until.Load()
	return until != 0 && now >= until+int64(since)
}

// claim makes the request that asks the probe; false when another one is.
func (s *shard) claim(now int64, since time.Duration, jitter func(int64) int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.due(now, since) {
		return false
	}
	s.probing = true
	s.until.Store(now + jitter(s.rest))
	return true
}
