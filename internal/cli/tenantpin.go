package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/directory"
)

func tenantPin(f *directoryFlags) *cobra.Command {
	return f.changing(&cobra.Command{
		Use:   "pin TENANT SHARD...",
		Short: "Give a tenant an explicit subset of its cell's shards, the most preferred first",
		Long: `Give a tenant an explicit subset of its cell's shards, the most preferred first. A shard may be drained: then
nobody else is placed there, and that is said.

Exit status 3 when it is pinned so already, and with shard.state.mode home when the subset of a tenant that is
served would change: its state lies on its shards, so that it needs a move.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return hint(usagef("tenant %q would be pinned to no shard", args[0]), "name one shard at least, or use tenant unpin")
			}
			return usageArgs(cobra.MinimumNArgs(2))(cmd, args)
		},
	}, "pinned", func(ctx context.Context, d *desk, args []string, epoch uint64) (directory.Entry, error) {
		tenant, pins := args[0], args[1:]
		before, err := f.repinned(ctx, d, tenant, pins)
		if err != nil {
			return directory.Entry{}, err
		}
		if slices.Equal(before.Pins, pins) && f.operation == "" && (epoch == 0 || epoch == before.Epoch) {
			return directory.Entry{}, foundf("change tenant %q: it is pinned to %s already, at epoch %d", tenant, strings.Join(pins, " "), before.Epoch)
		}
		e, err := d.Pin(ctx, tenant, pins, epoch, d.change())
		if errors.Is(err, directory.ErrInvalid) {
			err = hint(directoryError(err), "name shards of the tenant's cell, each once; cellwall topology show CELL VERSION lists them")
		}
		if err == nil {
			err = f.noteDrained(ctx, d, e)
		}
		return e, err
	})
}

func tenantUnpin(f *directoryFlags) *cobra.Command {
	return f.changing(&cobra.Command{
		Use:   "unpin TENANT",
		Short: "Give a pinned tenant the subset that the scheme computes",
		Long: `Give a pinned tenant the subset that the scheme computes. Exit status 3 when it is not pinned, and with
shard.state.mode home when the subset of a tenant that is served would change: it needs a move.`,
		Args: exactly(1),
	}, "unpinned", func(ctx context.Context, d *desk, args []string, epoch uint64) (directory.Entry, error) {
		before, err := f.repinned(ctx, d, args[0], nil)
		if err != nil {
			return directory.Entry{}, err
		}
		e, err := d.Unpin(ctx, args[0], epoch, d.change())
		if errors.Is(err, directory.ErrState) && len(before.Pins) == 0 && before.State != directory.Placing {
			err = hint(directoryError(err), "nothing is to be done: cellwall tenant show has its subset")
		}
		return e, err
	})
}

// repinned returns the entry of a tenant who is to get other pins. It refuses that with directory.ErrHome
// where the tenant's state would stay behind: on other shards than those that serve it then. Another order
// of the same shards leaves nothing behind.
func (f *directoryFlags) repinned(ctx context.Context, d *desk, tenant string, pins []string) (directory.Entry, error) {
	fleet, err := f.loadFleet()
	if err != nil {
		return directory.Entry{}, err
	}
	if err := d.OfService(ctx, fleet.Service); err != nil {
		return directory.Entry{}, err
	}
	before, err := d.Get(ctx, tenant)
	if err != nil || !statefulShards(fleet) || before.State == directory.Placing {
		return before, err
	}
	after := before.Clone()
	after.Pins = pins
	was, err := d.Subset(ctx, before)
	if err != nil {
		return before, err
	}
	is, err := d.Subset(ctx, after)
	if err != nil {
		return before, err
	}
	slices.Sort(was)
	slices.Sort(is)
	if !slices.Equal(was, is) {
		return before, fmt.Errorf("change tenant %q from the shards %s to %s: %w", tenant, strings.Join(was, " "), strings.Join(is, " "), directory.ErrHome)
	}
	return before, nil
}

// noteDrained says which pins of an entry lie on shards that its own topology, or the one that new tenants
// get, drains: the pins keep those in use.
func (f *directoryFlags) noteDrained(ctx context.Context, d *desk, e directory.Entry) error {
	newest, err := d.newest(ctx, e.Cell)
	if err != nil || newest == nil {
		return err
	}
	drains := newest
	drained := newest.Drains(e.Pins)
	if len(drained) == 0 && e.Topology > 0 && e.Topology != newest.Version {
		own, err := d.Topology(ctx, e.Cell, e.Topology)
		if err != nil {
			return err
		}
		drains, drained = &own, own.Drains(e.Pins)
	}
	if len(drained) > 0 {
		fmt.Fprintf(f.err, "note: topology %d drains %s: nobody else is placed there, and this pin keeps it in use\n", drains.Version, strings.Join(drained, " "))
	}
	return nil
}
