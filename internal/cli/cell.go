package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet"
)

func cellCommand(a *app) *cobra.Command {
	f := &directoryFlags{app: a}
	cmd := &cobra.Command{
		Use:   "cell",
		Short: "Open and close cells for new tenants, see how full they are, and rotate their placement keys",
		Long: `Open and close cells for new tenants, see how full they are, and rotate their placement keys. A stamped cell is closed until it is
opened with the capacity that a load test measured for it.`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f.register(cmd)
	cmd.AddCommand(cellOpen(f), cellClose(f), cellHeadroom(f), cellReconcile(f), cellRotateKey(f))
	return cmd
}

func cellOpen(f *directoryFlags) *cobra.Command {
	var capacity, shardCapacity float64
	var keepFree int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "open CELL --capacity REQUESTS",
		Short: "Let a cell of the fleet take new tenants, up to its capacity less what is kept free",
		Long: `Let a cell of the fleet take new tenants, up to its capacity less what is kept free. The capacity is what
a load test measured for the whole cell, in requests per second; there is no default, since a guess would
be found out by tenants. A cell that the directory does not know yet is added. Opening an open cell again
changes its capacity. Zones that the fleet added at the end come to the directory; exit status 3 when the
fleet dropped one or has them in another order.`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			fleet, cell, err := f.stamped(args[0])
			if err != nil {
				return err
			}
			if capacity == 0 {
				problem := usagef("--capacity must be given")
				if cmd.Flags().Changed("capacity") {
					problem = usagef("--capacity 0: a cell that stands no request takes no tenants")
				}
				return hint(problem, "run a load test against the cell and give the requests per second that it stood")
			}
			if !cmd.Flags().Changed("shard-capacity") {
				shardCapacity = float64(fleet.Shard.Capacity)
			}
			if statefulShards(fleet) && shardCapacity == 0 {
				return hint(usagef("--shard-capacity must be given: with shard.state.mode home tenants are pinned to shards with headroom"), "run a load test against one shard, or write it as shard.capacity into the fleet")
			}
			whole, err := measured(capacity)
			if err != nil {
				return usagef("--capacity: %w", err)
			}
			one, err := measured(shardCapacity)
			if err != nil {
				return usagef("--shard-capacity: %w", err)
			}
			return f.with(cmd.Context(), func(d *desk) error {
				if err := d.admits(cmd.Context(), fleet.Service, cell.Name); err != nil {
					return err
				}
				if err := d.know(cmd.Context(), fleet.Service, cell); err != nil {
					return err
				}
				if err := d.extend(cmd.Context(), cell); err != nil {
					return err
				}
				opened, err := d.OpenCell(cmd.Context(), cell.Name, whole, one, keepFree, d.change())
				if err != nil {
					return err
				}
				if opened.Topology == 0 {
					fmt.Fprintf(f.err, "note: cell %s has no topology yet, so that no shard will hold its tenants: cellwall topology publish %s\n", cell.Name, cell.Name)
				}
				if err := f.noteLater(cmd.Context(), d, opened); err != nil {
					return err
				}
				return f.printCells([]cellReport{report(opened)}, asJSON)
			})
		},
	}
	floatVar(cmd.Flags(), &capacity, "capacity", 0, "requests per second that a load test measured for the cell")
	floatVar(cmd.Flags(), &shardCapacity, "shard-capacity", 0, "the same for one of its shards (default: shard.capacity of the fleet)")
	intVar(cmd.Flags(), &keepFree, "keep-free", directory.DefaultHeadroom, "per cent of the capacity that new tenants leave free, 0 to 90")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// measured is a measured number of requests per second, less what is below a thousandth: a cell is never
// taken to stand more than it did.
func measured(perSecond float64) (directory.Rate, error) {
	r, err := directory.PerSecond(perSecond)
	if r.Float() > perSecond {
		r--
	}
	return r, err
}

