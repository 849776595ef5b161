package audit

import (
	"maps"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/template"
)

// balancer is what hangs on one load balancer, over every stack that hangs something on it.
type balancer struct {
	groups map[int32]map[int32]bool // target groups to the listeners and rules that name them
	rules  []int32
	certs  map[string]int32 // further certificates, by what they say, to where they stand
}

// balancers are the Application and Network Load Balancers with what hangs on them.
func (c *counter) balancers() map[int32]*balancer {
	all := map[int32]*balancer{}
	of := func(lb int32) *balancer {
		if all[lb] == nil {
			all[lb] = &balancer{groups: map[int32]map[int32]bool{}, certs: map[string]int32{}}
		}
		return all[lb]
	}
	names := func(lb, carrier int32) {
		for _, j := range c.joined[carrier] {
			if j.tie == tieServed && c.nodes[j.to].typ == typeTargetGroup {
				b := of(lb)
				if b.groups[j.to] == nil {
					b.groups[j.to] = map[int32]bool{}
				}
				b.groups[j.to][carrier] = true
			}
		}
	}
	isBalancer := func(i int32) bool { return c.nodes[i].typ == typeLoadBalancer }
	for _, l := range c.types[typeListener] {
		for _, lb := range c.named(l, "LoadBalancerArn") {
			if !isBalancer(lb) {
				continue
			}
			of(lb)
			names(lb, l)
			// the first certificate is the default one, which does not count
			if list := c.prop(l, "Certificates").items(); len(list) > 1 {
				for _, cert := range list[1:] {
					of(lb).certs[expression(cert.Node)] = l
				}
			}
		}
	}
	for _, r := range c.types[typeListenerRule] {
		for _, lb := range c.balancersOf(r) {
			of(lb).rules = append(of(lb).rules, r)
			names(lb, r)
		}
	}
	for _, more := range c.types["AWS::ElasticLoadBalancingV2::ListenerCertificate"] {
		for _, lb := range c.balancersOf(more) {
			for _, cert := range c.prop(more, "Certificates").items() {
				of(lb).certs[c.stacks[c.nodes[more].stack].File+expression(cert.Node)] = more
			}
		}
	}
	return all
}

