package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/directory"
)

// diffMove is one line of topology diff.
type diffMove struct {
	Tenant string   `json:"tenant"`
	From   []string `json:"from"`
	To     []string `json:"to"`
	Why    string   `json:"why,omitempty"` // why the tenant would be left where it is
}

// diffSum is the last line of topology diff.
type diffSum struct {
	From    uint64  `json:"fromVersion"`
	To      uint64  `json:"toVersion"`
	Tenants int     `json:"tenants"`
	Moving  int     `json:"moving"`
	Left    int     `json:"left"` // whom one of the versions cannot place
	Seats   int     `json:"seats"`
	Moved   int     `json:"movedSeats"`
	Minimum int     `json:"minimumSeats"`  // that any scheme moves which fills the shards as the new version does
	Expect  float64 `json:"expectedSeats"` // that an even spread moves on average, to three decimals
	Drained int     `json:"pinnedToDrained"`
	Anew    bool    `json:"anew"` // all subsets are drawn anew
}

func topologyDiff(f *directoryFlags) *cobra.Command {
	var p draft
	var from, to uint64
	var population string
	var sumOnly, asJSON bool
	cmd := &cobra.Command{
		Use:   "diff CELL",
		Short: "Tell who would move to another topology, from where to where, against the theoretical minimum",
		Long: `Tell which tenants would get another subset, from which shards to which, and how many seats move: a seat
is a tenant's membership of one shard. The minimum is the number that every scheme must move to fill the
shards as the new topology does, counted over these very tenants; beside it stands what is to be expected on
average if every shard in use is to have its fair share. Pinned tenants stay on their pins, also on a shard
that is drained, which is said. Whom a topology cannot place, since it lacks the size class, pin or slot, is
listed with the reason, and stays.

By default it compares the cell's newest topology with the one that topology publish would publish, over
the cell's tenants of the directory; --population takes the tenants of a file instead, all of the default
size class. It needs the placement key. Nothing is changed; that you looked at the directory's tenants is
kept in the record that tenant history --operator prints.`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			var file *filePopulationOf
			if population != "" {
				tenants, err := f.filePopulation(population, directoryID)
				if err != nil {
					return err
				}
				file = &filePopulationOf{tenants.tenants}
			}
			return f.read(ctx, func(d *desk) error {
				a, b, err := f.compared(ctx, d, &p, args[0], from, to)
				if err != nil {
					return err
				}
				if err := d.keyed(ctx); err != nil {
					return err
				}
				old, err := d.placer(ctx, a)
				if err != nil {
					return err
				}
				next, err := d.placer(ctx, b)
				if err != nil {
					return err
				}
				entries := directory.Pages(func(after string, limit int) ([]directory.Entry, error) {
					return d.ListCell(ctx, args[0], after, limit)
				})
				if file != nil {
					entries = file.entries(args[0])
				} else if err := d.noteListing(ctx, "topology diff", args[0], fmt.Sprintf("--from %d --to %d", a.Version, b.Version)); err != nil {
					return err
				}
				anew, err := a.Anew(b)
				if err != nil {
					return err
				}
				return f.printDiff(old, next, entries, diffSum{From: a.Version, To: b.Version, Anew: anew}, sumOnly, asJSON)
			})
		},
	}
	p.register(cmd)
	countedVar(cmd.Flags(), &from, "from", "version to compare from (default: the newest)")
	countedVar(cmd.Flags(), &to, "to", "version to compare with (default: what topology publish would publish)")
	wordVar(cmd.Flags(), &population, "population", "", "file of tenants, as cellwall place takes it, - for standard input")
	cmd.Flags().BoolVar(&sumOnly, "sum", false, "print the sum alone")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line, the last of which is the sum")
	return cmd
}

