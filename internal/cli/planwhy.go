package cli

import (
	"fmt"
	"math"
	"slices"

	"cellwall.dev/cellwall/internal/blast"
)

// atThisK says which n would do with today's k, or why none does.
func (c *chooser) atThisK(out *planChoice, best *planTried) error {
	k := c.now.k
	if best != nil && best.PerTenant == k {
		return nil // it is what is found
	}
	if c.search.floor[k] == 0 {
		out.AtThisK = c.never(k)
		return nil
	}
	first := 0
	if best != nil {
		first, _ = slices.BinarySearch(c.search.ns, best.Shards)
	}
	c.search.left += planWork / 5
	kept, err := c.search.leap(k, first, nil)
	if err != nil {
		return err
	}
	if kept != nil {
		out.AtThisK = fmt.Sprintf("n = %d at this k keeps it", kept.Shards)
		return nil
	}
	var most *planTried
	for p, t := range c.search.tried {
		if p.k == k && t != nil && (most == nil || t.Shards > most.Shards) {
			most = t
		}
	}
	if most != nil {
		out.AtThisK = fmt.Sprintf("no n that was tried with k = %d keeps it: the largest, n = %d, breaks %s", k, most.Shards, brokenText(most))
	}
	return nil
}

// never says why every n is hopeless with a k.
func (c *chooser) never(k int) string {
	n := c.search.ns[len(c.search.ns)-1]
	text := fmt.Sprintf("no n up to %d at k = %d keeps it: ", n, k)
	line, _ := c.hopeless(planPair{n, k})
	f := c.limits.ConcurrentFailures
	switch line {
	case blast.LineCapacityLoss:
		if why := c.fixedClass(); why != "" {
			return text + why
		}
		text += fmt.Sprintf("who loses %d of %d shards loses %s", min(f, k), k, percentage(float64(min(f, k))/float64(k)))
	case blast.LineCapacity:
		for i, class := range c.classes {
			size := class.PerTenant
			if size == 0 {
				size = k
			}
			if left := max(1, size-f); class.Largest/float64(left) > c.capacity {
				return text + fmt.Sprintf("tenant %s alone is %s of each shard that it has left of its %d after a failure of %d%s", printable(c.in.tenants.tenants[c.largest[i]]), percentage(class.Largest/float64(left)/c.capacity), size, f, c.least(class))
			}
		}
		text += "the load is too much for as many shards"
	default:
		text += fmt.Sprintf("%s is broken on average over all failures already", line)
	}
	return text + c.larger(k)
}

// fixedClass names a size class of the fleet that loses more than it may, whatever k the others have.
func (c *chooser) fixedClass() string {
	f := c.limits.ConcurrentFailures
	for i, class := range c.classes {
		size := class.PerTenant
		if size == 0 { // it has the k that is looked for
			continue
		}
		lost := func(size int) float64 { return float64(min(f, size)) / float64(size) }
		kept := func(size int) bool { // a budget has two decimals of a per cent
			return math.Round(lost(size)*1e4) <= math.Round(c.limits.CapacityLoss*1e4)
		}
		if kept(size) {
			continue
		}
		enough := size
		for !kept(enough) && enough < planMostShards {
			enough++
		}
		return fmt.Sprintf("size class %s has %s for each of its %s, and who loses %d of them loses %s; it needs %d at least, whatever the others have",
			quote(c.in.tenants.size(c.largest[i])), count(size, "shard"), count(class.Tenants, "tenant"), min(f, size), percentage(lost(size)), enough)
	}
	return ""
}

// least says which k would be enough for the largest of a class.
func (c *chooser) least(class blast.TenantClass) string {
	k := c.limits.ConcurrentFailures + 1
	for class.Largest/float64(k-c.limits.ConcurrentFailures) > c.capacity {
		if k++; k > planMostShards {
			return "; only a cell with larger shards is enough"
		}
	}
	return fmt.Sprintf("; k = %d would carry it, by a size class for it alone, too", k)
}

// larger names the next k that is not hopeless.
func (c *chooser) larger(k int) string {
	for _, more := range c.search.ks {
		if more > k && c.search.floor[more] > 0 {
			return fmt.Sprintf("; k = %d may", more)
		}
	}
	return ""
}

// refusal says why nothing was found: what comes closest.
func (c *chooser) refusal() string {
	if len(c.search.ns) == 0 {
		return fmt.Sprintf("%d shards fail together, and a choice has at most %d", c.limits.ConcurrentFailures, planMostShards)
	}
	var closest *planTried
	for _, t := range c.search.tried {
		if t != nil && (closest == nil || len(t.Broken) < len(closest.Broken) || len(t.Broken) == len(closest.Broken) && t.over() < closest.over()) {
			closest = t
		}
	}
	if closest == nil {
		for _, k := range c.search.order() {
			n := c.search.floor[k]
			return fmt.Sprintf("these tenants cannot be placed on any n and k that may keep it, such as n = %d, k = %d: %s", n, k, c.refused[planPair{n, k}])
		}
		return c.never(c.now.k)
	}
	all := "every other breaks it however tenants are placed"
	if c.search.cut {
		all = "the search was cut, since placing as many tenants on every pair takes too long"
	}
	return fmt.Sprintf("%s of n up to %d and k up to %d tried, the closest n = %d, k = %d, which breaks %s; %s", count(c.search.count, "pair"),
		c.search.ns[len(c.search.ns)-1], c.search.ks[len(c.search.ks)-1], closest.Shards, closest.PerTenant, brokenText(closest), all)
}