// balancersOf are the load balancers of the listener that a rule or certificate names.
func (c *counter) balancersOf(part int32) []int32 {
	var out []int32
	for _, l := range c.named(part, "ListenerArn") {
		for _, lb := range c.named(l, "LoadBalancerArn") {
			if c.nodes[lb].typ == typeLoadBalancer {
				out = append(out, lb)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// expression is a value as text, so that equal ones are told.
func expression(n template.Node) string {
	b, _ := n.MarshalJSON()
	return string(b)
}

func (c *counter) countBalancers() {
	all := c.balancers()
	for _, lb := range slices.Sorted(maps.Keys(all)) {
		c.countBalancer(lb, all[lb])
	}
	for _, typ := range []string{typeListener, typeListenerRule} {
		for _, i := range c.types[typ] {
			c.countActions(i)
		}
	}
	for _, r := range c.types[typeListenerRule] {
		if n := c.conditionValues(r); n.most > 0 {
			u := usage{limit: "alb.condition-values", rule: &ruleBalancer, node: r, stack: -1, env: c.envOf(r),
				fix: "write the values as several rules with the same action, or let one value with a wildcard stand for them"}
			u.add(c, r, n)
			c.usages = append(c.usages, u)
		}
	}
}

func (c *counter) countBalancer(lb int32, b *balancer) {
	network := c.isNetwork(lb)
	at := func(limit string) *usage {
		return &usage{limit: limit, rule: &ruleBalancer, node: lb, stack: -1, env: c.envOf(lb)}
	}
	targets := at("alb.targets")
	certs := at("alb.certificates")
	if network {
		targets, certs = at("nlb.targets"), at("nlb.certificates")
	}
	targets.fix = "register each node in fewer groups, lower the groups' MaxSize, or split the groups over more load balancers: each registration counts, whoever is registered"
	for _, tg := range slices.Sorted(maps.Keys(b.groups)) {
		if n := c.targetsOf(tg); n.most > 0 {
			targets.add(c, tg, n)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(b.certs)) {
		certs.add(c, b.certs[key], exactly(1))
	}
	c.usages = append(c.usages, *targets, *certs)
	if network {
		return
	}
	rules := at("alb.rules")
	rules.fix = "give each shard a load balancer, or let the router tell tenants apart and not a rule: a rule for each tenant ends at the number of rules"
	for _, r := range b.rules {
		rules.add(c, r, c.one(r))
	}
	groups := &usage{limit: "alb.target-groups", rule: &ruleTargetGroups, node: lb, stack: -1, env: c.envOf(lb)}
	for _, tg := range slices.Sorted(maps.Keys(b.groups)) {
		carriers := slices.Collect(maps.Keys(b.groups[tg]))
		// a group counts for sure when one of those that name it does
		n := span{0, 1}
		if slices.ContainsFunc(carriers, func(i int32) bool { return c.one(i).least == 1 }) {
			n = exactly(1)
		}
		groups.add(c, tg, n)
	}
	c.usages = append(c.usages, *groups, *rules)
}

// targetsOf is how many targets a target group has at most: the maximum of each Auto Scaling group and service that
// registers there, and what stands in it.
func (c *counter) targetsOf(tg int32) span {
	n := c.prop(tg, "Targets").length()
	if n.most >= unbounded {
		n.most = n.least
	}
	for _, from := range c.registrants()[tg] {
		var most span
		var ok bool
		switch c.nodes[from].typ {
		case typeGroup:
			most, ok = c.prop(from, "MaxSize").number()
		case "AWS::ECS::Service":
			most, ok = c.prop(from, "DesiredCount").number()
		}
		if ok {
			n = n.plus(most)
		}
	}
	return n
}

// registrants are who registers targets, by target group.
func (c *counter) registrants() map[int32][]int32 {
	if c.registers == nil {
		c.registers = map[int32][]int32{}
		for _, typ := range []string{typeGroup, "AWS::ECS::Service"} {
			for _, i := range c.types[typ] {
				seen := map[int32]bool{}
				for _, j := range c.joined[i] {
					if c.nodes[j.to].typ == typeTargetGroup && !seen[j.to] {
						seen[j.to] = true
						c.registers[j.to] = append(c.registers[j.to], i)
					}
				}
			}
		}
	}
	return c.registers
}

// countActions counts the target groups of the largest action.
func (c *counter) countActions(i int32) {
	key := "Actions"
	if c.nodes[i].typ == typeListener {
		key = "DefaultActions"
	}
	most := span{}
	for _, action := range c.prop(i, key).items() {
		if n := action.get("ForwardConfig").get("TargetGroups").length(); n.most < unbounded && n.least > most.least {
			most = n
		}
	}
	if most.most > 0 {
		u := usage{limit: "alb.target-groups-per-action", rule: &ruleBalancer, node: i, stack: -1, env: c.envOf(i)}
		u.add(c, i, most)
		c.usages = append(c.usages, u)
	}
}

// conditionValues counts the values of all conditions of a rule, in both forms in which they are written.
func (c *counter) conditionValues(r int32) span {
	total := span{}
	for _, cond := range c.prop(r, "Conditions").items() {
		lists := []propValue{cond.get("Values")}
		for i := range cond.Len() {
			if cond.Kind() == template.Map && strings.HasSuffix(cond.Key(i), "Config") {
				lists = append(lists, propValue{cond.At(i), cond.scope}.get("Values"))
			}
		}
		largest := span{}
		for _, l := range lists {
			if n := l.length(); n.most > largest.most && n.most < unbounded {
				largest = n
			}
		}
		total = total.plus(largest)
	}
	return total
}
