package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"cellwall.dev/cellwall/internal/blast"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet"
)

// planInput is the tenants of every cell that is planned, and how each is placed.
type planInput struct {
	tenants *population
	seconds float64 // that the loads are of
	loads   bool    // tenants have loads
	cells   []*planCell
	assumed []string
	key     string // whose key placed the tenants: example, file or cell

	unpinned map[int]bool // tenants whose pins are left out of account
}

// planCell is one cell with its tenants.
type planCell struct {
	fleet.Cell
	members  []uint32 // indices of its tenants, in their order
	slots    []uint64 // parallel to members; nil when slots are given in their order
	versions []uint64 // the topology of each member; nil when all are placed as the fleet says

	named   map[string]string            // zone by id of the shards of its tenants' topologies
	serving map[string]string            // zone by id of the shards that place its tenants by topologies, or that pins name
	key     []byte                       // a key of the cell, for what is not as the fleet says; never shown
	placers map[uint64]*directory.Placer // 0: as the fleet says
	shards  []planShard                  // that may be members of a subset
	at      map[string]int               // index by id
}

// planShard is one shard of a cell.
type planShard struct{ id, zone string }

// see adds a shard that a subset may have.
func (c *planCell) see(id, zone string) {
	if _, known := c.at[id]; known {
		return
	}
	c.at[id] = len(c.shards)
	c.shards = append(c.shards, planShard{id, zone})
}

// add makes a cell ready for its tenants.
func (in *planInput) add(f *fleet.Fleet, cell fleet.Cell, key []byte) (*planCell, error) {
	if n := len(cell.Quarantine); n > 0 && key != nil { // of a directory, the topologies say it
		in.assumed = append(in.assumed, fmt.Sprintf("%s of %s left out: the quarantine", count(n, "shard"), cell.Name))
		cell = withoutQuarantine(cell)
	}
	c := &planCell{Cell: cell, at: map[string]int{}, placers: map[uint64]*directory.Placer{}}
	for _, s := range cell.Shards {
		c.see(s.ID, s.Zone)
	}
	in.cells = append(in.cells, c)
	if c.key = key; key == nil {
		return c, nil
	}
	return c, c.place(f, key)
}

// place makes the placer of what the fleet describes.
func (c *planCell) place(f *fleet.Fleet, key []byte) error {
	p, err := described(f, c.Cell).Placer(key)
	if err != nil {
		return usagef("cell %q: %w", c.Name, err)
	}
	c.placers[0] = p
	return nil
}

// fromFile reads a tenants file and gives each of its tenants to a cell.
func (f *planFlags) fromFile(fl *fleet.Fleet, seconds float64) (*planInput, error) {
	key, whose := exampleKey(), "example"
	if f.keyFile != "" {
		file, err := readKeyFile(f.keyFile)
		if err != nil {
			return nil, err
		}
		if key, err = file.only(); err != nil {
			return nil, err
		}
		whose = "file"
	}
	tenants, err := f.fileColumns(f.tenantsFile, placementID, planColumns)
	if err != nil {
		return nil, err
	}
	tenants.noteLong(f.err)
	if whose == "example" {
		fmt.Fprintln(f.err, exampleKeyNote)
	}
	in := &planInput{tenants: tenants, seconds: seconds, loads: tenants.loads != nil, key: whose}
	if !in.loads {
		in.assumed = append(in.assumed, "tenants have no loads: each counts as one, and capacity is not checked")
	}
	for _, cell := range fl.Cells {
		if f.cell != "" && cell.Name != f.cell {
			continue
		}
		if _, err := in.add(fl, cell, key); err != nil {
			return nil, err
		}
	}
	if tenants.cells != nil {
		return in, in.byColumn(fl, f.cell)
	}
	return in, in.deal()
}

// byColumn gives each tenant to the cell that its line names.
func (in *planInput) byColumn(fl *fleet.Fleet, only string) error {
	p := in.tenants
	byName := map[string]*planCell{}
	for _, c := range fl.Cells {
		byName[c.Name] = nil // known, and not planned
	}
	for _, c := range in.cells {
		byName[c.Name] = c
	}
	skipped := 0
	for i, w := range p.cells {
		c, known := byName[p.words[w]]
		switch {
		case !known:
			return usagef("%stenant %s is in cell %q, which the fleet does not have", p.at(i), printable(p.tenants[i]), p.words[w])
		case c == nil:
			skipped++
		default:
			c.members = append(c.members, uint32(i))
		}
	}
	if skipped > 0 {
		in.assumed = append(in.assumed, fmt.Sprintf("%s of other cells left out, since --cell is %s", count(skipped, "tenant"), only))
	}
	return nil
}

