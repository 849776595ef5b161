// Package health orders the members of a tenant's subset by what is known of them: the member to ask first
// at the front. A Tracker serves one way to the shards (their slices, their target groups or their queues),
// since a shard may be well on one and ill on another.
//
// # Guarantees
//
// Each is held by the test of the same name. "Ill" is a member that rests after failures, or of which a
// report says that none of its targets is healthy.
//
//  1. Complete: an order is a permutation of the members, whatever happened. Health never leaves one out.
//  2. HealthyFirst: members that are well come before ill ones, and both before drained ones, but for the one
//     probe of guarantee 6.
//  3. Counted: a shard rests after failures in a row that come to the limit, and not before. They are counted,
//     since a percentage of a handful means nothing: a time-out counts 4, a failure 2, a throttle 1. The limit
//     is 4, so that one failure among many requests at once changes nothing. An environment of Lambda, which
//     has to learn from few requests of its own, has the limit 2.
//  4. Doubling: the first rest takes 1 s, and each failed probe doubles it, up to 30 s. On Lambda that is 8 s up
//     to 2 min: an environment may not see a request each second, and N probe N times as often. A throttled shard lives, and rests 4 s at most (16 s).
//     For as long as it last rested a shard that answers is on probation: one failure is enough.
//  5. Burst: failures of requests that were out already when the shard began to rest do not prolong the rest.
//  6. OneProbe: when the rest is over one request is the probe, and asks the shard first. There is no other
//     one before that was answered, or has been out for another rest. A request that may not be repeated is no
//     probe until the shard was left alone for the longest rest. A shard that is ill by a report is not probed:
//     who reports looks often enough for all.
//  7. Jittered (Lambda): a rest takes between half and one and a half times its length, evenly, so that
//     environments which learned of a failure at the same time do not probe at the same time.
//  8. LeastBad: of ill members, one that is ill by a report alone comes first, then the one whose rest ends
//     first.
//  9. TwoChoices: of two members that are well, drawn at random, the one with the lower cost comes first.
//     The cost is latency × (requests in flight + 1), and on Lambda, where no environment sees what the others
//     have in flight, latency alone. Latencies within a quarter of each other are alike, and all under 1 ms:
//     then requests in flight decide, then chance. (Mitzenmacher, "The Power of Two Choices in Randomized Load
//     Balancing", IEEE TPDS 12, 2001.)
//  10. Peak: the latency is that of Twitter Finagle's Peak EWMA: a slower answer counts at once, faster ones
//     bring it down with a time constant of 10 s (Finagle's; on Lambda 1 min, since each of N environments
//     tries a slow shard again), and so does time in which nobody asked. (finagle-core,
//     com.twitter.finagle.loadbalancer.PeakEwma.) Only answers and time-outs are measured: a shard that fails
//     fast is not fast. A throttle doubles it. A shard with requests in flight, none of which came back for
//     longer than its latency, is taken to be as slow as that silence (not on Lambda).
//  11. Fading: a report weighs 2^(-age/2 min). While "no target is healthy" weighs a quarter, that is for 4
//     minutes, the shard is ill. All other bad news multiplies the latency by 1 + 9 × severity × weight; see
//     Report. In the end an old report orders nothing.
//  12. OwnWord: an own answer since the report was taken beats its word that no target is healthy; an own
//     failure is never mended by a report.
//  13. Drained: a drain holds at any age, until a later report does not say so any more. A drained shard is
//     asked after all others, and is no probe.
//  14. Bounded: shards beyond roster.Shards are well, and are not remembered.
//  15. NoAllocations: Order allocates nothing when dst has room and members are eight at most, nor do Begin
//     and End of a known shard.
package health

import (
	"math/rand/v2"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/routing/roster"
)

// Result is what became of one attempt at a shard.
type Result uint8

const (
	Answered  Result = iota // the service answered
	Failed                  // no answer, or one that says that it cannot serve
	TimedOut                // no answer in the time that the attempt had
	Throttled               // the shard took no more requests
	Unknown                 // the client left, or the request was at fault: says nothing of the shard
)

