package stamp

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// Input is what one synthesis is made from.
type Input struct {
	Fleet  *fleet.Fleet    // valid, as fleet.Load gives it
	At     fleet.Positions // of the fleet's values, for faults
	Router string          // folder with the router's executable, named bootstrap
	Keeper string          // the same of the keeper
	// FrontDoor is the same of the front door; it is looked at where the fleet has one.
	FrontDoor string
	Cell      string // this cell alone, without the global stack; empty for everything
	Arch      Arch   // that the functions in Router and in the fleet's assets are built for
	// NewReplicas are the regions of directory.replicas in which this deployment creates the
	// directory's table. Their policies are left for the next deployment.
	NewReplicas []string
}

// plan is one cell, checked, in plain Go values: all that its stacks need. Building from a plan asks
// neither the fleet nor the disk whether something is right.
type plan struct {
	fleet     *fleet.Fleet
	at        fleet.Positions
	place     int // of the cell in the fleet
	cell      fleet.Cell
	names     names.Cell
	arch      Arch
	routerDir string
	keeperDir string
	routerEnv map[string]string
	workerDir string            // "" when shards have no Lambda slice
	service   *service          // nil when shards have no HTTP service
	blocks    map[string]string // zone letter to the block of its subnet; nil in an imported network
	public    map[string]string // the same of its public subnet; nil where the cell has no NAT gateways
	groups    []string          // load balancers that several shards stand behind, in order
	shards    []shardPlan
}

// shardPlan is one shard of a plan.
type shardPlan struct {
	id       string
	names    names.Shard
	env      map[string]string
	zones    []string // that its instances are in
	group    string   // the load balancer it stands behind with others; "" for one of its own
	priority int      // of its rule there
}

// balancer is the load balancer that the shard stands behind, by the word that its target group's name
// has for it.
func (s shardPlan) balancer() string {
	if s.group == "" {
		return names.OwnBalancer
	}
	return s.group
}

// service is the HTTP service that the shards' instances run.
type service struct {
	fleet.HTTP
	archive archive
	ami     string
}

// plan checks the input and lays out the cells to stamp. The error names every fault. The archive of
// the HTTP service is written to the folder scratch and must stay there until the app is synthesised.
func (in Input) plan(scratch string) ([]*plan, error) {
	places := make([]int, len(in.Fleet.Cells))
	for i := range places {
		places[i] = i
	}
	if in.Cell != "" {
		i := slices.Index(cellNames(in.Fleet), in.Cell)
		if i < 0 {
			return nil, fmt.Errorf("-c cell=%s: the fleet has no such cell; write one of %s", in.Cell, strings.Join(cellNames(in.Fleet), ", "))
		}
		places = []int{i}
	}
	built, faults := in.built(scratch)
	faults = append(faults, in.checkPatterns(), in.checkReplicas())
	plans := make([]*plan, len(places))
	for i, place := range places {
		p, err := built.of(place)
		plans[i], faults = p, append(faults, err)
	}
	faults = append(faults, checkTargetGroups(plans))
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return plans, nil
}

func cellNames(f *fleet.Fleet) []string {
	all := make([]string, len(f.Cells))
	for i, c := range f.Cells {
		all[i] = c.Name
	}
	return all
}

// built is the part of a plan that all cells have in common: what make dist has built.
func (in Input) built(scratch string) (plan, []error) {
	p := plan{fleet: in.Fleet, at: in.At, arch: in.Arch, routerDir: in.Router, keeperDir: in.Keeper}
	if err := in.Arch.check(); err != nil {
		return p, []error{err}
	}
	faults := []error{checkFunction("dist/router", in.Router, in.Arch), checkFunction("dist/keeper", in.Keeper, in.Arch)}
	if in.Fleet.FrontDoor != nil && in.Cell == "" {
		faults = append(faults, checkFunction("dist/frontdoor", in.FrontDoor, in.Arch))
	}
	if l := in.Fleet.Shard.Lambda; l != nil {
		p.workerDir = in.Fleet.Path(l.Asset)
		faults = append(faults, checkFunction(l.Asset, p.workerDir, in.Arch))
	}
	if h := in.Fleet.Shard.HTTP; h != nil {
		p.service = &service{HTTP: *h}
		err := checkService(*h, in.Fleet.Path(h.Asset))
		if err == nil {
			p.service.archive, err = newArchive(in.Fleet.Path(h.Asset), scratch)
		}
		faults = append(faults, err)
	}
	return p, faults
}

