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
	"cellwall.dev/cellwall/internal/routing"
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
			if err := routing.Claimable(s.Tenant); err != nil && directory.ValidTenant(s.Tenant) {
				return usagef("TENANT %q: %w: no token could name this tenant, and each of its requests would be refused with 401", s.Tenant, err)
			}
			return f.with(cmd.Context(), func(d *desk) error {
				if err := d.OfService(cmd.Context(), fleet.Service); err != nil {
					return err
				}
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

// placeable refuses a sign-up that would stop half-way: of each cell that the tenant may come to, the shards
// must be in reach, and the placement key at hand that its newest topology places by.
func (d *desk) placeable(ctx context.Context, internal bool) error {
	cells, err := d.Cells(ctx)
	if err != nil {
		return err
	}
	for _, c := range cells {
		if !c.Open || c.Internal != internal || c.Topology == 0 {
			continue
		}
		if err := d.reach(c.Name); err != nil {
			return err
		}
		t, err := d.Topology(ctx, c.Name, c.Topology)
		if err != nil {
			return err
		}
		if _, err := d.placer(ctx, t); err != nil {
			return fmt.Errorf("cell %q, which the tenant may come to: nothing was done: %w", c.Name, err)
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
			did, stands, lookErr := f.since(cmd.Context(), d, did, e)
			// With an error it is changed, and a shard did not let go.
			return errors.Join(err, lookErr, f.printChanged(did, stands, asJSON))
		})
	}
	epochFlag(cmd, &epoch)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
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

// since is what stands of a change that is repeated when others followed it, with what to say of it.
func (f *directoryFlags) since(ctx context.Context, d *desk, did string, e directory.Entry) (string, directory.Entry, error) {
	if f.operation == "" {
		return did, e, nil
	}
	now, err := d.Get(ctx, e.Tenant)
	if err != nil || now.Epoch == e.Epoch {
		return did, e, err
	}
	fmt.Fprintf(f.err, "note: operation %s was done before, at epoch %d, and the tenant was changed since\n", quote(f.operation), e.Epoch)
	return fmt.Sprintf("%s at epoch %d, and changed since:", did, e.Epoch), now, nil
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

// shown is a text of the directory for people: whatever was written there, it cannot move a cursor, and one
// of spaces is seen.
func shown(text string) string {
	if text != strings.TrimSpace(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Sprintf("%q", text)
	}
	return printable(text)
}
