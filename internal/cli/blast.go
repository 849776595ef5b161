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

// blasting is the flags of blast.
type blasting struct {
	placing
	file, failed    string
	failures, draws int
	byLoad, asJSON  bool
}

func blastCommand(a *app) *cobra.Command {
	var b blasting
	cmd := &cobra.Command{
		Use:   "blast --scheme S --shards N --per-tenant K (--key-file FILE | --key-hex HEX) --tenants-file F (--failed 3,7 | --failures N)",
		Short: "Count the tenants that a failure of shards hits",
		Long: `Count the tenants that are fully down (all of their shards failed) and degraded (at least one did, the
fully down included) when shards fail together, and the pairs of tenants that share a shard at all.

Shards are named by their index from 0, as place prints them. Every tenant counts as one; with --by-load
the loads of the file are counted too, and the capacity that tenants lose.

With --failures instead of --failed, every set of that many shards fails, one after another: the worst, the
mean and percentiles, by tenants and by load. Where there are too many sets, --sampled draws some: then means
are exact all the same, and percentiles come with an interval that holds them with 99 % confidence.

Very many tenants on very many shards each make the pairs too much to count, which is found out before the
counting. Then the pairs are left out and the rest is printed; with --json, where one object has all five
counts, the command refuses with status 2.

blast exact calculates what needs no tenants, and blast story tells what shuffle sharding is about.`,
		Example: `  cellwall blast --scheme rendezvous/v1 --shards 16 --per-tenant 2 --key-hex 6b --tenants-file tenants.csv --failed 3,7`,
		Args:    exactly(0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return b.run(a, cmd) },
	}
	b.register(cmd)
	cmd.Flags().StringVar(&b.file, "tenants-file", "", "file of tenants, - for standard input")
	cmd.Flags().StringVar(&b.failed, "failed", "", "indices of the shards that fail together, as 3,7")
	intVar(cmd.Flags(), &b.failures, "failures", 0, "fail every set of this many shards")
	intVar(cmd.Flags(), &b.draws, "sampled", 0, fmt.Sprintf("draw this many sets, up to %d, where there are too many", blast.MaxSets))
	cmd.Flags().BoolVar(&b.byLoad, "by-load", false, "count loads and lost capacity, too")
	cmd.Flags().BoolVar(&b.asJSON, "json", false, "print one JSON object")
	cmd.AddCommand(blastExact(a), blastStory(a))
	return cmd
}

func (b *blasting) run(a *app, cmd *cobra.Command) error {
	all := cmd.Flags().Changed("failures")
	needed := []string{"tenants-file", "failed"}
	if all {
		needed = needed[:1]
	}
	for _, name := range needed {
		if !cmd.Flags().Changed(name) {
			return hint(usagef("--%s must be given", name), "see %s --help", cmd.CommandPath())
		}
	}
	switch {
	case all && cmd.Flags().Changed("failed"):
		return usagef("--failed is one failure, and --failures is all of them: use one")
	case !all && cmd.Flags().Changed("sampled"):
		return usagef("--sampled is for --failures")
	case cmd.Flags().Changed("sampled") && b.draws < 1:
		return usagef("--sampled is %d: want 1 to %d, or leave it out", b.draws, blast.MaxSets)
	}
	subsets, err := b.subsets(cmd, a.err)
	if err != nil {
		return err
	}
	var shards []int
	if !all {
		if shards, err = parseShards(b.failed); err != nil {
			return err
		}
	}
	tenants, err := a.filePopulation(b.file, placementID)
	if err != nil {
		return err
	}
	tenants.noteLong(a.err)
	if b.byLoad && tenants.loads == nil {
		return usagef("--by-load: the tenants have no loads; write CSV with the header %s", populationHeader)
	}
	population, err := b.collect(tenants, subsets)
	if err != nil {
		return err
	}
	if all {
		return b.spread(a.out, population)
	}
	report, err := measure(population, shards, b.byLoad)
	if err != nil {
		return err
	}
	if report.tooCostly != nil && b.asJSON {
		return hint(usagef("%w", report.tooCostly), "without --json the tenants that are fully down and degraded are counted, and the pairs are not")
	}
	if b.asJSON {
		return json.NewEncoder(a.out).Encode(report)
	}
	return report.print(a.out, shards, b.shards)
}

// blastReport is the counts of one failure.
type blastReport struct {
	Tenants     int    `json:"tenants"`
	FullyDown   int    `json:"fully_down"`
	Degraded    int    `json:"degraded"`
	Overlapping uint64 `json:"overlapping_pairs"`
	Pairs       uint64 `json:"pairs"`

	*blastLoads

	tooCostly error // why the last two are not counted
}

// blastLoads is what --by-load adds.
type blastLoads struct {
	Load          float64     `json:"load"`
	FullyDownLoad float64     `json:"fully_down_load"`
	DegradedLoad  float64     `json:"degraded_load"`
	LostTenants   float64     `json:"lost_tenants"` // capacity, each tenant by the share of its shards that failed
	LostLoad      float64     `json:"lost_load"`
	Losses        []blastLoss `json:"losses"`
}

// blastLoss is the tenants that lost as many of their shards.
type blastLoss struct {
	Lost    int     `json:"lost"`
	Of      int     `json:"of"`
	Tenants int     `json:"tenants"`
	Load    float64 `json:"load"`
}