// deal gives tenants that name no cell to the cells, as sign-up would.
func (in *planInput) deal() error {
	p := in.tenants
	open := in.cells
	if len(in.cells) > 1 {
		open = slices.DeleteFunc(slices.Clone(in.cells), func(c *planCell) bool { return c.Tenants == "internal" })
		if len(open) == 0 {
			return hint(usagef("every cell of the fleet is for internal tenants, and no tenant of the file names its cell"), "name one with --cell, or give the file a column cell")
		}
	}
	loads := make([]float64, len(open)) // per shard
	for i := range p.tenants {
		least := 0
		for j := range loads {
			if loads[j] < loads[least] {
				least = j
			}
		}
		open[least].members = append(open[least].members, uint32(i))
		loads[least] += p.load(i) / float64(len(open[least].Shards))
	}
	switch {
	case len(in.cells) > 1 && len(open) == 1:
		in.assumed = append(in.assumed, fmt.Sprintf("no tenant names its cell: all are in %s, the only one that is not for internal tenants", open[0].Name))
	case len(in.cells) > 1:
		in.assumed = append(in.assumed, "no tenant names its cell: they are dealt as sign-up would, in the order of the file, each to the cell with least load per shard; cells for internal tenants get none")
	}
	return nil
}

// fromDirectory reads a directory, for a command that the record names, and says on standard error when the tenants are
// placed by a key that is not the cells'.
func (f *planFlags) fromDirectory(ctx context.Context, fl *fleet.Fleet, command string) (*planInput, error) {
	return f.readDirectory(ctx, fl, command, true)
}

func (f *planFlags) readDirectory(ctx context.Context, fl *fleet.Fleet, command string, tellsKey bool) (*planInput, error) {
	in := &planInput{tenants: &population{loads: []float64{}, sizes: []uint16{}, most: directoryID}, seconds: 1, loads: true, key: "cell"}
	err := f.with(ctx, func(d *desk) error {
		if err := d.noteListing(ctx, command); err != nil {
			return err
		}
		keys := d.keys
		if errors.Is(d.keyed(ctx), errNoKey) {
			if tellsKey {
				fmt.Fprintln(f.err, exampleKeyNote)
			}
			in.key = "example"
			keys = func(context.Context, string, string) ([]byte, error) { return exampleKey(), nil }
		} else if f.keyFile != "" {
			in.key = "file"
		}
		for _, cell := range fl.Cells {
			if f.cell != "" && cell.Name != f.cell {
				continue
			}
			if err := in.read(ctx, d, keys, fl, cell); err != nil {
				return err
			}
		}
		return nil
	})
	return in, err
}

// read adds a cell with the tenants that the directory has in it, each placed by its own topology.
func (in *planInput) read(ctx context.Context, d *desk, keys directory.Keys, fl *fleet.Fleet, cell fleet.Cell) error {
	c, err := in.add(fl, cell, nil)
	if err != nil {
		return err
	}
	p := in.tenants
	c.named, c.serving = map[string]string{}, map[string]string{}
	for e, err := range directory.Pages(func(after string, limit int) ([]directory.Entry, error) {
		return d.ListCell(ctx, cell.Name, after, limit)
	}) {
		if err != nil {
			return err
		}
		if c.placers[e.Topology] == nil {
			if err := c.prepare(ctx, d, keys, fl, e.Topology); err != nil {
				return err
			}
		}
		i := len(p.tenants)
		p.tenants = append(p.tenants, p.keep(e.Tenant))
		p.loads = append(p.loads, e.Load.Float())
		w, err := p.word(e.Size)
		if err != nil {
			return err
		}
		p.sizes = append(p.sizes, w)
		if len(e.Pins) > 0 {
			if p.pins == nil {
				p.pins = map[int][]string{}
			}
			p.pins[i] = e.Pins
			for _, id := range e.Pins { // which a drained shard still serves
				if _, known := c.serving[id]; !known {
					c.serving[id] = c.named[id]
				}
			}
		}
		c.members = append(c.members, uint32(i))
		c.slots, c.versions = append(c.slots, e.Slot), append(c.versions, e.Topology)
	}
	newest, err := d.newest(ctx, cell.Name)
	if err != nil && !errors.Is(err, directory.ErrUnknownCell) {
		return err
	}
	in.serve(c, versionOf(newest))
	return nil
}

