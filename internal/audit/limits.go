package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/audit/limitdata"
	"cellwall.dev/cellwall/internal/template"
)

// isNetwork says whether a load balancer is no Application Load Balancer.
func (g *graph) isNetwork(i int32) bool {
	n := &g.nodes[i]
	if n.res == nil {
		return strings.Contains(n.id, ":loadbalancer/net/")
	}
	typ := n.res.Properties.GetString("Type")
	return typ != "" && typ != "application"
}

func (g *graph) label(i int32) string {
	n := &g.nodes[i]
	return cmp.Or(n.name, g.pathOf(n), n.id)
}

// concurrencyBound is how many executions of functions an account allows at once: as it says itself, else as the
// fleet file says, else Lambda's default.
func (c *counter) concurrencyBound(e env) bound {
	b, ok := c.bound("lambda.concurrency", e)
	if !ok {
		b = bound{max: DefaultConcurrency, from: LimitDefault}
	}
	if n := c.opt.Concurrency[e.account]; n > 0 && b.from != LimitLive {
		b.max, b.from, b.unknown = float64(n), LimitFleet, ""
	}
	return b
}

// concurrency sums what the functions of each account and region reserve.
func (c *counter) concurrency() ([]Pool, []finding) {
	type sum struct {
		Pool
		cells map[string]int
		on    map[int32]bool
		bound bound
	}
	g := c.graph
	sums := map[env]*sum{}
	pool := func(e env) *sum {
		s := sums[e]
		if s == nil {
			b := c.concurrencyBound(e)
			s = &sum{Pool: Pool{Account: e.account, Region: e.region, Limit: int(b.max), Free: min(UnreservedConcurrency, int(b.max)), Source: b.from},
				cells: map[string]int{}, on: map[int32]bool{}, bound: b}
			sums[e] = s
		}
		return s
	}
	var out []finding
	functions := slices.Sorted(slices.Values(c.types[typeFunction]))
	for _, i := range functions {
		n := &g.nodes[i]
		v := c.prop(i, "ReservedConcurrentExecutions")
		if v.Kind() == template.Null {
			continue
		}
		e := g.stacks[n.stack].env()
		s := pool(e)
		k, ok := v.number()
		if !ok && !none(v) {
			s.Unknown++
			out = append(out, finding{rule: &ruleUnresolved, level: Review, node: i,
				message: "the reserved concurrency of function " + quote(g.label(i)) + " is known at deployment only and not in the account's sum"})
		}
		s.Functions++
		s.Reserved += k.most // of several the largest: a limit must hold for each
		s.cells[g.places[n.stack].Cell] += k.most
		if n.shard >= 0 {
			s.on[n.shard] = true
		}
	}
	for e, cells := range g.unseenPools() {
		s := pool(e)
		for _, cell := range cells {
			s.Unseen += cell.Reserved
			s.Reserved += cell.Reserved
			s.cells[cell.Cell] += cell.Reserved
		}
	}
	pools := []Pool{}
	for _, e := range slices.SortedFunc(maps.Keys(sums), compareEnv) {
		s := sums[e]
		s.Left = s.Limit - s.Free - s.Reserved
		for _, cell := range slices.Sorted(maps.Keys(s.cells)) {
			s.Cells = append(s.Cells, CellPool{cell, s.cells[cell]})
		}
		pools = append(pools, s.Pool)
		if f, ok := judgePool(&s.Pool, &s.bound); ok {
			f.on = slices.Sorted(maps.Keys(s.on))
			out = append(out, f)
		}
	}
	return pools, out
}

// none says whether an expression is AWS::NoValue in all that it may stand for.
func none(v propValue) bool {
	for _, t := range v.scope.Eval(v.Node) {
		if lit, ok := t.Literal(); !ok || lit != "" {
			return false
		}
	}
	return true
}

// judgePool compares what is reserved with what may be. What the account has reserved already may be what these
// stacks reserve, or others': it counts for sure only as far as it is more.
func judgePool(p *Pool, b *bound) (finding, bool) {
	most := p.Limit - p.Free
	reserved := p.Reserved
	if b.used != nil {
		reserved = max(reserved, *b.used)
	}
	both := reserved
	if b.used != nil {
		both = p.Reserved + *b.used
	}
	if p.Reserved == 0 || reserved*100 < most*warnPercent && both <= most {
		return finding{}, false
	}
	f := finding{rule: &ruleConcurrency, level: Warning, node: -1,
		limit: &Limit{Name: "reserved concurrency of account " + p.Account + " in " + p.Region, Used: reserved, Max: most,
			Quota: "L-B99A9384", ID: "lambda.concurrency", Source: b.from, Certainty: string(limitdata.High)}}
	var parts []string
	for _, c := range p.Cells {
		parts = append(parts, fmt.Sprintf("%s: %d", cmp.Or(c.Cell, "outside of cells"), c.Reserved))
	}
	f.message = fmt.Sprintf("%s %d (%s) of %d in account %s, %s: %d concurrent executions less the %d that Lambda keeps free; left %d",
		p.whoReserves(), p.Reserved, strings.Join(parts, " + "), most, p.Account, p.Region, p.Limit, p.Free, p.Left)
	if b.used != nil {
		f.message += fmt.Sprintf("; the account has %d reserved now", *b.used)
	}
	switch {
	case b.unknown != "":
		f.level = Review
		f.reason = fmt.Sprintf("the account's limit is unknown (%s); compared with AWS's default, which may not be the account's", b.unknown)
	case reserved > most:
		f.level = Error
	case reserved*100 < most*warnPercent:
		f.level, f.reason = Review, "it fits only if what the account has reserved is what these stacks reserve"
	}
	return f, true
}
