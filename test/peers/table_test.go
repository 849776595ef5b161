package main

import (
	"io"
	"strings"
	"testing"
)

func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{percent(0), "0"},
		{percent(1), "100 %"},
		{percent(0.1234), "12.3 %"},
		{percent(0.01234), "1.23 %"},
		{percent(0.001234), "0.123 %"},
		{percent(0.00001234), "0.0012 %"},
		{oneIn(0), "none"},
		{oneIn(1. / 3_921_225), "1 in 3,921,225"},
		{nanoseconds(9.87), "9.9"},
		{nanoseconds(17_133.6), "17,134"},
		{thousands(0), "0"},
		{thousands(999), "999"},
		{thousands(1_000), "1,000"},
		{thousands(1_234_567), "1,234,567"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// Every line of a table has as many cells as its head, whatever a scheme has no figure of.
func TestTableIsWhole(t *testing.T) {
	for _, s := range shapes {
		var b strings.Builder
		rows := []row{{name: "both", speed: &timing{}, figures: &figures{overlap: make(overlap, s.k+1)}}, {name: "time", speed: &timing{}}, {name: "none"}}
		writeTable(&b, s, rows)
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")[2:]
		if want := 2 + 2 + len(rows); len(lines) != want {
			t.Fatalf("%d lines, want %d:\n%s", len(lines), want, b.String())
		}
		for _, l := range lines {
			if strings.Count(l, "|") != len(columns(s))+2 {
				t.Errorf("%d of %d: %s", s.k, s.n, l)
			}
		}
	}
}

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"-tenants", "1023"}, {"-rounds", "-1"}, {"more"}, {"-unknown"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
	if o, err := parse([]string{"-tenants", "2000", "-rounds", "0"}, io.Discard); err != nil || o != (options{2000, 0}) {
		t.Errorf("%+v, %v", o, err)
	}
}
