package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Target groups that one Application Load Balancer may name, and the share of a limit from which on it
// is worth a warning. AWS does not raise this one (Quotas for your Application Load Balancers,
// "Target groups per Application Load Balancer", L-822D1B1B).
const (
	maxTargetGroups = 100
	warnPercent     = 80
)

// targetGroupFindings count the unique target groups that the listeners and rules of each Application
// Load Balancer name, weighted forwards included.
func (g *graph) targetGroupFindings() []finding {
	groups := map[int32]map[int32]bool{} // load balancer to its target groups
	count := func(lbs []int32, carrier int32) {
		for _, lb := range lbs {
			if g.nodes[lb].typ != typeLoadBalancer || g.isNetwork(lb) {
				continue
			}
			if groups[lb] == nil {
				groups[lb] = map[int32]bool{}
			}
			for _, j := range g.joined[carrier] {
				if j.tie == tieServed {
					groups[lb][j.to] = true
				}
			}
		}
	}
	for i := range int32(len(g.nodes)) {
		switch g.nodes[i].typ {
		case typeListener:
			count(g.named(i, "LoadBalancerArn"), i)
		case typeListenerRule:
			for _, l := range g.named(i, "ListenerArn") {
				count(g.named(l, "LoadBalancerArn"), i)
			}
		}
	}
	var out []finding
	for _, lb := range slices.Sorted(maps.Keys(groups)) {
		used := len(groups[lb])
		if used*100 < maxTargetGroups*warnPercent {
			continue
		}
		f := finding{rule: &ruleTargetGroups, level: Warning, node: lb,
			limit: &Limit{"target groups per Application Load Balancer", used, maxTargetGroups, true, "L-822D1B1B"}}
		f.message = fmt.Sprintf("load balancer %s names %d target groups of at most %d", quote(g.label(lb)), used, maxTargetGroups)
		if used > maxTargetGroups {
			f.level = Fatal
			f.message += ", which AWS does not raise: the deployment fails with TooManyUniqueTargetGroupsPerLoadBalancer"
		}
		out = append(out, f)
	}
	return out
}

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

// concurrency sums what the functions of each account and region reserve.
func (g *graph) concurrency(opt Options) ([]Pool, []finding) {
	type sum struct {
		Pool
		cells map[string]int
	}
	sums := map[env]*sum{}
	pool := func(e env) *sum {
		s := sums[e]
		if s == nil {
			s = &sum{Pool: Pool{Account: e.account, Region: e.region, Limit: cmp.Or(opt.Concurrency[e.account], DefaultConcurrency), Free: UnreservedConcurrency}, cells: map[string]int{}}
			sums[e] = s
		}
		return s
	}
	var out []finding
	for i := range g.nodes {
		n := &g.nodes[i]
		if n.kind != resourceNode || n.typ != typeFunction && transformed[n.typ] != typeFunction {
			continue
		}
		v, ok := n.res.Properties.Get("ReservedConcurrentExecutions")
		if !ok {
			continue
		}
		e := g.stacks[n.stack].env()
		s := pool(e)
		// of several texts the largest: a limit must hold for each
		most, known := 0, true
		for _, t := range g.scopes[n.stack].Eval(v) {
			lit, isLit := t.Literal()
			k, err := strconv.ParseFloat(lit, 64) // CDK writes whole numbers, others may write 20.0
			if lit == "" && isLit {
				continue // AWS::NoValue: no reservation
			}
			if !isLit || err != nil || k < 0 || k > 1e9 {
				known = false
				continue
			}
			most = max(most, int(k))
		}
		if !known {
			s.Unknown++
			out = append(out, finding{rule: &ruleUnresolved, level: Review, node: int32(i),
				message: "the reserved concurrency of function " + quote(g.label(int32(i))) + " is known at deployment only and not in the account's sum"})
		}
		s.Functions++
		s.Reserved += most
		s.cells[g.places[n.stack].Cell] += most
	}
	for e, cells := range g.unseenPools() {
		s := pool(e)
		for _, c := range cells {
			s.Unseen += c.Reserved
			s.Reserved += c.Reserved
			s.cells[c.Cell] += c.Reserved
		}
	}
	pools := []Pool{}
	for _, e := range slices.SortedFunc(maps.Keys(sums), func(a, b env) int {
		return cmp.Or(strings.Compare(a.account, b.account), strings.Compare(a.region, b.region))
	}) {
		s := sums[e]
		s.Left = s.Limit - s.Free - s.Reserved
		for _, cell := range slices.Sorted(maps.Keys(s.cells)) {
			s.Cells = append(s.Cells, CellPool{cell, s.cells[cell]})
		}
		pools = append(pools, s.Pool)
		if f, ok := judgePool(&s.Pool); ok {
			out = append(out, f)
		}
	}
	return pools, out
}

func judgePool(p *Pool) (finding, bool) {
	most := p.Limit - p.Free
	if p.Reserved*100 < most*warnPercent {
		return finding{}, false
	}
	f := finding{rule: &ruleConcurrency, level: Warning, node: -1,
		limit: &Limit{"reserved concurrency of account " + p.Account + " in " + p.Region, p.Reserved, most, false, "L-B99A9384"}}
	var parts []string
	for _, c := range p.Cells {
		parts = append(parts, fmt.Sprintf("%s %d", cmp.Or(c.Cell, "outside of cells"), c.Reserved))
	}
	f.message = fmt.Sprintf("%s reserve %d (%s) of %d in account %s, %s: %d concurrent executions less the %d that Lambda keeps free; left %d",
		p.whoReserves(), p.Reserved, strings.Join(parts, " + "), most, p.Account, p.Region, p.Limit, p.Free, p.Left)
	if p.Reserved > most {
		f.level = Error
	}
	return f, true
}
