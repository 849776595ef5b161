// Package health orders the members of a tenant's subset by what is known of them.
package health

import (
	"time"
)

// Result is what became of one attempt at a shard.
type Result uint8

// Results.
const (
	Answered  Result = iota // the service answered
	Failed                  // no answer, or one that says it cannot serve
	TimedOut                // no answer in the time that the attempt had
	Throttled               // the shard took no more requests
	Unknown                 // the client left: says nothing of the shard
)

// Config is what a Tracker is made of. Each field may be left out.
type Config struct {
	Now    func() time.Time // default time.Now
	Pick   func(n int) int  // a number from 0 to n-1; default random
	Lambda bool             // this process is a Lambda environment: one request at a time, one of many
	Queue  bool             // the way to the shards is their queues: of reports, the age of the queue counts
}

// Report is what somebody who looks at all shards knows of one, as of the time that comes with it.
type Report struct {
	Shard            string
	Healthy, Targets int           // of its target group; 0 of 0 when it has none
	Throttled        float64       // refused invocations of its slice, a minute
	QueueAge         time.Duration // of the oldest message in its queue
	Drained          bool          // an operator wants it to be left alone
}

// State is what a Tracker knows of one shard, for metrics.
type State struct {
	InFlight  int
	Latency   time.Duration // the estimate by which the shard is chosen; 0 when none is known
	Resting   bool          // it failed, and others are asked before it
	Drained   bool
	Unhealthy bool          // by the last report
	Known     time.Duration // age of the last report; negative when there is none
}

// Tracker remembers how requests to each shard went. It is safe for concurrent use.
type Tracker struct{ c Config }

// New returns a Tracker that knows nothing, for which every shard is healthy.
func New(c Config) *Tracker { return &Tracker{c} }

// Order appends all members to dst, the one to ask first at the front. repeatable says whether the request
// may be sent again when nobody knows what the first sending did.
func (t *Tracker) Order(dst, members []string, repeatable bool) []string { return append(dst, members...) }

// Begin says that a request is on its way to the shard. Each Begin has its End.
func (t *Tracker) Begin(shard string) {}

// End says what became of it, and how long it took.
func (t *Tracker) End(shard string, o Result, took time.Duration) {}

// Report takes what is known of all shards as of the time taken. An earlier one than the last is passed over.
func (t *Tracker) Report(taken time.Time, reports []Report) {}

// State tells what is known of a shard.
func (t *Tracker) State(shard string) State { return State{Known: -1} }
