//go:build linux

package main

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestParseInits(t *testing.T) {
	const output = `{"level":"INFO"}
init internal/bytealg @0.008 ms, 0 ms clock, 0 bytes, 0 allocs
init example.com/a @1.5 ms, 0.25 ms clock, 1024 bytes, 17 allocs
not an init line
`
	got, err := parseInits(output)
	if err != nil || len(got) != 2 {
		t.Fatalf("got %+v, %v, want two packages", got, err)
	}
	if want := (initialised{"example.com/a", 1500 * time.Microsecond, 250 * time.Microsecond, 17}); got[1] != want {
		t.Errorf("got %+v, want %+v", got[1], want)
	}
}

// TestRatio: the interval holds the ratio of the medians, and is that alone where nothing varies.
func TestRatio(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	same := []time.Duration{2, 2, 2}
	if got, want := ratio(random, []time.Duration{3, 3, 3}, same), "1.50 (1.50 to 1.50)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := ratio(random, []time.Duration{1, 2, 3, 4, 5}, same); !strings.HasPrefix(got, "1.50 (0.50 to 2.50") {
		t.Errorf("got %q, want 1.50 with an interval from 0.50 to 2.50", got)
	}
}

func TestParse(t *testing.T) {
	for _, args := range [][]string{nil, {"-linking", "x", "-times", "1"}, {"-linking", "x", "more"}} {
		if _, err := parse(args, new(strings.Builder)); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