// serve takes the shards that serve its tenants for those of the cell: one that is drained, or that no topology
// with tenants has, carries nothing and fails for nobody. It says so, and who is on an older topology.
func (in *planInput) serve(c *planCell, newest uint64) {
	if len(c.members) == 0 {
		return
	}
	var idle []string
	c.shards, c.at = nil, map[string]int{}
	c.Shards = slices.DeleteFunc(slices.Clone(c.Shards), func(s fleet.ShardSpec) bool {
		_, serves := c.serving[s.ID]
		if serves {
			c.see(s.ID, s.Zone)
		} else {
			idle = append(idle, s.ID)
		}
		return !serves
	})
	for _, id := range slices.Sorted(maps.Keys(c.serving)) { // that the fleet has no more
		c.see(id, c.serving[id])
	}
	if len(idle) > 0 {
		in.assumed = append(in.assumed, fmt.Sprintf("%s of %s left out: drained, or in no topology that has tenants: %s", count(len(idle), "shard"), c.Name, several(idle, 6)))
	}
	older := 0
	for _, v := range c.versions {
		if v < newest {
			older++
		}
	}
	if older > 0 {
		in.assumed = append(in.assumed, fmt.Sprintf("%s of %s are measured where they are, on topologies before the newest, %d: topology migrate brings them to it", count(older, "tenant"), c.Name, newest))
	}
}

// prepare makes the placer of one topology of the cell.
func (c *planCell) prepare(ctx context.Context, d *desk, keys directory.Keys, fl *fleet.Fleet, version uint64) error {
	key := func(v string) ([]byte, error) { return keys(ctx, c.Name, v) }
	if version == 0 { // a cell without topologies places as the fleet says
		k, err := key("1")
		if err != nil {
			return err
		}
		c.key = k
		for _, s := range withoutQuarantine(c.Cell).Shards {
			c.named[s.ID], c.serving[s.ID] = s.Zone, s.Zone
		}
		return c.place(fl, k)
	}
	t, err := d.Topology(ctx, c.Name, version)
	if err != nil {
		return err
	}
	k, err := key(t.KeyVersion)
	if err != nil {
		return err
	}
	c.key = k
	for _, s := range t.Shards {
		c.named[s.ID] = s.Zone
		if s.State == directory.InUse {
			c.serving[s.ID] = s.Zone
		}
	}
	if bytes.Equal(k, exampleKey()) {
		t.KeyCheck = "" // it is not taken for the cell's own
	}
	c.placers[version], err = t.Placer(k)
	return err
}

// subsets places the cell's tenants: each by its index, with the shards of its subset by theirs. It ends early, with
// failed set, at a tenant that cannot be placed. A subset is good until the next one.
func (in *planInput) subsets(c *planCell, failed *error) iter.Seq2[int, []int] {
	p := in.tenants
	return func(yield func(int, []int) bool) {
		var subset []int
		for j, at := range c.members {
			i := int(at)
			e := directory.Entry{Tenant: p.tenants[i], Size: p.size(i)}
			if !in.unpinned[i] {
				e.Pins = p.pins[i]
			}
			version := uint64(0)
			if c.versions != nil {
				version, e.Slot = c.versions[j], c.slots[j]
			} else if placer := c.placers[0]; placer.Slots() > 0 {
				e.Slot = uint64(j) + 1
			}
			ids, err := c.placers[version].Subset(e)
			if err != nil {
				*failed = fmt.Errorf("%stenant %s: %w", p.at(i), printable(e.Tenant), err)
				return
			}
			subset = subset[:0]
			for _, id := range ids {
				subset = append(subset, c.at[id])
			}
			if !yield(i, subset) {
				return
			}
		}
	}
}

// collect places the cell's tenants and counts them.
func (in *planInput) collect(c *planCell) (*blast.Population, error) {
	p := in.tenants
	var unplaced error
	collected, err := blast.CollectLoads(len(c.shards), func(yield func([]int, float64) bool) {
		for i, subset := range in.subsets(c, &unplaced) {
			load := p.load(i) / in.seconds
			if load > blast.MaxLoad {
				unplaced = fmt.Errorf("%stenant %s: the load %g is above the largest, 2^60 requests per second", p.at(i), printable(p.tenants[i]), load)
				return
			}
			if !yield(subset, load) {
				return
			}
		}
	})
	if unplaced != nil {
		return nil, usagef("%w", unplaced)
	}
	if err != nil {
		return nil, usagef("cell %q: %w", c.Name, err)
	}
	return collected, nil
}