// compared is the two topologies of a diff.
func (f *directoryFlags) compared(ctx context.Context, d *desk, p *draft, cell string, from, to uint64) (a, b directory.Topology, err error) {
	newest, err := d.newest(ctx, cell)
	switch {
	case err != nil:
		return a, b, err
	case newest == nil:
		return a, b, usagef("cell %q has no topology yet, so that nobody can move", cell)
	}
	a = *newest
	if from > 0 {
		if a, err = d.Topology(ctx, cell, from); err != nil {
			return a, b, err
		}
	}
	if to > 0 {
		b, err = d.Topology(ctx, cell, to)
		return a, b, err
	}
	fleet, err := f.loadFleet()
	if err != nil {
		return a, b, err
	}
	if err := d.OfService(ctx, fleet.Service); err != nil {
		return a, b, err
	}
	c, err := fleetCell(fleet, cell)
	if err != nil {
		return a, b, err
	}
	b, err = p.next(fleet, c, newest.Version, newest)
	return a, b, err
}

// placer computes subsets by a topology that need not be published.
func (d *desk) placer(ctx context.Context, t directory.Topology) (*directory.Placer, error) {
	key, err := d.keys(ctx, t.Cell, t.KeyVersion)
	if err != nil {
		return nil, err
	}
	return t.Placer(key)
}

// filePopulationOf is tenants of a file in place of a directory's.
type filePopulationOf struct{ tenants []string }

func (p *filePopulationOf) entries(cell string) iter.Seq2[directory.Entry, error] {
	return func(yield func(directory.Entry, error) bool) {
		for _, id := range p.tenants {
			if !yield(directory.Entry{Tenant: id, Cell: cell}, nil) {
				return
			}
		}
	}
}

func (f *directoryFlags) printDiff(old, next *directory.Placer, entries iter.Seq2[directory.Entry, error], sum diffSum, sumOnly, asJSON bool) error {
	out := bufio.NewWriter(f.out)
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	counted, err := directory.Diff(old, next, entries, func(m directory.Move) {
		// What out could not write, Flush tells.
		switch {
		case sumOnly:
		case asJSON:
			line := diffMove{m.Tenant, m.From, m.To, ""}
			if m.Why != nil {
				line.Why = m.Why.Error()
			}
			_ = lines.Encode(line)
		case m.Why != nil:
			fmt.Fprintf(out, "%s\tis left: %s\n", shown(m.Tenant), printed(m.Why.Error()))
		default:
			fmt.Fprintf(out, "%s\t%s → %s\n", shown(m.Tenant), strings.Join(m.From, " "), strings.Join(m.To, " "))
		}
	})
	if err != nil {
		return err
	}
	sum.Tenants, sum.Moving, sum.Left = counted.Tenants, counted.Moving, counted.Left
	sum.Seats, sum.Moved, sum.Minimum = counted.Seats, counted.Moved, counted.Minimum
	sum.Expect, sum.Drained = math.Round(counted.Expected*1000)/1000, counted.Drained
	if asJSON {
		_ = lines.Encode(sum)
	} else {
		fmt.Fprintf(out, "topology %d → %d: %d of %d tenants move (%s), with %d of %d seats; the minimum is %d, and %.0f are to be expected of an even spread\n", sum.From, sum.To,
			sum.Moving, sum.Tenants, percentOf(uint64(sum.Moving), uint64(sum.Tenants)), sum.Moved, sum.Seats, sum.Minimum, sum.Expect)
		if sum.Left > 0 {
			fmt.Fprintf(out, "%s cannot be placed by topology %d, or by %d, and would be left\n", count(sum.Left, "tenant"), sum.To, sum.From)
		}
		if sum.Drained > 0 {
			fmt.Fprintf(out, "pinned to shards that topology %d drains, and staying there: %s; tenant unpin empties those shards\n", sum.To, count(sum.Drained, "tenant"))
		}
		if sum.Anew {
			fmt.Fprintf(out, "topology %d draws all subsets anew: publish and migrate want --accept-remap\n", sum.To)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write the difference: %w", err)
	}
	return nil
}
