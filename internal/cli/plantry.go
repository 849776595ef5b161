package cli

import (
	"fmt"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/blast"
	"cellwall.dev/cellwall/internal/fleet"
)

// laid is the cell with another number of shards: in the order in which zones are dealt, each zone's own shards as
// long as it has some, then further ones.
func (c *chooser) laid(n int) fleet.Cell {
	cell := c.c.Cell
	if n == len(cell.Shards) {
		return cell
	}
	own := map[string][]fleet.ShardSpec{}
	taken := map[string]bool{}
	for _, s := range cell.Shards {
		own[s.Zone] = append(own[s.Zone], s)
		taken[s.ID] = true
	}
	cell.Shards = nil
	next := 0
	for i := range n {
		zone := cell.Zones[i%len(cell.Zones)]
		if had := own[zone]; len(had) > 0 {
			cell.Shards, own[zone] = append(cell.Shards, had[0]), had[1:]
			continue
		}
		for taken[fleet.CountedShard(next)] {
			next++
		}
		cell.Shards = append(cell.Shards, fleet.ShardSpec{ID: fleet.CountedShard(next), Zone: zone, Weight: 1})
		next++
	}
	return cell
}

// try places the cell's tenants on a pair and measures the budget's failures. It is nil when they cannot be placed
// so. Unless all of it is asked for, it stops at what is broken.
func (c *chooser) try(p planPair, all bool) (*planTried, error) {
	f := *c.f
	f.Placement.PerTenant = p.k
	in := &planInput{tenants: c.in.tenants, seconds: c.in.seconds, loads: c.in.loads}
	cell, err := in.add(&f, c.laid(p.n), c.c.key)
	if err != nil { // the scheme says which numbers it takes
		c.refused[p] = err.Error()
		return nil, nil
	}
	if slots := cell.placers[0].Slots(); slots > 0 && uint64(len(c.c.members)) > slots {
		c.refused[p] = fmt.Sprintf("%s has room for %s there", f.Placement.Scheme, count(int(slots), "tenant"))
		return nil, nil
	}
	cell.members = c.c.members
	in.loosen(cell)
	population, err := in.collect(cell)
	if err != nil { // a size class that a topology has and the fleet has not, say
		c.refused[p] = err.Error()
		return nil, nil
	}
	t := &cellMeasure{
		in: in, f: &f, c: cell, p: population, budget: c.limits, sampling: trySampling, failed: min(c.failed, p.n), capacity: c.capacity,
		out: &planned{Kept: true, PerTenant: p.k},
	}
	if !all && c.crowded(population) {
		return &planTried{Shards: p.n, PerTenant: p.k, Broken: []planLine{}, pruned: true}, nil
	}
	for _, step := range []func() error{t.budgetFailures, t.load, t.lines} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return c.sum(t, in), nil
}

// crowded tells whether one shard alone has more tenants than may be degraded, which more failures do not mend.
func (c *chooser) crowded(p *blast.Population) bool {
	most := slices.Max(p.Fairness().Tenants.PerShard) / float64(p.Tenants())
	alone := blast.LossBudget{ConcurrentFailures: 1, DegradedTenants: c.limits.DegradedTenants, CapacityLoss: 1, FullyDown: 1}
	return c.limits.ConcurrentFailures > 1 && len(alone.Check(blast.LossFigures{Degraded: most})) > 0
}

// loosen leaves the pins out of account that name a shard which the cell does not have.
func (in *planInput) loosen(c *planCell) {
	if in.tenants.pins == nil {
		return
	}
	in.unpinned = map[int]bool{}
	for _, i := range c.members {
		for _, id := range in.tenants.pins[int(i)] {
			if _, has := c.at[id]; !has {
				in.unpinned[int(i)] = true
			}
		}
	}
}

// sum is what was measured of a pair.
func (c *chooser) sum(t *cellMeasure, in *planInput) *planTried {
	company := t.p.Company()
	tried := &planTried{
		Shards: len(t.c.shards), PerTenant: t.out.PerTenant, Kept: t.out.Kept, Broken: []planLine{}, Cost: float64(len(t.c.shards)) / float64(c.now.n),
		MeanOverlap: company.Shared, Same: company.Same,
	}
	if in != nil {
		tried.Unpinned = len(in.unpinned)
	}
	if t.out.Headroom != nil {
		tried.Cascades = t.out.Headroom.Cascades
	}
	for _, line := range t.out.Budget.Lines {
		switch blast.BudgetLine(line.Line) {
		case blast.LineDegradedTenants:
			tried.Degraded = line.Found
		case blast.LineCapacityLoss:
			tried.CapacityLoss = line.Found
		case blast.LineFullyDown:
			tried.FullyDown = line.Found
		case blast.LineCapacity:
			tried.Utilisation = line.Found
		}
		if !line.Kept {
			tried.Broken = append(tried.Broken, line)
		}
	}
	return tried
}

// over is how far the worst line is above its limit.
func (t *planTried) over() float64 {
	most := 0.0
	for _, l := range t.Broken {
		most = max(most, l.Over)
	}
	if t.pruned {
		return 1e9
	}
	return most
}

// brokenText says which lines a pair breaks.
func brokenText(t *planTried) string {
	var parts []string
	for _, l := range t.Broken {
		limit := "at most"
		if !l.Given {
			limit = "today"
		}
		parts = append(parts, fmt.Sprintf("%s (%s, %s %s)", l.Line, percentage(l.Found), limit, percentage(l.Limit)))
	}
	if t.Cascades {
		parts = append(parts, "an overload cascades")
	}
	if t.pruned {
		parts = append(parts, string(blast.LineDegradedTenants)+" with a single shard")
	}
	return strings.Join(parts, ", ")
}