// measure counts what the failure does.
func measure(population *blast.Population, failed []int, byLoad bool) (*blastReport, error) {
	impact, err := population.Fail(failed)
	if err != nil {
		return nil, usagef("--failed: %w", err)
	}
	overlap, err := population.Overlap() // which tells before any work that it would be too much
	if err != nil && !errors.Is(err, blast.ErrTooLarge) {
		return nil, err
	}
	report := &blastReport{
		Tenants:     population.Tenants(),
		FullyDown:   impact.FullyDown,
		Degraded:    impact.Degraded,
		Overlapping: overlap.Overlapping,
		Pairs:       overlap.Pairs,
		tooCostly:   err,
	}
	if !byLoad {
		return report, nil
	}
	losses, err := population.Losses(failed)
	if err != nil {
		return nil, err
	}
	report.blastLoads = &blastLoads{
		Load: population.Load(), FullyDownLoad: impact.FullyDownLoad, DegradedLoad: impact.DegradedLoad, LostTenants: impact.LostTenants, LostLoad: impact.LostLoad,
	}
	for _, l := range losses {
		report.Losses = append(report.Losses, blastLoss(l))
	}
	return report, nil
}

// collect places the tenants and counts them.
func (b *blasting) collect(tenants *population, subsets placement.Subsets) (*blast.Population, error) {
	var unplaced error
	population, err := blast.CollectLoads(b.shards, subsetsOf(tenants, subsets, b.byLoad, &unplaced))
	if unplaced != nil {
		return nil, usagef("%w", unplaced)
	}
	return population, err
}

// subsetsOf yields each tenant's subset, in one slice that is used again, up to the first tenant that
// cannot be placed. Without byLoad each counts as 1.
func subsetsOf(p *population, subsets placement.Subsets, byLoad bool, unplaced *error) iter.Seq2[[]int, float64] {
	return func(yield func([]int, float64) bool) {
		var buf []int
		for i, tenant := range p.tenants {
			var err error
			if buf, err = subsets.Append(buf[:0], numberedTenant(i, 1, tenant)); err != nil {
				*unplaced = fmt.Errorf("%stenant %s: %w", p.at(i), printable(tenant), err)
				return
			}
			load := 1.0
			if byLoad {
				load = p.load(i)
			}
			if load > blast.MaxLoad {
				*unplaced = fmt.Errorf("%stenant %s: the load %g is above the largest, 2^60", p.at(i), printable(tenant), load)
				return
			}
			if !yield(buf, load) {
				return
			}
		}
	}
}

// spread prints what all failures of as many shards do.
func (b *blasting) spread(w io.Writer, population *blast.Population) error {
	var sampling blast.Sampling
	if b.draws != 0 {
		sampling = blast.Sampling{Seed: planSampling.Seed, Sets: b.draws, Confidence: planSampling.Confidence}
	}
	s, err := population.Failures(b.failures, sampling)
	switch {
	case errors.Is(err, blast.ErrTooMany) && b.draws == 0:
		return hint(usagef("--failures: %w", err), "draw some of them with --sampled 20000")
	case errors.Is(err, blast.ErrSampling), errors.Is(err, blast.ErrTooMany):
		return usagef("--sampled: %w", err)
	case err != nil:
		return usagef("--failures: %w", err)
	}
	line := newPlanFailures(s, func(shards []int) []string {
		names := make([]string, len(shards))
		for i, shard := range shards {
			names[i] = strconv.Itoa(shard)
		}
		return names
	})
	if b.asJSON {
		return json.NewEncoder(w).Encode(struct {
			Tenants int     `json:"tenants"`
			Load    float64 `json:"load"`
			planFailures
		}{population.Tenants(), population.Load(), line})
	}
	text := &planText{bars: barsFor(w)}
	loads := 0.0 // which are not told without --by-load
	if b.byLoad {
		loads = population.Load()
	}
	text.failures(&planned{Tenants: population.Tenants(), Load: loads, Failures: []planFailures{line}, Budget: planBudget{ConcurrentFailures: b.failures}, Shards: make([]planShardState, b.shards)})
	return text.writeTo(w)
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
	if l := r.blastLoads; l != nil {
		n := float64(r.Tenants)
		fmt.Fprintf(table, "load\t%s\n", grouped(l.Load))
		fmt.Fprintf(table, "fully down by load\t%s\t%s\n", grouped(l.FullyDownLoad), percentage(share(l.FullyDownLoad, l.Load)))
		fmt.Fprintf(table, "degraded by load\t%s\t%s\n", grouped(l.DegradedLoad), percentage(share(l.DegradedLoad, l.Load)))
		fmt.Fprintf(table, "capacity lost\t%s tenants\t%s\n", grouped(l.LostTenants), percentage(share(l.LostTenants, n)))
		fmt.Fprintf(table, "capacity lost by load\t%s\t%s\n", grouped(l.LostLoad), percentage(share(l.LostLoad, l.Load)))
		for _, loss := range l.Losses {
			fmt.Fprintf(table, "lost %d of %d shards\t%d\t%s\t%s\n", loss.Lost, loss.Of, loss.Tenants, percentage(float64(loss.Tenants)/n), barsFor(w).bar(float64(loss.Tenants)/n))
		}
	}
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
