//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// initialised is one line of GODEBUG=inittrace=1 (package runtime, "Environment Variables").
type initialised struct {
	name   string
	at     time.Duration // since the runtime began
	took   time.Duration
	allocs int
}

var initLine = regexp.MustCompile(`(?m)^init (\S+) @(\S+) ms, (\S+) ms clock, \d+ bytes, (\d+) allocs$`)

func parseInits(output string) (all []initialised, err error) {
	for _, m := range initLine.FindAllStringSubmatch(output, -1) {
		at, err1 := strconv.ParseFloat(m[2], 64)
		took, err2 := strconv.ParseFloat(m[3], 64)
		allocs, err3 := strconv.Atoi(m[4])
		if err := cmp.Or(err1, err2, err3); err != nil {
			return nil, fmt.Errorf("%q: %w", m[0], err)
		}
		scale := func(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
		all = append(all, initialised{m[1], scale(at), scale(took), allocs})
	}
	return all, nil
}

// traced is how many traced starts are looked at: of each package, the median.
const traced = 15

// explain says what a start's time goes to: the kernel and the runtime, packages, main.
func explain(ctx context.Context, w io.Writer, s subject, most int) error {
	took := map[string][]time.Duration{}
	var before, packages, rest []time.Duration
	for range traced {
		got, err := launch(ctx, s.binary, append(slices.Clone(s.variables), "GODEBUG=inittrace=1"), s.event)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		inits, err := parseInits(got.output)
		if err != nil {
			return err
		}
		if len(inits) == 0 {
			return fmt.Errorf("%s prints no trace of its initialisation", s.name)
		}
		sum := time.Duration(0)
		for _, i := range inits {
			took[i.name] = append(took[i.name], i.took)
			sum += i.took
		}
		last := inits[len(inits)-1]
		main := last.at + last.took // since the runtime began
		packages = append(packages, sum)
		before = append(before, main-sum)
		rest = append(rest, max(0, got.ready-main))
	}
	type entry struct {
		name string
		took time.Duration
	}
	var all []entry
	for name, times := range took {
		all = append(all, entry{name, median(times)})
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Or(cmp.Compare(b.took, a.took), strings.Compare(a.name, b.name)) })
	fmt.Fprintf(w, "\n%s: packages %s, between them %s, the kernel, the runtime and main %s. Longest:", s.name, millis(median(packages)), millis(median(before)), millis(median(rest)))
	for i, e := range all[:min(most, len(all))] {
		separator := ","
		if i == 0 {
			separator = ""
		}
		fmt.Fprintf(w, "%s `%s` %.2f ms", separator, e.name, float64(e.took)/float64(time.Millisecond))
	}
	fmt.Fprintln(w, ".")
	return nil
}
