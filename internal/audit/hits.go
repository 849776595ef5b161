package audit

import (
	"cmp"
	"strings"
)

// hits says which share of the shards, and of their cells' tenants, a finding reaches.
func (g *graph) hits(f *finding, opt *Options) *Hits {
	reached := f.shards
	if len(reached) == 0 {
		reached = f.on
	}
	if len(reached) == 0 {
		return nil
	}
	h := &Hits{Shards: len(reached), Of: len(g.shards)}
	type cell struct{ hit, all int }
	cells := map[place]*cell{}
	for _, s := range g.shards {
		p := place{Service: s.Service, Cell: s.Cell}
		if cells[p] == nil {
			cells[p] = &cell{}
		}
		cells[p].all++
	}
	for _, i := range reached {
		cells[place{Service: g.shards[i].Service, Cell: g.shards[i].Cell}].hit++
	}
	tenants, lost, weight := 0.0, 0.0, 0.0
	known := true
	for p, c := range cells {
		if c.hit == 0 {
			continue
		}
		h.Cells++
		k, ok := opt.PerTenant[p.Cell]
		if !ok {
			k = opt.PerTenant[""]
		}
		if k < 1 {
			known, k = false, 1
		}
		k = min(k, c.all)
		// a cell counts by its shards: tenants are spread over them
		weight += float64(c.all)
		tenants += float64(c.all) * (1 - among(c.all-c.hit, c.all, k))
		lost += float64(c.all) * among(c.hit, c.all, k)
	}
	h.tenants, h.lost = rounded(tenants/float64(len(g.shards))), rounded(lost/float64(len(g.shards)))
	if known {
		tenants, lost = rounded(tenants/weight), rounded(lost/weight)
		h.Tenants, h.Lost = &tenants, &lost
	}
	return h
}

// among is the probability that k of n shards, any as likely as any other, are all among m of them.
func among(m, n, k int) float64 {
	p := 1.0
	for i := range k {
		p *= float64(max(m-i, 0)) / float64(n-i)
	}
	return p
}

// rounded keeps six digits, so that the order in which cells are summed does not show.
func rounded(f float64) float64 { return float64(int64(f*1e6+0.5)) / 1e6 }

// compareFindings orders what is worse before the rest: by level, then by the share of all tenants that has no other
// shard, the share that has one of these, the number of shards, and the rule.
func compareFindings(a, b *Finding) int {
	var x, y Hits
	if a.Hits != nil {
		x = *a.Hits
	}
	if b.Hits != nil {
		y = *b.Hits
	}
	return cmp.Or(-cmp.Compare(a.Level, b.Level), -cmp.Compare(x.lost, y.lost), -cmp.Compare(x.tenants, y.tenants),
		-cmp.Compare(len(a.Shards), len(b.Shards)), strings.Compare(a.Rule, b.Rule))
}
