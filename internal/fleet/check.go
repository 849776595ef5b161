package fleet

import (
	"fmt"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/fleet/names"
)

// checker applies the rules between values to a decoded fleet. A rule looks only at values that are
// known, so that one slip gives one fault.
type checker struct {
	*decoder
	f        *Fleet
	unpinned bool // images need not be there
}

// check applies every rule.
func (c *checker) check() {
	c.uniqueNames()
	c.derivedNames()
	c.directory()
	c.placement()
	c.parts()
	c.http()
	c.routes()
	c.auth()
	c.frontDoor()
	c.router()
	c.ingressOf()
	c.schedules()
	c.alerts()
	c.tags()
	for i := range c.f.Cells {
		c.network(i)
		c.quarantine(i)
		c.egress(i)
	}
	c.concurrency()
	c.events()
	c.waves()
}

// wrong reports a fault about the value at path, or about the nearest one around it that stands in
// the file.
func (c *checker) wrong(path, what, why, fix string) {
	c.faultAt(path, c.where(path), what, why, fix)
}

func (c *checker) where(path string) pos { return nearestPos(c.at, path) }

// set tells whether a value stands at path in the file.
func (c *checker) set(path string) bool {
	_, ok := c.at[path]
	return ok
}

func cellPath(i int, rest string) string {
	return join(fmt.Sprintf("cells[%d]", i), rest)
}

func shardPath(i, j int, rest string) string {
	return join(fmt.Sprintf("cells[%d].shards[%d]", i, j), rest)
}

// counted tells whether the number of a cell's shards is known, even when one of them has a fault.
func (c *checker) counted(i int) bool {
	return c.decoded(cellPath(i, "shards")) && len(c.f.Cells[i].Shards) > 0
}

// called is the cell in a message: its name, or where it stands while that is not known.
func (c *checker) called(i int) string {
	if c.known(cellPath(i, "name")) {
		return c.f.Cells[i].Name
	}
	return cellPath(i, "")
}

// listed returns the shards of a cell that gives them as a list, and none of one that gives a count.
func (c *checker) listed(i int) Shards {
	if c.set(shardPath(i, 0, "")) {
		return c.f.Cells[i].Shards
	}
	return nil
}

// uniqueNames sees that no two cells, and no two shards of a cell, have one name.
func (c *checker) uniqueNames() {
	cells := map[string]pos{}
	for i, cell := range c.f.Cells {
		path := cellPath(i, "name")
		if c.known(path) {
			c.once(cells, path, cell.Name, "no two cells may have one name")
		}
		shards := map[string]pos{}
		for j, s := range c.listed(i) {
			if path := shardPath(i, j, "id"); c.set(path) && c.known(path) {
				c.once(shards, path, s.ID, "no two shards of a cell may have one id")
			}
		}
	}
}

// once reports a text that seen has already.
func (c *checker) once(seen map[string]pos, path, text, rule string) {
	if at, twice := seen[text]; twice {
		c.wrong(path, fmt.Sprintf("%s is %s again", path, quote(text)),
			fmt.Sprintf("%s, and line %d has it already", rule, at.line), "write another, or remove this one")
		return
	}
	seen[text] = c.where(path)
}

// maxNames is how many characters the names of service, cell and shard may have together: with hyphens,
// a 12-digit account and the longest region they make a bucket's 63 (Amazon S3, bucket naming rules).
const maxNames = 33

// derivedNames sees that AWS accepts what internal/fleet/names makes of the names, and that no two
// derived names are equal.
func (c *checker) derivedNames() {
	if c.known("service") {
		c.reserved("service", c.f.Service, "internal", "sthree", "amzn-s3-demo", "aws", "amazon")
	}
	total := 0
	for i, cell := range c.f.Cells {
		if c.known(cellPath(i, "name")) {
			c.reserved(cellPath(i, "name"), cell.Name, names.Global, names.FrontDoorCell)
		}
		for j, s := range c.listed(i) {
			if path := shardPath(i, j, "id"); c.set(path) && c.known(path) {
				c.reserved(path, s.ID)
			}
		}
		total += len(cell.Shards)
		c.nameLength(i)
	}
	if total > maxFleetShards {
		c.wrong("cells", fmt.Sprintf("cells have %d shards together", total), fmt.Sprintf("a fleet has at most %d", maxFleetShards), "describe the fleet as several services")
		return
	}
	if c.known("service") {
		c.collisions()
	}
}

