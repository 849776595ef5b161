package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/directory"
)

// migrateReport is the JSON form of topology migrate.
type migrateReport struct {
	Cell    string       `json:"cell"`
	To      uint64       `json:"toVersion"`
	Placed  int          `json:"placed"`          // tenants brought to the version, or found there
	Skipped []leftTenant `json:"skipped"`         // left where they are
	Failed  []leftTenant `json:"failed"`          // of whom it is not known whether all was done
	On      int64        `json:"on"`              // the cell's tenants on the version at the end
	Others  int64        `json:"others"`          // and on other versions or none, whatever the cause
	Drained []string     `json:"pinnedToDrained"` // tenants who keep shards in use that the version drains
}

type leftTenant struct {
	Tenant string `json:"tenant"`
	Why    string `json:"why"`
}

func topologyMigrate(f *directoryFlags) *cobra.Command {
	var to uint64
	var batch int
	var asJSON, accept bool
	cmd := &cobra.Command{
		Use:   "migrate CELL",
		Short: "Move a cell's tenants to a version of its topology, in batches, by compare-and-set",
		Long: `Move the tenants of a cell to a version of its topology, by default the newest: each by compare-and-set,
after every shard of its new subset holds it, and several at a time. A tenant that fails does not keep the
others; after 100 failures in a row it ends. It may be interrupted at any time: tenants that were begun are
finished, no other is, and the numbers of those on the version and on others are told. The same command goes
on with those who are left, and finishes what failed.

Exit status 3 when tenants were left where they are, each with its reason: being signed up or moved, or a
size class or pin that the version does not have; or when others than those are not on the version in the
end, because somebody else changed them; 1 when some failed. With another placement key than the cell's 2,
with nobody migrated. Without --accept-remap 3, with nobody
migrated, when the version draws the subsets of all tenants anew. With shard.state.mode home 3, too, with
nobody migrated: a tenant's state lies on its shards, so that it needs a move. That you went through the
tenants is kept in the record that tenant history --operator prints.`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if batch < 1 || batch > 10000 {
				return usagef("--batch %d: want 1 to 10000 tenants", batch)
			}
			fleet, err := f.loadFleet()
			if err != nil {
				return err
			}
			return f.with(ctx, func(d *desk) error {
				if err := d.OfService(ctx, fleet.Service); err != nil {
					return err
				}
				newest, err := d.newest(ctx, args[0])
				switch {
				case err != nil:
					return err
				case newest == nil:
					return hint(usagef("cell %q has no topology: publish one first", args[0]), "cellwall topology publish %s", quote(args[0]))
				case to == 0:
					to = newest.Version
				}
				if err := d.remapped(ctx, args[0], to, accept); err != nil {
					return err
				}
				if err := d.keyed(ctx); err != nil {
					return err
				}
				if err := d.reach(args[0]); err != nil {
					return err
				}
				if err := d.placeBy(ctx, args[0], to); err != nil {
					return err
				}
				m := directory.Migration{Cell: args[0], To: to, Stateful: statefulShards(fleet)}
				r, err := f.migrate(ctx, d, m, batch)
				return f.printMigrated(r, err, asJSON)
			})
		},
	}
	countedVar(cmd.Flags(), &to, "to", "version (default: the newest)")
	intVar(cmd.Flags(), &batch, "batch", 100, "tenants between two lines of progress, 1 to 10000")
	cmd.Flags().BoolVar(&accept, "accept-remap", false, "migrate although the version draws the subsets of all tenants anew")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// remapped refuses a migration to a version that draws the subsets of all tenants anew, unless that is
// accepted.
func (d *desk) remapped(ctx context.Context, cell string, to uint64, accept bool) error {
	if accept {
		return nil
	}
	next, err := d.Topology(ctx, cell, to)
	if err != nil {
		return err
	}
	return d.remaps(ctx, cell, next)
}

// placeBy refuses a placement key that is not the one of the version, or of another that has tenants: both
// subsets of a tenant are needed.
func (d *desk) placeBy(ctx context.Context, cell string, to uint64) error {
	for t, err := range d.topologies(ctx, cell) {
		if err != nil {
			return err
		}
		if t.Version != to && t.Tenants == 0 {
			continue
		}
		if _, err := d.placer(ctx, t); errors.Is(err, directory.ErrKey) {
			return err
		}
	}
	return nil
}

// migrateFailures in a row, with nobody migrated between them, end a migration: it is no use to go on then.
const migrateFailures = 100

// migrate goes through the cell's tenants. With an error the report tells how far it came.
func (f *directoryFlags) migrate(ctx context.Context, d *desk, m directory.Migration, batch int) (migrateReport, error) {
	r, err := f.migrateAll(ctx, d, m, batch)
	if err != nil && r.begun() == 0 {
		return r, err
	}
	// Also after an interrupt: it is two or three requests, which the home bounds.
	return r, errors.Join(err, d.sumUp(context.WithoutCancel(ctx), &r, err == nil))
}

