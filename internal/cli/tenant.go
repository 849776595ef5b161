package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet"
)

func tenantCommand(a *app) *cobra.Command {
	f := &directoryFlags{app: a}
	cmd := &cobra.Command{
		Use:   "tenant",
		Short: "Sign tenants up, look at them, and change where and whether they are served",
		Long: `Sign tenants up, look at them, and change where and whether they are served.

Every change is a compare-and-set on the tenant's epoch and is kept in its history; so is who looked at a
tenant by hand. Exit status 3 when the directory refuses a change, with nothing changed; 2 for tenants,
cells, shards and size classes that are not there.`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f.register(cmd)
	cmd.AddCommand(
		tenantAdd(f), tenantShow(f), tenantList(f), tenantHistory(f),
		tenantPin(f), tenantUnpin(f), tenantSuspend(f), tenantResume(f),
		tenantImport(f), tenantExport(f),
	)
	return cmd
}

func tenantAdd(f *directoryFlags) *cobra.Command {
	var s directory.SignUp
	var load float64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "add TENANT",
		Short: "Sign a tenant up, on the open cell with the most headroom",
		Long: `Sign a tenant up: on the open cell that has the most headroom left after adding it, and with
shard.state.mode home on the shards of that cell that have. The load is reserved there. Every shard of the
tenant's subset holds the tenant before its entry turns active.

Exit status 3, and nothing changed, when no cell has headroom, or when the tenant is there already. A
sign-up that was interrupted leaves the tenant in state placing, refused; the same command with the
--operation that tenant show prints finishes it.`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			fleet, err := f.loadFleet()
			if err != nil {
				return err
			}
			if s.Size != "" {
				if err := declared(fleet, s.Size); err != nil {
					return err
				}
			}
			if s.Load, err = directory.PerSecond(load); err != nil {
				return usagef("--load: %w", err)
			}
			s.Tenant, s.Stateful = args[0], statefulShards(fleet)
			return f.with(cmd.Context(), func(d *desk) error {
				if err := d.placeable(cmd.Context(), s.Internal); err != nil {
					return err
				}
				e, err := d.SignUp(cmd.Context(), s, d.change())
				if errors.Is(err, directory.ErrExists) {
					return d.interrupted(cmd.Context(), s.Tenant, err)
				}
				if err != nil {
					return err
				}
				return f.printChanged("added", e, asJSON)
			})
		},
	}
	floatVar(cmd.Flags(), &load, "load", 0, "requests per second that the tenant is expected to send")
	wordVar(cmd.Flags(), &s.Size, "size", "", "size class of the fleet (default: the default class)")
	cmd.Flags().BoolVar(&s.Internal, "internal", false, "one of your own tenants: goes to a cell for internal tenants, the canary")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// placeable refuses a sign-up that would stop half-way: with topologies there are subsets to compute, and
