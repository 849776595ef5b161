package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/rollout"
)

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// cells send to cells that answer as they are told to.
type cells struct {
	mu     sync.Mutex
	names  []string
	answer func(cell string) error
	sent   map[string]int
}

func (c *cells) Cells() []string { return c.names }
func (c *cells) Send(_ context.Context, cell string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent == nil {
		c.sent = map[string]int{}
	}
	c.sent[cell]++
	return c.answer(cell)
}

// below is a gate that tells what it is told to.
type below func(cell string) (rollout.Observation, error)

func (b below) Look(_ context.Context, cell string, _, _ time.Time, _ []string) (rollout.Observation, error) {
	return b(cell)
}

var (
	green   = below(func(string) (rollout.Observation, error) { return rollout.Observation{Requests: 7}, nil })
	errDown = errors.New("it answers 503")
)

// probe is one over a sender, with a clock that is set.
func probed(t testing.TB, gate below, s *cells) (*Probe, *time.Time) {
	t.Helper()
	now := start
	if s.names == nil {
		s.names = []string{"c1", "c2", "c3"}
	}
	p, err := New(gate, s, Options{Every: 2 * time.Second, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	return p, &now
}

// TestBounded looks at any times, at cells and at what is unreached, while everything fails.
func TestBounded(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := &cells{answer: func(string) error { return errDown }}
		p, now := probed(t, green, s)
		for range rapid.IntRange(1, 30).Draw(r, "looks") {
			*now = now.Add(time.Duration(rapid.IntRange(-5000, 60_000).Draw(r, "ms")) * time.Millisecond)
			cell := rapid.SampledFrom([]string{"c1", "c2", "other"}).Draw(r, "cell")
			if _, err := p.Look(t.Context(), cell, *now, start, []string{"c2", "c3"}); err != nil {
				r.Fatal(err)
			}
			most := time.Duration(0)
			if now.After(start) {
				most = now.Sub(start)
			}
			for cell, n := range s.sent {
				if cell == "other" || n > first+int((most+15*time.Minute)/(2*time.Second)) {
					r.Errorf("%d were sent to %s by %v", n, cell, *now)
				}
			}
		}
	})
	// By a clock that goes forward alone, to the request.
	rapid.Check(t, func(r *rapid.T) {
		s := &cells{answer: func(string) error { return nil }}
		p, now := probed(t, green, s)
		began := *now
		for range rapid.IntRange(1, 30).Draw(r, "looks") {
			if _, err := p.Look(t.Context(), "c1", start, start, nil); err != nil {
				r.Fatal(err)
			}
			if most := first + int(now.Sub(began)/(2*time.Second)); s.sent["c1"] > most || s.sent["c1"] == 0 {
				r.Errorf("%d were sent after %v, at most %d may be", s.sent["c1"], now.Sub(began), most)
			}
			*now = now.Add(time.Duration(rapid.IntRange(0, 60_000).Draw(r, "ms")) * time.Millisecond)
		}
	})
}

// TestFailuresRing compares with the last answers, one by one. Those of one look are alike: nobody knows in which order they
// come back.
func TestFailuresRing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var answers []bool // failed
		fails := false
		s := &cells{answer: func(string) error {
			answers = append(answers, fails)
			if fails {
				return errDown
			}
			return nil
		}}
		p, now := probed(t, green, s)
		from, fired := time.Time{}, false
		for range rapid.IntRange(1, 20).Draw(r, "looks") {
			if rapid.IntRange(0, 6).Draw(r, "change") == 0 {
				from, fired = *now, false
			}
			fails = rapid.IntRange(0, 3).Draw(r, "fails") == 0
			o, err := p.Look(t.Context(), "c1", from, from, nil)
			if err != nil {
				r.Fatal(err)
			}
			last, failed := answers[max(0, len(answers)-window):], 0
			for _, f := range last {
				if f {
					failed++
				}
			}
			rings := failed >= 3 && 5*failed > len(last)
			fired = fired || rings
			if slices.Contains(o.Firing, Alarm) != rings || slices.Contains(o.Fired, Alarm) != (fired && !from.IsZero()) || len(o.Missing)+len(o.Elsewhere) > 0 {
				r.Errorf("%+v after %v, fired %v", o, last, fired)
			}
			*now = now.Add(time.Duration(rapid.IntRange(0, 30).Draw(r, "seconds")) * time.Second)
		}
	})
}

