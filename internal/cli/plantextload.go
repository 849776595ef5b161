package cli

import (
	"fmt"
)

func (t *planText) capacity(c *planned) {
	t.heading("Load on each shard, with nothing failed")
	t.table(func(line func(string, ...any)) {
		line("shard\tzone\ttenants\trequests/s\tof capacity\t")
		most := 0.0
		for _, s := range c.Shards {
			most = max(most, s.Load)
		}
		for _, s := range c.Shards {
			used, bar := "-", share(s.Load, most)
			if c.Capacity > 0 {
				used, bar = percentage(s.Utilisation), s.Utilisation
			}
			line("%s\t%s\t%s\t%s\t%s\t%s", s.ID, s.Zone, grouped(float64(s.Tenants)), grouped(s.Load), used, t.bars.bar(bar))
		}
	})
	h := c.Headroom
	if h == nil {
		return
	}
	t.line("  shard.capacity is %s requests/s. Fullest shard: %s at %s; after a failure within the budget %s at %s (%s failed)", grouped(c.Capacity),
		h.NormalShard, percentage(h.Normal), h.WorstShard, percentage(h.Worst), several(h.WorstFailed, 6))
	t.line("  so %s of the fullest shard must be free before a failure, or each shard carry %s requests/s", percentage(h.Free), grouped(h.Needed))
	if h.Sampled {
		t.line("  failures were drawn: none can use a shard more than %s", percentage(h.AtMost))
	}
	if !h.Cascades {
		t.line("  no cascade: no shard that is left gets more than it can carry")
		return
	}
	begin := ""
	if h.Normal > 1 {
		begin = ", before any shard fails by itself"
	}
	t.line("  CASCADE%s: shards with more than they can carry fail, and their load goes on to others", begin)
	t.table(func(line func(string, ...any)) {
		line("step\tfail\tfully down\tdegraded\tthen fullest")
		for i, s := range h.Steps {
			then := "no shard is left"
			if s.Worst != "" {
				then = fmt.Sprintf("%s at %s", s.Worst, percentage(s.Most))
			}
			line("%d\t%s\t%s\t%s\t%s", i+1, several(s.Failed, 6), grouped(float64(s.FullyDown)), grouped(float64(s.Degraded)), then)
		}
	})
	if h.AllFail {
		t.line("  in the end the whole cell is down")
	}
}

func (t *planText) requests(c *planned) {
	t.heading("What clients experience in the failure that degrades most (mean: over all failures of as many)")
	t.table(func(line func(string, ...any)) {
		line("router\tclient's retries\tif shards keep up\tby load\tworst tenant\ttenants hit\tattempts\tfullest shard\tserved with overload")
		for _, r := range c.Requests {
			fullest := "-"
			if r.Utilisation > 0 {
				fullest = percentage(r.Utilisation)
			}
			line("%s\t%d\t%s\t%s\t%s\t%s\t%.3f\t%s\t%s", routerWords(r.Router), r.Retries, percentage(r.Success), percentage(r.SuccessLoad), percentage(r.Worst), grouped(r.Hit), r.Amplified, fullest, percentage(r.Served))
		}
	})
	if c.HomeKeys {
		t.line("  state.mode is home: what touches state fares as with a router that cannot leave a dead shard")
	}
	t.line("  retries come at once, without pacing; attempts: that reach shards, for each request of a tenant with a shard left")
}

func routerWords(router string) string {
	switch router {
	case "sticky":
		return "cannot leave a dead shard"
	case "random":
		return "any member, dead or not"
	}
	return "leaves dead shards"
}

func (t *planText) fairness(c *planned) {
	f := c.Fairness
	t.heading("Fairness")
	t.table(func(line func(string, ...any)) {
		line("of\tmean of a shard\tmost\ton\tmost/mean\tvariation\tvariance")
		for _, b := range []struct {
			name string
			of   planBalance
		}{{"tenants", f.Tenants}, {"load", f.Load}} {
			line("%s\t%s\t%s\t%s\t%.3f\t%.3f\t%.4g", b.name, grouped(b.of.Mean), grouped(b.of.Max), b.of.MaxShard, b.of.MaxOverMean, b.of.CV, b.of.Variance)
		}
	})
	if len(f.Top) == 0 {
		return
	}
	t.line("  the %d largest tenants bring %s of the load:", len(f.Top), percentage(f.TopShare))
	t.table(func(line func(string, ...any)) {
		for _, top := range f.Top {
			line("  %s\t%s requests/s\t%s\ttogether %s\t%s", printable(top.Tenant), grouped(top.Load), percentage(top.Share), percentage(top.Cumulative), t.bars.bar(top.Cumulative))
		}
	})
	against := fmt.Sprintf("shard.capacity, %s", grouped(f.Against))
	if !f.Measured {
		against = fmt.Sprintf("the mean load of a shard, %s, since there is no shard.capacity", grouped(f.Against))
	}
	if f.TooBigCount == 0 {
		t.line("  no tenant is too big for its shards (against %s requests/s) after the budget's failures", against)
		return
	}
	t.line("  %s alone would fill a shard after the budget's failures (against %s requests/s):", count(f.TooBigCount, "tenant"), against)
	t.table(func(line func(string, ...any)) {
		for _, b := range f.TooBig[:min(len(f.TooBig), planTopTenants)] {
			fix := fmt.Sprintf("k = %d would do", b.Needed)
			if b.Needed == 0 {
				fix = "needs a cell of its own"
			}
			line("  %s\t%s requests/s\t%s of a shard with k = %d\t%s", printable(b.Tenant), grouped(b.Load), percentage(b.Part), b.PerTenant, fix)
		}
	})
	if more := f.TooBigCount - planTopTenants; more > 0 {
		t.line("    and %d more; --json has up to %d", more, planTooBig)
	}
}
