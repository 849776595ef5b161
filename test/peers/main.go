// Command peers measures cellwall's placement beside that of others, doing the same work in one run:
// what a lookup costs, how even the shards are, what growing moves, how much tenants share, and how
// often a zone has a whole subset. It prints Markdown. It is a module of its own, so that cellwall
// depends on none of them.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// options is what the flags say.
type options struct {
	tenants int // population of every scheme
	rounds  int // timed passes over all schemes; 0 times nothing
}

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	}
	if err := run(os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.tenants, "tenants", 100_000, "tenants to place, 1,024 or more")
	f.IntVar(&o.rounds, "rounds", 11, "timed passes over all schemes; 0 times nothing")
	if err := f.Parse(args); err != nil {
		return options{}, err
	}
	if f.NArg() > 0 || o.tenants < asked || o.rounds < 0 {
		fmt.Fprintf(stderr, "error: want %d tenants or more, 0 rounds or more and no arguments: see -help\n", asked)
		return options{}, errors.New("wrong use")
	}
	return o, nil
}

// shape is k shards of n for each tenant.
type shape struct{ n, k int }

var shapes = []shape{{16, 2}, {16, 3}, {16, 4}, {64, 2}, {64, 3}, {64, 4}, {100, 2}, {100, 3}, {100, 4}}

func run(stdout io.Writer, o options) error {
	ids := population(o.tenants)
	out := bufio.NewWriter(stdout)
	writePreamble(out, o)
	for _, s := range shapes {
		rows, err := measure(s, ids, o.rounds)
		if err != nil {
			return fmt.Errorf("%d of %d: %w", s.k, s.n, err)
		}
		writeTable(out, s, rows)
		if err := out.Flush(); err != nil { // each table when it is there
			return fmt.Errorf("writing the table: %w", err)
		}
	}
	return nil
}

// row is what was measured of one scheme.
type row struct {
	name    string
	speed   *timing  // nil where nothing was timed
	figures *figures // nil where only time was measured
}

// measure places the population by every scheme that suits the shape, and times them all together.
func measure(s shape, ids []string, rounds int) ([]row, error) {
	var rows []row
	var timed []*subject
	for _, c := range contenders {
		now, err := c.build(s, ids)
		if errors.Is(err, errUnsuited) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		defer now.close()
		timed = append(timed, now)
		r := row{name: c.name}
		if !c.timeOnly {
			if r.figures, err = compare(c, s, now, ids); err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
		}
		rows = append(rows, r)
	}
	if rounds > 0 {
		for i, t := range times(timed, rounds) {
			rows[i].speed = &t
		}
	}
	return rows, nil
}

// compare is all figures of one scheme but its speed.
func compare(c contender, s shape, now *subject, ids []string) (*figures, error) {
	grown := s.n + 1
	if c.grow != nil {
		grown = c.grow(s)
	}
	then, err := c.build(shape{grown, s.k}, ids)
	if err != nil {
		return nil, err
	}
	defer then.close()
	tenants := len(ids)
	if now.slots > 0 {
		tenants = min(tenants, now.slots)
	}
	before, after := place(now, s.k, tenants), place(then, s.k, tenants)
	f := &figures{
		tenants: tenants,
		grown:   grown,
		balance: balanceOf(before, s.n),
		growth:  growthOf(before, after),
		overlap: overlapOf(before),
		zones:   zonesOf(before),
	}
	f.growth.relative /= float64(s.k) * float64(grown-s.n) / float64(grown) // the fair share of what was added
	f.few = overlapOf(before.first(min(capacity(s), tenants)))
	return f, nil
}
