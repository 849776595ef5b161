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

// retried is what clients' retries are in words.
func retried(retries int) string {
	if retries == 0 {
		return "none"
	}
	return fmt.Sprintf("%d at once", retries)
}

func (t *planText) requests(c *planned) {
	failures := ofShards(min(c.Budget.ConcurrentFailures, len(c.Shards)), len(c.Shards))
	t.heading("What clients experience: requests answered, on average over all failures of %s, if the shards left keep up", failures)
	t.table(func(line func(string, ...any)) {
		line("router\tretries\tof a tenant\tof all requests")
		for _, r := range c.Requests {
			line("%s\t%s\t%s\t%s", routerWords(r.Router), retried(r.Retries), percentage(r.Success), percentage(r.SuccessLoad))
		}
	})
	if c.HomeKeys {
		t.line("  state.mode is home: what touches state fares as with a router that cannot leave a dead shard")
	}
	t.heading("And in the failure that degrades most tenants, with what the shards left can carry")
	t.table(func(line func(string, ...any)) {
		line("router\tretries\ttenants hit\tworst answered\tattempts\tfullest shard\tif full shards refuse\tif they fail\tshards down then")
		for _, r := range c.Requests {
			fullest, refusing, failing, down := "-", "-", "-", "-"
			if r.Utilisation > 0 {
				fullest = percentage(r.Utilisation)
			}
			if c.Capacity > 0 {
				refusing, failing, down = percentage(r.Served), percentage(r.ServedFail), fmt.Sprint(r.FailedThen)
			}
			line("%s\t%s\t%s\t%s\t%.3f\t%s\t%s\t%s\t%s", routerWords(r.Router), retried(r.Retries), grouped(r.Hit), percentage(r.Worst), r.Amplified, fullest, refusing, failing, down)
		}
	})
	t.line("  tenants hit, worst answered: if shards keep up; attempts: that reach shards, for each request of a tenant with a shard left")
	if c.Capacity > 0 {
		t.line("  of all requests are answered: if full shards refuse what is too much, at no cost to them, and if they fail, and their load goes on")
	}
	for _, r := range c.Requests {
		for _, calm := range c.Requests {
			if r.Router == calm.Router && r.Retries > 0 && calm.Retries == 0 && r.FailedThen > calm.FailedThen {
				t.line("  retries hurt: %s, %s, takes %s more down than without: %s answered, not %s",
					routerWords(r.Router), retried(r.Retries), count(r.FailedThen-calm.FailedThen, "shard"), percentage(r.ServedFail), percentage(calm.ServedFail))
			}
		}
	}
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
