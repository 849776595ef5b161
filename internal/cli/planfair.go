package cli

import (
	"errors"
	"maps"
	"math"
	"slices"

	"cellwall.dev/cellwall/internal/blast"
	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/placement"
)

// fairness tells how even the load is, who brings most of it, and who is too big for a shard.
func (m *cellMeasure) fairness() error {
	fair := m.p.Fairness()
	balance := func(b blast.Balance) planBalance {
		return planBalance{Mean: b.Mean, Variance: b.Variance, CV: b.CV, Max: b.PerShard[b.Max], MaxShard: m.c.shards[b.Max].id, MaxOverMean: b.MaxOverMean}
	}
	out := &planFairness{Tenants: balance(fair.Tenants), Load: balance(fair.Load), Top: []planTop{}, TooBig: []planBig{}, Against: m.capacity, Measured: m.capacity > 0}
	m.out.Fairness = out
	if !m.in.loads || m.p.Load() == 0 {
		return nil
	}
	for _, t := range m.p.Top(planTopTenants) {
		out.Top = append(out.Top, planTop{Tenant: m.name(t.Tenant), Load: t.Load, Share: t.Share, Cumulative: t.Cumulative})
		out.TopShare = t.Cumulative
	}
	if out.Against == 0 {
		out.Against = fair.Load.Mean
	}
	capacity, err := blast.NewCapacity(m.p, blast.Provision{PerShard: slices.Repeat([]float64{out.Against}, m.p.Shards())})
	if err != nil {
		return err
	}
	big, err := capacity.TooBig(1, m.failed)
	if err != nil {
		return err
	}
	out.TooBigCount = len(big)
	for _, b := range big[:min(planTooBig, len(big))] {
		out.TooBig = append(out.TooBig, planBig{Tenant: m.name(b.Tenant), Load: b.Load, PerTenant: b.Size, Part: b.Part, Needed: b.Needed})
	}
	return nil
}

// name is the id of a tenant as it was collected.
func (m *cellMeasure) name(collected int) string { return m.in.tenants.tenants[m.c.members[collected]] }

// noise tells what tenants have to do with each other: as counted on these very tenants, and, where there is a
// formula for how they are placed, as it is to be expected.
func (m *cellMeasure) noise() error {
	company := m.p.Company()
	out := &planNoise{Shared: company.Shared, Same: company.Same, Overlap: []float64{}, Covered: []float64{}}
	m.out.Noise = out
	overlap, err := m.p.Overlap()
	if err != nil && !errors.Is(err, blast.ErrTooLarge) {
		return err
	}
	if err == nil {
		out.Overlapping, out.Pairs = &overlap.Overlapping, overlap.Pairs
	}
	inOne := 0
	for _, shards := range m.inZones() {
		impact, err := m.p.Fail(shards)
		if err != nil {
			return err
		}
		inOne += impact.FullyDown // whose shards are all in the zone
	}
	out.AllInOneZone = float64(inOne) / float64(m.p.Tenants())
	if slices.ContainsFunc(m.f.Routes, func(r fleet.Route) bool { return r.Fanout }) {
		slow, err := blast.ScatterSlow(m.out.PerTenant, 0.01)
		if err != nil {
			return err
		}
		out.FanoutSlow = &slow
	}
	return m.expected(out)
}

// expected adds the formula's figures, for tenants of the default size class without pins.
func (m *cellMeasure) expected(out *planNoise) error {
	var model subsetModel
	switch {
	case m.c.versions != nil:
		out.NoModel = "tenants are placed by their topologies"
	case m.out.MaxShared != nil:
		out.NoModel = "bounded/v1 does not draw subsets, it deals them out"
	case m.weighted():
		out.NoModel = "shards have weights"
	case placement.Scheme(m.out.Scheme) == placement.HMACv1:
		u, err := blast.NewUniform(len(m.c.Shards), m.out.PerTenant)
		if err != nil {
			return err
		}
		model, out.Model = anySubset{u}, "uniform"
	default:
		z, err := blast.NewZoned(slices.Collect(maps.Values(m.byZone())), m.out.PerTenant)
		if err != nil {
			return err
		}
		model, out.Model = z, "spread"
	}
	if model == nil {
		return nil
	}
	chances, err := model.Overlap()
	if errors.Is(err, blast.ErrModel) { // of more shards for each tenant than anybody has
		out.Model, out.NoModel = "", "it takes too long to calculate"
		return nil
	}
	if err != nil {
		return err
	}
	mean, identical := 0.0, model.Identical()
	for i, p := range chances {
		mean += float64(i) * p
	}
	out.Overlap, out.MeanOverlap, out.Identical = chances, &mean, &identical
	for _, misbehaving := range []int{1, 4, 16} {
		covered, err := model.Covered(misbehaving)
		if errors.Is(err, blast.ErrModel) {
			break
		}
		if err != nil {
			return err
		}
		out.Covered = append(out.Covered, covered)
	}
	birthday, err := model.Birthday(0.5)
	if err != nil {
		return err
	}
	if !math.IsInf(birthday, 1) {
		out.Birthday = &birthday
	}
	return nil
}

