package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// planText writes plans for people: the answer first, then why.
type planText struct {
	bytes.Buffer
	bars bars
}

func (r *planReport) print(w io.Writer) error {
	t := &planText{bars: barsFor(w)}
	t.answer(r)
	for i := range r.Cells {
		if !r.Cells[i].Empty {
			t.cell(&r.Cells[i])
		}
	}
	t.waves(r)
	return t.writeTo(w)
}

// writeTo writes what was printed, without the spaces after the last column of a table.
func (t *planText) writeTo(w io.Writer) error {
	out := bufio.NewWriter(w)
	for text := t.String(); text != ""; {
		line, rest, _ := strings.Cut(text, "\n")
		out.WriteString(strings.TrimRight(line, " ") + "\n")
		text = rest
	}
	return out.Flush()
}

func (t *planText) line(format string, args ...any) { fmt.Fprintf(t, format+"\n", args...) }

// table aligns rows, whose cells are separated by tabs.
func (t *planText) table(rows func(line func(format string, args ...any))) {
	w := tabwriter.NewWriter(t, 0, 0, 2, ' ', 0)
	rows(func(format string, args ...any) { fmt.Fprintf(w, "  "+format+"\n", args...) })
	_ = w.Flush() // a Buffer takes everything
}

func (t *planText) heading(format string, args ...any) {
	t.WriteByte('\n')
	t.line(format, args...)
}

// answer is a line for each cell.
func (t *planText) answer(r *planReport) {
	t.table(func(line func(string, ...any)) {
		for _, c := range r.Cells {
			line("%s\t%s\t%s", c.Cell, c.verdict(), c.short())
		}
	})
	for _, a := range r.Assumed {
		t.line("  assumed: %s", a)
	}
	if r.Key == "example" {
		t.line("  assumed: an example key, so names of shards and tenants' subsets are not the cell's own")
	}
}

// holds says whether the budget is kept, and the router's reservation with it.
func (c *planned) holds() bool { return c.Kept && (c.Router == nil || c.Router.Kept) }

func (c *planned) verdict() string {
	switch {
	case c.Empty:
		return "no tenants"
	case !c.holds():
		return "BROKEN"
	case !c.Budget.Given && c.Capacity == 0:
		return "no budget"
	}
	return "kept"
}

// short is what is broken, or what is kept.
func (c *planned) short() string {
	if c.Empty {
		return "nothing to measure"
	}
	var parts []string
	for _, l := range c.Budget.Lines {
		if !l.Kept {
			parts = append(parts, fmt.Sprintf("%s %s, at most %s", l.Line, percentage(l.Found), percentage(l.Limit)))
		}
	}
	if c.Headroom != nil && c.Headroom.Cascades {
		parts = append(parts, "an overload cascades")
	}
	if c.Router != nil && !c.Router.Kept {
		parts = append(parts, fmt.Sprintf("shards that hang hold %s of the router's %d", grouped(c.Router.Held), c.Router.Reserved))
	}
	if parts == nil {
		parts = []string{fmt.Sprintf("whatever %s fail", ofShards(c.Budget.ConcurrentFailures, len(c.Shards)))}
	}
	switch {
	case c.Kept || c.Choice == nil:
	case c.Choice.Found:
		parts = append(parts, fmt.Sprintf("n = %d, k = %d would keep it (now n = %d, k = %d)", c.Choice.Shards, c.Choice.PerTenant, len(c.Shards), c.PerTenant))
	default:
		parts = append(parts, "no n and k found that would keep it")
	}
	return strings.Join(parts, "; ")
}

func ofShards(failed, shards int) string { return fmt.Sprintf("%d of %d shards", failed, shards) }

func (t *planText) cell(c *planned) {
	bound := ""
	if c.MaxShared != nil {
		bound = fmt.Sprintf(", at most %d shared", *c.MaxShared)
	}
	t.heading("== cell %s: %s, k = %d, %s%s; %s, %s requests/s ==", c.Cell, count(len(c.Shards), "shard"), c.PerTenant, c.Scheme, bound, tenantsText(c.Tenants), grouped(c.Load))
	t.budget(c)
	t.choice(c)
	t.failures(c)
	t.sets(c)
	t.capacity(c)
	t.router(c)
	t.requests(c)
	t.fairness(c)
	t.noise(c)
	t.zones(c)
}

