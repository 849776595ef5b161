package journaltest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/journal"
	"cellwall.dev/cellwall/internal/rollout/run"
)

func wish(id string, minute int) run.Wish {
	return run.Wish{ID: id, Rollout: "r", Kind: rollout.Resume, By: "ann", Why: "wanted " + id, At: at(minute), Despite: []rollout.Despite{{Alarm: "health", Because: "known"}}}
}

func wished(t *testing.T, s *journal.Store, want ...run.Wish) {
	t.Helper()
	got, err := s.Wished(t.Context(), service, "r")
	is(t, "wished", err, nil)
	equal(t, "what is wished", want, got)
}

func wishes(t *testing.T, home directory.Home) {
	s := journal.New(home)
	lead(t, s, take(t, s, "ann", at(0)), "r")
	wished(t, s)
	is(t, "answer of none", s.Answer(t.Context(), service, wish("a", 0)), nil)
	// The order is that of their coming, whatever their clocks say.
	a, b, c := wish("a", 3), wish("b", 2), wish("c", 1)
	for _, w := range []run.Wish{a, b, c, a} {
		is(t, "wish", s.Wish(t.Context(), service, w), nil)
	}
	wished(t, s, a, b, c)
	other := b
	other.Kind = rollout.Abort
	is(t, "another of that id", s.Wish(t.Context(), service, other), rollout.ErrInvalid)
	is(t, "answer", s.Answer(t.Context(), service, run.Wish{ID: "b", Rollout: "r"}), nil)
	wished(t, s, a, c)
	is(t, "answer again", s.Answer(t.Context(), service, b), nil)
	local := a
	local.At = a.At.In(time.FixedZone("east", 7200))
	is(t, "the same time elsewhere", s.Wish(t.Context(), service, local), nil)
	wished(t, s, a, c)
}

// Whoever did not hear that a wish was left leaves it again, when it was done already.
func answeredWishesStayAway(t *testing.T, home directory.Home) {
	s := journal.New(home)
	lead(t, s, take(t, s, "ann", at(0)), "r")
	w := wish("a", 0)
	leave := func(w run.Wish) {
		t.Helper()
		is(t, "wish", s.Wish(t.Context(), service, w), nil)
	}
	leave(w)
	is(t, "answer", s.Answer(t.Context(), service, w), nil)
	for i := range 63 {
		leave(w)
		wished(t, s)
		o := wish(fmt.Sprint(i), 0)
		leave(o)
		is(t, "answer", s.Answer(t.Context(), service, o), nil)
	}
	leave(w)
	wished(t, s)
	later := wish("a", 1) // of another time: another wish
	leave(later)
	wished(t, s, later)
}

// Many wish and one answers, all at once: each wish is seen, and answered once.
func manyWish(t *testing.T, home directory.Home) {
	s := journal.New(home)
	lead(t, s, take(t, s, "ann", at(0)), "r")
	const n = 12
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			w := wish(fmt.Sprint(i), 0)
			is(t, "wish", s.Wish(t.Context(), service, w), nil)
			is(t, "wish again", s.Wish(t.Context(), service, w), nil)
		})
	}
	var seen []string
	for len(seen) < n && !t.Failed() {
		all, err := s.Wished(t.Context(), service, "r")
		is(t, "wished", err, nil)
		for _, w := range all {
			seen = append(seen, w.ID)
			is(t, "answer", s.Answer(t.Context(), service, w), nil)
		}
	}
	wg.Wait()
	wished(t, s)
	slices.Sort(seen)
	if got := len(slices.Compact(seen)); got != n {
		t.Errorf("%d different wishes of %d were seen", got, n)
	}
}
