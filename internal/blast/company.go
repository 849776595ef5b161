package blast

// Company is what a tenant has to do with each other one, on average over all tenants.
type Company struct {
	Shared float64 // shards that it shares with another
	Same   float64 // others that have exactly its shards
}

// Company counts, whatever placed the tenants: c tenants of a shard are c·(c-1) pairs that share it, in order.
func (p *Population) Company() Company {
	if p.tenants < 2 {
		return Company{}
	}
	held, same := make([]float64, p.shards), 0.0
	for _, g := range p.groups {
		t := float64(g.tenants)
		same += t * (t - 1)
		for _, m := range g.members {
			held[m] += t
		}
	}
	shared := 0.0
	for _, c := range held {
		shared += c * (c - 1)
	}
	n := float64(p.tenants)
	return Company{Shared: shared / n / (n - 1), Same: same / n}
}
