package cli

import (
	"errors"
	"fmt"
	"slices"

	"cellwall.dev/cellwall/internal/blast"
	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/placement"
)

// Bounds of what plan measures and prints.
const (
	planTopTenants = 20
	planTooBig     = 100
	planMostShards = 1000 // that a choice may have, as many as a cell of a fleet
)

// planSampling is for failures of which there are too many to measure each.
var planSampling = blast.Sampling{Seed: 1, Sets: 20_000, Confidence: 0.99}

// trySampling is for what is measured several times over, on one number of shards after another.
var trySampling = blast.Sampling{Seed: 1, Sets: 1_000, Confidence: 0.99}

// measure plans every cell.
func (in *planInput) measure(f *fleet.Fleet, sets []namedSet) (*planReport, error) {
	r := &planReport{Fleet: f.Service, Kept: true, Key: in.key, Assumed: in.assumed, Cells: []planned{}, Waves: []planWave{}}
	if r.Assumed == nil {
		r.Assumed = []string{}
	}
	if err := in.know(sets); err != nil {
		return nil, err
	}
	tenants, load := 0, 0.0
	for _, c := range in.cells {
		m, err := in.measureCell(f, c, sets)
		if err != nil {
			return nil, err
		}
		r.Cells = append(r.Cells, *m)
		if m.Headroom != nil && m.Headroom.Normal > 10 && in.seconds == 1 && in.tenants.first > 0 {
			r.Assumed = append(r.Assumed, fmt.Sprintf("the file's loads are requests per second, which is %s times what a shard of %s carries: if they are not, say --load-per", grouped(m.Headroom.Normal), c.Name))
		}
		r.Kept = r.Kept && m.holds()
		tenants, load = tenants+m.Tenants, load+m.Load
	}
	for _, w := range f.Resolve() {
		reached := planWave{Cells: []string{}}
		for _, c := range r.Cells {
			if slices.Contains(w.Cells, c.Cell) {
				reached.Cells = append(reached.Cells, c.Cell)
				reached.Tenants, reached.Load = reached.Tenants+c.Tenants, reached.Load+c.Load
			}
		}
		if reached.Share = share(float64(reached.Tenants), float64(tenants)); len(reached.Cells) > 0 {
			r.Waves = append(r.Waves, reached)
		}
	}
	return r, nil
}

// know refuses a set with a shard that no planned cell has.
func (in *planInput) know(sets []namedSet) error {
	for _, set := range sets {
		if !slices.ContainsFunc(in.cells, func(c *planCell) bool { _, ok := c.indices(set); return ok }) {
			return usagef("--set %s: no cell that is planned has all of the shards %q, each once", set.name, set.ids)
		}
	}
	return nil
}

// indices are the shards of a set, if the cell has them all.
func (c *planCell) indices(set namedSet) ([]int, bool) {
	var shards []int
	for _, id := range set.ids {
		i, ok := c.at[id]
		if !ok || slices.Contains(shards, i) {
			return nil, false
		}
		shards = append(shards, i)
	}
	return shards, true
}

// ids names shards.
func (c *planCell) ids(shards []int) []string {
	names := make([]string, len(shards))
	for i, s := range shards {
		names[i] = c.shards[s].id
	}
	return names
}

func share(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}

// cellMeasure is one cell while it is measured.
type cellMeasure struct {
	in       *planInput
	f        *fleet.Fleet
	c        *planCell
	p        *blast.Population
	budget   blast.LossBudget
	sampling blast.Sampling
	failed   int // the budget's concurrent failures, at most every shard
	capacity float64
	out      *planned
	mean     *blast.Spread // of the budget's failures
	worst    []int         // the one that degrades most
}

