package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/blast"
	"cellwall.dev/cellwall/internal/placement"
)

func blastCommand(a *app) *cobra.Command {
	var p placing
	var file, failed string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "blast --scheme S --shards N --per-tenant K --key-hex HEX --tenants-file F --failed 3,7",
		Short: "Count the tenants that a failure of shards hits",
		Long: `Count the tenants that are fully down (all of their shards failed) and degraded (at least one did, the
fully down included) when shards fail together, and the pairs of tenants that share a shard at all.

Shards are named by their index from 0, as place prints them. Every tenant counts as one; loads in the
file are checked and not used.

Very many tenants on very many shards each make the pairs too much to count, which is found out before the
counting. Then the pairs are left out and the rest is printed; with --json, where one object has all five
counts, the command refuses with status 2.`,
		Example: `  cellwall blast --scheme rendezvous/v1 --shards 16 --per-tenant 2 --key-hex 6b --tenants-file tenants.csv --failed 3,7`,
		Args:    exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"tenants-file", "failed"} {
				if !cmd.Flags().Changed(name) {
					return hint(usagef("--%s must be given", name), "see %s --help", cmd.CommandPath())
				}
			}
			subsets, err := p.subsets(cmd, a.err)
			if err != nil {
				return err
			}
			shards, err := parseShards(failed)
			if err != nil {
				return err
			}
			tenants, err := a.filePopulation(file, placementID)
			if err != nil {
				return err
			}
			tenants.noteLong(a.err)
			report, err := measure(p.shards, tenants.tenants, subsets, shards)
			if err != nil {
				return err
			}
			if report.tooCostly != nil && asJSON {
				return hint(usagef("%w", report.tooCostly), "without --json the tenants that are fully down and degraded are counted, and the pairs are not")
			}
			if asJSON {
				return json.NewEncoder(a.out).Encode(report)
			}
			return report.print(a.out, shards, p.shards)
		},
	}
	p.register(cmd)
	cmd.Flags().StringVar(&file, "tenants-file", "", "file of tenants, - for standard input")
	cmd.Flags().StringVar(&failed, "failed", "", "indices of the shards that fail together, as 3,7")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// blastReport is the counts of one failure.
type blastReport struct {
	Tenants     int    `json:"tenants"`
	FullyDown   int    `json:"fully_down"`
	Degraded    int    `json:"degraded"`
	Overlapping uint64 `json:"overlapping_pairs"`
	Pairs       uint64 `json:"pairs"`

	tooCostly error // why the last two are not counted
}

// measure counts over the subsets of these tenants.
func measure(shards int, tenants []string, subsets placement.Subsets, failed []int) (*blastReport, error) {
	var unplaced error
	population, err := blast.Collect(shards, subsetsOf(tenants, subsets, &unplaced))
	if err = errors.Join(unplaced, err); err != nil {
		return nil, err
	}
	impact, err := population.Fail(failed)
	if err != nil {
		return nil, usagef("--failed: %w", err)
	}
	overlap, err := population.Overlap() // which tells before any work that it would be too much
	if err != nil && !errors.Is(err, blast.ErrTooLarge) {
		return nil, err
	}
	return &blastReport{
		Tenants:     population.Tenants(),
		FullyDown:   impact.FullyDown,
		Degraded:    impact.Degraded,
		Overlapping: overlap.Overlapping,
		Pairs:       overlap.Pairs,
		tooCostly:   err,
	}, nil
}

// subsetsOf yields each tenant's subset, in one slice that is used again, up to the first tenant that
// cannot be placed.
func subsetsOf(tenants []string, subsets placement.Subsets, unplaced *error) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		var buf []int
		for i, tenant := range tenants {
			var err error
			if buf, err = subsets.Append(buf[:0], numberedTenant(i, 1, tenant)); err != nil {
				*unplaced = fmt.Errorf("tenant %s: %w", printable(tenant), err)
				return
			}
			if !yield(buf) {
				return
			}
		}
	}
}

// parseShards reads indices of shards, separated by commas.
func parseShards(list string) ([]int, error) {
	var shards []int
	for _, field := range strings.Split(list, ",") {
		text := strings.TrimSpace(field)
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil || len(text) > 1 && text[0] == '0' {
			return nil, usagef("--failed: %q is no index of a shard: write indices from 0, separated by commas, as 3,7", field)
		}
		shards = append(shards, int(n))
	}
	return shards, nil
}

// print writes the counts for people, with the share that each is.
func (r *blastReport) print(w io.Writer, failed []int, shards int) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "tenants\t%d\n", r.Tenants)
	fmt.Fprintf(table, "failed\tshards %s of 0 to %d\n", joinInts(failed, ", "), shards-1)
	fmt.Fprintf(table, "fully down\t%d\t%s\n", r.FullyDown, percentOf(uint64(r.FullyDown), uint64(r.Tenants)))
	fmt.Fprintf(table, "degraded\t%d\t%s\n", r.Degraded, percentOf(uint64(r.Degraded), uint64(r.Tenants)))
	if r.tooCostly != nil {
		fmt.Fprintf(table, "pairs\tnot counted: %v\n", r.tooCostly)
		return table.Flush()
	}
	fmt.Fprintf(table, "pairs that share a shard\t%d of %d\t%s\n", r.Overlapping, r.Pairs, percentOf(r.Overlapping, r.Pairs))
	return table.Flush()
}

// percentOf is part of whole in per cent. No part of nothing is 0 %.
func percentOf(part, whole uint64) string {
	if whole == 0 {
		return "0.00 %"
	}
	return fmt.Sprintf("%.2f %%", 100*float64(part)/float64(whole))
}
