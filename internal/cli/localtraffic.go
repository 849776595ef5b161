package cli

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/localcell"
	"cellwall.dev/cellwall/internal/localcell/traffic"
)

func localTraffic(l *local) *cobra.Command {
	var rounds, concurrency int
	var rate float64
	var limit time.Duration
	var broken string
	var who sender
	var asJSON bool
	var open openLoop
	cmd := &cobra.Command{
		Use:   "traffic",
		Short: "Send tenant traffic, break a shard if asked, and print what the tenants felt",
		Long: `Send traffic of the running cells' tenants through their entrance, in one of two ways.

With --rps and --for, requests come at random moments, so many a second on average, whether those before them
were answered or not: five of ten read, three write, one creates and one has a job done. Each is of a tenant
drawn in proportion to its load in the file of --tenants. Latency counts from the moment at which a request was
due. At the end every acknowledged write is read back, every job awaited, and what was done twice counted.
Exit status 1 when a write was lost, anything done twice, a job not done a minute later (as those of a shard that
is broken still), or a request failed that is safe to repeat.

Otherwise in rounds: in each every tenant writes one order and reads it back, with its own token. With --break, the shard is killed while requests are under way and
stays down for at least one whole round. At the end every acknowledged write is read back and compared.

Every figure is measured, except those under "by placement" (byPlacement in JSON), which are computed from
the tenants' subsets: the tenants that have the shard in their subset and so may feel its failure. Degraded,
as measured, are those that did feel something and were served: a request failed, or the router needed a
second shard for it. The router soon learns which shard is down, so they are fewer. Fully down got no right
answer at all: during the break, or without --break in the whole run.

Exit status 1 in rounds when an acknowledged write was lost or could not be read back, when any request failed (all
are idempotent), or when a tenant was fully down, with or without --break.`,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("rps") || cmd.Flags().Changed("for") {
				for _, other := range []string{"rounds", "rate", "limit", "break"} {
					if cmd.Flags().Changed(other) {
						return usagef("--%s: not with --rps and --for, which send at random and as it comes; break things with local fail meanwhile", other)
					}
				}
				if open.atOnce = concurrency; !cmd.Flags().Changed("concurrency") {
					open.atOnce = openLoopAtOnce
				}
				return l.openLoop(cmd.Context(), who, open, asJSON)
			}
			tenants := who.first
			if who.file != "" || tenants < 0 {
				return usagef("--tenants %s: want a number of tenants, or 0 for all; a file goes with --rps and --for", &who)
			}
			numbers := traffic.Config{Rounds: rounds, Concurrency: concurrency, Rate: rate, Limit: limit, Broken: broken}
			if err := numbers.CheckNumbers(); err != nil {
				return usagef("%w", err)
			}
			d, r, err := l.find()
			if err != nil {
				return err
			}
			if broken != "" {
				processes, err := r.Status(cmd.Context())
				if err != nil {
					return err
				}
				if broken, err = localcell.ShardName(shardNames(processes), broken); err != nil {
					return usagef("--break: %w", err)
				}
			}
			config, err := d.Traffic(cmd.Context(), r, tenants, broken)
			if errors.Is(err, localcell.ErrTenants) {
				return hint(usagef("--tenants: %w", err), "ask for fewer, for 0 (all), or give local up a --tenants file with more")
			}
			if err != nil {
				return stateError(err)
			}
			config.Rounds, config.Concurrency, config.Rate, config.Limit = rounds, concurrency, rate, limit
			config.Progress = func(phase string, done, of int) { fmt.Fprintf(l.err, "%s: %d of %d\n", phase, done, of) }
			if err := config.Check(); err != nil {
				return usagef("%w", err)
			}
			l.watches() // a broken shard is to come back
			report, err := traffic.Run(cmd.Context(), config)
			if report != nil {
				if printErr := l.printTraffic(report, asJSON); err == nil {
					err = printErr
				}
			}
			if err != nil {
				return err
			}
			return report.Fault()
		},
	}
	cmd.Flags().Var(&who, "tenants", "number of tenants, by order of their ids (0: all); or with --rps a file, as for local up")
	floatVar(cmd.Flags(), &open.rps, "rps", 100, "requests a second, at random moments")
	cmd.Flags().DurationVar(&open.long, "for", time.Minute, "how long to send, up to 45m")
	intVar(cmd.Flags(), &open.seed, "seed", 0, "with --rps: of what is sent when (0: another one each time)")
	intVar(cmd.Flags(), &rounds, "rounds", traffic.MinBreakRounds, "turns of each tenant; with --break at least 4")
	intVar(cmd.Flags(), &concurrency, "concurrency", 16, "tenants served at once; with --rps requests under way at most, 512 by default")
	floatVar(cmd.Flags(), &rate, "rate", 0, "turns a second (0: each as soon as one before has ended)")
	cmd.Flags().DurationVar(&limit, "limit", time.Minute, "time after which no further turn begins")
	cmd.Flags().StringVar(&broken, "break", "", "shard to break half-way, as CELL/SHARD or SHARD")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func (l *local) printTraffic(r *traffic.Report, asJSON bool) error {
	if asJSON {
		return l.json(r)
	}
	w := tabwriter.NewWriter(l.out, 0, 0, 2, ' ', 0)
	share := func(n int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(r.Tenants)) }
	fmt.Fprintf(w, "tenants\t%d\t\n", r.Tenants)
	fmt.Fprintf(w, "  untouched\t%d\t%s\n", r.Untouched, share(r.Untouched))
	fmt.Fprintf(w, "  felt it\t%d\t%s: served, but a request failed or needed a second shard\n", r.Felt, share(r.Felt))
	if r.Broken == "" {
		fmt.Fprintf(w, "  fully down\t%d\t%s: no request was answered\n", r.FullyDown, share(r.FullyDown))
	} else {
		fmt.Fprintf(w, "  fully down\t%d\t%s: of %d that asked during the break, none was answered\n", r.FullyDown, share(r.FullyDown), r.Asked)
	}
	if p := r.ByPlacement; p != nil {
		fmt.Fprintf(w, "by placement, not measured\t\t\n")
		fmt.Fprintf(w, "  degraded\t%d\t%s: shard %s is in their subset\n", p.Degraded, share(p.Degraded), r.Broken)
		fmt.Fprintf(w, "  fully down\t%d\t%s: it is their only one\n", p.FullyDown, share(p.FullyDown))
	}
	fmt.Fprintf(w, "requests\t%d\tin %.1f s", r.Requests, r.Seconds)
	if r.Broken != "" {
		fmt.Fprintf(w, ", %d of them during the %.1f s of the break", r.DuringBreak, r.BreakSeconds)
	}
	fmt.Fprintf(w, "\n  failed\t%d\tall are idempotent%s\n", r.Failures, because(r.FirstFailure))
	fmt.Fprintf(w, "  second shard asked\t%d times\tas the router counted\n", r.Fallbacks)
	printLatency(w, "  answered in", r.Calm)
	if r.Broken != "" {
		printLatency(w, "    during the break", r.Break)
	}
	fmt.Fprintf(w, "writes acknowledged\t%d\teach read back and compared", r.Acknowledged)
	if r.Unread > 0 {
		fmt.Fprintf(w, "; %d could not be read back", r.Unread)
	}
	fmt.Fprintf(w, "\nlost = %d\t\t\n", r.Lost)
	if !r.Complete {
		fmt.Fprintf(w, "the time limit ended the sending early\t\t\n")
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func because(first string) string {
	if first == "" {
		return ""
	}
	return "; the first: " + first
}

func printLatency(w io.Writer, name string, l traffic.Latency) {
	fmt.Fprintf(w, "%s\t%.1f ms\tmedian; 99 %% within %.1f ms, all within %.1f ms\n", name, l.Median, l.P99, l.Max)
}
