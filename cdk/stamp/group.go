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
}

// groupShards deals a cell's shards to load balancers. A numbered shard (s01, s02, …) belongs to the
// group of its number, so that shards come and go without moving another; shards with other ids
// follow the order of the fleet.
func groupShards(h *fleet.HTTP, shards fleet.Shards) (grouping, error) {
	g := grouping{of: map[string]string{}, priority: map[string]int{}}
	if h == nil || h.Ingress.Kind == fleet.IngressPerShard {
		return g, nil
	}
	type slot struct {
		group    string
		priority int
	}
	taken := map[slot]string{}
	var faults []error
	for i, s := range shards {
		at := slot{"shared", rulePriority(s.ID)}
		if h.Ingress.Kind == fleet.IngressGrouped {
			if n, ok := shardNumber(s.ID); ok {
				i = n - 1
			}
			at.group = fmt.Sprintf("g%02d", i/h.Ingress.Group+1)
		}
		if other, ok := taken[at]; ok {
			faults = append(faults, fmt.Errorf("shards %s and %s get the same rule priority, %d, behind one load balancer; give the newer one another id",
				other, s.ID, at.priority))
		}
		taken[at] = s.ID
		if !slices.Contains(g.groups, at.group) {
			g.groups = append(g.groups, at.group)
		}
		g.of[s.ID], g.priority[s.ID] = at.group, at.priority
	}
	return g, errors.Join(faults...)
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
