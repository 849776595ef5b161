package fleet

import (
	"path/filepath"
	"strings"

	"cellwall.dev/cellwall/internal/fleet/names"
)

// Path returns where an asset of the fleet file lies: relative paths start in the file's folder.
func (f *Fleet) Path(asset string) string {
	if filepath.IsAbs(asset) {
		return filepath.Clean(asset)
	}
	return filepath.Join(f.Dir, asset)
}

// Names derives the AWS names of the service.
func (f *Fleet) Names() names.Fleet { return names.ForFleet(f.Service) }

// Cell returns the cell of that name; ok is false when there is none.
func (f *Fleet) Cell(name string) (c Cell, ok bool) {
	for _, c := range f.Cells {
		if c.Name == name {
			return c, true
		}
	}
	return Cell{}, false
}

// Account returns the settings of an account, which may stand in the file or not.
func (f *Fleet) Account(id string) Account {
	if a, ok := f.Accounts[id]; ok {
		return a
	}
	return Account{LambdaConcurrency: defaultConcurrency}
}

// K returns the number of shards that serve a tenant of the size class. The empty class is that of
// tenants without one; an unknown class counts as it, too.
func (p Placement) K(size string) int {
	if s, ok := p.Sizes[size]; ok {
		return s.PerTenant
	}
	return p.PerTenant
}

// BudgetOf returns what the cell may lose: the fleet's budget with the lines that the cell replaces.
func (f *Fleet) BudgetOf(c Cell) Budget {
	b := f.Budget
	if c.Budget == nil {
		return b
	}
	if c.Budget.ConcurrentFailures != 0 {
		b.ConcurrentFailures = c.Budget.ConcurrentFailures
	}
	for _, line := range []struct {
		to   **Percent
		from *Percent
	}{
		{&b.DegradedTenants, c.Budget.DegradedTenants},
		{&b.CapacityLoss, c.Budget.CapacityLoss},
		{&b.FullyDown, c.Budget.FullyDown},
	} {
		if line.from != nil {
			*line.to = line.from
		}
	}
	return b
}

// KeeperConcurrency is what every keeper reserves: one at a time, since the next would write the same.
const KeeperConcurrency = 1

// ReservedConcurrency returns the Lambda concurrency that the cell takes from its account: the slices
// of all shards, the router and the keeper.
func (f *Fleet) ReservedConcurrency(c Cell) int {
	sum := f.Router.ReservedConcurrency + KeeperConcurrency
	if f.Shard.Lambda != nil {
		sum += len(c.Shards) * f.Shard.Lambda.ReservedConcurrency
	}
	return sum
}

// FrontDoors returns the regions that have a front door: those of the directory, its home first. None
// where it is off.
func (f *Fleet) FrontDoors() []string {
	if f.FrontDoor == nil {
		return nil
	}
	return append([]string{f.Directory.Region}, f.Directory.Replicas...)
}

// ZoneNames returns the cell's availability zones as AWS names them, such as eu-west-1a.
func (c Cell) ZoneNames() []string {
	zones := make([]string, len(c.Zones))
	for i, z := range c.Zones {
		zones[i] = c.ZoneName(z)
	}
	return zones
}

// ZoneName returns the availability zone with the letter, such as eu-west-1a.
func (c Cell) ZoneName(letter string) string { return c.Region + letter }

// NamesOf derives the AWS names of a cell of the fleet, in its generation.
func (f *Fleet) NamesOf(c Cell) names.Cell { return f.Names().Cell(c.Name).Generation(c.Generation) }

// Architecture is what the instance type runs: arm64 for AWS's own Graviton processors, else x86_64.
// AWS marks Graviton by a g after the generation in the family's name (Amazon EC2 instance type naming
// conventions): t4g, m7g, c7gn, r8gd; g5 and g6 are families of graphics instances without it, g5g has
// it. The first generation, a1, has no such mark.
func (h *HTTP) Architecture() string {
	family, _, _ := strings.Cut(h.InstanceType, ".")
	generation := strings.IndexAny(family, "0123456789")
	if generation >= 0 && strings.Contains(strings.TrimLeft(family[generation:], "0123456789"), "g") || family == "a1" {
		return "arm64"
	}
	return "x86_64"
}

// AMI returns the machine image pinned for a region and the instance type's architecture.
func (h *HTTP) AMI(region string) (id string, ok bool) {
	id, ok = h.AMIs[region+"/"+h.Architecture()]
	return id, ok
}

const defaultConcurrency = 1000