// the shards of each cell that the tenant may come to must be in reach.
func (d *desk) placeable(ctx context.Context, internal bool) error {
	cells, err := d.Cells(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(cells, func(c directory.Cell) bool { return c.Topology > 0 }) {
		if err := d.keyed(ctx); err != nil {
			return err
		}
	}
	for _, c := range cells {
		if !c.Open || c.Internal != internal || c.Topology == 0 {
			continue
		}
		if err := d.reach(c.Name); err != nil {
			return err
		}
	}
	return nil
}

// declared refuses a size class that the fleet does not have.
func declared(f *fleet.Fleet, size string) error {
	if _, ok := f.Placement.Sizes[size]; ok {
		return nil
	}
	sizes := []string{}
	for name := range f.Placement.Sizes {
		sizes = append(sizes, name)
	}
	slices.Sort(sizes)
	return hint(usagef("size class %q is not declared in the fleet's placement.sizes, which has %q", size, sizes), "choose one of them, or declare it and publish a topology that has it")
}

func statefulShards(f *fleet.Fleet) bool { return f.Shard.State.Mode == fleet.StateHome }

// interrupted adds to the refusal of a tenant that is there how to finish its sign-up.
func (d *desk) interrupted(ctx context.Context, tenant string, err error) error {
	e, getErr := d.Get(ctx, tenant)
	if getErr != nil || e.State != directory.Placing {
		return err
	}
	return hint(foundf("%w, in state %s: its sign-up was interrupted", err, e.State), "the same command with --operation %s finishes it", quote(e.Operation))
}

// epochFlag is the epoch that a change expects.
func epochFlag(cmd *cobra.Command, epoch *uint64) {
	countedVar(cmd.Flags(), epoch, "epoch", "refuse unless the tenant's entry has this epoch (default: whichever stands)")
}

// changing is a command that changes one entry.
func (f *directoryFlags) changing(cmd *cobra.Command, did string, do func(ctx context.Context, d *desk, args []string, epoch uint64) (directory.Entry, error)) *cobra.Command {
	var epoch uint64
	var asJSON bool
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.with(cmd.Context(), func(d *desk) error {
			e, err := do(cmd.Context(), d, args, epoch)
			if e.Epoch == 0 {
				return err
			}
			// With an error it is changed, and a shard did not let go.
			return errors.Join(err, f.printChanged(did, e, asJSON))
		})
	}
	epochFlag(cmd, &epoch)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func tenantPin(f *directoryFlags) *cobra.Command {
	return f.changing(&cobra.Command{
		Use:   "pin TENANT SHARD...",
		Short: "Give a tenant an explicit subset of its cell's shards, the most preferred first",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return hint(usagef("tenant %q would be pinned to no shard", args[0]), "name one shard at least, or use tenant unpin")
			}
			return usageArgs(cobra.MinimumNArgs(2))(cmd, args)
		},
	}, "pinned", func(ctx context.Context, d *desk, args []string, epoch uint64) (directory.Entry, error) {
		e, err := d.Pin(ctx, args[0], args[1:], epoch, d.change())
		if errors.Is(err, directory.ErrInvalid) {
			err = hint(directoryError(err), "name shards of the tenant's cell, each once; cellwall topology show CELL VERSION lists them")
		}
		return e, err
	})
}

func tenantUnpin(f *directoryFlags) *cobra.Command {
	return f.changing(&cobra.Command{
		Use:   "unpin TENANT",
		Short: "Give a pinned tenant the subset that the scheme computes",
		Args:  exactly(1),
	}, "unpinned", func(ctx context.Context, d *desk, args []string, epoch uint64) (directory.Entry, error) {
		return d.Unpin(ctx, args[0], epoch, d.change())
	})
}

func tenantSuspend(f *directoryFlags) *cobra.Command {
	return f.changing(&cobra.Command{
		Use:   "suspend TENANT",
		Short: "Have a tenant refused, with status 403, until it is resumed",
		Long:  "Have a tenant refused, with status 403, until it is resumed. Its state and its shards stay. No placement key is needed.",
		Args:  exactly(1),
	}, "suspended", func(ctx context.Context, d *desk, args []string, epoch uint64) (directory.Entry, error) {
		return d.Suspend(ctx, args[0], epoch, d.change())
	})
}

func tenantResume(f *directoryFlags) *cobra.Command {
	return f.changing(&cobra.Command{
		Use:   "resume TENANT",
		Short: "Have a suspended tenant served again",
		Args:  exactly(1),
	}, "resumed", func(ctx context.Context, d *desk, args []string, epoch uint64) (directory.Entry, error) {
		return d.Resume(ctx, args[0], epoch, d.change())
	})
}

// printChanged says what became of an entry.
func (f *directoryFlags) printChanged(did string, e directory.Entry, asJSON bool) error {
	if asJSON {
		return f.json(e)
	}
	pins := ""
	if len(e.Pins) > 0 {
		pins = ", pinned to " + strings.Join(e.Pins, " ")
	}
	_, err := fmt.Fprintf(f.out, "%s %s: cell %s, %s, epoch %d%s\n", did, shown(e.Tenant), e.Cell, e.State, e.Epoch, pins)
	return err
}

// shown is a text of the directory for people: whatever was written there, it cannot move a cursor.
func shown(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Sprintf("%q", text)
	}
	return printable(text)
}
