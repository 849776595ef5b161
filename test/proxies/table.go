//go:build linux

package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"
)

// enough is how many requests say what one takes, by a clock of 10 ms.
const enough = 10_000

// spread is a median with the least and the most.
type spread struct{ low, mid, high float64 }

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return spread{v[0], (v[(n-1)/2] + v[n/2]) / 2, v[n-1]}
}

func over(turns []turn, of func(turn) float64) spread {
	var values []float64
	for _, t := range turns {
		values = append(values, of(t))
	}
	return spreadOf(values)
}

// text writes a spread with a format for one number.
func (s spread) text(format string) string {
	return fmt.Sprintf(format+" ("+format+" to "+format+")", s.mid, s.low, s.high)
}

func writePreamble(w io.Writer, o options, r *rig, all []contender) {
	fmt.Fprintf(w, "%d processors, %s. ", runtime.NumCPU(), runtime.Version())
	if r.proxy >= 0 {
		fmt.Fprintf(w, "The proxy that is asked has processor %d, the load process and the worker have processor %d (taskset).\n", r.proxy, r.rest)
	} else {
		fmt.Fprint(w, "Nothing is pinned: proxies, load process and worker share all processors.\n")
	}
	fmt.Fprintf(w, "%d connections, %d rounds of %v and %v. Medians, and from the least to the most of the rounds.\n", o.conns, o.rounds, o.each, o.each)
	for _, c := range all {
		line := "- **" + c.name + "**: " + c.note
		switch {
		case c.absent != "":
			line += "; " + c.absent
		case c.version != "":
			line += "; " + c.version
		}
		fmt.Fprintln(w, line)
	}
}

// writeTable writes one trial. The ratio is that of the two in the same round.
func writeTable(w io.Writer, t trial, rows []row) {
	fmt.Fprintf(w, "\n**%d shards, %d tenants**\n\n", t.shards, t.tenants)
	fmt.Fprintln(w, "| | requests a second | beside ReverseProxy | p50, ms | p99, ms | processor time a request, µs | beside ReverseProxy | of the first requests | its processor busy | the other |")
	fmt.Fprintln(w, "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
	var reverse []turn
	for _, r := range rows {
		if r.name == nameReverse {
			reverse = r.turns
		}
	}
	var notes []string
	for _, r := range rows {
		if r.absent != "" {
			fmt.Fprintf(w, "| %s | %s |  |  |  |  |  |  |  |  |\n", r.name, r.absent)
			continue
		}
		cells := []string{r.name, over(r.turns, func(t turn) float64 { return t.perSecond }).text("%.0f"), beside(r.turns, reverse, func(t turn) float64 { return t.perSecond })}
		millis := func(of func(turn) time.Duration) string {
			return over(r.turns, func(t turn) float64 { return float64(of(t)) / 1e6 }).text("%.2f")
		}
		cells = append(cells, millis(func(t turn) time.Duration { return t.p50 }), millis(func(t turn) time.Duration { return t.p99 }))
		if r.name == nameDirect {
			cells = append(cells, "", "", "", "")
		} else {
			first := ""
			if t.tenants >= enough {
				first = fmt.Sprintf("%.1f", float64(r.first.cpu)/1e3)
			}
			cells = append(cells, over(r.turns, func(t turn) float64 { return float64(t.cpu) / 1e3 }).text("%.1f"),
				beside(r.turns, reverse, func(t turn) float64 { return float64(t.cpu) }), first, fmt.Sprintf("%.0f %%", 100*over(r.turns, func(t turn) float64 { return t.busy }).mid))
		}
		cells = append(cells, fmt.Sprintf("%.0f %%", 100*over(r.turns, func(t turn) float64 { return t.rest }).mid))
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
		if r.failed > 0 {
			notes = append(notes, fmt.Sprintf("%s: %d requests failed, the first with: %s", r.name, r.failed, r.why))
		}
	}
	for _, note := range notes {
		fmt.Fprintf(w, "\n%s\n", note)
	}
}

// beside is what one did for each that the other did, round by round.
func beside(turns, other []turn, of func(turn) float64) string {
	var ratios []float64
	for i := range min(len(turns), len(other)) {
		ratios = append(ratios, of(turns[i])/of(other[i]))
	}
	if len(ratios) == 0 {
		return ""
	}
	return spreadOf(ratios).text("%.2f")
}
