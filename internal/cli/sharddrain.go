package cli

import (
	"context"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/directory"
)

func shardDrain(f *directoryFlags) *cobra.Command {
	return drainCommand(f, &cobra.Command{
		Use:   "drain CELL/SHARD",
		Short: "Have routers choose a shard last; nobody is moved",
		Long: `Have routers choose a shard last, from the keeper's next snapshot on. Nobody is moved, and no subset changes:
the shard's tenants are served by their other shards, and by this one when those fail. With shard.state.mode home,
what has its home there goes there still. A drained shard stays so until shard undrain.

This is for a shard that is in trouble now. To take one out for good, publish a topology without it (topology publish
CELL --drain SHARD) and migrate its tenants. With --json the drain is an object.`,
		Example: "  cellwall shard drain eu-1/s07 --because 'disk errors on two of three targets'",
	}, (*directory.Directory).DrainShard)
}

func shardUndrain(f *directoryFlags) *cobra.Command {
	return drainCommand(f, &cobra.Command{
		Use:   "undrain CELL/SHARD",
		Short: "Have routers choose a drained shard as any other",
		Long: `Have routers choose a drained shard as any other, from the keeper's next snapshot on. With --json the cell's drain
is an object, whose since is null.`,
		Example: "  cellwall shard undrain eu-1/s07",
	}, (*directory.Directory).UndrainShard)
}

// drainReport is one line of shard drains, and the answer of drain and undrain.
type drainReport struct {
	Cell  string     `json:"cell"`
	Shard string     `json:"shard"`
	By    string     `json:"by,omitempty"`
	Why   string     `json:"why,omitempty"`
	Since *time.Time `json:"since"` // null when it is not drained
}

func drainCommand(f *directoryFlags, cmd *cobra.Command, change func(*directory.Directory, context.Context, string, string, directory.Change) (directory.Cell, error)) *cobra.Command {
	var asJSON bool
	cmd.Args = exactly(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return f.with(ctx, func(d *desk) error {
			cell, shard, err := d.shard(ctx, args[0])
			if err != nil {
				return err
			}
			left, err := change(d.Residence.Directory, ctx, cell, shard, d.change())
			if err != nil {
				return err
			}
			if err := f.noteLater(ctx, d, left); err != nil {
				return err
			}
			if err := f.noteAllDrained(ctx, d, left); err != nil {
				return err
			}
			report := drainReport{Cell: cell, Shard: shard}
			for _, r := range drainReports(left) {
				if r.Shard == shard {
					report = r
				}
			}
			if asJSON {
				return f.json(report)
			}
			text := "is drained: routers choose it last"
			if report.Since == nil {
				text = "is not drained"
			}
			_, err = fmt.Fprintf(f.out, "%s/%s %s\n", cell, shard, text)
			return err
		})
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// noteAllDrained tells that drains which cover a whole topology prefer nobody.
func (f *directoryFlags) noteAllDrained(ctx context.Context, d *desk, c directory.Cell) error {
	if c.Topology == 0 || len(c.Drained) == 0 {
		return nil
	}
	t, err := d.Topology(ctx, c.Name, c.Topology)
	if err != nil {
		return err
	}
	for _, s := range t.Shards {
		if s.State == directory.InUse && !slices.ContainsFunc(c.Drained, func(drained directory.Drain) bool { return drained.Shard == s.ID }) {
			return nil
		}
	}
	fmt.Fprintf(f.err, "note: every shard of cell %s is drained, so that routers choose among them as if none were\n", c.Name)
	return nil
}

func drainReports(c directory.Cell) []drainReport {
	var reports []drainReport
	for _, d := range c.Drained {
		reports = append(reports, drainReport{c.Name, d.Shard, d.By, d.Why, &d.Since})
	}
	return reports
}

func shardDrains(f *directoryFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "drains [CELL...]",
		Short: "List the drained shards, of all cells or of those named",
		Long: `List the shards that routers choose last because an operator said so, of all cells or of those named, with who did
it, when and why. With --json each line is an object.`,
		Args: usageArgs(cobra.ArbitraryArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return f.read(ctx, func(d *desk) error {
				cells, err := d.cells(ctx, args)
				if err != nil {
					return err
				}
				var reports []drainReport
				for _, c := range cells {
					reports = append(reports, drainReports(c)...)
				}
				if asJSON {
					for _, r := range reports {
						if err := f.json(r); err != nil {
							return err
						}
					}
					return nil
				}
				w := tabwriter.NewWriter(f.out, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "shard\tsince\tby\twhy")
				for _, r := range reports {
					fmt.Fprintf(w, "%s/%s\t%s\t%s\t%s\n", r.Cell, r.Shard, r.Since.Format(time.RFC3339), shown(r.By), shown(r.Why))
				}
				if err := w.Flush(); err != nil {
					return fmt.Errorf("write the drains: %w", err)
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

// cells is all cells of the directory, or those named, each once.
func (d *desk) cells(ctx context.Context, named []string) ([]directory.Cell, error) {
	if len(named) == 0 {
		return d.Cells(ctx)
	}
	var cells []directory.Cell
	for i, name := range named {
		if slices.Contains(named[:i], name) {
			continue
		}
		c, err := d.Cell(ctx, name)
		if err != nil {
			return nil, err
		}
		cells = append(cells, c)
	}
	return cells, nil
}
