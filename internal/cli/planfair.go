package cli

import (
	"errors"
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

// noise tells what tenants have to do with each other.
func (m *cellMeasure) noise() error {
	k := m.out.PerTenant
	u, err := blast.NewUniform(len(m.c.Shards), k)
	if err != nil {
		return err
	}
	out := &planNoise{MeanOverlap: u.MeanOverlap(), Overlap: u.Overlap(), Identical: u.Identical(), Covered: []float64{}}
	m.out.Noise = out
	for _, misbehaving := range []int{1, 4, 16} {
		covered, err := u.Covered(misbehaving)
		if err != nil {
			return err
		}
		out.Covered = append(out.Covered, covered)
	}
	birthday, err := u.Birthday(0.5)
	if err != nil {
		return err
	}
	if !math.IsInf(birthday, 1) {
		out.Birthday = &birthday
	}
	overlap, err := m.p.Overlap()
	if err != nil && !errors.Is(err, blast.ErrTooLarge) {
		return err
	}
	if err == nil {
		out.Overlapping, out.Pairs = &overlap.Overlapping, overlap.Pairs
	}
	var zones []int
	for _, n := range m.byZone() {
		zones = append(zones, n)
	}
	scheme := placement.Scheme(m.f.Placement.Scheme)
	if out.AllInOneZone, err = blast.AllInOneZone(zones, k, scheme != placement.HMACv1); err != nil {
		return err
	}
	if slices.ContainsFunc(m.f.Routes, func(r fleet.Route) bool { return r.Fanout }) {
		slow, err := blast.ScatterSlow(k, 0.01)
		if err != nil {
			return err
		}
		out.FanoutSlow = &slow
	}
	return nil
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
		Even: b.Most-b.Least < 1e-9, Growth: []planGrowth{},
	}
	m.out.Zones = out
	another := len(m.c.Shards)
	for slices.ContainsFunc(m.c.Shards, func(s fleet.ShardSpec) bool { return s.ID == fleet.CountedShard(another) }) {
		another++
	}
	for _, zone := range m.c.Zones {
		next, err := m.subsets(append(slices.Clone(m.c.Shards), fleet.ShardSpec{ID: fleet.CountedShard(another), Zone: zone, Weight: 1}))
		if err != nil { // bounded/v1 takes no such number of shards
			continue
		}
		g := placement.Grow(now, next)
		out.Growth = append(out.Growth, planGrowth{Zone: zone, Anew: g.Anew, Ideal: g.Ideal, Expected: g.Expected, Extra: g.Extra()})
	}
	return nil
}
