package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet"
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
			return f.read(ctx, func(d *desk) error {
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
	var v counted
	if err := v.Set(args[1]); err != nil {
		return 0, usagef("%q is no version of a topology: %w", args[1], err)
	}
	return uint64(v), nil
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
		fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%s\t%d\t%s\t%s\n", t.Version, t.Scheme, len(t.Shards), shown(sizesText(t.KBySize)), shown(t.KeyVersion), t.Tenants, t.Published.Format(time.RFC3339), state)
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
	fmt.Fprintln(w, "\nshard\tzone\tweight\tstate\tposition")
	for _, s := range t.Shards {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", shown(s.ID), shown(s.Zone), s.Weight, s.State, shown(cmp.Or(s.Position, s.ID)))
	}
	return w.Flush()
}

func topologyPublish(f *directoryFlags) *cobra.Command {
	var p draft
	var asJSON, accept bool
	cmd := &cobra.Command{
		Use:   "publish CELL",
		Short: "Publish the next version of a cell's topology, as the fleet describes the cell",
		Long: `Publish the next version of a cell's topology, as the fleet describes the cell; new tenants get it from
then on. A cell that the directory does not know yet is added, closed; zones that the fleet added at the
end come to the directory.

Refused with exit status 2: a shard named twice, two shards that are one, a zone that the cell does not
have, a shard that is not in the fleet or has another zone there, another placement key than the one by
which the cell places, another service's directory. With 3: no difference to the newest version, a fleet that has lost a
shard which a topology still names, one that dropped a zone of the cell or has them in another order, and
without --accept-remap a version that draws the subsets of all tenants anew: hmac/v1 with another number of
shards, bounded/v1 with others, another scheme or another key.`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			fleet, cell, err := f.stamped(args[0])
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			return f.with(ctx, func(d *desk) error {
				done, err := d.Published(ctx, cell.Name, d.operation)
				if err != nil {
					return err
				}
				var published directory.Topology
				if done > 0 {
					published, err = d.publishAgain(ctx, fleet, cell, p, done)
				} else {
					published, err = f.publish(ctx, d, fleet, cell, p, accept)
				}
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
	cmd.Flags().BoolVar(&accept, "accept-remap", false, "publish a version that draws the subsets of all tenants anew")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// publish publishes what the draft comes to after the cell's newest topology.
func (f *directoryFlags) publish(ctx context.Context, d *desk, fleet *fleet.Fleet, cell fleet.Cell, p draft, accept bool) (directory.Topology, error) {
	none := directory.Topology{}
	if err := d.admits(ctx, fleet.Service, cell.Name); err != nil {
		return none, err
	}
	if err := d.lost(ctx, cell); err != nil {
		return none, err
	}
	newest, err := d.newest(ctx, cell.Name)
	if err != nil && !errors.Is(err, directory.ErrUnknownCell) {
		return none, err
	}
	next, err := p.next(fleet, cell, versionOf(newest), newest)
	if err != nil {
		return none, err
	}
	if newest != nil && same(*newest, next) {
		return none, hint(foundf("cell %q places by topology %d as the fleet says already: nothing is published", cell.Name, newest.Version),
			"change the cell's shards or the placement in the fleet first; topology migrate brings tenants of older versions to this one")
	}
	if newest != nil && !accept {
		if err := d.remaps(ctx, cell.Name, next); err != nil {
			return none, err
		}
	}
	if err := d.hasKey(ctx, newest, next); err != nil {
		return none, err
	}
	if err := f.fingerprint(ctx, d, &next, newest, accept); err != nil {
		return none, err
	}
	if err := d.know(ctx, fleet.Service, cell); err != nil {
		return none, err
	}
	if err := d.extend(ctx, cell); err != nil {
		return none, err
	}
	return d.Publish(ctx, next, d.change())
}

// remaps refuses a topology that draws anew the subsets of tenants whom any topology of the cell has: those on
// an older one, too, are to be brought to it.
func (d *desk) remaps(ctx context.Context, cell string, next directory.Topology) error {
	for t, err := range d.topologies(ctx, cell) {
		if err != nil {
			return err
		}
		if t.Tenants == 0 {
			continue
		}
		if anew, err := t.Anew(next); err != nil {
			return err
		} else if anew {
			return errRemap(t, next)
		}
	}
	return nil
}

// publishAgain finds a publication done that this operation made before, as that version, if the draft comes
// to the same after the one before it.
func (d *desk) publishAgain(ctx context.Context, f *fleet.Fleet, cell fleet.Cell, p draft, done uint64) (directory.Topology, error) {
	var previous *directory.Topology
	if done > 1 {
		t, err := d.Topology(ctx, cell.Name, done-1)
		if err != nil {
			return directory.Topology{}, err
		}
		previous = &t
	}
	next, err := p.next(f, cell, done-1, previous)
	if err != nil {
		return directory.Topology{}, err
	}
	return d.Publish(ctx, next, d.change())
}

// hasKey refuses a topology by another version of the placement key than the one before, when the cell has
// none of that version: nobody could be placed by it. Whether it has is not asked where no key is given.
func (d *desk) hasKey(ctx context.Context, newest *directory.Topology, next directory.Topology) error {
	if newest == nil || newest.KeyVersion == next.KeyVersion || d.keyed(ctx) != nil {
		return nil
	}
	if _, err := d.placer(ctx, next); err != nil {
		return hint(usagef("topology %d is by version %q of the placement key: %w", next.Version, next.KeyVersion, err), "give the cell that key first, or take version %q", newest.KeyVersion)
	}
	return nil
}

// fingerprint gives a topology that is to be published the fingerprint of its placement key, where that is at
// hand, and refuses another key than the cell's. Only where nobody is on the newest may a wrong one be put
// right, by accepting that all is drawn anew.
func (f *directoryFlags) fingerprint(ctx context.Context, d *desk, next, newest *directory.Topology, accept bool) error {
	if next.KeyCheck != "" && f.keyFile == "" && f.directory == directoryAWS {
		return nil // the key that is meant lies in the cell's account, which need not be in reach
	}
	key, err := d.keys(ctx, next.Cell, next.KeyVersion)
	switch {
	case errors.Is(err, errNoKey):
		return nil
	case err != nil:
		fmt.Fprintf(f.err, "note: topology %d gets no fingerprint of its placement key, which could not be read: %s\n", next.Version, printed(err.Error()))
		return nil
	}
	if err := next.CheckKey(key); err != nil && !(accept && newest.Tenants == 0) {
		return err
	}
	next.KeyCheck = directory.KeyCheck(key)
	return nil
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

// lostShard is a shard that a live topology names and the fleet does not have any more.
type lostShard struct {
	id       string
	versions []uint64 // of the topologies
}

// lostShards lists those of a cell whose shards have the ids given.
func (d *desk) lostShards(ctx context.Context, cell string, ids []string) ([]lostShard, error) {
	named, err := d.Named(ctx, cell)
	if err != nil {
		return nil, err
	}
	var lost []lostShard
	for _, id := range slices.Sorted(maps.Keys(named)) {
		if !slices.Contains(ids, id) {
			lost = append(lost, lostShard{id, named[id]})
		}
	}
	return lost, nil
}

// back says how a shard leaves a fleet.
func (l lostShard) back() string {
	return fmt.Sprintf("put it back, publish a topology --without %s, migrate, and retire the others before you take it out of the fleet", l.id)
}

// lost refuses a fleet whose cell lacks a shard that a live topology names.
func (d *desk) lost(ctx context.Context, c fleet.Cell) error {
	lost, err := d.lostShards(ctx, c.Name, c.Shards.IDs())
	if err != nil || len(lost) == 0 {
		return err
	}
	return hint(foundf("shard %q is not in the fleet's cell %q any more, and topology %s names it", lost[0].id, c.Name, versionsText(lost[0].versions)),
		"%s", lost[0].back())
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
		if err := d.OfService(cmd.Context(), fleet.Service); err != nil {
			return err
		}
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
				if errors.Is(err, directory.ErrInUse) {
					return hint(directoryError(err), "only an older version that nobody is on can be retired: cellwall topology migrate %s brings tenants to the newest, and topology show %s counts those on each", quote(args[0]), quote(args[0]))
				}
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
