package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/directory"
)

func cellReconcile(f *directoryFlags) *cobra.Command {
	var only string
	var touch, absent, asJSON bool
	cmd := &cobra.Command{
		Use:   "reconcile CELL",
		Short: "Bring a cell's shards in step with the directory, whatever ended half-way before",
		Long: `Bring the shards of a cell in step with the directory, whatever ended half-way before. Whom each shard holds that
a topology of the cell names, retired ones included, or the fleet does when there is a --fleet file, is compared with
the tenants' entries, and the other way round. Who is in a shard's subset and not held is held; who left is let go. Both are safe while others change tenants,
and the command may be given again at any time.

A shard that holds a tenant one epoch above the entry is reported: a change is on its way, or ended half-way. No
request is sent there. With --touch the entry is written anew, unchanged, and the shard lets go. Who is held and not
in the directory is reported, too, and forgotten with --absent: give that only while no import runs.

With a --directory FILE whose FILE.holds is missing, a new one is written. It comes into being when the whole cell was
gone through, so that --shard is refused then.

With --json each finding is an object on a line, and the last line has the counts. Exit status 3 when something is
left that is not in step, and when a shard does not answer. That you looked is kept in the record that tenant history
--operator prints.`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			f.holdAnew = true
			return f.with(ctx, func(d *desk) error {
				if _, err := d.Cell(ctx, args[0]); err != nil {
					return err
				}
				if err := d.keyed(ctx); err != nil {
					return err
				}
				if err := d.reach(args[0]); err != nil {
					return err
				}
				shards, err := f.mayHold(ctx, d, args[0], cmd.Flags().Changed("fleet"))
				if err != nil {
					return err
				}
				o := directory.Reconciling{Cell: args[0], Shards: shards, Touch: touch, Absent: absent}
				if only != "" {
					if !slices.Contains(shards, only) {
						return usagef("no topology of cell %q names shard %q, and no fleet does", args[0], only)
					}
					if d.keep != nil {
						return hint(usagef("--shard %s: all that says whom shards hold is missing", only), "leave --shard out")
					}
					o.Shards = []string{only}
				}
				if err := d.noteListing(ctx, "cell reconcile", args[0]); err != nil {
					return err
				}
				return f.reconcile(cmd, d, o, asJSON)
			})
		},
	}
	wordVar(cmd.Flags(), &only, "shard", "", "look at this shard alone")
	cmd.Flags().BoolVar(&touch, "touch", false, "write entries anew of tenants that a shard holds one epoch above them")
	cmd.Flags().BoolVar(&absent, "absent", false, "have shards forget tenants that the directory does not have; no import may run")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

// mayHold is the shards of a cell that may hold somebody: those that its topologies name, and those of the fleet
// when its file is there, or must be. It refuses a wrong placement key before anybody is held by it.
func (f *directoryFlags) mayHold(ctx context.Context, d *desk, cell string, mustFleet bool) ([]string, error) {
	named := map[string]bool{}
	for t, err := range d.topologies(ctx, cell) {
		if err != nil {
			return nil, err
		}
		for _, s := range t.Shards {
			named[s.ID] = true
		}
		if t.Retired {
			continue // nobody is placed by it, and its key may be gone
		}
		key, err := d.keys(ctx, cell, t.KeyVersion)
		if err == nil {
			err = t.CheckKey(key)
		}
		if err != nil {
			return nil, fmt.Errorf("placement key %q of cell %q: %w", t.KeyVersion, cell, err)
		}
	}
	if _, err := os.Stat(f.fleetFile); errors.Is(err, fs.ErrNotExist) && !mustFleet {
		return slices.Sorted(maps.Keys(named)), nil
	}
	fleet, err := f.loadFleet()
	if err != nil {
		return nil, err
	}
	if err := d.OfService(ctx, fleet.Service); err != nil {
		return nil, err
	}
	for _, c := range fleet.Cells {
		if c.Name != cell {
			continue // a cell that left the fleet has the shards of its topologies
		}
		for _, s := range c.Shards {
			named[s.ID] = true
		}
	}
	return slices.Sorted(maps.Keys(named)), nil
}

func (f *directoryFlags) reconcile(cmd *cobra.Command, d *desk, o directory.Reconciling, asJSON bool) error {
	out := bufio.NewWriter(f.out)
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	var printErr error
	told := time.Now()
	sum, err := d.Reconcile(cmd.Context(), o, d.change(), func(found directory.Finding) {
		if found.What == directory.Unreachable {
			fmt.Fprintf(f.err, "shard %s/%s: %s\n", o.Cell, found.Shard, shown(found.Err.Error()))
		}
		if asJSON {
			printErr = errors.Join(printErr, lines.Encode(found))
			return
		}
		state := "in step now"
		if !found.Done {
			state = "left"
		}
		_, err := fmt.Fprintf(out, "%s\t%s/%s\t%s\t%s\theld at %d, entry %d\n", found.What, o.Cell, found.Shard, shown(found.Tenant), state, found.Held, found.Entry)
		printErr = errors.Join(printErr, err)
	}, func(sum directory.Reconciled) {
		if time.Since(told) >= progressEvery {
			told = time.Now()
			fmt.Fprintf(f.err, "looked at %d holdings and %d tenants\n", sum.Holdings, sum.Tenants)
		}
	})
	if err == nil {
		if asJSON {
			printErr = errors.Join(printErr, lines.Encode(sum))
		} else {
			_, err := fmt.Fprintf(out, "%d holdings, %d tenants: %d missing, %d superfluous, %d pending, %d ahead, %d absent, %d shards unreachable; %d left\n",
				sum.Holdings, sum.Tenants, sum.Found[directory.Missing], sum.Found[directory.Superfluous], sum.Found[directory.Pending],
				sum.Found[directory.Ahead], sum.Found[directory.Absent], sum.Found[directory.Unreachable], sum.Left)
			printErr = errors.Join(printErr, err)
		}
	}
	if err := errors.Join(err, printErr, out.Flush()); err != nil {
		return err
	}
	if d.keep != nil {
		if err := f.keepAnew(cmd.Context(), d, o.Cell); err != nil {
			return err
		}
	}
	if sum.Left > 0 {
		return hint(foundf("cell %s: %s left", o.Cell, count(sum.Left, "finding")), "pending ones go with --touch, absent ones with --absent while no import runs; the others need their shard to answer")
	}
	return nil
}

// keepAnew has what was written anew be there from now on, and says whose holdings it lacks yet.
func (f *directoryFlags) keepAnew(ctx context.Context, d *desk, done string) error {
	cells, err := d.Cells(ctx)
	if err != nil {
		return err
	}
	if err := d.keep(); err != nil {
		return err
	}
	for _, c := range cells {
		if c.Name != done && c.Tenants > 0 {
			fmt.Fprintf(f.err, "note: nobody is held in cell %s yet: cellwall cell reconcile %s\n", c.Name, quote(c.Name))
		}
	}
	return nil
}
