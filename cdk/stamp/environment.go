package stamp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// environmentLimit is the most that the variables of a function may take, names and values together,
// in bytes (AWS Lambda quotas).
const environmentLimit = 4096

// firstKeyVersion is the version under which a new cell's placement key is generated.
const firstKeyVersion = "1"

// routerEnvironment is what the router is told. lambda/router reads exactly these.
func (p *plan) routerEnvironment() (map[string]string, error) {
	type route struct {
		Path string `json:"path"`
		Via  string `json:"via"`
	}
	routes := make([]route, len(p.fleet.Routes))
	for i, r := range p.fleet.Routes {
		routes[i] = route{r.Path, r.Via} // without fanout, which the router refuses so far
	}
	perTenant := map[string]int{"": p.fleet.Placement.PerTenant} // "" is the default size
	for size, s := range p.fleet.Placement.Sizes {
		perTenant[size] = s.PerTenant
	}
	env := map[string]string{
		"CELLWALL_SERVICE":          p.fleet.Service,
		"CELLWALL_CELL":             p.cell.Name,
		"CELLWALL_TENANT_CLAIM":     p.fleet.Auth.Claim,
		"CELLWALL_SCHEME":           p.fleet.Placement.Scheme,
		"CELLWALL_SHARDS":           placedShards(p.cell.Shards),
		"CELLWALL_KEY_SECRET":       p.names.PlacementKey(),
		"CELLWALL_KEY_VERSION":      firstKeyVersion,
		"CELLWALL_DIRECTORY":        directoryARN(p.fleet, p.directoryRegion()),
		"CELLWALL_DIRECTORY_REGION": p.directoryRegion(),
	}
	if n := p.fleet.Placement.MaxShared; n > 0 {
		env["CELLWALL_MAX_SHARED"] = strconv.Itoa(n)
	}
	for name, value := range map[string]any{"CELLWALL_ROUTES": routes, "CELLWALL_PER_TENANT": perTenant} {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("%s cannot be written: %w", name, err)
		}
		env[name] = string(text)
	}
	if n := environmentSize(env); n > environmentLimit {
		return nil, fmt.Errorf("the router's environment takes %d bytes of Lambda's %d; shorten routes, sizes or shard ids", n, environmentLimit)
	}
	return env, nil
}

// placedShards is what placement knows of the shards, as internal/routerenv reads it.
func placedShards(shards fleet.Shards) string {
	text := make([]string, len(shards))
	for i, s := range shards {
		text[i] = s.ID + ":" + s.Zone
		if s.Weight != 1 {
			text[i] += ":" + strconv.Itoa(s.Weight)
		}
	}
	return strings.Join(text, ",")
}

// shardEnvironment is what a shard's code is told, in the slice and on the instances alike.
func (p *plan) shardEnvironment(s names.Shard, id string) map[string]string {
	env := map[string]string{
		"CELLWALL_SERVICE": p.fleet.Service,
		"CELLWALL_CELL":    p.cell.Name,
		"CELLWALL_SHARD":   id,
	}
	if p.fleet.Shard.Table != nil {
		env["CELLWALL_SHARD_TABLE"] = s.Table()
	}
	switch p.fleet.Shard.State.Mode { // CELLWALL_TABLE is where the service's state lives
	case fleet.StateCell:
		env["CELLWALL_TABLE"] = p.names.Store()
	case fleet.StateHome:
		env["CELLWALL_TABLE"] = s.Table()
	}
	if p.fleet.Shard.Bucket != nil {
		env["CELLWALL_BUCKET"] = s.Bucket(p.cell.Account, p.cell.Region)
	}
	return env
}

func environmentSize(env map[string]string) int {
	n := 0
	for k, v := range env {
		n += len(k) + len(v)
	}
	return n
}

// environmentLines is an environment as sorted NAME=value lines.
func environmentLines(env map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(env)) {
		fmt.Fprintf(&b, "%s=%s\n", k, env[k])
	}
	return b.String()
}

// variables is an environment as the CDK takes it.
func variables(env map[string]string) *map[string]*string {
	out := make(map[string]*string, len(env))
	for k, v := range env {
		out[k] = str(v)
	}
	return &out
}
