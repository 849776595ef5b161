package stamp

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"cellwall.dev/cellwall/internal/fleet"
)

// grouping says which load balancer each shard of a cell stands behind with others, and the priority
// of its rule there. It is empty when every shard has its own.
type grouping struct {
	groups   []string
	of       map[string]string
	priority map[string]int
	size     map[string]int // shards of each group
	clashes  []clash
}

// clash is a shard whose rule would have the priority of another's behind one load balancer.
type clash struct {
	shard int // its place in the cell
	other string
}

// groupShards deals a cell's shards to load balancers. A numbered shard (s01, s02, …) belongs to the
// group of its number, so that shards come and go without moving another; shards with other ids
// follow the order of the fleet.
func groupShards(h *fleet.HTTP, shards fleet.Shards) grouping {
	g := grouping{of: map[string]string{}, priority: map[string]int{}, size: map[string]int{}}
	if h == nil || h.Ingress.Kind == fleet.IngressPerShard {
		return g
	}
	type slot struct {
		group    string
		priority int
	}
	taken := map[slot]string{}
	for i, s := range shards {
		at, n := slot{"shared", rulePriority(s.ID)}, i
		if h.Ingress.Kind == fleet.IngressGrouped {
			if number, ok := shardNumber(s.ID); ok {
				n = number - 1
			}
			at.group = fmt.Sprintf("g%02d", n/h.Ingress.Group+1)
		}
		if other, ok := taken[at]; ok {
			g.clashes = append(g.clashes, clash{i, other})
		}
		taken[at] = s.ID
		if !slices.Contains(g.groups, at.group) {
			g.groups = append(g.groups, at.group)
		}
		g.of[s.ID], g.priority[s.ID] = at.group, at.priority
		g.size[at.group]++
	}
	return g
}

// What one Application Load Balancer takes (Elastic Load Balancing, "Quotas for your Application Load Balancers").
// Rules and targets can be raised by AWS; target groups cannot, and here are as many rules as these.
const (
	maxTargetGroups = 100
	maxTargets      = 1_000
)

// checkGroups refuses load balancers that AWS would not make, or would not let grow.
func (p *plan) checkGroups(g grouping) error {
	var faults []error
	for _, c := range g.clashes {
		id := p.cell.Shards[c.shard].ID
		faults = append(faults, p.fault(atShard(c.shard, "id"), fmt.Sprintf("shards %s and %s get one rule priority, %d", c.other, id, rulePriority(id)),
			"they stand behind one load balancer, and the priority follows from the id", "give the newer one another id"))
	}
	for _, group := range g.groups {
		n, most := g.size[group], p.service.Max
		switch {
		case n > maxTargetGroups:
			faults = append(faults, p.fault("/shard.http.ingress", fmt.Sprintf("cell %s: %d shards stand behind the load balancer %s", p.cell.Name, n, group),
				fmt.Sprintf("one takes %d target groups", maxTargetGroups), "write per-shard or smaller groups, or split the cell"))
		case n*most > maxTargets:
			faults = append(faults, p.fault("/shard.http.ingress", fmt.Sprintf("cell %s: %d shards of up to %d instances stand behind the load balancer %s", p.cell.Name, n, most, group),
				fmt.Sprintf("one takes %d targets", maxTargets), "write per-shard, smaller groups or a lower shard.http.max"))
		}
	}
	return errors.Join(faults...)
}

// Listener rules have priorities 1 to 50,000 (Elastic Load Balancing API, CreateRule). Numbered shards
// have the lower ones, all others those above.
const (
	lastNumbered = 9_999
	lastPriority = 50_000
)

// rulePriority is the priority of a shard's rule. It follows from the id alone, so it stays when other
// shards come and go. Which rule comes first is all the same, since no two match one request.
func rulePriority(id string) int {
	if n, ok := shardNumber(id); ok {
		return n
	}
	h := fnv.New32a()
	h.Write([]byte(id))
	return lastNumbered + 1 + int(h.Sum32()%(lastPriority-lastNumbered))
}

// shardNumber is the number in an id of the form that a count of shards gives: s01, s02, …, s100.
func shardNumber(id string) (int, bool) {
	if len(id) < 2 || id[0] != 's' {
		return 0, false
	}
	n, err := strconv.Atoi(id[1:])
	if err != nil || n < 1 || n > lastNumbered || fmt.Sprintf("s%02d", n) != id {
		return 0, false
	}
	return n, true
}
