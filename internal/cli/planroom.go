package cli

import (
	"fmt"

	"cellwall.dev/cellwall/internal/fleet"
)

// room refuses more tenants than bounded/v1 has slots for with the fleet's shards, and says what has enough.
func (in *planInput) room(f *fleet.Fleet, c *planCell) error {
	if c.versions != nil || c.placers[0] == nil {
		return nil // each tenant has its slot
	}
	slots, tenants := c.placers[0].Slots(), uint64(len(c.members))
	if slots == 0 || tenants <= slots {
		return nil
	}
	ch := &chooser{cellMeasure: &cellMeasure{in: in, f: f, c: c}}
	fits := func(n, shared int) bool {
		as := *f
		as.Placement.MaxShared = shared
		with, err := new(planInput).add(&as, ch.laid(n), c.key)
		return err == nil && with.placers[0].Slots() >= tenants
	}
	now, shared, what := len(c.Cell.Shards), f.Placement.MaxShared, ""
	for n := now + 1; n <= planMostShards; n++ {
		if n%len(c.Zones) == 0 && fits(n, shared) {
			what = fmt.Sprintf("shards: %d", n)
			break
		}
	}
	for more := shared + 1; more < f.Placement.PerTenant; more++ {
		if fits(now, more) {
			if what != "" {
				what += " or "
			}
			what += fmt.Sprintf("maxShared: %d", more)
			break
		}
	}
	if what == "" {
		what = "another scheme, or another cell,"
	}
	return usagef("cell %q: %s with %d shards and at most %d shared has room for %s, too few for %s: %s has enough",
		c.Name, f.Placement.Scheme, now, shared, count(int(slots), "tenant"), grouped(float64(tenants)), what)
}