// TestBlindIsMissing: what cannot be sent rings for nobody, and is missing until something can.
func TestBlindIsMissing(t *testing.T) {
	var answer error
	s := &cells{answer: func(string) error { return answer }}
	p, now := probed(t, green, s)
	look := func(want string) {
		t.Helper()
		if o, err := p.Look(t.Context(), "c1", start, start, nil); err != nil || fmt.Sprintf("%v %v %q", o.Firing, o.Fired, o.Missing) != want {
			t.Errorf("%+v, %v; want %s", o, err, want)
		}
		*now = now.Add(4 * time.Second)
	}
	answer = fmt.Errorf("%w: the token\nis not taken %s", ErrUnsent, strings.Repeat("x", 400))
	for range 10 {
		look(`[] [] ["probe (the probe could not ask: the token is not taken ` + strings.Repeat("x", 300-len("the probe could not ask: the token is not taken ")) + ` …)"]`)
	}
	answer = nil
	look(`[] [] []`)
	answer = ErrUnsent
	look(`[] [] ["probe (the probe could not ask)"]`)
	*now = now.Add(-3 * time.Second) // nothing is due: what was known stands
	look(`[] [] ["probe (the probe could not ask)"]`)
	s.answer = func(string) error { panic("at the disco") }
	*now = now.Add(10 * time.Second)
	look(`[] [] ["probe (the probe could not ask: panic: at the disco)"]`)
	n := 0
	s.answer = func(string) error { // one of several is enough
		if n++; n == 1 {
			return ErrUnsent
		}
		return nil
	}
	*now = now.Add(10 * time.Second)
	look(`[] [] []`)
}

// TestGateStands: the gate's word is there beside the probe's, and its error is the error.
func TestGateStands(t *testing.T) {
	told := rollout.Observation{Requests: 3, Firing: []string{"health"}, Fired: []string{"health", "s01/queue-age"}, Missing: []string{"requests"}, Elsewhere: []string{"health"}}
	down, boom := error(nil), false
	s := &cells{answer: func(string) error { return errDown }}
	p, _ := probed(t, below(func(string) (rollout.Observation, error) {
		if boom {
			panic("boom")
		}
		return told, down
	}), s)
	for cell, want := range map[string]string{
		"other": "{Requests:3 Firing:[health] Fired:[health s01/queue-age] Missing:[requests] Elsewhere:[health]}",
		"c1":    "{Requests:3 Firing:[health probe] Fired:[health probe s01/queue-age] Missing:[requests] Elsewhere:[health]}",
	} {
		if o, err := p.Look(t.Context(), cell, start, start, nil); err != nil || fmt.Sprintf("%+v", o) != want {
			t.Errorf("%s: %+v, %v; want %s", cell, o, err, want)
		}
	}
	if fmt.Sprint(told.Firing) != "[health]" {
		t.Errorf("the gate's own list has become %v", told.Firing)
	}
	down = errors.New("no gate")
	if _, err := p.Look(t.Context(), "c1", start, start, nil); !errors.Is(err, down) {
		t.Error(err)
	}
	boom = true
	if _, err := p.Look(t.Context(), "c1", start, start, nil); err == nil || err.Error() != "panic: boom" {
		t.Error(err)
	}
}

// TestElsewhere: a bad day everywhere shows in the cells that are not reached, as far as they have test tenants.
func TestElsewhere(t *testing.T) {
	for _, c := range []struct {
		down      string
		unreached []string
		want      bool
	}{
		{"c1 c2 c3", []string{"c2", "c3"}, true},
		{"c1 c2", []string{"c2", "c3"}, false}, // half is not most
		{"c1 c2", []string{"c2", "other"}, true},
		{"c1", []string{"c1"}, false},
		{"c1", nil, false},
		{"c1 c2 c3", []string{"other"}, false},
	} {
		s := &cells{answer: func(cell string) error {
			if strings.Contains(c.down, cell) {
				return errDown
			}
			return nil
		}}
		p, _ := probed(t, green, s)
		if o, err := p.Look(t.Context(), "c1", start, start, c.unreached); err != nil || !slices.Contains(o.Firing, Alarm) || slices.Contains(o.Elsewhere, Alarm) != c.want {
			t.Errorf("down %s, unreached %v: %+v, %v", c.down, c.unreached, o, err)
		}
		if s.sent["other"] > 0 {
			t.Error("a cell without test tenants is asked")
		}
	}
}

// TestBaseline: before the change a few are sent at once, and what fails already rings already.
func TestBaseline(t *testing.T) {
	s := &cells{answer: func(string) error { return errDown }}
	p, _ := probed(t, green, s)
	o, err := p.Look(t.Context(), "c1", time.Time{}, time.Time{}, []string{"c2", "c3"})
	if err != nil || fmt.Sprintf("%+v", o) != "{Requests:7 Firing:[probe] Fired:[] Missing:[] Elsewhere:[]}" || s.sent["c1"] != first || s.sent["c2"] != 0 {
		t.Errorf("%+v, %v; sent %v", o, err, s.sent)
	}
}

// TestCutOff: what a look that is cut off was told says nothing.
func TestCutOff(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	s := &cells{answer: func(string) error { return context.Canceled }}
	p, now := probed(t, green, s)
	if _, err := p.Look(ctx, "c1", start, start, nil); err != nil {
		t.Error(err)
	}
	*now = now.Add(time.Second)
	if o, err := p.Look(t.Context(), "c1", start, start, nil); err != nil || len(o.Firing)+len(o.Missing) > 0 {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestNew(t *testing.T) {
	if _, err := New(nil, &cells{}, Options{}); err == nil {
		t.Error("a probe without a gate")
	}
	p, err := New(green, &cells{names: []string{"c1"}}, Options{})
	if err != nil || p.every != time.Second || p.now == nil {
		t.Error(p, err)
	}
}