func (t *planText) budget(c *planned) {
	t.heading("Budget, for the failure of %s that is worst for each line", ofShards(min(c.Budget.ConcurrentFailures, len(c.Shards)), len(c.Shards)))
	t.table(func(line func(string, ...any)) {
		for _, l := range c.Budget.Lines {
			state, limit := "kept", "at most "+percentage(l.Limit)
			switch {
			case !l.Kept:
				state = "BROKEN"
			case !l.Given:
				state, limit = "-", "no limit"
			}
			when := ""
			if len(l.Worst) > 0 {
				when = "  " + several(l.Worst, 6)
			}
			line("%s\t%s\t%s\t%s\t%s%s", l.Line, state, percentage(l.Found), limit, t.bars.bar(l.Found), when)
		}
	})
	if c.Choice != nil && c.Choice.AtThisK != "" {
		t.line("  fix  %s", c.Choice.AtThisK)
	}
	for _, f := range c.Failures {
		if f.Sampled && f.Failed == c.Budget.ConcurrentFailures {
			t.line("  failures were drawn, not all measured: what was found is what none of them can exceed")
		}
	}
	if c.Capacity == 0 {
		t.line("  capacity is not checked: it needs shard.capacity in the fleet, and tenants with loads")
	}
	if c.HomeKeys {
		t.line("  state.mode is home: capacity lost is keys lost, which no failover brings back")
	}
}

func (t *planText) failures(c *planned) {
	t.heading("Failures, by tenants and by load")
	t.table(func(line func(string, ...any)) {
		line("failed\t\tworst\t\tmean\tmedian\t99th\tworst by load\tworst failure")
		for _, f := range c.Failures {
			what := fmt.Sprintf("%d (all %s)", f.Failed, grouped(f.Of))
			if f.Sampled {
				what = fmt.Sprintf("%d (%s of %s drawn)", f.Failed, grouped(float64(f.Sets)), grouped(f.Of))
			}
			for _, m := range []struct {
				name string
				of   planMeasure
			}{{"degraded", f.Degraded}, {"fully down", f.FullyDown}, {"lost", f.Lost}} {
				s, n := m.of.Tenants, float64(c.Tenants)
				names, byLoad := "", "-"
				if c.Load > 0 {
					byLoad = percentage(m.of.Load.Worst / c.Load)
				}
				if s.Worst > 0 {
					names = several(s.WorstShards, 6)
				}
				if l := m.of.Load; c.Load > 0 && l.Worst > 0 && !slices.Equal(l.WorstShards, s.WorstShards) {
					names += "; by load " + several(l.WorstShards, 6)
				}
				line("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", what, m.name, percentage(s.Worst/n), t.bars.bar(s.Worst/n), percentage(s.Mean/n), percentage(s.P50/n), percentage(s.P99/n), byLoad, names)
				what = ""
			}
		}
	})
	for _, f := range c.Failures {
		if f.Sampled {
			d, n := f.Degraded.Tenants, float64(c.Tenants)
			t.line("  of %d shards a sample was drawn: means are exact; with %s confidence each, the 99th percentile of degraded is %s to %s,", f.Failed,
				percentage(f.Confidence), percentage(d.P99Interval[0]/n), percentage(d.P99Interval[1]/n))
			t.line("  and at most %s of all failures are worse than the worst drawn; for certain none degrades more than %s or takes down more than %s",
				percentage(f.Beyond), percentage(d.AtMost/n), percentage(f.FullyDown.Tenants.AtMost/n))
		}
	}
	lost := "capacity"
	if c.HomeKeys {
		lost = "capacity, and keys with a home"
	}
	t.line("  lost: %s, each tenant by the share of its shards that failed", lost)
	for _, f := range c.Failures {
		if f.Failed != min(c.Budget.ConcurrentFailures, len(c.Shards)) {
			continue
		}
		var parts []string
		for _, l := range f.Lose {
			if l.Tenants > 0 {
				parts = append(parts, fmt.Sprintf("%d of %d: %s", l.Lost, l.Of, percentage(l.Tenants/float64(c.Tenants))))
			}
		}
		t.line("  tenants by shards lost of theirs, on average over failures of %d: %s", f.Failed, strings.Join(parts, ", "))
	}
}

func (t *planText) sets(c *planned) {
	t.heading("Sets that fail together")
	t.table(func(line func(string, ...any)) {
		line("set\tdegraded\t\tfully down\tby load\tlost\tfullest shard left\tshards")
		for _, s := range c.Sets {
			fullest, n := "-", float64(c.Tenants)
			if s.Utilisation > 0 {
				fullest = percentage(s.Utilisation)
			}
			line("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", printable(s.Name), percentage(float64(s.Degraded)/n), t.bars.bar(float64(s.Degraded)/n), percentage(float64(s.FullyDown)/n),
				percentage(share(s.FullyDownLoad, c.Load)), percentage(s.LostTenants/n), fullest, several(s.Shards, 8))
		}
	})
}

