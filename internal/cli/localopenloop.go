package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"cellwall.dev/cellwall/internal/localcell"
	"cellwall.dev/cellwall/internal/localcell/traffic"
)

// openLoopAtOnce is how many requests may be under way in open loop, when nobody says otherwise.
const openLoopAtOnce = 512

// shownFailed is how many of the tenants that failed are printed, and of the slowest.
const shownFailed = 20

// sender is who sends traffic: the first tenants of the directory, or those of a file.
type sender struct {
	first int // 0 for all
	file  string
}

// Set implements pflag.Value. What begins like a number is to be one; a file of such a name is ./NAME.
func (s *sender) Set(text string) error {
	if text == "" || strings.ContainsAny(text[:1], "+-0123456789 ") {
		var n wholeNumber
		if err := n.Set(text); err != nil {
			return fmt.Errorf("%w, or a file", err)
		}
		*s = sender{first: int(n)}
		return nil
	}
	*s = sender{file: text}
	return nil
}

func (s *sender) String() string {
	if s.file != "" {
		return s.file
	}
	return strconv.Itoa(s.first)
}

// Type implements pflag.Value.
func (*sender) Type() string { return "int or file" }

// openLoop is what the flags of traffic in open loop say.
type openLoop struct {
	rps          float64
	long         time.Duration
	atOnce, seed int
}

// openLoop sends traffic at random moments and prints what the tenants experienced.
func (l *local) openLoop(ctx context.Context, who sender, o openLoop, asJSON bool) error {
	numbers := traffic.Load{RPS: o.rps, For: o.long, AtOnce: o.atOnce}
	if err := numbers.Check(); err != nil {
		return usagef("%w", err)
	}
	if o.seed < 0 {
		return usagef("--seed %d: want 0 or more", o.seed)
	}
	var population *population
	if who.first < 0 {
		return usagef("--tenants %d: want a number of tenants, 0 for all, or a file", who.first)
	}
	if who.file != "" {
		var err error
		if population, err = l.filePopulation(who.file, directoryID); err != nil {
			return err
		}
	}
	d, r, err := l.find()
	if err != nil {
		return err
	}
	ids, loads, err := l.loaded(ctx, d, r, population, who.first)
	if err != nil {
		return err
	}
	load, err := d.LoadTraffic(ctx, r, ids, loads)
	if errors.Is(err, localcell.ErrTenants) {
		return hint(usagef("--tenants: %w", err), "give local up the same file")
	}
	if err != nil {
		return stateError(err)
	}
	load.RPS, load.For, load.AtOnce, load.Seed = o.rps, o.long, o.atOnce, uint64(o.seed)
	if o.seed == 0 {
		load.Seed = uint64(rand.Uint32())
	}
	load.Progress = func(phase string, done, of int) { fmt.Fprintf(l.err, "%s: %d of %d\n", phase, done, of) }
	l.watches()
	report, err := traffic.RunLoad(ctx, load)
	if report != nil {
		if printErr := l.printLoad(report, asJSON); err == nil {
			err = printErr
		}
	}
	if err != nil {
		return err
	}
	return report.Fault()
}

// loaded are the tenants of a file with their loads; without a file the first of the directory, or all for 0,
// alike.
func (l *local) loaded(ctx context.Context, d localcell.Dir, r *localcell.Running, p *population, first int) (ids []string, loads []float64, err error) {
	if p != nil {
		ids, loads = p.tenants, p.loads
	} else {
		config, err := d.Traffic(ctx, r, first, "")
		if errors.Is(err, localcell.ErrTenants) {
			return nil, nil, usagef("--tenants: %w", err)
		}
		if err != nil {
			return nil, nil, stateError(err)
		}
		for _, t := range config.Tenants {
			ids = append(ids, t.ID)
		}
	}
	if loads == nil {
		for range ids {
			loads = append(loads, 1)
		}
	}
	return ids, loads, nil
}

func (l *local) printLoad(r *traffic.LoadReport, asJSON bool) error {
	if asJSON {
		return l.json(r)
	}
	w := tabwriter.NewWriter(l.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "requests\t%d\tof %s in %.1f s, %.0f a second", r.Requests, count(r.Tenants, "tenant"), r.Seconds, r.RPS)
	if r.Late > 0 {
		fmt.Fprintf(w, "; %d had to wait because too many were under way, which counts", r.Late)
	}
	fmt.Fprintf(w, "\n  failed\t%d\tsafe to repeat, and without the right answer\n", r.Failures)
	fmt.Fprintf(w, "  unclear\t%d\tnot safe to repeat, and not answered\n", r.Unclear)
	printLatency(w, "  answered in", r.Latency)
	for _, kind := range []traffic.Kind{traffic.Read, traffic.Write, traffic.Create, traffic.Job} {
		if k := r.ByKind[kind.String()]; k.Requests > 0 {
			printLatency(w, fmt.Sprintf("    %d %ss", k.Requests, kind), k.Latency)
		}
	}
	fmt.Fprintf(w, "writes acknowledged\t%d\teach read back and compared: %d lost, %d doubled", r.Acknowledged, r.Lost, r.Doubled)
	if r.Unread > 0 {
		fmt.Fprintf(w, ", %d could not be read back", r.Unread)
	}
	fmt.Fprintf(w, "\njobs acknowledged\t%d\t%d not done a minute later, %d doubled\n", r.Jobs, r.JobsUndone, r.JobsDoubled)
	failed := r.Failed()
	fmt.Fprintf(w, "tenants\t%d\t%d without a failure\n", r.Tenants, r.Tenants-len(failed))
	if !r.Complete {
		fmt.Fprintf(w, "the sending was interrupted\t\t\n")
	}
	for i, t := range failed {
		if i == 0 {
			fmt.Fprintf(w, "\ntenants that failed\trequests\tfailed\tmedian\t99 %%\tall within\n")
		}
		if i == shownFailed {
			fmt.Fprintf(w, "and %d more; --json has every tenant\n", len(failed)-i)
			break
		}
		fmt.Fprintf(w, "%q\t%d\t%d\t%.1f ms\t%.1f ms\t%.1f ms\n", t.Tenant, t.Requests, t.Failures, t.Latency.Median, t.Latency.P99, t.Latency.Max)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