func cellClose(f *directoryFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "close CELL",
		Short: "Keep new tenants from a cell; those who are there stay",
		Args:  exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd.Context(), func(d *desk) error {
				closed, err := d.CloseCell(cmd.Context(), args[0], d.change())
				if err != nil {
					return err
				}
				if err := f.noteLater(cmd.Context(), d, closed); err != nil {
					return err
				}
				return f.printCells([]cellReport{report(closed)}, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// noteLater tells whoever repeats a change of a cell when the cell no longer stands as that left it.
func (f *directoryFlags) noteLater(ctx context.Context, d *desk, left directory.Cell) error {
	if f.operation == "" {
		return nil
	}
	now, err := d.Cell(ctx, left.Name)
	if err == nil && (now.Did != left.Did || !now.Updated.Equal(left.Updated)) {
		fmt.Fprintf(f.err, "note: operation %s was done before, and the cell was changed since: cellwall cell headroom %s shows how it stands\n", quote(f.operation), left.Name)
	}
	return err
}

func cellHeadroom(f *directoryFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "headroom [CELL...]",
		Short: "Show how much each cell may take yet",
		Long: `Show what each cell, or those named, was measured to stand, what is kept free, what its tenants reserved,
and what is left for new ones. With --json each line is an object. Rates are in requests per second.`,
		Args: usageArgs(cobra.ArbitraryArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.read(cmd.Context(), func(d *desk) error {
				cells, err := d.cells(cmd.Context(), args)
				if err != nil {
					return err
				}
				var reports []cellReport
				for _, c := range cells {
					reports = append(reports, report(c))
				}
				return f.printCells(reports, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

// cellReport is one line of cell headroom. Rates are in requests per second.
type cellReport struct {
	Cell     string                    `json:"cell"`
	Open     bool                      `json:"open"`
	Internal bool                      `json:"internal"`
	Capacity directory.Rate            `json:"capacity"`
	KeepFree int                       `json:"keepFreePercent"`
	Limit    directory.Rate            `json:"limit"`
	Reserved directory.Rate            `json:"reserved"`
	Left     directory.Rate            `json:"left"` // 0 when it is closed
	Tenants  int64                     `json:"tenants"`
	Topology uint64                    `json:"topology"`
	Pinned   map[string]directory.Rate `json:"pinned,omitempty"` // by shard
}

func report(c directory.Cell) cellReport {
	r := cellReport{c.Name, c.Open, c.Internal, c.Capacity, c.Headroom, c.Limit(), c.Load, 0, c.Tenants, c.Topology, c.Pinned}
	if c.Open {
		r.Left = max(0, r.Limit-r.Reserved)
	}
	return r
}

func (f *directoryFlags) printCells(cells []cellReport, asJSON bool) error {
	if asJSON {
		for _, c := range cells {
			if err := f.json(c); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(f.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "cell\tstate\tfor\tcapacity\tkept free\tlimit\treserved\tleft\ttenants\ttopology")
	for _, c := range cells {
		state, who := "closed", "any"
		if c.Open {
			state = "open"
		}
		if c.Internal {
			who = "internal"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%v\t%d %%\t%v\t%v\t%v\t%d\t%d\n", c.Cell, state, who, c.Capacity, c.KeepFree, c.Limit, c.Reserved, c.Left, c.Tenants, c.Topology)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the cells: %w", err)
	}
	return nil
}

// fleetCell is the cell of that name; wrong use when the fleet has none.
func fleetCell(f *fleet.Fleet, name string) (fleet.Cell, error) {
	i := slices.IndexFunc(f.Cells, func(c fleet.Cell) bool { return c.Name == name })
	if i < 0 {
		names := []string{}
		for _, c := range f.Cells {
			names = append(names, c.Name)
		}
		return fleet.Cell{}, usagef("cell %q is not in the fleet, which has %q", name, names)
	}
	return f.Cells[i], nil
}

// stamped is a cell of the fleet for a command that adds it to the directory, in a new one if need be.
func (f *directoryFlags) stamped(name string) (*fleet.Fleet, fleet.Cell, error) {
	f.create = true
	fl, err := f.loadFleet()
	if err != nil {
		return nil, fleet.Cell{}, err
	}
	c, err := fleetCell(fl, name)
	return fl, c, err
}

// admits refuses a cell that cannot be in the directory: the directory is another service's, or that of
// running cells, of which it is none.
func (d *desk) admits(ctx context.Context, service, cell string) error {
	if len(d.running) > 0 && !slices.Contains(d.running, cell) {
		return hint(usagef("cell %q does not run here: %s is %s", cell, d.where, cellNames(d.running)), "name the directory of that cell with --directory, or start it with cellwall local up --cell %s in another --state-dir", quote(cell))
	}
	return d.OfService(ctx, service)
}

// know adds a stamped cell, closed, when the directory does not know it yet, and has the directory remember
// whose it is.
func (d *desk) know(ctx context.Context, service string, c fleet.Cell) error {
	if err := d.Claim(ctx, service, d.changePart("claim")); err != nil {
		return err
	}
	if _, err := d.Cell(ctx, c.Name); !errors.Is(err, directory.ErrUnknownCell) {
		return err
	}
	cell := directory.Cell{Name: c.Name, Internal: c.Tenants == "internal", Zones: c.Zones, Headroom: directory.DefaultHeadroom}
	_, err := d.AddCell(ctx, cell, d.changePart("add"))
	if errors.Is(err, directory.ErrCellExists) { // somebody else did
		return nil
	}
	return err
}

// extend gives the directory the zones that the fleet's cell got since it was added.
func (d *desk) extend(ctx context.Context, c fleet.Cell) error {
	_, err := d.ExtendZones(ctx, c.Name, c.Zones, d.changePart("zones"))
	return err
}
