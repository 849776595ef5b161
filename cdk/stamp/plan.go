package stamp

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// Input is what one synthesis is made from.
type Input struct {
	Fleet  *fleet.Fleet // valid, as fleet.Load gives it
	Dir    string       // folder that the fleet's asset paths start from: where fleet.yaml lies
	Router string       // folder with the router's executable, named bootstrap
	Cell   string       // this cell alone, without the global stack; empty for everything
	Arch   Arch         // architecture that the functions in Router and in the fleet's assets are built for
}

// plan is one cell, checked, in plain Go values: all that its stacks need. Building from a plan asks
// neither the fleet nor the disk whether something is right.
type plan struct {
	fleet     *fleet.Fleet
	cell      fleet.Cell
	names     names.Cell
	arch      Arch
	routerDir string
	routerEnv map[string]string
	workerDir string   // "" when shards have no Lambda slice
	service   *service // nil when shards have no HTTP service
	shards    []shardPlan
	groups    []string // load balancers that several shards stand behind, in order
}

// shardPlan is one shard of a plan.
type shardPlan struct {
	id       string
	names    names.Shard
	group    string // load balancer of a group, or "" for one of the shard's own
	priority int    // of the listener rule in a group
	env      map[string]string
}

// service is the HTTP service that the shards' instances run.
type service struct {
	fleet.HTTP
	archive archive
	arch    Arch
	ami     string
}

// plan checks the input and lays out the cells to stamp. The error names every fault. The archive of
// the HTTP service is written to the folder scratch, and must stay there until the app is synthesised.
func (in Input) plan(scratch string) ([]*plan, error) {
	cells, err := in.cells()
	if err != nil {
		return nil, err
	}
	var faults []error
	fault := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	workerDir := ""
	fault(in.Arch.check())
	fault(in.checkFunction("dist/router", in.Router))
	if l := in.Fleet.Shard.Lambda; l != nil {
		workerDir = filepath.Join(in.Dir, l.Asset)
		fault(in.checkFunction(l.Asset, workerDir))
	}
	var bundle archive
	var machine Arch
	if h := in.Fleet.Shard.HTTP; h != nil {
		machine = instanceArch(h.InstanceType)
		fault(checkService(*h, filepath.Join(in.Dir, h.Asset), machine))
		bundle, err = newArchive(filepath.Join(in.Dir, h.Asset), scratch)
		fault(err)
	}
	fault(checkPatterns(in.Fleet))
	plans := make([]*plan, 0, len(cells))
	for _, c := range cells {
		p := &plan{fleet: in.Fleet, cell: c, names: names.ForFleet(in.Fleet.Service).Cell(c.Name), arch: in.Arch,
			routerDir: in.Router, workerDir: workerDir}
		if h := in.Fleet.Shard.HTTP; h != nil {
			p.service = &service{HTTP: *h, archive: bundle, arch: machine, ami: h.AMIs[c.Region+"/"+string(machine)]}
		}
		fault(p.layOutShards())
		p.routerEnv, err = routerEnvironment(p)
		fault(err)
		fault(p.check())
		plans = append(plans, p)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return plans, nil
}

// cells are the cells to stamp.
func (in Input) cells() ([]fleet.Cell, error) {
	if in.Cell == "" {
		return in.Fleet.Cells, nil
	}
	var known []string
	for _, c := range in.Fleet.Cells {
		if c.Name == in.Cell {
			return []fleet.Cell{c}, nil
		}
		known = append(known, c.Name)
	}
	return nil, fmt.Errorf("-c cell=%s: the fleet has no such cell; write one of %s", in.Cell, strings.Join(known, ", "))
}

// layOutShards fills in the plan's shards.
func (p *plan) layOutShards() error {
	grouping, err := groupShards(p.fleet.Shard.HTTP, p.cell)
	if err != nil {
		return err
	}
	p.groups = grouping.groups
	for _, s := range p.cell.Shards {
		sp := shardPlan{id: s.ID, names: p.names.Shard(s.ID), group: grouping.of[s.ID], priority: grouping.priority[s.ID]}
		sp.env = p.shardEnvironment(sp)
		p.shards = append(p.shards, sp)
	}
	return nil
}

// shardEnvironment is what the shard's code is told, in the slice and on the instances alike. The
// sample worker and lambda/shardkit read these names.
func (p *plan) shardEnvironment(s shardPlan) map[string]string {
	env := map[string]string{
		"CELLWALL_SERVICE": p.fleet.Service,
		"CELLWALL_CELL":    p.cell.Name,
		"CELLWALL_SHARD":   s.id,
	}
	if p.fleet.Shard.Table != nil {
		env["CELLWALL_SHARD_TABLE"] = s.names.Table()
	}
	switch p.fleet.Shard.State.Mode { // CELLWALL_TABLE is where the service's state lives
	case fleet.StateCell:
		env["CELLWALL_TABLE"] = p.names.Store()
	case fleet.StateHome:
		env["CELLWALL_TABLE"] = s.names.Table()
	}
	if p.fleet.Shard.Bucket != nil {
		env["CELLWALL_BUCKET"] = s.names.Bucket(p.cell.Account, p.cell.Region)
	}
	return env
}

// zones are the full names of the cell's zones, in the fleet's order.
func (p *plan) zones() []string {
	full := make([]string, len(p.cell.Zones))
	for i, z := range p.cell.Zones {
		full[i] = p.cell.Region + z
	}
	return full
}

// arn is the ARN of a resource in the cell's own account and region.
func (p *plan) arn(service, resource string) string {
	return arn(service, p.cell.Region, p.cell.Account, resource)
}

// directoryRegion is where the cell reads the directory: its own region where there is a replica.
func (p *plan) directoryRegion() string {
	if slices.Contains(p.fleet.Directory.Replicas, p.cell.Region) {
		return p.cell.Region
	}
	return p.fleet.Directory.Region
}

// directoryARN is the replica of the directory that the cell reads.
func (p *plan) directoryARN() string {
	return directoryARN(p.fleet, p.directoryRegion())
}

// workerPattern and queuePattern match the function aliases and the queues of all shards of the cell,
// present and to come.
func workerPattern(c names.Cell) string { return c.Shard("*").WorkerAlias() }
func queuePattern(c names.Cell) string  { return c.Shard("*").Queue() }

// checkPatterns refuses a fleet in which the router of one cell could reach the shards of another,
// because a cell's name with a shard's looks like another cell's name (eu and eu-1).
func checkPatterns(f *fleet.Fleet) error {
	var faults []error
	all := names.ForFleet(f.Service)
	for _, a := range f.Cells {
		for _, b := range f.Cells {
			if a.Name == b.Name || a.Account != b.Account || a.Region != b.Region {
				continue
			}
			for _, s := range b.Shards {
				theirs := all.Cell(b.Name).Shard(s.ID)
				worker, _ := path.Match(workerPattern(all.Cell(a.Name)), theirs.WorkerAlias())
				queue, _ := path.Match(queuePattern(all.Cell(a.Name)), theirs.Queue())
				if worker || queue {
					faults = append(faults, fmt.Errorf("cells %s and %s: the router of %s would be allowed to call %s, since the one name begins with the other and both cells share account %s and region %s; rename one of them",
						a.Name, b.Name, a.Name, theirs.Worker(), a.Account, a.Region))
					break
				}
			}
		}
	}
	return errors.Join(faults...)
}

// instanceArch is the architecture of an instance type.
func instanceArch(instanceType string) Arch {
	if awsec2.NewInstanceType(str(instanceType)).Architecture() == awsec2.InstanceArchitecture_ARM_64 {
		return ARM64
	}
	return X86
}
