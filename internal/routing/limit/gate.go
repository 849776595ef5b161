package limit

import (
	"sync/atomic"

	"cellwall.dev/cellwall/internal/routing/roster"
)

// gate counts what is inside.
type gate struct{ inside atomic.Int64 }

// enter counts one more if may says so of those who are inside.
func (g *gate) enter(may func(inside int64) bool) bool {
	for {
		n := g.inside.Load()
		if !may(n) {
			return false
		}
		if g.inside.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (g *gate) leave() { g.inside.Add(-1) }

// Shards bounds the requests in flight to each shard, so that one that is slow cannot hold all that the
// router can have in flight.
type Shards struct {
	max   int64
	gates *roster.Roster[gate]
}

// PerShard is the default limit of one shard in a router that takes so many requests at a time: a quarter.
// With two shards that hang half of the router still serves the others, and in a cell of 16 shards that are
// loaded alike, each has four times its share. 0 when the router has no limit.
func PerShard(router int) int {
	if router <= 0 {
		return 0
	}
	return max(1, router/4)
}

// NewShards allows each shard max requests; none is refused when max is 0 or less. Shards beyond
// roster.Shards are not limited.
func NewShards(max int) *Shards {
	return &Shards{int64(max), roster.New(roster.Shards, func() *gate { return &gate{} })}
}

// Acquire says whether the shard may be sent one more request. If so, Release has to follow.
func (s *Shards) Acquire(shard string) bool {
	if s.max <= 0 {
		return true
	}
	g := s.gates.Get(shard)
	return g == nil || g.enter(func(n int64) bool { return n < s.max })
}

// Release says that a request to the shard is over.
func (s *Shards) Release(shard string) {
	if g := s.gates.Find(shard); g != nil {
		g.leave()
	}
}

// Fanout bounds the requests in flight on routes that fan out: each is many for the shard behind.
type Fanout struct {
	max  int64
	gate gate
}

// NewFanout allows max requests; none is refused when max is 0 or less.
func NewFanout(max int) *Fanout { return &Fanout{max: int64(max)} }

// Enter says whether one more is taken. If so, Leave has to follow.
func (f *Fanout) Enter() bool {
	return f.gate.enter(func(n int64) bool { return f.max <= 0 || n < f.max })
}

// Leave says that one was answered.
func (f *Fanout) Leave() { f.gate.leave() }

// Shed bounds the requests in flight in the whole router. It has no idea of how much the machine can do and
// adapts to nothing: the limit is the operator's, and the shards' own limits and attempt time-outs keep what
// is slow from filling it.
//
// What it does decide is who is shed: a tenant with as many requests in flight as places are left. That is
// the dynamic threshold by which switches share a buffer among queues (Choudhury and Hahne, "Dynamic Queue
// Length Thresholds for Shared-Memory Packet Switches", IEEE/ACM ToN 6, 1998), with their alpha at 1. The
// heaviest tenants are refused first, the more the fuller it is, and nobody has to be told how many there are.
type Shed struct {
	max  int64
	gate gate
}

// NewShed allows max requests in flight; none is refused when max is 0 or less.
func NewShed(max int) *Shed { return &Shed{max: int64(max)} }

// Enter says whether the router takes a request of a tenant that has so many others in flight
// (Ticket.Others). If so, Leave has to follow.
func (s *Shed) Enter(others int) bool {
	return s.gate.enter(func(n int64) bool { return s.max <= 0 || int64(others) < s.max-n })
}

// Leave says that a request was answered.
func (s *Shed) Leave() { s.gate.leave() }

// InFlight is how many requests are in flight, for metrics.
func (s *Shed) InFlight() int { return int(s.gate.inside.Load()) }