func (in *planInput) measureCell(f *fleet.Fleet, c *planCell, sets []namedSet) (*planned, error) {
	b := f.BudgetOf(c.Cell)
	m := &cellMeasure{in: in, f: f, c: c, budget: lossBudget(b), sampling: planSampling, failed: min(max(1, b.ConcurrentFailures), len(c.shards))}
	if in.loads {
		m.capacity = float64(f.Shard.Capacity)
	}
	m.out = &planned{
		Cell: c.Name, Kept: true, Empty: len(c.members) == 0, Scheme: f.Placement.Scheme, PerTenant: f.Placement.PerTenant,
		Tenants: len(c.members), Capacity: m.capacity, HomeKeys: f.Shard.State.Mode == fleet.StateHome,
		Budget:   planBudget{ConcurrentFailures: m.budget.ConcurrentFailures, Given: b.DegradedTenants != nil || b.CapacityLoss != nil || b.FullyDown != nil, Lines: []planLine{}},
		Failures: []planFailures{}, Sets: []planSet{}, Requests: []planRequests{}, Shards: []planShardState{},
	}
	if placement.Scheme(f.Placement.Scheme) == placement.BoundedV1 {
		m.out.MaxShared = &f.Placement.MaxShared
	}
	if m.out.Empty {
		for _, s := range c.shards {
			m.out.Shards = append(m.out.Shards, planShardState{ID: s.id, Zone: s.zone})
		}
		return m.out, nil
	}
	err := in.room(f, c)
	if err != nil {
		return nil, err
	}
	if m.p, err = in.collect(c); err != nil {
		return nil, err
	}
	m.out.Load, m.out.Subsets = m.p.Load(), m.p.Subsets()
	for _, step := range []func() error{
		m.failures, m.load, m.lines, func() error { return m.sets(sets) }, m.requests, m.fairness, m.noise, m.zones, m.choose, m.router,
	} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("cell %q: %w", c.Name, err)
		}
	}
	return m.out, nil
}

// lossBudget is a fleet's budget as shares.
func lossBudget(b fleet.Budget) blast.LossBudget {
	line := func(p *fleet.Percent) float64 {
		if p == nil {
			return 1
		}
		return float64(*p) / 10_000
	}
	return blast.LossBudget{
		ConcurrentFailures: max(1, b.ConcurrentFailures), DegradedTenants: line(b.DegradedTenants), CapacityLoss: line(b.CapacityLoss), FullyDown: line(b.FullyDown),
	}
}

// sampled measures with fewer sets of shards when as many are too much work.
func sampled[T any](sampling blast.Sampling, measure func(blast.Sampling) (T, error)) (T, error) {
	for {
		v, err := measure(sampling)
		if !errors.Is(err, blast.ErrTooMany) || sampling.Sets == 1 {
			return v, err
		}
		sampling.Sets = max(1, sampling.Sets/4)
	}
}

// failures measures every single failure, every pair, triples where they are feasible, and what the budget is
// about.
func (m *cellMeasure) failures() error {
	for failed := 1; failed <= max(3, m.failed); failed++ {
		_, feasible := m.p.Feasible(failed)
		if failed == m.failed || failed <= min(2, m.p.Shards()) || failed == 3 && feasible {
			if err := m.failure(failed); err != nil {
				return err
			}
		}
	}
	return nil
}

// budgetFailures measures only what the budget is about.
func (m *cellMeasure) budgetFailures() error { return m.failure(m.failed) }

func (m *cellMeasure) failure(failed int) error {
	s, err := sampled(m.sampling, func(by blast.Sampling) (*blast.Spread, error) { return m.p.Failures(failed, by) })
	if err != nil {
		return err
	}
	m.out.Failures = append(m.out.Failures, newPlanFailures(s, m.c.ids))
	if failed == m.failed {
		m.worst, m.mean = s.Degraded.Tenants.WorstSet, s
	}
	return nil
}