// Config is what a Tracker is made of. Each field may be left out.
type Config struct {
	Now    func() time.Time // default time.Now
	Pick   func(n int) int  // a number from 0 to n-1, safe for concurrent use; default random
	Lambda bool             // this process is a Lambda environment: one request at a time, one of many
	Queue  bool             // the way is the shards' queues: of a report QueueAge counts, else Targets and Throttled
}

// Tracker remembers how requests to each shard went. It is safe for concurrent use.
type Tracker struct {
	now    func() time.Time
	pick   func(int) int
	rules  rules
	start  time.Time
	shards *roster.Roster[shard]

	reports sync.Mutex // held to take a report
	taken   time.Time  // of the last one
}

// New returns a Tracker that knows nothing, for which every shard is well.
func New(c Config) *Tracker {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Pick == nil {
		c.Pick = rand.IntN
	}
	t := &Tracker{now: c.Now, pick: c.Pick, rules: local}
	if c.Lambda {
		t.rules = lambda
		// An environment is frozen between requests, which its monotonic clock may not notice.
		t.now = func() time.Time { return c.Now().Round(0) }
	}
	t.rules.queue = c.Queue
	t.start = t.now().Add(-time.Second) // all times are more than 0, which stands for never
	t.shards = roster.New(roster.Shards, func() *shard { return &shard{} })
	return t
}

// at is the time now, in nanoseconds since a second before the Tracker was made.
func (t *Tracker) at() int64 { return int64(t.now().Sub(t.start)) }

// Begin says that a request is on its way to the shard. Each Begin has its End.
func (t *Tracker) Begin(name string) {
	if s := t.shards.Get(name); s != nil && s.inFlight.Add(1) == 1 && t.rules.shared {
		s.heard.Store(t.at())
	}
}

// End says what became of it, and how long it took.
func (t *Tracker) End(name string, o Result, took time.Duration) {
	s := t.shards.Find(name)
	if s == nil {
		return
	}
	s.inFlight.Add(-1)
	if o == Unknown {
		return
	}
	now := t.at()
	s.mu.Lock()
	defer s.mu.Unlock()
	if o != TimedOut {
		s.heard.Store(now)
	}
	switch o {
	case Answered:
		s.measure(now, took, t.rules.decay)
		s.answer(now)
		return
	case TimedOut:
		s.measure(now, took, t.rules.decay)
	case Throttled:
		s.measure(now, min(2*max(time.Duration(s.latencyAt(now, t.rules.decay)), quick), slowest), t.rules.decay)
	}
	s.fail(now, o, t.rules, t.jitter)
}

// jitter is how long a rest of that length takes.
func (t *Tracker) jitter(rest int64) int64 {
	if t.rules.shared {
		return rest
	}
	const steps = 1024
	return rest/2 + rest*int64(t.pick(steps+1))/steps
}

// State is what a Tracker knows of one shard, for metrics.
type State struct {
	InFlight  int           // requests of this process
	Latency   time.Duration // the estimate as of now; 0 when nothing was measured
	Resting   bool          // it failed, and others are asked before it
	Unhealthy bool          // by the last report, with the weight that this still has
	Drained   bool          // by the last report
	Known     time.Duration // age of what is known: the last answer, failure or report; negative when nothing is
}

// State tells what is known of a shard.
func (t *Tracker) State(name string) State {
	s := t.shards.Find(name)
	if s == nil {
		return State{Known: -1}
	}
	now := t.at()
	r := s.report.Load()
	known := max(s.answered.Load(), s.failed.Load())
	if r != nil && (known == 0 || r.taken > known) {
		known = r.taken
	}
	st := State{
		InFlight:  int(max(0, s.inFlight.Load())),
		Latency:   time.Duration(s.latencyAt(now, t.rules.decay)),
		Resting:   s.until.Load() != 0,
		Unhealthy: r.unhealthy(now, s.answered.Load()),
		Drained:   r.drains(),
		Known:     time.Duration(now - known),
	}
	if known == 0 && r == nil {
		st.Known = -1
	}
	return st
}
