package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// unreserved is the concurrency that AWS keeps back for functions without a reservation (AWS Lambda,
// "Configuring reserved concurrency").
const unreserved = 100

// Use is the Lambda concurrency that cells and front doors reserve in one account and region.
type Use struct {
	Account  string `json:"account"`
	Region   string `json:"region"`
	Limit    int    `json:"limit"`    // the account's concurrent executions
	Reserved int    `json:"reserved"` // by the cells and the front door together
	Left     int    `json:"left"`     // may still be reserved: Limit, less the 100 that AWS keeps, less Reserved
	cells    []int  // indices

	frontDoor int // of Reserved, what the front door there takes, its keeper included
}

// Concurrency returns what cells and front doors reserve by account and region, in that order.
func (f *Fleet) Concurrency() []Use {
	uses := map[[2]string]Use{}
	for i, cell := range f.Cells {
		key := [2]string{cell.Account, cell.Region}
		u, ok := uses[key]
		if !ok {
			u = Use{Account: cell.Account, Region: cell.Region, Limit: f.Account(cell.Account).LambdaConcurrency}
		}
		u.Reserved += f.ReservedConcurrency(cell)
		u.Left = u.Limit - unreserved - u.Reserved
		u.cells = append(u.cells, i)
		uses[key] = u
	}
	for _, region := range f.FrontDoors() {
		key := [2]string{f.Directory.Account, region}
		u, ok := uses[key]
		if !ok {
			u = Use{Account: f.Directory.Account, Region: region, Limit: f.Account(f.Directory.Account).LambdaConcurrency}
		}
		u.frontDoor = f.FrontDoor.ReservedConcurrency + KeeperConcurrency
		u.Reserved += u.frontDoor
		u.Left = u.Limit - unreserved - u.Reserved
		uses[key] = u
	}
	return slices.SortedFunc(maps.Values(uses), func(a, b Use) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Region, b.Region))
	})
}

// concurrency sees that no account and region reserves more than AWS allows.
func (c *checker) concurrency() {
	lambda := 0
	if c.f.Shard.Lambda != nil {
		lambda = c.f.Shard.Lambda.ReservedConcurrency
	}
	if !c.known("shard.lambda.reservedConcurrency", "router.reservedConcurrency", "frontDoor", "directory") {
		return
	}
	for _, u := range c.f.Concurrency() {
		if u.Left >= 0 || !c.known("accounts."+u.Account) {
			continue
		}
		var sums []string
		known := true
		for _, i := range u.cells {
			cell := c.f.Cells[i]
			known = known && c.counted(i) && c.known(cellPath(i, "account"), cellPath(i, "region"))
			sums = append(sums, fmt.Sprintf("%s %d × %d + %d + %d", c.called(i), len(cell.Shards), lambda, c.f.Router.ReservedConcurrency, KeeperConcurrency))
		}
		if !known {
			continue
		}
		const most = 6
		if len(sums) > most {
			sums = append(sums[:most], fmt.Sprintf("and %d more cells", len(u.cells)-most))
		}
		at := "frontDoor"
		if len(u.cells) > 0 {
			at = cellPath(u.cells[len(u.cells)-1], "shards")
		}
		if u.frontDoor > 0 {
			sums = append(sums, fmt.Sprintf("front door %d + %d", u.frontDoor-KeeperConcurrency, KeeperConcurrency))
		}
		c.wrong(at,
			fmt.Sprintf("account %s reserves %d of its Lambda concurrency in %s (%s)", u.Account, u.Reserved, u.Region, strings.Join(sums, ", ")),
			fmt.Sprintf("of %d, AWS keeps %d unreserved, which leaves %d", u.Limit, unreserved, u.Limit-unreserved),
			fmt.Sprintf("reserve %d less, or have AWS raise the quota to %d or more and write that as accounts.%q.lambdaConcurrency", -u.Left, u.Reserved+unreserved, u.Account))
	}
}

// network sees to a cell's zones and to its network, own or imported.
func (c *checker) network(i int) {
	cell := c.f.Cells[i]
	seen := map[string]pos{}
	for j, z := range cell.Zones {
		if path := fmt.Sprintf("%s[%d]", cellPath(i, "zones"), j); c.known(path) {
			c.once(seen, path, z, "a cell names each zone once")
		}
	}
	for j, s := range c.listed(i) {
		path := shardPath(i, j, "zone")
		if c.set(path) && c.known(path, cellPath(i, "zones")) && !slices.Contains(cell.Zones, s.Zone) {
			c.wrong(path, fmt.Sprintf("%s is %s", path, quote(s.Zone)), "it is no zone of the cell", "write "+alternatives(cell.Zones)+", or add it to the end of the cell's zones")
		}
	}
	switch own, imported := c.set(cellPath(i, "cidr")), c.set(cellPath(i, "vpc")); {
	case own && imported:
		c.wrong(cellPath(i, "cidr"), fmt.Sprintf("%s has both cidr and vpc", cellPath(i, "")), "an imported VPC has its addresses already", "keep one of the two")
	case own && c.known(cellPath(i, "cidr")):
		c.cidr(cellPath(i, "cidr"), cell.CIDR)
	case imported:
		c.imported(i)
	}
}

// The addresses of RFC 1918.
var private = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16")}

// cidr sees that the network is private, starts where it says, and holds every zone's subnets.
func (c *checker) cidr(path, text string) {
	const fix = "write one such as 10.20.0.0/16"
	p, err := netip.ParsePrefix(text)
	what := fmt.Sprintf("%s is %s", path, quote(text))
	switch {
	case err != nil || !p.Addr().Is4():
		c.wrong(path, what, "it must be an IPv4 network", fix)
	case p.Masked() != p:
		c.wrong(path, what, "it has bits beyond its length", "write "+p.Masked().String())
	case p.Bits() < 16 || p.Bits() > 20:
		c.wrong(path, what, "AWS wants a length of /16 or more, and the subnets of six zones one of /20 or less", fix)
	case !slices.ContainsFunc(private, func(r netip.Prefix) bool { return r.Contains(p.Addr()) }):
		c.wrong(path, what, "it is no private network (RFC 1918)", "write one within 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16")
	}
}

// imported sees that an imported VPC has one subnet for each zone of the cell.
func (c *checker) imported(i int) {
	cell, path := c.f.Cells[i], cellPath(i, "vpc.subnets")
	if cell.VPC == nil || !c.known(path, cellPath(i, "zones")) {
		return
	}
	for _, z := range cell.Zones {
		if cell.VPC.Subnets[z] == "" {
			c.wrong(path, fmt.Sprintf("%s has no zone %s", path, z), "every zone of the cell needs its subnet", fmt.Sprintf("add %s: subnet-…", z))
		}
	}
	seen := map[string]pos{}
	for _, z := range slices.Sorted(maps.Keys(cell.VPC.Subnets)) {
		if !slices.Contains(cell.Zones, z) {
			c.wrong(path+"."+z+keySuffix, fmt.Sprintf("%s has a zone %s", path, z), "the cell has none such", "remove it, or add it to the end of the cell's zones")
			continue
		}
		c.once(seen, path+"."+z, cell.VPC.Subnets[z], "each zone has a subnet of its own")
	}
}
