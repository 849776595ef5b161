package main

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// peerModules are those whose versions the output states.
var peerModules = []string{"k8s.io/apiserver", "github.com/grafana/dskit", "github.com/dgryski/go-rendezvous"}

// writePreamble says what was measured and by what.
func writePreamble(w io.Writer, o options) {
	fmt.Fprintf(w, "%s, %s/%s. %s tenants, under `bounded/v1` at most as many as it has slots.\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, thousands(o.tenants))
	fmt.Fprintf(w, "Times are medians of %d passes, each over all schemes in turn, in processor time.\n\n", o.rounds)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if slices.Contains(peerModules, d.Path) {
				fmt.Fprintf(w, "- %s %s\n", d.Path, d.Version)
			}
		}
		fmt.Fprintln(w)
	}
}

// column is one of a table. A cell is empty where a scheme has no such figure.
type column struct {
	title string
	cell  func(row) string
}

// columns are the columns of a shape's table behind the name of the scheme.
func columns(s shape) []column {
	timed := func(cell func(timing) string) func(row) string {
		return func(r row) string {
			if r.speed == nil {
				return ""
			}
			return cell(*r.speed)
		}
	}
	counted := func(cell func(figures) string) func(row) string {
		return func(r row) string {
			if r.figures == nil {
				return ""
			}
			return cell(*r.figures)
		}
	}
	all := []column{
		{"ns", timed(func(t timing) string { return nanoseconds(t.ns) })},
		{"beside `hmac/v1`", timed(func(t timing) string { return fmt.Sprintf("%.2f ×", t.ratio) })},
		{"allocated", timed(func(t timing) string { return thousands(int(t.bytes+0.5)) + " B" })},
		{"tenants", counted(func(f figures) string { return thousands(f.tenants) })},
		{"max/mean", counted(func(f figures) string {
			if f.balance.most == 0 {
				return ""
			}
			return fmt.Sprintf("%.3f", f.balance.most)
		})},
		{"CV", counted(func(f figures) string { return percent(f.balance.variation) })},
		{"changed", counted(func(f figures) string {
			if f.grown != s.n+1 {
				return fmt.Sprintf("%s (to %d)", percent(f.growth.changed), f.grown)
			}
			return percent(f.growth.changed)
		})},
		{"places by ideal", counted(func(f figures) string { return fmt.Sprintf("%.2f", f.growth.relative) })},
		{"most changed", counted(func(f figures) string { return fmt.Sprint(f.growth.most) })},
		{"identical", counted(func(f figures) string { return oneIn(f.overlap.atLeast(s.k)) })},
		{fmt.Sprintf("%d or more", s.k-1), counted(func(f figures) string { return oneIn(f.overlap.atLeast(s.k - 1)) })},
		{"most of " + thousands(capacity(s)), counted(func(f figures) string {
			if f.few == nil {
				return ""
			}
			return fmt.Sprint(f.few.most())
		})},
		{"one zone", counted(func(f figures) string { return percent(f.zones.one) })},
		{"a zone twice", counted(func(f figures) string { return percent(f.zones.twice) })},
	}
	if s.k == 2 { // one shared shard is nothing to count, and two in a zone are all
		all = slices.DeleteFunc(all, func(c column) bool { return c.title == "1 or more" || c.title == "a zone twice" })
	}
	return all
}

func writeTable(w io.Writer, s shape, rows []row) {
	tenants := 0
	for _, r := range rows {
		if r.figures != nil {
			tenants = max(tenants, r.figures.tenants)
		}
	}
	plain, apart := chance(s, tenants), chanceApart(s, tenants)
	rows = append([]row{{name: "*chance*", figures: &plain}, {name: "*chance, no zone twice*", figures: &apart}}, rows...)

	fmt.Fprintf(w, "### %d of %d\n\n", s.k, s.n)
	title, rule := "|", "|---"
	for _, c := range columns(s) {
		title += " | " + c.title
		rule += "|---:"
	}
	fmt.Fprintf(w, "%s |\n%s|\n", title, rule)
	for _, r := range rows {
		line := "| " + r.name
		for _, c := range columns(s) {
			line += " | " + c.cell(r)
		}
		fmt.Fprintln(w, line+" |")
	}
	fmt.Fprintln(w)
}

// percent keeps three digits, and 0 for nothing at all.
func percent(p float64) string {
	if p == 0 {
		return "0"
	}
	places := min(4, max(0, 2-int(math.Floor(math.Log10(100*p)))))
	return fmt.Sprintf("%.*f %%", places, 100*p)
}

// oneIn is a part of all pairs.
func oneIn(p float64) string {
	if p == 0 {
		return "none"
	}
	return "1 in " + thousands(int(1/p+0.5))
}

func nanoseconds(ns float64) string {
	if ns < 100 {
		return fmt.Sprintf("%.1f", ns)
	}
	return thousands(int(ns + 0.5))
}

// thousands is a number of 0 or more with a comma before each three digits.
func thousands(n int) string {
	digits := fmt.Sprint(n)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}
