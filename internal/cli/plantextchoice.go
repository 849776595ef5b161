package cli

import (
	"fmt"
	"slices"
	"strings"
)

func (t *planText) choice(c *planned) {
	ch := c.Choice
	if ch == nil {
		return
	}
	what := "the smallest n and k that keep the budget with these very tenants"
	if ch.Found && !ch.Searched {
		what = "what other n and k do to these very tenants"
	}
	t.heading("Choosing: %s", what)
	t.notSet(c)
	switch {
	case !ch.Found:
		t.line("  none found: %s", ch.Refused)
		return
	case !c.Kept:
		t.line("  n = %d shards, k = %d for each tenant: kept; today's n = %d, k = %d does not keep it", ch.Shards, ch.PerTenant, ch.Now.Shards, ch.Now.PerTenant)
	case len(ch.NotSet) > 0:
		t.line("  today's n = %d, k = %d keeps it", ch.Now.Shards, ch.Now.PerTenant)
	case ch.Shards == ch.Now.Shards && ch.PerTenant == ch.Now.PerTenant:
		t.line("  today's n = %d, k = %d; no smaller pair was found that keeps it", ch.Shards, ch.PerTenant)
	default:
		t.line("  today's n = %d, k = %d keeps it; so would n = %d, k = %d", ch.Now.Shards, ch.Now.PerTenant, ch.Shards, ch.PerTenant)
	}
	if len(ch.Worse) > 0 {
		t.line("  n = %d, k = %d gives up, against today: %s", ch.Shards, ch.PerTenant, strings.Join(ch.Worse, ", "))
	}
	if ch.Tried > 0 {
		how := "every smaller pair breaks it, or the scheme does not take it"
		if ch.Cut {
			how = "the search was cut, since placing as many tenants on every pair takes too long: a smaller pair may keep it"
		}
		t.line("  tried: %s of n and k, k from %d to %d; %s", count(ch.Tried, "pair"), ch.LeastK, ch.MostK, how)
	}
	t.line("  why not a larger k: %s", ch.Larger)
	t.line("  why not a smaller k: %s", ch.Smaller)
	t.line("  why not fewer shards: %s", ch.Fewer)
	t.neighbours(ch)
}

// notSet says what the budget leaves open, and what it is today.
func (t *planText) notSet(c *planned) {
	if len(c.Choice.NotSet) == 0 {
		return
	}
	var parts []string
	for _, name := range c.Choice.NotSet {
		found := "which needs shard.capacity, and tenants with loads"
		for _, l := range c.Budget.Lines {
			if l.Line == name {
				found = percentage(l.Found)
			}
		}
		parts = append(parts, fmt.Sprintf("%s (now %s)", name, found))
	}
	text := "no smaller fleet is looked for"
	if !c.Kept {
		text = "the choice does not raise them"
	}
	t.line("  not set: %s; %s", strings.ReplaceAll(strings.Join(parts, ", "), "(now which", "(which"), text)
}

func (t *planText) neighbours(ch *planChoice) {
	unpinned := 0
	t.table(func(line func(string, ...any)) {
		line("n\tk\tcost\tdegraded\tcapacity lost\tfully down\tfullest shard\tshared by two\tsame shards\t\t")
		for _, n := range ch.Neighbours {
			mark, fullest := "keeps it", "-"
			if !n.Kept {
				var lines []string
				for _, l := range n.Broken {
					if lines = append(lines, l.Line); !l.Given {
						lines[len(lines)-1] = "today's " + l.Line
					}
				}
				if n.Cascades {
					lines = append(lines, "by a cascade")
				}
				mark = "breaks " + strings.Join(lines, ", ")
			}
			if ch.Searched && n.Shards == ch.Shards && n.PerTenant == ch.PerTenant {
				mark += "  <- smallest"
			}
			if n.Shards == ch.Now.Shards && n.PerTenant == ch.Now.PerTenant {
				mark += "  <- today"
			}
			if n.Utilisation > 0 {
				fullest = percentage(n.Utilisation)
			}
			unpinned = max(unpinned, n.Unpinned)
			line("%d\t%d\t%.2f x\t%s\t%s\t%s\t%s\t%.3g\t%.3g\t%s", n.Shards, n.PerTenant, n.Cost, percentage(n.Degraded), percentage(n.CapacityLoss), percentage(n.FullyDown), fullest, n.MeanOverlap, n.Same, mark)
		}
	})
	if ch.Untried > 0 {
		t.line("  %s not tried: placing as many tenants takes too long", count(ch.Untried, "neighbour"))
	}
	if slices.ContainsFunc(ch.Neighbours, func(n planTried) bool { return n.Unpinned > 0 }) {
		t.line("  with fewer shards up to %s lose pins to shards that are no longer there, and are placed as others", count(unpinned, "tenant"))
	}
	t.line("  cost: shards against today's; figures: these very tenants, and what no failure exceeds; shared by two: shards, on average;")
	t.line("  same shards: other tenants with exactly a tenant's shards, on average")
}
