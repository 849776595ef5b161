package blast

import (
	"fmt"
	"math"
	"strconv"
)

// BudgetLine names a line of the budget, as fleet.yaml does.
type BudgetLine string

// The lines of a budget, in its order. The capacity of a shard is no line of its own, but a failure
// that leaves a shard with more load than it can carry takes down tenants that no line counts.
const (
	LineDegradedTenants BudgetLine = "degradedTenants"
	LineCapacityLoss    BudgetLine = "capacityLoss"
	LineFullyDown       BudgetLine = "fullyDown"
	LineCapacity        BudgetLine = "shard.capacity"
)

// Breach is a broken line of a budget. Fixes are by expectation, in proportion to what was found, so
// they say about how much; measure again with them.
type Breach struct {
	Line  BudgetLine
	Limit float64 // share that the line allows; 1 for the capacity
	Found float64

	// Shards is the number of shards that would keep the line with the same k, PerTenant the k that
	// would keep it with the same shards, without breaking another line for certain. 0 for none.
	Shards    int
	PerTenant int
}

// Over is by how much the line is broken, as a share.
func (b Breach) Over() float64 { return b.Found - b.Limit }

func (b Breach) short() string {
	return fmt.Sprintf("%s (%s, at most %s)", b.Line, percentText(b.Found), percentText(b.Limit))
}

// String says what is broken, by how much and what would fix it.
func (b Breach) String() string {
	text := fmt.Sprintf("%s: %s, %s above the %s allowed; ", b.Line, percentText(b.Found), percentText(b.Over()), percentText(b.Limit))
	switch {
	case b.Shards > 0 && b.PerTenant > 0:
		text += fmt.Sprintf("about %d shards, or %d for each tenant, would keep it", b.Shards, b.PerTenant)
	case b.Shards > 0:
		text += fmt.Sprintf("about %d shards would keep it", b.Shards)
	case b.PerTenant > 0:
		text += fmt.Sprintf("%d shards for each tenant would keep it", b.PerTenant)
	default:
		text += "no other number of shards would keep it, only a larger share in the budget"
	}
	if b.Line == LineCapacity {
		text += fmt.Sprintf(", and so would shards with %.2f times the capacity", b.Found)
	}
	return text
}

// percentText is a share in per cent, with as many digits as tell it from a round number.
func percentText(share float64) string {
	return strconv.FormatFloat(share*100, 'g', 4, 64) + "%"
}

func (b LossBudget) check() error {
	if b.ConcurrentFailures < 1 || b.ConcurrentFailures > MaxShards {
		return fmt.Errorf("%w: a budget for %d concurrent failures, want 1 to %d", ErrModel, b.ConcurrentFailures, MaxShards)
	}
	for _, line := range []struct {
		name  BudgetLine
		share float64
	}{{LineDegradedTenants, b.DegradedTenants}, {LineCapacityLoss, b.CapacityLoss}, {LineFullyDown, b.FullyDown}} {
		if !(line.share >= 0 && line.share <= 1) {
			return fmt.Errorf("%w: a budget with %s %v, want a share from 0 to 1", ErrModel, line.name, line.share)
		}
	}
	return nil
}

// Check tells the lines that figures break, in the budget's order: figures measured or calculated for
// the failure of ConcurrentFailures of the shards that is worst, each for its own line. It has no errors;
// the budget is one that Choose accepts, and 1 <= perTenant <= shards. Where tenants have unlike numbers
// of shards, perTenant is the most usual.
func (b LossBudget) Check(shards, perTenant int, found LossFigures) []Breach {
	var broken []Breach
	for _, line := range []struct {
		line         BudgetLine
		limit, found float64
		fix          func(*Breach, int, int)
	}{
		{LineDegradedTenants, b.DegradedTenants, found.Degraded, b.fixDegraded},
		{LineCapacityLoss, b.CapacityLoss, found.CapacityLoss, b.fixCapacityLoss},
		{LineFullyDown, b.FullyDown, found.FullyDown, b.fixFullyDown},
		{LineCapacity, 1, found.Utilisation, b.fixCapacity},
	} {
		if line.found > line.limit*(1+1e-9) { // more than rounding
			breach := Breach{Line: line.line, Limit: line.limit, Found: line.found}
			line.fix(&breach, shards, perTenant)
			broken = append(broken, breach)
		}
	}
	return broken
}

// fixDegraded: the expectation has to fall as far as what was found has to.
func (b LossBudget) fixDegraded(breach *Breach, n, k int) {
	f := min(b.ConcurrentFailures, n)
	hit := func(n, k int) float64 { return 1 - exactFloat(exactMiss(n, f, k)) }
	aim := hit(n, k) * breach.Limit / breach.Found
	breach.Shards = leastShards(n, func(n int) bool { return hit(n, k) <= aim })
	for fewer := k - 1; fewer > 0 && b.allows(fewer); fewer-- {
		if hit(n, fewer) <= aim {
			breach.PerTenant = fewer
			return
		}
	}
}

// allows tells whether k for each tenant can keep the lines that set a least one.
func (b LossBudget) allows(k int) bool {
	lost := float64(min(b.ConcurrentFailures, k)) / float64(k)
	return lost <= b.CapacityLoss && (k > b.ConcurrentFailures || b.FullyDown > 0)
}

// fixCapacityLoss: only more shards for each tenant make a failed one count for less.
func (b LossBudget) fixCapacityLoss(breach *Breach, n, k int) {
	if breach.Limit == 0 {
		return
	}
	more := math.Ceil(float64(b.ConcurrentFailures) / breach.Limit * (1 - 1e-9))
	if more <= float64(n) && int(more) != k {
		breach.PerTenant = int(more)
	}
}

// fixFullyDown: more shards for each tenant than fail, or so many shards that failures seldom meet.
func (b LossBudget) fixFullyDown(breach *Breach, n, k int) {
	f := min(b.ConcurrentFailures, n)
	if f+1 <= n {
		breach.PerTenant = f + 1
	}
	down := func(n int) float64 { return exactFloat(exactMiss(n, k, n-f)) }
	aim := down(n) * breach.Limit / breach.Found
	breach.Shards = leastShards(n, func(n int) bool { return down(n) <= aim })
}

// fixCapacity: those that are left share the load of those that are not down.
func (b LossBudget) fixCapacity(breach *Breach, n, k int) {
	if n <= b.ConcurrentFailures {
		return
	}
	f := b.ConcurrentFailures
	load := func(n int) float64 { return (1 - exactFloat(exactMiss(n, k, n-f))) / float64(n-f) }
	aim := load(n) * breach.Limit / breach.Found * (1 + 1e-9)
	breach.Shards = leastShards(n, func(n int) bool { return load(n) <= aim })
}

// leastShards is the least number above n for which ok holds, which it does for all larger ones; 0 when
// it holds for none.
func leastShards(n int, ok func(n int) bool) int {
	low, high := n, MaxShards
	if low >= high || !ok(high) {
		return 0
	}
	for high-low > 1 {
		if mid := low + (high-low)/2; ok(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}
