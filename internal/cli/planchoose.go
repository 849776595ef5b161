package cli

import (
	"fmt"
	"slices"

	"cellwall.dev/cellwall/internal/blast"
	"cellwall.dev/cellwall/internal/placement"
)

// Bounds of the search for n and k.
const (
	planLargestK = 8         // that is tried, unless the budget or the fleet needs more
	planWork     = 5_000_000 // placements of a tenant, or as much work with failures: some seconds
	planAround   = 2_500_000 // the same for the neighbours
)

// chooser is a search with the cell's very tenants.
type chooser struct {
	*cellMeasure
	limits  blast.LossBudget // the budget; where it has no line, what is lost today
	full    bool             // the budget has every line
	now     planPair
	classes []blast.TenantClass // by size class; their PerTenant is 0 where it is the k that is looked for
	largest []int               // parallel to classes: the tenant with most load
	search  *planSearch
	refused map[planPair]string // why tenants cannot be placed on a pair
}

// choose finds the smallest n and k that keep the budget with these very tenants. A fleet that keeps its budget is
// told of smaller ones only when the budget says everything that may be lost.
func (m *cellMeasure) choose() error {
	if !m.out.Budget.Given && m.capacity == 0 {
		return nil // there is nothing to choose for
	}
	c := &chooser{cellMeasure: m, limits: m.budget, now: planPair{len(m.c.shards), m.out.PerTenant}, refused: map[planPair]string{}}
	out := &planChoice{NotSet: []string{}, Neighbours: []planTried{}, Worse: []string{}}
	m.out.Choice = out
	c.hold(out)
	c.sort()
	c.prepare()
	out.Now = c.sum(m, nil)
	best := out.Now
	if !m.out.Kept || c.full {
		found, err := c.search.smallest()
		if err != nil {
			return err
		}
		out.Tried, out.Cut = c.search.count, c.search.cut
		if found != nil || !m.out.Kept {
			best = found
		}
	}
	if !m.out.Kept {
		if err := c.atThisK(out, best); err != nil {
			return err
		}
	}
	if best == nil {
		out.Refused = c.refusal()
		return nil
	}
	out.Found, out.Searched, out.Shards, out.PerTenant = true, !m.out.Kept || c.full, best.Shards, best.PerTenant
	out.LeastK, out.MostK = c.search.ks[0], c.search.ks[len(c.search.ks)-1]
	return c.around(out)
}

// hold takes what is lost today for the lines that the budget does not have.
func (c *chooser) hold(out *planChoice) {
	for _, line := range c.out.Budget.Lines {
		if line.Given {
			continue
		}
		out.NotSet = append(out.NotSet, line.Line)
		switch blast.BudgetLine(line.Line) {
		case blast.LineDegradedTenants:
			c.limits.DegradedTenants = line.Found
		case blast.LineCapacityLoss:
			c.limits.CapacityLoss = line.Found
		case blast.LineFullyDown:
			c.limits.FullyDown = line.Found
		}
	}
	if c.capacity == 0 {
		out.NotSet = append(out.NotSet, string(blast.LineCapacity))
	}
	c.full = len(out.NotSet) == 0
}

// sort divides the tenants by the sizes of their subsets. Those with pins are in no class, since a smaller fleet may
// not have their shards.
func (c *chooser) sort() {
	at := map[string]int{}
	for _, i := range c.c.members {
		if len(c.in.tenants.pins[int(i)]) > 0 {
			continue
		}
		name := c.in.tenants.size(int(i))
		j, known := at[name]
		if !known {
			j = len(c.classes)
			at[name] = j
			c.classes, c.largest = append(c.classes, blast.TenantClass{PerTenant: c.f.Placement.Sizes[name].PerTenant}), append(c.largest, int(i))
		}
		load := c.in.tenants.load(int(i)) / c.in.seconds
		class := &c.classes[j]
		class.Tenants++
		class.Load += load
		if load > class.Largest {
			class.Largest, c.largest[j] = load, int(i)
		}
	}
}