// maxFleetShards bounds the work of checking a fleet.
const maxFleetShards = 10_000

// reserved refuses the names that AWS keeps for itself as the beginning of a longer name: load balancers
// may not be called internal-…, buckets not xn--…, sthree-… and amzn-s3-demo-….
func (c *checker) reserved(path, name string, more ...string) {
	switch {
	case slices.Contains(more, name):
		c.wrong(path, fmt.Sprintf("%s is %s", path, quote(name)), "the name is reserved", "write another, such as my-"+name[:min(len(name), 13)])
	case strings.HasPrefix(name, "xn--"):
		c.wrong(path, fmt.Sprintf("%s is %s", path, quote(name)), "DNS keeps names in xn-- for other alphabets", "write another")
	}
}

// nameLength sees that the longest shard's derived names fit. One fault a cell is enough.
func (c *checker) nameLength(i int) {
	cell := c.f.Cells[i]
	if !c.counted(i) || !c.known("service", cellPath(i, "name")) {
		return
	}
	longest, at := 0, 0
	for j, s := range cell.Shards {
		if len(s.ID) > longest && c.known(shardPath(i, j, "id")) {
			longest, at = len(s.ID), j
		}
	}
	if sum := len(c.f.Service) + len(cell.Name) + longest; longest > 0 && sum > maxNames {
		c.wrong(shardPath(i, at, "id"), fmt.Sprintf("service %s, cell %s and shard %s have %d characters together", c.f.Service, cell.Name, cell.Shards[at].ID, sum),
			fmt.Sprintf("at most %d leave room for account and region in a bucket's name", maxNames), fmt.Sprintf("shorten them by %d", sum-maxNames))
	}
}

// collisions compares all names that the fleet's resources will have.
func (c *checker) collisions() {
	type owner struct{ path, what string }
	seen := map[[2]string]owner{}
	take := func(space, name string, o owner) bool {
		key := [2]string{space, name}
		other, taken := seen[key]
		if !taken {
			seen[key] = o
			return true
		}
		c.wrong(o.path, fmt.Sprintf("%s would have the %s %s", o.what, space, quote(name)), fmt.Sprintf("%s has it already, since names are joined with hyphens", other.what), "rename one of the two")
		return false
	}
	for _, n := range c.f.Names().All() {
		take(n.Space, n.Name, owner{"service", "the service"})
	}
	cells := map[string]bool{}
	for i, cell := range c.f.Cells {
		if cells[cell.Name] || cell.Name == names.Global || !c.known(cellPath(i, "name")) {
			continue
		}
		cells[cell.Name] = true
		names := c.f.NamesOf(cell)
		for _, n := range names.All() {
			if !take(n.Space, n.Name, owner{cellPath(i, "name"), "cell " + cell.Name}) {
				break
			}
		}
		shards := map[string]bool{}
		for j, s := range cell.Shards {
			path := shardPath(i, j, "id")
			if shards[s.ID] || !c.known(path) {
				continue
			}
			shards[s.ID] = true
			for _, n := range append(names.Shard(s.ID).All(cell.Account, cell.Region), c.rules(names.Shard(s.ID))...) {
				if !take(n.Space, n.Name, owner{path, fmt.Sprintf("shard %s of cell %s", s.ID, cell.Name)}) {
					break
				}
			}
		}
	}
}

// directory sees that the table's regions differ.
func (c *checker) directory() {
	seen := map[string]pos{}
	if c.known("directory.region") {
		seen[c.f.Directory.Region] = c.where("directory.region")
	}
	for i, region := range c.f.Directory.Replicas {
		if path := fmt.Sprintf("directory.replicas[%d]", i); c.known(path) {
			c.once(seen, path, region, "the directory names each region once")
		}
	}
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
