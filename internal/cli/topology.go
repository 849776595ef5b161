package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/placement"
)

func topologyCommand(a *app) *cobra.Command {
	f := &directoryFlags{app: a}
	cmd := &cobra.Command{
		Use:   "topology",
		Short: "Publish how a cell places its tenants, see who would move, and migrate them",
		Long: `Publish how a cell places its tenants, see who would move, and migrate them.

A topology is an immutable version: which shards place tenants, by which scheme, and how many serve one.
A change is a new version, to which tenants are migrated, and which the routers serve beside the old one.`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f.register(cmd)
	cmd.AddCommand(topologyShow(f), topologyDiff(f), topologyPublish(f), topologyMigrate(f), topologyRetire(f))
	return cmd
}

// shownTopology is the JSON form of a topology.
type shownTopology struct {
	directory.Topology
	Tenants int64 `json:"tenants"`
}

func topologyShow(f *directoryFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show CELL [VERSION]",
		Short: "List a cell's topologies, or show one",
		Long:  "List a cell's topologies with the number of tenants on each, or show one with its shards. With --json each line is an object.",
		Args:  usageArgs(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			version, err := versionArg(args)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			return f.with(ctx, func(d *desk) error {
				if _, err := d.Cell(ctx, args[0]); err != nil {
					return err
				}
				if version > 0 {
					t, err := d.Topology(ctx, args[0], version)
					switch {
					case err != nil:
						return err
					case asJSON:
						return f.json(shownTopology{t, t.Tenants})
					}
					return f.printTopology(t)
				}
				var all []directory.Topology
				for t, err := range d.topologies(ctx, args[0]) {
					if err != nil {
						return err
					}
					all = append(all, t)
				}
				return f.printTopologies(all, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

// versionArg is the second argument, 0 when there is none.
func versionArg(args []string) (uint64, error) {
	if len(args) < 2 {
		return 0, nil
	}
	v, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil || v == 0 {
		return 0, usagef("%q is no version of a topology: write a whole number from 1", args[1])
	}
	return v, nil
}

func (f *directoryFlags) printTopologies(all []directory.Topology, asJSON bool) error {
	if asJSON {
		for _, t := range all {
			if err := f.json(shownTopology{t, t.Tenants}); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(f.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "version\tscheme\tshards\tper tenant\tkey\ttenants\tpublished\tstate")
	for _, t := range all {
		state := "live"
		if t.Retired {
			state = "retired"
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%s\t%d\t%s\t%s\n", t.Version, t.Scheme, len(t.Shards), sizesText(t.KBySize), t.KeyVersion, t.Tenants, t.Published.Format(time.RFC3339), state)
	}
	return w.Flush()
}

// sizesText is k by size class for people, as in "2, whale 4".
func sizesText(bySize map[string]int) string {
	text := []string{}
	for _, size := range slices.Sorted(maps.Keys(bySize)) {
		text = append(text, strings.TrimLeft(fmt.Sprintf("%s %d", size, bySize[size]), " "))
	}
	return strings.Join(text, ", ")
}

func (f *directoryFlags) printTopology(t directory.Topology) error {
	if err := f.printTopologies([]directory.Topology{t}, false); err != nil {
		return err
	}
	w := tabwriter.NewWriter(f.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nshard\tzone\tweight\tstate")
	for _, s := range t.Shards {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", s.ID, s.Zone, s.Weight, s.State)
	}
	return w.Flush()
}

// draft is the flags that say which topology to publish, or to compare with.
type draft struct {
	file           string
	drain, without []string
}

func (p *draft) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.file, "file", "", "take the topology from this JSON file, as topology show --json prints one, instead of the fleet")
	cmd.Flags().StringSliceVar(&p.drain, "drain", nil, "shards that the topology names but places nobody on")
	cmd.Flags().StringSliceVar(&p.without, "without", nil, "shards of the fleet's cell that the topology does not name")
}

// next is the topology that comes after the cell's, by the fleet or the file.
func (p *draft) next(f *fleet.Fleet, c fleet.Cell, newest uint64, previous *directory.Topology) (directory.Topology, error) {
	t := described(f, c)
	if previous != nil {
		t.KeyVersion = previous.KeyVersion
	}
	if p.file != "" {
		text, err := os.ReadFile(p.file)
		if err != nil {
			return t, usagef("--file: %w", err)
		}
		var read shownTopology
		if err := json.Unmarshal(text, &read); err != nil {
			return t, usagef("--file %s: %w", p.file, err)
		}
		t = read.Topology
		if t.Cell != "" && t.Cell != c.Name {
			return t, usagef("--file %s has a topology of cell %q, not %q", p.file, t.Cell, c.Name)
		}
		t.Cell = c.Name
	}
	t.Version = newest + 1
	for _, id := range p.drain {
		i := slices.IndexFunc(t.Shards, func(s directory.Shard) bool { return s.ID == id })
		if i < 0 {
			return t, usagef("--drain %s: cell %q has no such shard", id, c.Name)
		}
		t.Shards[i].State = directory.Drained
	}
	for _, id := range p.without {
		before := len(t.Shards)
		t.Shards = slices.DeleteFunc(t.Shards, func(s directory.Shard) bool { return s.ID == id })
		if len(t.Shards) == before {
			return t, usagef("--without %s: cell %q has no such shard", id, c.Name)
		}
	}
	if p.file == "" { // which says it itself
		t.Slots = slotsOf(t)
	}
	return t, physical(f, c, t)
}

// described is the first topology of a cell as the fleet describes it.
func described(f *fleet.Fleet, c fleet.Cell) directory.Topology {
	t := directory.Topology{
		Cell: c.Name, Version: 1, Scheme: placement.Scheme(f.Placement.Scheme), KeyVersion: "1",
		KBySize: map[string]int{"": f.Placement.PerTenant}, MaxShared: f.Placement.MaxShared,
	}
	for size, s := range f.Placement.Sizes {
		t.KBySize[size] = s.PerTenant
	}
	for _, s := range c.Shards {
		t.Shards = append(t.Shards, directory.Shard{ID: s.ID, Zone: s.Zone, Weight: s.Weight, State: directory.InUse})
	}
	t.Slots = slotsOf(t)
	return t
}

// slotsOf is the number of slots that the shards of a topology make, under any key; 0 when the scheme does not
// place by slot, or takes no such shards, which the topology's check tells.
func slotsOf(t directory.Topology) uint64 {
	p, err := t.Placer([]byte{0})
	if err != nil {
		return 0
	}
	return p.Slots()
}

// physical refuses a topology that names a shard which the fleet does not have, or two shards that are one.
func physical(f *fleet.Fleet, c fleet.Cell, t directory.Topology) error {
	if err := t.Check(c.Zones); err != nil {
		return usagef("%w", err)
	}
	bearer := map[names.Named]string{}
	for _, s := range t.Shards {
		if !slices.ContainsFunc(c.Shards, func(spec fleet.ShardSpec) bool { return spec.ID == s.ID }) {
			return usagef("topology %d of cell %q names shard %q, which the fleet does not have: stamp it first", t.Version, c.Name, s.ID)
		}
		for _, name := range names.ForFleet(f.Service).Cell(c.Name).Shard(s.ID).All(c.Account, c.Region) {
			if other, taken := bearer[name]; taken {
				return usagef("shards %q and %q of topology %d are one: both have the %s %s", other, s.ID, t.Version, name.Space, name.Name)
			}
			bearer[name] = s.ID
		}
	}
	return nil
}

func topologyPublish(f *directoryFlags) *cobra.Command {
	var p draft
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "publish CELL",
		Short: "Publish the next version of a cell's topology, as the fleet describes the cell",
		Long: `Publish the next version of a cell's topology, as the fleet describes the cell; new tenants get it from
then on. A cell that the directory does not know yet is added, closed; zones that the fleet added at the
end come to the directory.

Refused with exit status 2: a shard named twice, two shards that are one, a zone that the cell does not
have, a shard that is not in the fleet. With 3: no difference to the newest version, a fleet that has lost a
shard which a topology still names, and one that dropped a zone of the cell or has them in another order.`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.create = true
			fleet, err := f.loadFleet()
			if err != nil {
				return err
			}
			cell, err := fleetCell(fleet, args[0])
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			return f.with(ctx, func(d *desk) error {
				if err := d.know(ctx, cell); err != nil {
					return err
				}
				if err := d.lost(ctx, cell); err != nil {
					return err
				}
				newest, err := d.newest(ctx, cell.Name)
				if err != nil {
					return err
				}
				next, err := p.next(fleet, cell, versionOf(newest), newest)
				if err != nil {
					return err
				}
				if newest != nil && same(*newest, next) && d.operation != f.operation {
					return foundf("cell %q places by topology %d as the fleet says already: nothing is published", cell.Name, newest.Version)
				}
				if err := d.extend(ctx, cell); err != nil {
					return err
				}
				published, err := d.Publish(ctx, next, d.change())
				if err != nil {
					return err
				}
				if asJSON {
					return f.json(shownTopology{published, published.Tenants})
				}
				return f.printTopology(published)
			})
		},
	}
	p.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func versionOf(t *directory.Topology) uint64 {
	if t == nil {
		return 0
	}
	return t.Version
}

// newest is the topology that new tenants of a cell get, nil when there is none.
func (d *desk) newest(ctx context.Context, cell string) (*directory.Topology, error) {
	c, err := d.Cell(ctx, cell)
	if err != nil || c.Topology == 0 {
		return nil, err
	}
	t, err := d.Topology(ctx, cell, c.Topology)
	return &t, err
}

// same says whether two versions place alike.
func same(a, b directory.Topology) bool {
	return a.Scheme == b.Scheme && maps.Equal(a.KBySize, b.KBySize) && a.KeyVersion == b.KeyVersion &&
		a.MaxShared == b.MaxShared && a.Slots == b.Slots && slices.Equal(a.Shards, b.Shards)
}

// lost refuses a fleet whose cell lacks a shard that a live topology names.
func (d *desk) lost(ctx context.Context, c fleet.Cell) error {
	named, err := d.Named(ctx, c.Name)
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(named)) {
		if !slices.ContainsFunc(c.Shards, func(s fleet.ShardSpec) bool { return s.ID == id }) {
			return hint(foundf("shard %q is not in the fleet's cell %q any more, and topology %s names it", id, c.Name, versionsText(named[id])),
				"put it back, publish a topology --without %s, migrate, and retire the others before you take it out of the fleet", id)
		}
	}
	return nil
}

// noneLost is lost for every cell of a fleet file, when a directory was named to ask.
func (f *directoryFlags) noneLost(cmd *cobra.Command, file string) error {
	if !cmd.Flags().Changed("directory") {
		return nil
	}
	f.fleetFile = file // also for the fleet's own table
	fleet, err := f.loadFleet()
	if err != nil {
		return err
	}
	return f.with(cmd.Context(), func(d *desk) error {
		cells, err := d.Cells(cmd.Context())
		if err != nil {
			return err
		}
		for _, cell := range cells {
			c, err := fleetCell(fleet, cell.Name)
			if err != nil { // it is gone, with all of its shards
				c.Name = cell.Name
			}
			if err := d.lost(cmd.Context(), c); err != nil {
				return err
			}
		}
		return nil
	})
}

func versionsText(versions []uint64) string {
	text := make([]string, len(versions))
	for i, v := range versions {
		text[i] = fmt.Sprint(v)
	}
	return strings.Join(text, ", ")
}

func topologyRetire(f *directoryFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "retire CELL VERSION",
		Short: "Close a topology for good, when nobody is left on it",
		Long: `Close a topology for good. Exit status 3 while tenants are left on it, and for the cell's newest, which new
tenants get. From then on the topology no longer keeps its shards in the fleet.`,
		Args: exactly(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			version, err := versionArg(args)
			if err != nil {
				return err
			}
			return f.with(cmd.Context(), func(d *desk) error {
				if _, err := d.Cell(cmd.Context(), args[0]); err != nil {
					return err
				}
				t, err := d.Retire(cmd.Context(), args[0], version, d.change())
				if err != nil {
					return err
				}
				return f.printTopologies([]directory.Topology{t}, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