// hopeless tells why no placement on the pair can keep the limits.
func (c *chooser) hopeless(p planPair) (blast.BudgetLine, bool) {
	classes := slices.Clone(c.classes)
	for i := range classes {
		if classes[i].PerTenant == 0 {
			classes[i].PerTenant = p.k
		}
		classes[i].PerTenant = min(classes[i].PerTenant, p.n)
	}
	return c.limits.Hopeless(p.n, c.p.Tenants(), c.capacity, classes)
}

// prepare says what is searched.
func (c *chooser) prepare() {
	f := c.limits.ConcurrentFailures
	zones := len(c.c.Zones) // to which laid deals the shards
	guess, least := c.guess(zones)
	s := &planSearch{
		floor: map[int]int{}, left: max(planWork, 3*c.work(guess)), work: c.work, tried: map[planPair]*planTried{}, guess: guess,
		try: func(p planPair) (*planTried, error) { return c.try(p, false) },
	}
	c.search = s
	if c.out.Kept {
		s.bound = c.now
	}
	step := zones
	if placement.Scheme(c.f.Placement.Scheme) == placement.HMACv1 {
		step = 1
	}
	for n := (f/step + 1) * step; n <= planMostShards; n += step {
		s.ns = append(s.ns, n)
	}
	if at, on := slices.BinarySearch(s.ns, c.now.n); !on && c.now.n > f {
		s.ns = slices.Insert(s.ns, at, c.now.n)
	}
	if c.capacity == 0 { // fewer shards would carry more each, and nobody knows how much they can
		s.ns = slices.DeleteFunc(s.ns, func(n int) bool { return n < c.now.n })
	}
	for k := 1; k <= max(planLargestK, c.now.k+1, least+2); k++ {
		s.ks = append(s.ks, k)
		if n := c.floor(k); n > 0 {
			s.floor[k] = n
		}
	}
}

// guess is what would do with equal loads, to begin from, and the largest k that a line may ask for.
func (c *chooser) guess(zones int) (planPair, int) {
	in := blast.ChooseInput{Budget: c.limits, Tenants: c.p.Tenants(), Zones: zones, MaxShards: planMostShards, Capacity: c.capacity}
	if in.Capacity > 0 {
		in.Load = c.p.Load()
	}
	if placement.Scheme(c.f.Placement.Scheme) == placement.HMACv1 {
		in.Zones = 1
	}
	least := 0
	if c.limits.FullyDown < 1 {
		least = c.limits.ConcurrentFailures + 1
	}
	if loss := c.limits.CapacityLoss; loss > 0 && loss < 1 {
		least = max(least, min(planMostShards, int(float64(c.limits.ConcurrentFailures)/loss+1)))
	}
	if choice, err := blast.Choose(in); err == nil {
		return planPair{choice.Row.Shards, choice.Row.PerTenant}, max(least, choice.Row.PerTenant)
	}
	return c.now, least
}

// floor is the least n to look at with which k is not hopeless, 0 when every one is.
func (c *chooser) floor(k int) int {
	ns := c.search.ns
	from, _ := slices.BinarySearch(ns, k)
	low, high := from-1, len(ns)
	for high-low > 1 {
		mid := low + (high-low)/2
		if _, never := c.hopeless(planPair{ns[mid], k}); never {
			low = mid
		} else {
			high = mid
		}
	}
	if high == len(ns) {
		return 0
	}
	return ns[high]
}

// work estimates what it takes to try a pair, in placements of a tenant.
func (c *chooser) work(p planPair) float64 {
	f := float64(c.limits.ConcurrentFailures)
	sets := 1.0
	for i := range c.limits.ConcurrentFailures {
		sets *= float64(p.n-i) / float64(i+1)
	}
	tenants := float64(c.p.Tenants())
	each := float64(p.n) + tenants*min(1, float64(p.k)*f/float64(p.n))*float64(p.k)
	if sets > blast.MaxSets || sets*each > 1<<31 {
		sets = float64(trySampling.Sets)
	}
	return tenants*(0.5+float64(p.n)/100) + sets*each/100 // a place is ranked among all shards
}

