package fleet

import (
	"cmp"
	"path"
	"time"
)

// complete fills the defaults that depend on other values. The constant ones stand in the struct tags.
func (f *Fleet) complete(d *decoder) {
	if f.Budget.ConcurrentFailures == 0 {
		f.Budget.ConcurrentFailures = 1
	}
	if f.Auth.Source == AuthVerify && len(f.Auth.Algorithms) == 0 {
		f.Auth.Algorithms = []string{"RS256"}
	}
	f.Router.AttemptTimeout = cmp.Or(f.Router.AttemptTimeout, defaultAttempt)
	f.Router.TenantBurst = cmp.Or(f.Router.TenantBurst, f.Router.TenantRate)
	f.Keeper.Every = cmp.Or(f.Keeper.Every, defaultEvery)
	if p := f.Rollout.Probe; p != nil {
		p.Every = cmp.Or(p.Every, leastProbe)
	}
	if h := f.Shard.HTTP; h != nil {
		if h.Command == "" {
			h.Command = path.Base(h.Asset)
		}
		if _, set := d.at["shard.http.max"]; !set {
			h.Max = min(3*h.Min, maxInstances)
		}
		if h.Ingress.Kind == "" {
			h.Ingress = Ingress{Kind: IngressPerShard}
		}
	}
	if _, set := d.at["routes"]; !set {
		switch {
		case f.Shard.Lambda != nil:
			f.Routes = []Route{{Path: "/*", Via: ViaLambda}}
		case f.Shard.HTTP != nil:
			f.Routes = []Route{{Path: "/*", Via: ViaHTTP}}
		}
	}
	for i := range f.Routes {
		f.Routes[i].Timeout = cmp.Or(f.Routes[i].Timeout, f.Router.AttemptTimeout)
	}
	for i := range f.Cells {
		c := &f.Cells[i]
		if _, set := d.at[cellPath(i, "cidr")]; !set && c.VPC == nil {
			c.CIDR = defaultCIDR
		}
		if c.VPC == nil {
			c.Egress = cmp.Or(c.Egress, EgressEndpoints)
		}
		sure := !d.below[cellPath(i, "shards")]
		for j := range c.Shards {
			s := &c.Shards[j]
			if s.Zone == "" && len(c.Zones) > 0 && (sure || !d.bad[shardPath(i, j, "zone")]) {
				s.Zone = c.Zones[j%len(c.Zones)]
			}
		}
	}
	if _, set := d.at["rollout.waves"]; !set {
		for _, c := range f.Cells {
			f.Rollout.Waves = append(f.Rollout.Waves, Wave{Cells: []string{c.Name}})
		}
	}
}

const (
	defaultCIDR  = "10.20.0.0/16"
	maxInstances = 1000
	// defaultAttempt leaves a request of 28 s several attempts, and is long for a request that somebody waits for.
	defaultAttempt = 5 * time.Second
	defaultEvery   = time.Minute
)

// The transports of a route.
const (
	ViaLambda = "lambda"
	ViaHTTP   = "http"
	ViaQueue  = "queue"
)