// fault is what is wrong with a value of the plan's cell, or with one of the whole fleet, which begins with a slash.
func (p *plan) fault(path, what, why, fix string) error {
	if whole, ok := strings.CutPrefix(path, "/"); ok {
		return p.at.Fault(whole, what, why, fix)
	}
	return p.at.Fault(atCell(p.place, path), "cell "+p.cell.Name+": "+what, why, fix)
}

// of is the plan of one cell, by its place in the fleet.
func (p plan) of(place int) (*plan, error) {
	c := p.fleet.Cells[place]
	p.place, p.cell, p.names = place, c, p.fleet.NamesOf(c)
	if p.service != nil {
		s := *p.service
		s.ami, _ = s.AMI(c.Region) // the fleet has one for each of its cells
		p.service = &s
	}
	var faults []error
	if c.VPC == nil {
		blocks, err := subnetBlocks(c.CIDR, c.Zones, privateHalf)
		if err == nil && c.Egress == fleet.EgressNAT {
			p.public, err = subnetBlocks(c.CIDR, c.Zones, publicHalf)
		}
		if err != nil {
			err = p.fault("zones", err.Error(), fmt.Sprintf("its own network has room for the zones a to %c", 'a'+zoneRoom-1), "write one of those, or give the cell a vpc")
		}
		p.blocks, faults = blocks, append(faults, err, p.checkDirectory())
	}
	grouping := groupShards(p.fleet.Shard.HTTP, c.Shards)
	faults = append(faults, p.checkGroups(grouping))
	p.groups = grouping.groups
	for _, s := range c.Shards {
		sp := shardPlan{id: s.ID, names: p.names.Shard(s.ID), zones: c.Zones, group: grouping.of[s.ID], priority: grouping.priority[s.ID]}
		if p.fleet.Shard.Zones == fleet.ZonesOne {
			sp.zones = []string{s.Zone}
		}
		sp.env = p.shardEnvironment(sp.names, s.ID)
		p.shards = append(p.shards, sp)
	}
	env, err := p.routerEnvironment()
	p.routerEnv = env
	return &p, errors.Join(append(faults, err)...)
}

// checkReplicas refuses new replicas that the fleet does not have.
func (in Input) checkReplicas() error {
	var faults []error
	for _, region := range in.NewReplicas {
		if replicas := in.Fleet.Directory.Replicas; !slices.Contains(replicas, region) {
			have := "directory.replicas has none; leave the setting out"
			if len(replicas) > 0 {
				have = "write one of directory.replicas: " + strings.Join(replicas, ", ")
			}
			faults = append(faults, fmt.Errorf("-c newReplicas=%s: the directory has no replica there; %s", region, have))
		}
	}
	return errors.Join(faults...)
}

// arn is the ARN of a resource in the cell's own account and region.
func (p *plan) arn(service, resource string) string {
	return arn(service, p.cell.Region, p.cell.Account, resource)
}

// directoryRegion is where the cell reads the directory.
func (p *plan) directoryRegion() string { return directoryRegion(p.fleet, p.cell) }

// leadsOut says whether a cell's network leads to more than AWS's services of its own region. The owner of an
// imported one has seen to that.
func leadsOut(c fleet.Cell) bool { return c.VPC != nil || c.Egress == fleet.EgressNAT }

