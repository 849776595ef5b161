package cli

import (
	"math"
	"slices"

	"cellwall.dev/cellwall/internal/blast"
)

// provision is a capacity with clients and a router of this kind. Without a measured capacity no shard is full.
func (m *cellMeasure) provision(traffic blast.Traffic) (*blast.Capacity, error) {
	each := m.capacity
	if each == 0 {
		each = blast.MaxLoad
	}
	return blast.NewCapacity(m.p, blast.Provision{PerShard: slices.Repeat([]float64{each}, m.p.Shards()), Traffic: traffic})
}

// load measures what shards carry, now and after the budget's failures, and follows the worst to its end.
func (m *cellMeasure) load() error {
	fair := m.p.Fairness()
	for i, s := range m.c.shards {
		state := planShardState{ID: s.id, Zone: s.zone, Tenants: int(fair.Tenants.PerShard[i]), Load: fair.Load.PerShard[i]}
		if m.capacity > 0 {
			state.Utilisation = state.Load / m.capacity
		}
		m.out.Shards = append(m.out.Shards, state)
	}
	if m.capacity == 0 || m.failed >= m.p.Shards() {
		return nil
	}
	capacity, err := m.provision(blast.Traffic{})
	if err != nil {
		return err
	}
	h, err := sampled(m.sampling, func(by blast.Sampling) (*blast.Headroom, error) { return capacity.Headroom(m.failed, by) })
	if err != nil {
		return err
	}
	head := &planHeadroom{
		Normal: h.Normal, NormalShard: m.c.shards[h.NormalShard].id, Worst: h.Worst, WorstShard: m.c.shards[h.WorstShard].id, WorstFailed: m.c.ids(h.WorstSet),
		AtMost: h.AtMost, Sampled: h.Sampled, Free: h.Free, Needed: slices.Max(h.Needed), Steps: []planStep{},
	}
	m.out.Headroom = head
	failed := h.WorstSet
	if h.Normal > 1 { // it begins without a failure
		failed = nil
	}
	cascade, err := capacity.Cascade(failed)
	if err != nil {
		return err
	}
	if head.Cascades, head.AllFail = cascade.Spreads(failed), cascade.All; !head.Cascades {
		return nil
	}
	for _, s := range cascade.Steps {
		step := planStep{Failed: m.c.ids(s.Failed), FullyDown: s.Impact.FullyDown, Degraded: s.Impact.Degraded, Most: s.Most}
		if s.Worst >= 0 {
			step.Worst = m.c.shards[s.Worst].id
		}
		head.Steps = append(head.Steps, step)
	}
	return nil
}

// requests tells what clients experience, by what the router and they do.
func (m *cellMeasure) requests() error {
	for _, traffic := range []blast.Traffic{
		{Router: blast.Failover}, {Router: blast.Failover, Retries: 2}, {Router: blast.Random, Retries: 2}, {Router: blast.Random, Retries: 1}, {Router: blast.Random}, {Router: blast.Sticky, Retries: 2},
	} {
		on, err := m.mean.Experience(traffic)
		if err != nil {
			return err
		}
		worst, err := m.p.Experience(m.worst, traffic)
		if err != nil {
			return err
		}
		capacity, err := m.provision(traffic)
		if err != nil {
			return err
		}
		loads, err := capacity.After(m.worst)
		if err != nil {
			return err
		}
		cascade, err := capacity.Cascade(m.worst)
		if err != nil {
			return err
		}
		left, err := capacity.After(cascade.Failed)
		if err != nil {
			return err
		}
		line := planRequests{
			Router: traffic.Router.String(), Retries: traffic.Retries, Success: on.SuccessOfTenants, SuccessLoad: on.SuccessOfLoad, Worst: 1,
			Served: 1, ServedFail: 1, FailedThen: len(cascade.Failed), Amplified: loads.Amplified,
		}
		if load := m.p.Load(); load > 0 {
			line.Served, line.ServedFail = loads.Served/load, left.Served/load
		}
		line.Hit, _ = worst.Below(1)
		for _, o := range worst.Outcomes {
			if o.Tenants > 0 {
				line.Worst = math.Min(line.Worst, o.Success)
			}
		}
		if m.capacity > 0 && loads.Worst >= 0 {
			line.Utilisation = loads.Shards[loads.Worst].Utilisation()
		}
		m.out.Requests = append(m.out.Requests, line)
	}
	return nil
}
