package cli

import (
	"errors"

	"cellwall.dev/cellwall/internal/blast"
	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/placement"
)

// choose finds the smallest n and k for the budget, and tries them with these very tenants.
func (m *cellMeasure) choose() error {
	if !m.out.Budget.Given && m.capacity == 0 {
		return nil // there is nothing to choose for
	}
	in := blast.ChooseInput{Budget: m.budget, Tenants: m.p.Tenants(), Zones: len(m.byZone()), MaxShards: planMostShards}
	if m.f.Placement.Scheme == string(placement.HMACv1) {
		in.Zones = 1
	}
	if in.Capacity = m.capacity; m.capacity > 0 {
		in.Load = m.p.Load()
	}
	out := &planChoice{Neighbours: []planChosen{}}
	m.out.Choice = out
	choice, err := blast.Choose(in)
	if none := (*blast.NoChoiceError)(nil); errors.As(err, &none) || errors.Is(err, blast.ErrModel) {
		out.Refused = err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	out.Found, out.Shards, out.PerTenant = true, choice.Row.Shards, choice.Row.PerTenant
	out.Larger, out.Smaller, out.Fewer = choice.Larger, choice.Smaller, choice.Fewer
	for _, row := range choice.Neighbours {
		chosen := planChosen{
			Shards: row.Shards, PerTenant: row.PerTenant, Kept: len(row.Broken) == 0, Broken: []string{}, Degraded: row.Bound.Degraded, CapacityBad: row.Bound.CapacityLoss,
			FullyDown: row.Bound.FullyDown, Utilisation: row.Bound.Utilisation, MeanOverlap: row.MeanOverlap, Covered: row.Covered, MaxShared: row.MaxShared,
			Cost: float64(row.Shards) / float64(len(m.c.Shards)),
		}
		for _, b := range row.Broken {
			chosen.Broken = append(chosen.Broken, string(b.Line))
		}
		out.Neighbours = append(out.Neighbours, chosen)
	}
	return m.search(out, in)
}

// Bounds of how often tenants are placed anew to find shards that do: a few million placements, some seconds.
const (
	planTries      = 16
	planFewTries   = 4
	planPlacements = 3_000_000
)

// search tries the choice with the cell's very tenants, since it takes their loads to be equal, and, when the
// budget is broken, more shards: as many as it seems to need, and then fewer again as long as that does.
func (m *cellMeasure) search(out *planChoice, in blast.ChooseInput) error {
	broken, next := 0, out.Shards
	for range max(planFewTries, min(planTries, planPlacements/m.p.Tenants())) {
		next = (next + in.Zones - 1) / in.Zones * in.Zones
		if next > planMostShards || out.Kept != nil && next >= out.Kept.Shards {
			return nil
		}
		tried, err := m.try(next, out.PerTenant)
		if err != nil || tried == nil {
			return err
		}
		if next == out.Shards {
			out.Tried = tried
		}
		if tried.Kept {
			out.Kept = tried
			if next == out.Shards {
				return nil
			}
			next = (broken + next) / 2
			if next/in.Zones == broken/in.Zones {
				next += in.Zones
			}
			continue
		}
		broken = next
		if out.Kept != nil {
			next = (broken + out.Kept.Shards) / 2
			if next/in.Zones == broken/in.Zones {
				next += in.Zones
			}
			continue
		}
		for _, line := range tried.Broken {
			next = max(next, line.Shards)
		}
		next = max(next, broken+in.Zones, broken*5/4) // what lines ask for is by expectation, and one step may ask for little
	}
	return nil
}

// try places the cell's tenants on as many shards, dealt to its zones, and measures the budget's failures. It is
// nil when they cannot be placed so.
func (m *cellMeasure) try(shards, perTenant int) (*planTried, error) {
	f := *m.f
	f.Placement.PerTenant = perTenant
	f.Placement.Sizes = map[string]fleet.Size{}
	for name, size := range m.f.Placement.Sizes {
		f.Placement.Sizes[name] = fleet.Size{PerTenant: min(size.PerTenant, shards)}
	}
	cell := m.c.Cell
	cell.Shards = nil
	for i := range shards {
		cell.Shards = append(cell.Shards, fleet.ShardSpec{ID: fleet.CountedShard(i), Zone: m.c.Zones[i%len(m.c.Zones)], Weight: 1})
	}
	in := &planInput{tenants: m.in.tenants, seconds: m.in.seconds, loads: m.in.loads, unpinned: true}
	c, err := in.add(&f, cell, m.c.key)
	if err != nil {
		return nil, nil // the scheme says which numbers it takes
	}
	c.members = m.c.members
	if slots := c.placers[0].Slots(); slots > 0 && uint64(len(c.members)) > slots {
		return nil, nil
	}
	p, err := in.collect(c)
	if err != nil { // a size class that a topology has and the fleet has not, say
		return nil, nil
	}
	t := &cellMeasure{
		in: in, f: &f, c: c, p: p, budget: m.budget, sampling: trySampling, failed: min(m.failed, shards), capacity: m.capacity,
		out: &planned{Kept: true, PerTenant: perTenant},
	}
	for _, step := range []func() error{t.budgetFailures, t.load, t.lines} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	tried := &planTried{Shards: shards, PerTenant: perTenant, Kept: t.out.Kept, Broken: []planLine{}}
	for _, line := range t.out.Budget.Lines {
		if !line.Kept {
			tried.Broken = append(tried.Broken, line)
		}
	}
	return tried, nil
}
