package localcell

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/placement"
)

//go:embed sample-tenants.csv
var sampleTenants []byte

// SampleTenants is the population that comes with cellwall: 200 tenants with long-tailed loads, as CSV
// with the header tenant,load.
func SampleTenants() io.Reader { return bytes.NewReader(sampleTenants) }

// Admitted is what a start found in, and added to, the cell on disk.
type Admitted struct {
	Tenants  int    // that were added
	Topology uint64 // the cell's newest, by which they are placed
	AsFleet  bool   // the newest topology is what the fleet says
	Cell     string // of several cells, the first whose newest topology is not
}

// Errors of a start in a state directory that does not fit the fleet.
var (
	ErrOtherCell = errors.New("another cell lies on disk")
	ErrLostShard = errors.New("the fleet lacks a shard that a topology of the cell on disk names")
)

// fitting refuses a plan under which tenants of the cell on disk would have no shard. That cell is the one
// that the directory knows; should it know others, too, the one with tenants. The cells beside this one run,
// too.
func fitting(ctx context.Context, d *directory.Directory, p Plan, beside []string) error {
	cells, err := d.Cells(ctx)
	if err != nil {
		return err
	}
	own := slices.IndexFunc(cells, func(c directory.Cell) bool { return c.Name == p.Cell })
	for _, c := range cells {
		if c.Name != p.Cell && !slices.Contains(beside, c.Name) && (own < 0 || cells[own].Tenants == 0 && c.Tenants > 0) {
			return fmt.Errorf("%w: it is %q, not %q", ErrOtherCell, c.Name, p.Cell)
		}
	}
	named, err := d.Named(ctx, p.Cell)
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(named)) {
		if !slices.Contains(p.Shards(), id) {
			return fmt.Errorf("%w: shard %q of cell %q, in version %v", ErrLostShard, id, p.Cell, named[id])
		}
	}
	return nil
}

// enrol makes the directory know the cell, a topology when it has none, and those of the tenants that it
// does not know yet, and has the shards of all of the tenants hold them. Each step that was done before is
// found done. Nobody else may write meanwhile.
func enrol(ctx context.Context, d *directory.Directory, holder directory.ManyHolder, keys directory.Keys, p Plan, tenants []string, now time.Time, beside ...string) (Admitted, error) {
	change := func(operation string) directory.Change {
		return directory.Change{Operation: operation, By: "local up", At: now}
	}
	if err := fitting(ctx, d, p, beside); err != nil {
		return Admitted{}, err
	}
	if err := d.Claim(ctx, p.Service, change("local up: claim for "+p.Service)); err != nil {
		return Admitted{}, err
	}
	fresh := directory.Cell{Name: p.Cell, Zones: p.zones(), Headroom: directory.DefaultHeadroom}
	if _, err := d.AddCell(ctx, fresh, change("local up: add cell "+p.Cell)); err != nil && !errors.Is(err, directory.ErrCellExists) {
		return Admitted{}, err
	}
	cell, err := d.Cell(ctx, p.Cell)
	if err != nil {
		return Admitted{}, err
	}
	if cell.Topology == 0 {
		first := p.Topology
		key, err := keys(ctx, p.Cell, first.KeyVersion)
		if err != nil {
			return Admitted{}, err
		}
		first.KeyCheck = directory.KeyCheck(key)
		first, err = d.Publish(ctx, first, change(fmt.Sprintf("local up: publish topology %d of %s", p.Topology.Version, p.Cell)))
		if err != nil {
			return Admitted{}, err
		}
		cell.Topology = first.Version
	}
	newest, err := d.Topology(ctx, p.Cell, cell.Topology)
	if err != nil {
		return Admitted{}, err
	}
	key, err := keys(ctx, p.Cell, newest.KeyVersion)
	if err == nil {
		err = newest.CheckKey(key)
	}
	if err != nil {
		return Admitted{}, err // before a router starts that could place nobody
	}
	entries := make([]directory.Entry, len(tenants))
	for i, id := range tenants {
		entries[i] = directory.Entry{Tenant: id, Cell: p.Cell, State: directory.Active, Topology: newest.Version}
	}
	if newest.Slots > 0 {
		if err := giveSlots(ctx, d, p.Cell, newest.Slots, entries); err != nil {
			return Admitted{}, err
		}
	}
	if err := holdAll(ctx, d, holder, keys, p, entries); err != nil {
		return Admitted{}, err
	}
	enrolled, err := d.Enrol(ctx, entries, change("local up of "+p.Cell+", "+now.UTC().Format(time.RFC3339Nano)))
	return Admitted{Tenants: enrolled.Created, Topology: newest.Version, AsFleet: alike(newest, p.Topology)}, err
}

// alike says whether two versions place alike.
func alike(a, b directory.Topology) bool {
	return a.Scheme == b.Scheme && a.MaxShared == b.MaxShared && maps.Equal(a.KBySize, b.KBySize) && slices.Equal(a.Shards, b.Shards)
}

// giveSlots gives entries the slots that their tenants have, and the others the lowest that nobody in the cell has.
// Slots that were given back lately are left to Enrol to refuse: a local cell gives none back by itself.
func giveSlots(ctx context.Context, d *directory.Directory, cell string, slots uint64, entries []directory.Entry) error {
	had := map[string]uint64{}
	taken := map[uint64]bool{}
	for e, err := range directory.Pages(func(after string, limit int) ([]directory.Entry, error) { return d.List(ctx, after, limit) }) {
		if err != nil {
			return err
		}
		if e.Cell == cell {
			had[e.Tenant], taken[e.Slot] = e.Slot, true
		}
	}
	next := uint64(1)
	for i := range entries {
		if slot := had[entries[i].Tenant]; slot > 0 {
			entries[i].Slot = slot
			continue
		}
		for taken[next] {
			next++
		}
		if next > slots {
			return &placement.FullError{Slot: next, Capacity: slots}
		}
		entries[i].Slot, taken[next] = next, true
	}
	return nil
}

// holdAll has the shards hold the tenants: new ones before the directory knows them, and those that it
// knows by the entry that stands. A cell of a version without holdings is mended so.
func holdAll(ctx context.Context, d *directory.Directory, holder directory.ManyHolder, keys directory.Keys, p Plan, entries []directory.Entry) error {
	residence := directory.NewResidence(d, holder, keys)
	byShard := map[string][]directory.Holding{}
	for _, e := range entries {
		switch stands, err := d.Get(ctx, e.Tenant); {
		case errors.Is(err, directory.ErrNotFound):
			e.Epoch = 1
		case err != nil:
			return err
		case stands.State == directory.Placing:
			continue // whoever finishes the sign-up has the shards hold it
		default:
			e = stands
		}
		subset, err := residence.Subset(ctx, e)
		if err != nil {
			return err
		}
		for _, shard := range subset {
			byShard[shard] = append(byShard[shard], directory.Holding{Tenant: e.Tenant, Epoch: e.Epoch})
		}
	}
	for _, shard := range p.Shards() {
		if many := byShard[shard]; len(many) > 0 {
			if err := holder.HoldMany(ctx, p.Cell, shard, many); err != nil {
				return err
			}
		}
	}
	return nil
}
