package stamp

import (
	"fmt"
	"os"
	"time"

	"cellwall.dev/cellwall/cdk/gate"
	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/fleet"
)

// gateOptions are what the fleet says of its accounts' limits, what belongs to it although -c cell= leaves it out, and
// the findings that it accepts: by its waivers file, and by asking for load balancers of several shards
// (shard.http.ingress), which says that these fail together. cell is the one that is stamped, or "" for all.
func gateOptions(f *fleet.Fleet, cell string) (gate.Options, error) {
	o := audit.Options{Concurrency: map[string]int{}, Fleet: audit.FleetOf(f), PerTenant: map[string]int{"": f.Placement.PerTenant}}
	for id, account := range f.Accounts {
		o.Concurrency[id] = account.LambdaConcurrency
	}
	if f.Audit.Waivers != "" {
		file := f.Path(f.Audit.Waivers)
		data, err := os.ReadFile(file)
		if err == nil {
			o.Waivers, err = audit.ParseWaivers(file, data)
		}
		if err != nil {
			return gate.Options{}, fmt.Errorf("the fleet's audit.waivers: %w", err)
		}
	}
	for _, c := range f.Cells {
		if cell == "" || cell == c.Name {
			o.Waivers = append(o.Waivers, sharedBalancers(f, c)...)
		}
	}
	return gate.Options{Audit: o}, nil
}

// sharedBalancers accept a cell's load balancers of several shards.
func sharedBalancers(f *fleet.Fleet, c fleet.Cell) []audit.Waiver {
	var all []audit.Waiver
	shared := groupShards(f.Shard.HTTP, c.Shards)
	for _, group := range shared.groups {
		if shared.size[group] > 1 {
			all = append(all, audit.Waiver{Rule: "SD001", Resource: f.NamesOf(c).GroupLoadBalancer(group),
				Reason: "the fleet's shard.http.ingress says so", Expires: forever})
		}
	}
	return all
}

// forever is until somebody changes the fleet.
var forever = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