// around measures the neighbours of the choice and says why it is not one of them.
func (c *chooser) around(out *planChoice) error {
	best := planPair{out.Shards, out.PerTenant}
	ns := c.search.ns
	at, _ := slices.BinarySearch(ns, best.n)
	left := float64(planAround)
	reasons := map[planPair]string{}
	rows := map[planPair]*planTried{c.now: out.Now}
	look := func(p planPair) error {
		if rows[p] != nil || p.k < 1 || p.k > p.n {
			return nil
		}
		if p.n <= c.limits.ConcurrentFailures {
			reasons[p] = fmt.Sprintf("leaves no shard when %d fail", c.limits.ConcurrentFailures)
			return nil
		}
		if left -= c.work(p); left < 0 && p != best {
			out.Untried++
			reasons[p] = "was not tried, to save work"
			if line, never := c.hopeless(p); never {
				reasons[p] = fmt.Sprintf("breaks %s, however tenants are placed", line)
			}
			return nil
		}
		t, err := c.try(p, true)
		if t == nil && err == nil {
			reasons[p] = "places nobody: " + c.refused[p]
		}
		if t != nil {
			rows[p] = t
		}
		return err
	}
	near := []planPair{best, {best.n, best.k + 1}, {best.n, best.k - 1}}
	for _, i := range []int{at - 1, at + 1} {
		if i >= 0 && i < len(ns) {
			near = append(near, planPair{ns[i], best.k}, planPair{ns[i], best.k - 1}, planPair{ns[i], best.k + 1})
		}
	}
	for _, p := range near {
		if err := look(p); err != nil {
			return err
		}
	}
	near = append(near, c.now)
	slices.SortFunc(near, func(a, b planPair) int {
		if a.n != b.n {
			return a.n - b.n
		}
		return a.k - b.k
	})
	for _, p := range slices.Compact(near) {
		if rows[p] != nil {
			out.Neighbours = append(out.Neighbours, *rows[p])
		}
	}
	why := func(p planPair) string {
		t := rows[p]
		switch {
		case t == nil:
			return reasons[p]
		case t.Kept:
			return fmt.Sprintf("keeps it, too, with %s of the tenants degraded instead of %s, and two tenants share %.3g shards instead of %.3g", percentage(t.Degraded), percentage(rows[best].Degraded), t.MeanOverlap, rows[best].MeanOverlap)
		}
		return "breaks " + brokenText(t)
	}
	out.Larger = fmt.Sprintf("k = %d is every shard already", best.k)
	if best.k < best.n {
		out.Larger = fmt.Sprintf("n = %d, k = %d %s", best.n, best.k+1, why(planPair{best.n, best.k + 1}))
	}
	out.Smaller = "k = 1 is the least there is"
	if best.k > 1 {
		out.Smaller = fmt.Sprintf("n = %d, k = %d %s", best.n, best.k-1, why(planPair{best.n, best.k - 1}))
	}
	out.Fewer = fmt.Sprintf("%d shards are the least that are looked at", best.n)
	switch {
	case at > 0 && ns[at-1] < best.k:
		out.Fewer = fmt.Sprintf("n = %d is less than k = %d", ns[at-1], best.k)
	case at > 0:
		out.Fewer = fmt.Sprintf("n = %d, k = %d %s", ns[at-1], best.k, why(planPair{ns[at-1], best.k}))
	}
	out.Worse = worse(out.Now, rows[best])
	return nil
}

// worse is what a pair gives up against today.
func worse(now, then *planTried) []string {
	lost := []string{}
	for _, l := range []struct {
		what      string
		now, then float64
	}{
		{"degraded", now.Degraded, then.Degraded}, {"capacity lost", now.CapacityLoss, then.CapacityLoss},
		{"fully down", now.FullyDown, then.FullyDown}, {"fullest shard", now.Utilisation, then.Utilisation},
	} {
		if l.then > l.now*(1+1e-9) {
			lost = append(lost, fmt.Sprintf("%s %s -> %s", l.what, percentage(l.now), percentage(l.then)))
		}
	}
	return lost
}