func (r migrateReport) begun() int { return r.Placed + len(r.Skipped) + len(r.Failed) }

// sumUp counts where the cell's tenants are by now, which others may have changed meanwhile, and with all
// set finds those whose pins keep drained shards in use.
func (d *desk) sumUp(ctx context.Context, r *migrateReport, all bool) error {
	to, err := d.Topology(ctx, r.Cell, r.To)
	if err != nil {
		return err
	}
	cell, err := d.Cell(ctx, r.Cell)
	if err != nil {
		return err
	}
	r.On, r.Others = to.Tenants, max(0, cell.Tenants-to.Tenants)
	if !all || !slices.ContainsFunc(to.Shards, func(s directory.Shard) bool { return s.State == directory.Drained }) {
		return nil
	}
	for e, err := range directory.Pages(func(after string, limit int) ([]directory.Entry, error) { return d.ListCell(ctx, r.Cell, after, limit) }) {
		if err != nil {
			return err
		}
		if len(to.Drains(e.Pins)) > 0 {
			r.Drained = append(r.Drained, e.Tenant)
		}
	}
	return nil
}

func (f *directoryFlags) migrateAll(ctx context.Context, d *desk, m directory.Migration, batch int) (migrateReport, error) {
	r := migrateReport{Cell: m.Cell, To: m.To, Skipped: []leftTenant{}, Failed: []leftTenant{}, Drained: []string{}}
	cell, err := d.Cell(ctx, m.Cell)
	if err == nil {
		err = d.noteListing(ctx, "topology migrate", m.Cell, fmt.Sprintf("--to %d", m.To))
	}
	if err != nil {
		return r, err
	}
	f.watches() // no tenant is to stop half-way
	failures := 0
	for after := ""; ; {
		page, err := d.Migrate(ctx, m, after, batch, d.change())
		r.Placed += page.Moved
		r.Skipped = append(r.Skipped, lefts(page.Skipped)...)
		r.Failed = append(r.Failed, lefts(page.Failed)...)
		switch {
		case ctx.Err() != nil:
			return r, hint(fmt.Errorf("%w: %s of about %d were gone through, %d failed, and nobody was stopped half-way",
				context.Cause(ctx), count(r.begun(), "tenant"), cell.Tenants, len(r.Failed)), "the same command goes on with those who are left")
		case err != nil:
			return r, err
		}
		fmt.Fprintf(f.err, "to topology %d: %s of about %d, skipped: %d, failed: %d\n", m.To, count(r.Placed, "tenant"), cell.Tenants, len(r.Skipped), len(r.Failed))
		if failures += len(page.Failed); page.Moved > 0 {
			failures = 0
		}
		if after = page.Next; after == "" || failures >= migrateFailures {
			return r, nil
		}
	}
}

func lefts(tenants []directory.Left) []leftTenant {
	out := make([]leftTenant, len(tenants))
	for i, t := range tenants {
		out[i] = leftTenant{t.Tenant, t.Why.Error()}
	}
	return out
}

// printMigrated prints how far a migration came, whatever ended it.
func (f *directoryFlags) printMigrated(r migrateReport, ended error, asJSON bool) error {
	if ended != nil && r.begun() == 0 {
		return ended
	}
	var err error
	if asJSON {
		err = f.json(r)
	} else {
		failed := ""
		if len(r.Failed) > 0 {
			failed = fmt.Sprintf(", %d failed", len(r.Failed))
		}
		_, err = fmt.Fprintf(f.out, "cell %s: %s brought to topology %d or found there, %d skipped%s; now %d are on it and %d are not\n",
			r.Cell, count(r.Placed, "tenant"), r.To, len(r.Skipped), failed, r.On, r.Others)
	}
	for _, left := range [][]leftTenant{r.Skipped, r.Failed} {
		for _, t := range left {
			fmt.Fprintf(f.err, "%s: %s\n", shown(t.Tenant), printed(t.Why))
		}
	}
	if len(r.Drained) > 0 {
		fmt.Fprintf(f.err, "note: pinned to shards that topology %d drains, and staying there: %s, of whom the first is %s; tenant unpin empties those shards\n", r.To, count(len(r.Drained), "tenant"), shown(r.Drained[0]))
	}
	switch {
	case ended != nil:
		return errors.Join(ended, err)
	case err != nil:
		return err
	case len(r.Failed) > 0:
		return hint(fmt.Errorf("%s failed, and %d could not be migrated", count(len(r.Failed), "tenant"), len(r.Skipped)),
			"the same command goes on with those who are left, and finishes what failed")
	case len(r.Skipped) > 0:
		return foundf("%s could not be migrated", count(len(r.Skipped), "tenant"))
	case r.Others > 0:
		return hint(foundf("%d of the cell's tenants are not on topology %d: they came, or somebody else migrated them, meanwhile", r.Others, r.To),
			"the same command brings them there, if nobody else is at it; cellwall topology show %s counts them", quote(r.Cell))
	}
	return nil
}