func (t *planText) noise(c *planned) {
	n := c.Noise
	t.heading("Noise: what tenants have to do with each other")
	pairs := ""
	if n.Overlapping != nil {
		pairs = fmt.Sprintf("%s of all pairs of tenants share a shard; ", percentage(share(float64(*n.Overlapping), float64(n.Pairs))))
	}
	t.line("  measured: %sa tenant shares %.3g shards with another, and %.3g others have all of its shards, on average", pairs, n.Shared, n.Same)
	t.line("  measured: %s have %s; all shards of %s of them are in one zone", tenantsText(c.Tenants), groupedCount(c.Subsets, "subset"), percentage(n.AllInOneZone))
	if c.MaxShared != nil {
		t.line("  %s promises that no two tenants without pins share more than %s", c.Scheme, count(*c.MaxShared, "shard"))
	}
	if n.FanoutSlow != nil {
		t.line("  a request that asks all %d shards meets one beyond its 99th percentile %s of the time", c.PerTenant, percentage(*n.FanoutSlow))
	}
	if n.Model == "" {
		t.line("  no formula: %s", n.NoModel)
		return
	}
	from := fmt.Sprintf("any %d of the shards", c.PerTenant)
	if n.Model == "spread" {
		from = "subsets spread over the zones"
	}
	var parts []string
	for i, p := range n.Overlap {
		parts = append(parts, fmt.Sprintf("%d: %s", i, percentage(p)))
	}
	t.line("  expected of %s, without pins and other size classes: two tenants share %.3g shards; exactly %s", from, *n.MeanOverlap, strings.Join(parts, ", "))
	if len(n.Covered) == 3 {
		t.line("  chance that misbehaving tenants cover another's whole subset: one %s, four %s, sixteen %s", percentage(n.Covered[0]), percentage(n.Covered[1]), percentage(n.Covered[2]))
	}
	t.line("  from %s tenants on two have the same subset, more likely than not", birthdayText(n.Birthday))
}

// groupedCount is a number of things, with commas between thousands.
func groupedCount(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return grouped(float64(n)) + " " + word + "s"
}

func tenantsText(n int) string { return groupedCount(n, "tenant") }

func birthdayText(n *float64) string {
	if n == nil {
		return "1.8e308"
	}
	return grouped(*n)
}

// unequal is what makes shards unequal.
func (z *planZones) unequal() string {
	sizes := slices.Collect(maps.Values(z.Shards))
	switch zones := slices.Max(sizes) > slices.Min(sizes); {
	case z.Weighted && zones:
		return "zones and weights"
	case z.Weighted:
		return "weights"
	}
	return "zones"
}

func (t *planText) zones(c *planned) {
	z := c.Zones
	var parts []string
	for _, zone := range slices.Sorted(maps.Keys(z.Shards)) {
		parts = append(parts, fmt.Sprintf("%s %d", zone, z.Shards[zone]))
	}
	t.heading("Zones and growth: %s", strings.Join(parts, ", "))
	if z.Even {
		t.line("  every shard is to have the same share of the tenants")
	} else {
		t.line("  %s are unequal, so shards are: %s is to have %.3f times its fair share of the tenants, %s %.3f times", z.unequal(), z.MostShard, z.Most, z.LeastShard, z.Least)
	}
	if len(z.Growth) == 0 {
		t.line("  %s takes no single shard more: it grows by a new topology with larger stripes, which places everyone anew", c.Scheme)
	}
	for _, g := range z.Growth {
		why := ""
		switch {
		case g.Anew:
			why = ": all subsets are drawn anew"
		case g.Extra < -1e-9:
			why = ", since it gets less than its fair share"
		case g.New && g.Extra > 1e-9:
			why = ", since a zone gets as many places as the others, however few shards it has: add as many as they have at once"
		case g.Extra > 1e-9:
			why = ", the price of unequal " + z.unequal()
		}
		t.line("  one more shard in %szone %s moves %.4f places of each tenant; with its fair share it would be %.4f: %+.4f%s", map[bool]string{true: "the new "}[g.New], g.Zone, g.Expected, g.Ideal, g.Extra, why)
	}
}

func (t *planText) waves(r *planReport) {
	if len(r.Waves) < 2 {
		return
	}
	t.heading("== waves: what a bad release reaches if it is stopped there ==")
	t.table(func(line func(string, ...any)) {
		reached := 0.0
		for i, w := range r.Waves {
			reached += w.Share
			line("wave %d\t%s\t%s\t%s\t%s", i+1, several(w.Cells, 6), tenantsText(w.Tenants), percentage(reached), t.bars.bar(reached))
		}
	})
}