// checkDirectory refuses a cell whose network, which has no way out, would keep its router from the directory.
func (p *plan) checkDirectory() error {
	if r := p.directoryRegion(); r != p.cell.Region && !leadsOut(p.cell) {
		return p.fault("region", "its own network has no way to other regions", "the nearest directory is in "+r,
			"add "+p.cell.Region+" to directory.replicas, or write egress: nat, or give the cell a vpc with a way out")
	}
	return nil
}

// workerPattern, queuePattern and keyPattern match the function aliases, the queues and the keys' aliases of all shards
// of a cell, present and to come.
func workerPattern(c names.Cell) string { return c.Shard("*").WorkerAlias() }
func queuePattern(c names.Cell) string  { return c.Shard("*").Queue() }
func keyPattern(c names.Cell) string    { return c.Shard("*").Key() }

// otherCells is the pattern, of a name that has shard in the shard's place, of what workerPattern, queuePattern and
// keyPattern match that is none of the cell's: names with more hyphens in that place than a shard of this cell has.
// Fleets do not know each other, and orders-eu-*-work of service orders, cell eu, matches orders-eu-us-s01-work of
// service orders-eu, cell us, too.
func (p *plan) otherCells(name func(shard names.Shard) string) string {
	return name(p.names.Shard(longerID(p.cell)))
}

// longerID matches whatever has more hyphens than any shard's id of the cell.
func longerID(c fleet.Cell) string {
	hyphens := 0
	for _, s := range c.Shards {
		hyphens = max(hyphens, strings.Count(s.ID, "-"))
	}
	return "*" + strings.Repeat("-*", hyphens+1)
}

// checkPatterns refuses a fleet in which the router of one cell would be allowed to call shards of
// another, because the one cell's name begins the other's, as eu begins eu-1, and ids of its shards have hyphens.
func (in Input) checkPatterns() error {
	f := in.Fleet
	var faults []error
	for _, a := range f.Cells {
		worker, queue := workerPattern(f.NamesOf(a)), queuePattern(f.NamesOf(a))
		others := f.NamesOf(a).Shard(longerID(a)).WorkerAlias() // of a name's middle, which is the queue's, too
		for i, b := range f.Cells {
			if a.Name == b.Name || a.Account != b.Account || a.Region != b.Region {
				continue
			}
			for _, s := range b.Shards {
				theirs := f.NamesOf(b).Shard(s.ID)
				if (matches(worker, theirs.WorkerAlias()) || matches(queue, theirs.Queue())) && !matches(others, theirs.WorkerAlias()) {
					faults = append(faults, in.At.Fault(atCell(i, "name"),
						fmt.Sprintf("cells %s and %s share account %s and region %s, the one name begins the other, and shards of %s have hyphens", a.Name, b.Name, a.Account, a.Region, a.Name),
						fmt.Sprintf("the router of %s would be allowed to call %s", a.Name, theirs.Worker()), "rename one of the cells, or the shards"))
					break
				}
			}
		}
	}
	return errors.Join(faults...)
}

// checkTargetGroups refuses shards whose target groups would have one name. The fleet's own check of
// names does not know these, which follow from load balancers too, and end in a digest of 32 bits when
// they are long.
func checkTargetGroups(plans []*plan) error {
	var faults []error
	taken := map[[3]string]string{}
	for _, p := range plans {
		if p.service == nil {
			continue
		}
		for i, s := range p.shards {
			name := s.names.TargetGroup(p.service.Port, s.balancer())
			key := [3]string{p.cell.Account, p.cell.Region, name}
			if other, ok := taken[key]; ok {
				faults = append(faults, p.fault(atShard(i, "id"), fmt.Sprintf("shard %s would have the target group %s", s.id, name),
					other+" has it already", "rename one of the two"))
			}
			taken[key] = "shard " + s.id + " of cell " + p.cell.Name
		}
	}
	return errors.Join(faults...)
}

// matches tells whether IAM would match the name: a star stands for any characters. Names hold none
// of the other characters that path.Match knows.
func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}