// lines checks the budget with what was measured.
func (m *cellMeasure) lines() error {
	found, worst := m.found()
	if m.out.Headroom != nil {
		found.Utilisation = m.out.Headroom.AtMost
		worst[blast.LineCapacity] = m.out.Headroom.WorstFailed
	}
	m.out.Budget.Lines = m.check(found)
	for i := range m.out.Budget.Lines {
		line := &m.out.Budget.Lines[i]
		line.Worst = worst[blast.BudgetLine(line.Line)]
		m.out.Kept = m.out.Kept && line.Kept
	}
	m.out.Kept = m.out.Kept && (m.out.Headroom == nil || !m.out.Headroom.Cascades)
	return nil
}

// found is the figures of the budget's failures, and the worst of them.
func (m *cellMeasure) found() (blast.LossFigures, map[blast.BudgetLine][]string) {
	n := float64(m.p.Tenants())
	degraded, down := m.mean.Degraded.Tenants, m.mean.FullyDown.Tenants
	// Of a tenant with k shards as many as may fail, since every set of them may.
	least := m.p.Sizes()[0]
	worst := map[blast.BudgetLine][]string{blast.LineDegradedTenants: m.c.ids(degraded.WorstSet)}
	if down.Worst > 0 {
		worst[blast.LineFullyDown] = m.c.ids(down.WorstSet)
	}
	return blast.LossFigures{
		Degraded: degraded.AtMost / n, FullyDown: down.AtMost / n, CapacityLoss: float64(min(least, m.failed)) / float64(least),
	}, worst
}

// check turns figures into the budget's lines.
func (m *cellMeasure) check(found blast.LossFigures) []planLine {
	b := m.budget
	given := m.f.BudgetOf(m.c.Cell)
	lines := []planLine{
		{Line: string(blast.LineDegradedTenants), Given: given.DegradedTenants != nil, Limit: b.DegradedTenants, Found: found.Degraded, Kept: true},
		{Line: string(blast.LineCapacityLoss), Given: given.CapacityLoss != nil, Limit: b.CapacityLoss, Found: found.CapacityLoss, Kept: true},
		{Line: string(blast.LineFullyDown), Given: given.FullyDown != nil, Limit: b.FullyDown, Found: found.FullyDown, Kept: true},
	}
	if m.capacity > 0 {
		lines = append(lines, planLine{Line: string(blast.LineCapacity), Given: true, Limit: 1, Found: found.Utilisation, Kept: true})
	}
	for _, breach := range b.Check(found) {
		for i := range lines {
			if lines[i].Line == string(breach.Line) {
				lines[i].Kept, lines[i].Over = false, breach.Over()
			}
		}
	}
	return lines
}

// sets measures every zone, and the declared sets.
func (m *cellMeasure) sets(declared []namedSet) error {
	var zones []string
	for _, s := range m.c.shards {
		zones = append(zones, s.zone)
	}
	sets := blast.Alike("zone ", zones)
	for _, d := range declared {
		if shards, ok := m.c.indices(d); ok {
			sets = append(sets, blast.Set{Name: d.name, Shards: shards})
		}
	}
	impacts, err := m.p.FailSets(sets)
	if errors.Is(err, blast.ErrFailed) {
		return usagef("--set: %w", err)
	}
	if err != nil {
		return err
	}
	capacity, err := m.provision(blast.Traffic{})
	if err != nil {
		return err
	}
	for _, s := range impacts {
		line := planSet{
			Name: s.Name, Shards: m.c.ids(s.Shards), FullyDown: s.Impact.FullyDown, Degraded: s.Impact.Degraded,
			FullyDownLoad: s.Impact.FullyDownLoad, DegradedLoad: s.Impact.DegradedLoad, LostTenants: s.Impact.LostTenants, LostLoad: s.Impact.LostLoad,
		}
		if m.capacity > 0 {
			loads, err := capacity.After(s.Shards)
			if err != nil {
				return err
			}
			if loads.Worst >= 0 {
				line.Utilisation = loads.Shards[loads.Worst].Utilisation()
			}
		}
		m.out.Sets = append(m.out.Sets, line)
	}
	return nil
}
