package blast

import (
	"fmt"
	"math/bits"
	"strings"
)

// NoChoiceError tells that no n and k keep the budget, and which of its lines conflict.
type NoChoiceError struct {
	Budget    LossBudget
	MaxShards int

	// Conflicts are the fewest lines without which there is a choice, and all such sets of as many. A
	// line that is in none of them is kept anyhow.
	Conflicts [][]BudgetLine
	// Best is a row with the most shards that keeps the lines outside the first conflict, with the k
	// that comes closest to the lines in it; its Broken says how far off that is.
	Best ChoiceRow
	// Enough is a number of shards above MaxShards that keeps the whole budget, the first one found in
	// steps of an eighth; 0 when none was.
	Enough int
}

func (e *NoChoiceError) Error() string {
	sets := make([]string, len(e.Conflicts))
	for i, set := range e.Conflicts {
		names := make([]string, len(set))
		for j, line := range set {
			names[j] = string(line)
		}
		sets[i] = strings.Join(names, " with ")
	}
	text := fmt.Sprintf("no n and k up to %d shards keep the budget for %d failed together: it would be kept without %s",
		e.MaxShards, e.Budget.ConcurrentFailures, strings.Join(sets, ", or without "))
	for _, broken := range e.Best.Broken {
		text += fmt.Sprintf("; %d of %d shards for each tenant come to %s", e.Best.PerTenant, e.Best.Shards, broken.short())
	}
	if e.Enough > 0 {
		return text + fmt.Sprintf(": allow %d shards, or more in that line", e.Enough)
	}
	return text + ": allow more in that line, no number of shards is enough"
}

// chooseLines are the lines of the input that can be dropped, each with how.
var chooseLines = [...]struct {
	line BudgetLine
	drop func(*ChooseInput)
}{
	{LineDegradedTenants, func(in *ChooseInput) { in.Budget.DegradedTenants = 1 }},
	{LineCapacityLoss, func(in *ChooseInput) { in.Budget.CapacityLoss = 1 }},
	{LineFullyDown, func(in *ChooseInput) { in.Budget.FullyDown = 1 }},
	{LineCapacity, func(in *ChooseInput) { in.Capacity = 0 }},
}

// without is the chooser for the same input with some lines dropped, by their bits.
func (c *chooser) without(lines uint) *chooser {
	other := *c
	for i, l := range chooseLines {
		if lines>>i&1 == 1 {
			l.drop(&other.in)
		}
	}
	return &other
}

// conflict explains why smallest found nothing. Without any line there is a choice, so it has a reason.
func (c *chooser) conflict() error {
	e := &NoChoiceError{Budget: c.in.Budget, MaxShards: c.in.MaxShards}
	for fewest := 1; len(e.Conflicts) == 0; fewest++ {
		for lines := range uint(1) << len(chooseLines) {
			if bits.OnesCount(lines) != fewest {
				continue
			}
			relaxed := c.without(lines)
			if _, _, ok := relaxed.smallest(); !ok {
				continue
			}
			var set []BudgetLine
			for i, l := range chooseLines {
				if lines>>i&1 == 1 {
					set = append(set, l.line)
				}
			}
			e.Conflicts = append(e.Conflicts, set)
			if len(e.Conflicts) > 1 {
				continue
			}
			e.Best = c.closest(relaxed)
		}
	}
	for n := c.in.MaxShards; n < MaxShards; {
		n = min(n+max(1, n/8), MaxShards)
		if _, ok := c.smallestFor(n / c.in.Zones * c.in.Zones); ok {
			e.Enough = n / c.in.Zones * c.in.Zones
			break
		}
	}
	return e
}

// closest is the Best of a NoChoiceError. Of the k that keep the other lines the smallest degrades the
// fewest, f+1 is the first to take nobody down, and the largest loses the least of each tenant.
func (c *chooser) closest(relaxed *chooser) ChoiceRow {
	n := c.in.MaxShards / c.in.Zones * c.in.Zones
	smallest, ok := relaxed.smallestFor(n)
	for ; !ok; smallest, ok = relaxed.smallestFor(n) {
		n -= c.in.Zones // there is one that is large enough, if not the largest
	}
	var best ChoiceRow
	var off float64
	for _, k := range []int{smallest, c.in.Budget.ConcurrentFailures + 1, relaxed.largestFor(n, smallest)} {
		if k > n {
			continue
		}
		if row := relaxed.row(n, k); len(row.Broken) > 0 {
			continue
		}
		row := c.row(n, k)
		worst := 0.0
		for _, b := range row.Broken {
			worst = max(worst, b.Over())
		}
		if best.Shards == 0 || worst < off {
			best, off = row, worst
		}
	}
	return best
}

// largestFor is the largest k, from the given one, with which few enough tenants are degraded.
func (c *chooser) largestFor(n, k int) int {
	low, high := k, n+1
	for high-low > 1 {
		mid := low + (high-low)/2
		if c.keepsDegraded(chooseModel{n: n, k: mid, f: c.in.Budget.ConcurrentFailures, zones: c.in.Zones}) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}
