package limit

import "sync/atomic"

// What is usual for a retry budget: Envoy's defaults (cluster.CircuitBreakers.Thresholds.RetryBudget), which
// Finagle's RetryBudget has nearly, too. Bounded repeats cannot multiply the load on shards that fail because
// of it.
const (
	Ratio = 0.2
	Floor = 3
)

// Budget bounds how many repeats are out, by the requests that are active.
type Budget struct {
	ratio float64
	floor uint64
	both  atomic.Uint64 // active in the upper half, repeats in the lower: they are compared as of one moment
}

const oneActive = 1 << 32

// NewBudget allows as many repeats as ratio times the active requests, and always floor. A negative ratio or
// floor is 0.
func NewBudget(ratio float64, floor int) *Budget {
	return &Budget{ratio: max(ratio, 0), floor: uint64(max(floor, 0))}
}

// Begin says that a request has come. Each Begin has its End.
func (b *Budget) Begin() { b.both.Add(oneActive) }

// End says that the request was answered.
func (b *Budget) End() { b.both.Add(^uint64(oneActive - 1)) }

// Spend says whether a repeat may go out now. If so, Return has to follow.
func (b *Budget) Spend() bool {
	for {
		both := b.both.Load()
		active, repeats := both>>32, both&(oneActive-1)
		if repeats >= b.floor && float64(repeats+1) > b.ratio*float64(active) {
			return false
		}
		if b.both.CompareAndSwap(both, both+1) {
			return true
		}
	}
}

// Return says that a repeat is over.
func (b *Budget) Return() { b.both.Add(^uint64(0)) }
