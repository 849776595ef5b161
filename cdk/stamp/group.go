package stamp

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"

	"cellwall.dev/cellwall/internal/fleet"
)

// grouping says which load balancer each shard of a cell stands behind. All maps are empty when every
// shard has its own.
type grouping struct {
	groups   []string
	of       map[string]string
	priority map[string]int
}

// Listener rules have priorities 1 to 50,000. Shards that are numbered (s01, s02, …) take their
// number, up to lastNumbered; all others a slot above it.
const (
	lastNumbered = 9_999
	lastPriority = 50_000
)

// groupShards deals a cell's shards to load balancers. A numbered shard belongs to the group of its
// number, so that shards come and go without moving another; shards with other ids follow the order
// of the file.
func groupShards(h *fleet.HTTP, c fleet.Cell) (grouping, error) {
	g := grouping{of: map[string]string{}, priority: map[string]int{}}
	if h == nil || h.Ingress.Kind == fleet.IngressPerShard {
		return g, nil
	}
	var faults []error
	taken := map[string]string{} // "group/priority" to shard
	for i, s := range c.Shards {
		group := "shared"
		if h.Ingress.Kind == fleet.IngressGrouped {
			at := i
			if n, ok := shardNumber(s.ID); ok {
				at = n - 1
			}
			group = fmt.Sprintf("g%02d", at/h.Ingress.Group+1)
		}
		if len(g.groups) == 0 || g.groups[len(g.groups)-1] != group {
			g.groups = appendNew(g.groups, group)
		}
		p := rulePriority(s.ID)
		slot := fmt.Sprintf("%s/%d", group, p)
		if other, ok := taken[slot]; ok {
			faults = append(faults, fmt.Errorf("cell %s: shards %s and %s take the same listener priority %d behind one load balancer; give the newer one another id",
				c.Name, other, s.ID, p))
		}
		taken[slot] = s.ID
		g.of[s.ID], g.priority[s.ID] = group, p
	}
	return g, errors.Join(faults...)
}

func appendNew(all []string, one string) []string {
	for _, a := range all {
		if a == one {
			return all
		}
	}
	return append(all, one)
}

// rulePriority is the priority of a shard's listener rule. It follows from the id alone, so it stays
// when other shards come and go; which order the rules have is all the same, since each matches
// another value of the header. Two ids of one cell that fall into one slot are refused.
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