// weighted tells whether the shards have unequal weights.
func (m *cellMeasure) weighted() bool {
	return slices.ContainsFunc(m.c.Shards, func(s fleet.ShardSpec) bool { return s.Weight != m.c.Shards[0].Weight })
}

// inZones is the shards of each zone that may be members of a subset.
func (m *cellMeasure) inZones() map[string][]int {
	in := map[string][]int{}
	for i, s := range m.c.shards {
		in[s.zone] = append(in[s.zone], i)
	}
	return in
}

// byZone is the number of the fleet's shards in each zone.
func (m *cellMeasure) byZone() map[string]int {
	n := map[string]int{}
	for _, s := range m.c.Shards {
		n[s.Zone]++
	}
	return n
}

// subsets is the placement of these shards as the fleet says, under any key.
func (m *cellMeasure) subsets(shards []fleet.ShardSpec) (placement.Subsets, error) {
	config := placement.Config{Scheme: placement.Scheme(m.f.Placement.Scheme), Key: []byte{0}, MaxShared: m.f.Placement.MaxShared, MaxPerTenant: m.f.Placement.PerTenant}
	for _, size := range m.f.Placement.Sizes {
		config.MaxPerTenant = max(config.MaxPerTenant, size.PerTenant)
	}
	for _, s := range shards {
		config.Shards = append(config.Shards, placement.Shard{ID: s.ID, Zone: s.Zone, Weight: s.Weight})
	}
	p, err := placement.New(config)
	if err != nil {
		return placement.Subsets{}, err
	}
	return p.PerTenant(m.f.Placement.PerTenant)
}

// zones tells how uneven unequal zones make the shards, and what one more shard moves.
func (m *cellMeasure) zones() error {
	now, err := m.subsets(m.c.Shards)
	if err != nil {
		return err
	}
	b := now.Balance()
	out := &planZones{
		Shards: m.byZone(), Most: b.Most, MostShard: m.c.Shards[b.MostShard].ID, Least: b.Least, LeastShard: m.c.Shards[b.LeastShard].ID,
		Even: b.Most-b.Least < 1e-9, Weighted: m.weighted(), Growth: []planGrowth{},
	}
	m.out.Zones = out
	another := len(m.c.Shards)
	for slices.ContainsFunc(m.c.Shards, func(s fleet.ShardSpec) bool { return s.ID == fleet.CountedShard(another) }) {
		another++
	}
	zones := slices.Clone(m.c.Zones)
	if placement.Scheme(m.f.Placement.Scheme) == placement.RendezvousV1 { // which turns from zone to zone, and so to a new one as often
		for next := 'a'; len(zones) == len(m.c.Zones) && next <= 'z'; next++ {
			if !slices.Contains(zones, string(next)) {
				zones = append(zones, string(next))
			}
		}
	}
	for i, zone := range zones {
		next, err := m.subsets(append(slices.Clone(m.c.Shards), fleet.ShardSpec{ID: fleet.CountedShard(another), Zone: zone, Weight: 1}))
		if err != nil { // bounded/v1 takes no such number of shards
			continue
		}
		g := placement.Grow(now, next)
		out.Growth = append(out.Growth, planGrowth{Zone: zone, New: i >= len(m.c.Zones), Anew: g.Anew, Ideal: g.Ideal, Expected: g.Expected, Extra: g.Extra()})
	}
	return nil
}
