package localcell

import (
	"fmt"
	"slices"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/placement"
	"cellwall.dev/cellwall/internal/routing"
)

// Plan is what a supervisor runs: one cell of a fleet, as far as it matters on one machine.
type Plan struct {
	Service    string          `json:"service"`
	Cell       string          `json:"cell"`
	Audience   string          `json:"audience"`
	Claim      string          `json:"claim"`
	HealthPath string          `json:"healthPath"`
	Routes     []routing.Route `json:"routes"`
	Worker     string          `json:"worker"` // absolute path of the service's executable
	// Version is that of the worker, which shards run to which none was deployed; the start writes it.
	Version string     `json:"version,omitempty"`
	Queue   QueuePlan  `json:"queue"`
	Router  RouterPlan `json:"router"`

	// Schedules have each shard do something of its own; none.
	Schedules []SchedulePlan `json:"schedules,omitempty"`

	// Quarantine are the shards to which tenants are pinned that take others down; none.
	Quarantine []string `json:"quarantine,omitempty"`

	// Topology is how the fleet says that the cell places its tenants. It is published in a cell that has
	// none yet; from then on those that are published count. Its shards are those that run.
	Topology directory.Topology `json:"topology"`
}

// RouterPlan is what a router lets through and goes by; see the fields of routing.Config. 0 is no limit.
type RouterPlan struct {
	AttemptTimeout    time.Duration `json:"attemptTimeout"` // nanoseconds
	TenantRate        float64       `json:"tenantRate"`     // requests a second
	TenantBurst       int           `json:"tenantBurst"`
	TenantConcurrency int           `json:"tenantConcurrency"`
	FanoutConcurrency int           `json:"fanoutConcurrency"`
	State             routing.State `json:"state"`
	IdempotencyKeys   bool          `json:"idempotencyKeys"`

	// Where a path and a body name the tenant, too: see identity.NewAgreement.
	PathTenant string `json:"pathTenant,omitempty"`
	BodyTenant string `json:"bodyTenant,omitempty"`
}

// QueuePlan is how a shard's queue is worked through.
type QueuePlan struct {
	MaxReceive int  `json:"maxReceive"` // deliveries of a job before it is dead
	Consumers  int  `json:"consumers"`  // jobs of a shard under way at once
	On         bool `json:"on"`         // the fleet has queues, so that a client may have any request wait in one
}

// Shards are the ids of the shards that run, in the order of the fleet.
func (p Plan) Shards() []string {
	ids := make([]string, len(p.Topology.Shards))
	for i, s := range p.Topology.Shards {
		ids[i] = s.ID
	}
	return ids
}

// stateful says whether shards keep their tenants' state, so that nobody is pinned elsewhere without a move.
func (p Plan) stateful() bool { return p.Router.State == routing.StateHome }

// NewPlan takes the named cell out of the fleet; without a name, the first that is not for internal
// tenants only. worker is the absolute path of the service's executable.
func NewPlan(f *fleet.Fleet, cell, worker string) (Plan, error) {
	i := slices.IndexFunc(f.Cells, func(c fleet.Cell) bool {
		return c.Name == cell || cell == "" && c.Tenants != "internal"
	})
	if cell == "" && i < 0 {
		i = 0 // all are internal
	}
	if i < 0 {
		names := []string{}
		for _, c := range f.Cells {
			names = append(names, c.Name)
		}
		return Plan{}, fmt.Errorf("cell %q is not in the fleet, which has %q", cell, names)
	}
	c := f.Cells[i]
	p := Plan{
		Service: f.Service, Cell: c.Name, Audience: f.Auth.Audience, Claim: f.Auth.Claim, HealthPath: "/healthz", Worker: worker,
		Topology: directory.Topology{
			Cell: c.Name, Version: 1, Scheme: placement.Scheme(f.Placement.Scheme), MaxShared: f.Placement.MaxShared, KeyVersion: f.NamesOf(c).KeyVersion(1),
			KBySize: map[string]int{"": f.Placement.PerTenant},
		},
	}
	for _, s := range c.Shards {
		state := directory.InUse
		if slices.Contains(c.Quarantine, s.ID) {
			state = directory.Drained // nobody is placed where poisonous tenants come
		}
		p.Topology.Shards = append(p.Topology.Shards, directory.Shard{ID: s.ID, Zone: s.Zone, Weight: s.Weight, State: state})
	}
	p.Quarantine = c.Quarantine
	for size, s := range f.Placement.Sizes {
		p.Topology.KBySize[size] = s.PerTenant
	}
	p.Queue = QueuePlan{MaxReceive: 5, Consumers: 2} // fleet.yaml's defaults, where it has no queue
	p.Router = RouterPlan{
		AttemptTimeout: f.Router.AttemptTimeout, TenantRate: float64(f.Router.TenantRate), TenantBurst: f.Router.TenantBurst,
		TenantConcurrency: f.Router.TenantConcurrency, FanoutConcurrency: f.Router.FanoutConcurrency,
		State: routing.State(f.Shard.State.Mode), IdempotencyKeys: f.Shard.State.IdempotencyKeys,
		PathTenant: f.Auth.PathTenant, BodyTenant: f.Auth.BodyTenant,
	}
	if q := f.Shard.Queue; q != nil {
		p.Queue = QueuePlan{q.MaxReceive, q.Consumers, true}
	}
	for _, schedule := range f.Shard.Schedules {
		p.Schedules = append(p.Schedules, SchedulePlan{schedule.Name, schedule.Every})
	}
	if f.Shard.HTTP != nil {
		p.HealthPath = f.Shard.HTTP.HealthPath
	}
	for _, r := range f.Routes {
		p.Routes = append(p.Routes, routing.Route{Path: r.Path, Via: r.Via, Fanout: r.Fanout, Timeout: r.Timeout})
	}
	var err error
	if p.Topology, err = p.Topology.WithSlots(); err != nil {
		return Plan{}, err
	}
	return p, p.Topology.Check(p.zones())
}

// zones are those of the plan's shards, in the order of their first.
func (p Plan) zones() []string {
	var zones []string
	for _, s := range p.Topology.Shards {
		if s.Zone != "" && !slices.Contains(zones, s.Zone) { // plans of tests have none
			zones = append(zones, s.Zone)
		}
	}
	return zones
}
