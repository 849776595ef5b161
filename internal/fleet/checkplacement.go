package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"cellwall.dev/cellwall/internal/placement"
)

// placement sees that every cell has the shards that a tenant of any size wants.
func (c *checker) placement() {
	type want struct {
		name, path string
		k          int
	}
	wants := []want{{"every tenant", "placement.perTenant", c.f.Placement.PerTenant}}
	for name, size := range c.f.Placement.Sizes {
		wants = append(wants, want{"size " + name, "placement.sizes." + name + ".perTenant", size.PerTenant})
		if name == "default" {
			c.wrong("placement.sizes.default"+keySuffix, "size default", "tenants without a size have placement.perTenant", "set placement.perTenant, or call the size otherwise")
		}
	}
	slices.SortFunc(wants, func(a, b want) int { return cmp.Compare(a.path, b.path) })
	if c.known("placement.scheme", "placement.maxShared") {
		c.scheme()
	}
	for i, cell := range c.f.Cells {
		path := cellPath(i, "shards")
		if !c.counted(i) {
			continue
		}
		for _, w := range wants {
			if c.known(w.path) && w.k > len(cell.Shards) {
				c.wrong(path, fmt.Sprintf("cell %s has %d %s", c.called(i), len(cell.Shards), plural(len(cell.Shards), "shard")),
					fmt.Sprintf("%s = %d gives %s more than that", w.path, w.k, w.name), fmt.Sprintf("write at least %d shards here, or at most %d there", w.k, len(cell.Shards)))
			}
		}
	}
}

// scheme sees that the scheme does what the file asks of it.
func (c *checker) scheme() {
	p := c.f.Placement
	scheme := placement.Scheme(p.Scheme)
	if p.MaxShared > 0 && scheme != placement.BoundedV1 {
		c.wrong("placement.maxShared", fmt.Sprintf("placement.maxShared is %d", p.MaxShared),
			fmt.Sprintf("%s bounds nothing, and two tenants may share all of their shards", scheme), fmt.Sprintf("remove it, or write scheme: %s", placement.BoundedV1))
	}
	most := c.mostPerTenant()
	if p.MaxShared >= most && scheme == placement.BoundedV1 {
		c.wrong("placement.maxShared", fmt.Sprintf("placement.maxShared is %d", p.MaxShared), fmt.Sprintf("no tenant has more than %d %s to share", most, plural(most, "shard")), fmt.Sprintf("write at most %d", most-1))
		return
	}
	for i := range c.f.Cells {
		for j, s := range c.listed(i) {
			path := shardPath(i, j, "weight")
			if s.Weight > 1 && c.set(path) && c.known(path) && scheme != placement.RendezvousV1 {
				c.wrong(path, fmt.Sprintf("%s is %d", path, s.Weight), fmt.Sprintf("%s does not weigh shards", scheme), fmt.Sprintf("remove it, or write scheme: %s", placement.RendezvousV1))
			}
		}
		if scheme == placement.BoundedV1 {
			c.bounded(i, most)
		}
	}
}

// mostPerTenant is k of the largest size class.
func (c *checker) mostPerTenant() int {
	most := c.f.Placement.PerTenant
	for _, size := range c.f.Placement.Sizes {
		most = max(most, size.PerTenant)
	}
	return most
}

// bounded sees that the shards of a cell make the stripes that bounded/v1 wants.
func (c *checker) bounded(i, most int) {
	cell := c.f.Cells[i]
	if !c.counted(i) || !c.known(cellPath(i, "shards"), cellPath(i, "zones"), "placement") || most > len(cell.Shards) {
		return
	}
	var shards []placement.Shard
	for _, s := range cell.Shards {
		if !slices.Contains(cell.Quarantine, s.ID) { // where nobody is placed
			shards = append(shards, placement.Shard{ID: s.ID, Zone: s.Zone, Weight: 1})
		}
	}
	if most > len(shards) {
		return // which quarantine tells
	}
	_, err := placement.New(placement.Config{
		Scheme: placement.BoundedV1, Key: []byte{0}, Shards: shards, MaxShared: c.f.Placement.MaxShared, MaxPerTenant: most, // any key tells
	})
	if err != nil && !errors.Is(err, placement.ErrDuplicateShard) { // which uniqueNames tells
		c.wrong(cellPath(i, "shards"), fmt.Sprintf("cell %s cannot place by %s", c.called(i), placement.BoundedV1), err.Error(), fmt.Sprintf("change its shards, or write scheme: %s", placement.RendezvousV1))
	}
}
