package stamp

import (
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

// routerEnvironment is what the router is told. lambda/router reads exactly these. How the cell places its
// tenants it reads beside the directory, so that no shard stands here and none more changes it.
func (p *plan) routerEnvironment() (map[string]string, error) {
	routes, err := routesText(p.fleet)
	if err != nil {
		return nil, err
	}
	var doors []string
	for _, region := range p.fleet.FrontDoors() {
		doors = append(doors, frontDoorRoleARN(p.fleet, region))
	}
	auth, err := authText(p.fleet, doors)
	if err != nil {
		return nil, err
	}
	rules, err := rulesText(p.fleet)
	if err != nil {
		return nil, err
	}
	env := map[string]string{
		"CELLWALL_SERVICE":               p.fleet.Service,
		"CELLWALL_CELL":                  p.cell.Name,
		"CELLWALL_AUTH":                  auth,
		"CELLWALL_RULES":                 rules,
		"CELLWALL_SNAPSHOT_BUCKET":       p.names.SnapshotBucket(p.cell.Account, p.cell.Region),
		"CELLWALL_KEY_SECRET":            p.names.PlacementKey(),
		"CELLWALL_DIRECTORY":             directoryARN(p.fleet, p.directoryRegion()),
		"CELLWALL_DIRECTORY_REGION":      p.directoryRegion(),
		"CELLWALL_DIRECTORY_HOME_REGION": p.fleet.Directory.Region,
		"CELLWALL_ROUTES":                routes,
	}
	p.addGeneration(env)
	if p.fleet.Router.Stream {
		env["CELLWALL_STREAM"] = "1"
	}
	if asksHome(p.fleet, p.cell) {
		env["CELLWALL_DIRECTORY_HOME"] = directoryARN(p.fleet, p.fleet.Directory.Region)
	}
	if n := environmentSize(env); n > environmentLimit {
		return nil, p.fault("/routes", fmt.Sprintf("the environment of cell %s's router takes %d bytes", p.cell.Name, n),
			fmt.Sprintf("Lambda has %d, and routes, auth and the router's rules stand there", environmentLimit), "shorten the routes or auth.principals, or write fewer")
	}
	return env, nil
}

// addGeneration has the router or the keeper derive the names of the cell's generation.
func (p *plan) addGeneration(env map[string]string) {
	if p.cell.Generation > 0 {
		env["CELLWALL_GENERATION"] = strconv.Itoa(p.cell.Generation)
	}
}

// shardEnvironment is what a shard's code is told, in the slice and on the instances alike.
func (p *plan) shardEnvironment(s names.Shard, id string) map[string]string {
	env := map[string]string{
		"CELLWALL_SERVICE": p.fleet.Service,
		"CELLWALL_CELL":    p.cell.Name,
		"CELLWALL_SHARD":   id,
	}
	if p.fleet.Shard.Queue != nil {
		env["CELLWALL_DISPATCH_QUEUE"], env["CELLWALL_DEAD_QUEUE"] = p.names.Dispatch(), s.DeadLetters()
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
