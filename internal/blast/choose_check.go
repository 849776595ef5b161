package blast

import (
	"fmt"
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

// Breach is a broken line of a budget.
type Breach struct {
	Line  BudgetLine
	Limit float64 // share that the line allows; 1 for the capacity
	Found float64
}

// Over is by how much the line is broken, as a share.
func (b Breach) Over() float64 { return b.Found - b.Limit }

func (b Breach) short() string {
	return fmt.Sprintf("%s (%s, at most %s)", b.Line, percentText(b.Found), percentText(b.Limit))
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

// exceeds tells whether a share is above a limit. A budget is written with two decimals of a per cent, so a share
// that rounds to the limit is within it: a third is 33.33 %. A limit of nothing is nothing.
func exceeds(found, limit float64) bool { return found > allowed(limit) }

// allowed is the largest share that a limit lets pass.
func allowed(limit float64) float64 {
	if limit == 0 {
		return 0
	}
	return limit + 0.5e-4*(1-1e-9)
}

// Check tells the lines that figures break, in the budget's order: figures measured or calculated for
// the failure of ConcurrentFailures of the shards that is worst, each for its own line. A share that rounds to
// its limit, at two decimals of a per cent, is within it, unless the limit is 0. It has no errors; the budget is
// one that Choose accepts.
func (b LossBudget) Check(found LossFigures) []Breach {
	var broken []Breach
	for _, line := range []struct {
		line         BudgetLine
		limit, found float64
		over         bool
	}{
		{LineDegradedTenants, b.DegradedTenants, found.Degraded, exceeds(found.Degraded, b.DegradedTenants)},
		{LineCapacityLoss, b.CapacityLoss, found.CapacityLoss, exceeds(found.CapacityLoss, b.CapacityLoss)},
		{LineFullyDown, b.FullyDown, found.FullyDown, exceeds(found.FullyDown, b.FullyDown)},
		{LineCapacity, 1, found.Utilisation, overloaded(found.Utilisation, 1)},
	} {
		if line.over {
			broken = append(broken, Breach{Line: line.line, Limit: line.limit, Found: line.found})
		}
	}
	return broken
}
