package run_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// deaf is wishes that are not taken away the first times.
type deaf struct {
	run.Wishes
	times int
}

func (d *deaf) Answer(ctx context.Context, service string, w run.Wish) error {
	if d.times > 0 {
		d.times--
		return errors.New("throttled")
	}
	return d.Wishes.Answer(ctx, service, w)
}

// TestWishesAreTaken asks a driver, from outside, for all that can be asked for.
func TestWishesAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetting(t)
		m := s.mortal()
		m.Wishes = &deaf{s.store, 3}
		w := &watcher{}
		ended := make(chan rollout.State)
		go func() {
			state, err := s.driver("a", m, w.observe).Start(t.Context(), spec("r1"))
			if err != nil {
				t.Error(err)
			}
			ended <- state
		}()
		time.Sleep(20 * time.Second)
		b := s.driver("b", s.mortal())
		ask := func(kind rollout.EventKind, want rollout.Status) {
			t.Helper()
			begun := time.Now()
			state, err := b.Ask(t.Context(), "r1", run.Wish{Kind: kind, By: "ann", Why: "why not"})
			if err != nil || state.Status != want {
				t.Fatalf("%s: %s, %v", kind, text(state), err)
			}
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("%s took %v", kind, took)
			}
		}
		ask(rollout.Pause, rollout.IsPaused)
		if _, err := b.Ask(t.Context(), "r1", run.Wish{Kind: rollout.Pause}); err != nil {
			t.Errorf("it is paused, and a pause is refused: %v", err)
		}
		changed := len(s.world.Executed())
		time.Sleep(10 * time.Minute)
		if n := len(s.world.Executed()); n != changed {
			t.Errorf("%d changes while it is paused", n-changed)
		}
		ask(rollout.Resume, rollout.IsRunning)
		if _, err := b.Ask(t.Context(), "r1", run.Wish{Kind: rollout.Looked}); !errors.Is(err, rollout.ErrInvalid) {
			t.Errorf("it can be asked for a look: %v", err)
		}
		if _, err := b.Apply(t.Context(), "r1", run.Wish{Kind: rollout.Pause}); !errors.Is(err, run.ErrTaken) {
			t.Errorf("the lease is not taken: %v", err)
		}
		ask(rollout.Rollback, rollout.IsRollingBack)
		if _, err := b.Ask(t.Context(), "r1", run.Wish{Kind: rollout.Resume}); !errors.Is(err, rollout.ErrUnexpected) {
			t.Errorf("a rollback is resumed: %v", err)
		}
		if state := <-ended; state.Status != rollout.IsRolledBack {
			t.Errorf("it ends %s", text(state))
		}
		s.all(older)
		count := make(map[rollout.EventKind]int)
		for _, r := range w.records {
			if r.Event != nil {
				count[r.Event.Kind]++
			}
		}
		if count[rollout.Pause] != 1 || count[rollout.Resume] != 1 || count[rollout.Rollback] != 1 {
			t.Errorf("wishes were done more than once: %v", count)
		}
		refused := 0
		for _, err := range w.troubles {
			if strings.Contains(err.Error(), "refused") {
				refused++
			}
		}
		if refused != 2 {
			t.Errorf("%d wishes were refused: %v", refused, w.troubles)
		}
		if left, err := s.store.Wished(t.Context(), "orders", "r1"); len(left) > 0 || err != nil {
			t.Errorf("%+v are left: %v", left, err)
		}
		// Nobody drives any more.
		if _, err := b.Ask(t.Context(), "r1", run.Wish{Kind: rollout.Abort}); !errors.Is(err, run.ErrNotNow) {
			t.Errorf("nobody drives, and %v", err)
		}
		if left, err := s.store.Wished(t.Context(), "orders", "r1"); len(left) > 0 || err != nil {
			t.Errorf("%+v was not withdrawn: %v", left, err)
		}
	})
}

// TestLeftBehind: what was wished of a holder who died is done by the next, unless it would let the rollout go on; and what
// the next wishes himself is newer.
func TestLeftBehind(t *testing.T) {
	for _, test := range []struct {
		left, wished rollout.EventKind
		want         rollout.Status
	}{
		{rollout.Pause, "", rollout.IsPaused},
		{rollout.Resume, "", rollout.IsPaused},
		{rollout.Abort, "", rollout.IsAborted},
		{rollout.Rollback, "", rollout.IsRolledBack},
		{rollout.Pause, rollout.Resume, rollout.IsDone},
		{rollout.Pause, rollout.Rollback, rollout.IsRolledBack},
		{rollout.Abort, rollout.Resume, rollout.IsAborted},
		{rollout.Abort, rollout.Rollback, rollout.IsRolledBack},
		{rollout.Rollback, rollout.Resume, rollout.IsRolledBack},
	} {
		kind := test.left
		synctest.Test(t, func(t *testing.T) {
			s := newSetting(t)
			ctx, kill := context.WithCancel(t.Context())
			m := s.mortal()
			m.Die, m.Kill = 150, kill
			_, _ = s.driver("a", m).Start(ctx, spec("r1"))
			if !m.Dead() {
				t.Fatal("it lives")
			}
			d := s.driver("b", s.mortal())
			if kind == rollout.Resume {
				if _, err := d.Apply(t.Context(), "r1", run.Wish{Kind: rollout.Pause}); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.store.Wish(t.Context(), "orders", run.Wish{ID: "w", Rollout: "r1", Kind: kind}); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
			defer stop()
			state, err := d.Resume(ctx, "r1", run.Wish{Kind: test.wished})
			refused := test.want == rollout.IsAborted && test.wished != "" && errors.Is(err, rollout.ErrUnexpected)
			if state.Status != test.want || err != nil && !refused && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s, then %q: %s, %v", kind, test.wished, text(state), err)
			}
		})
	}
}

// TestApply does one wish and gives the lease back.
func TestApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetting(t)
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		if _, err := s.driver("a", s.mortal()).Start(ctx, spec("r1")); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		d := s.driver("b", s.mortal())
		apply := func(kind rollout.EventKind, want rollout.Status) {
			t.Helper()
			changed := len(s.world.Executed())
			state, err := d.Apply(t.Context(), "", run.Wish{Kind: kind, By: "ann"})
			if err != nil || state.Status != want {
				t.Fatalf("%s: %s, %v", kind, text(state), err)
			}
			time.Sleep(time.Minute)
			if len(s.world.Executed()) != changed {
				t.Errorf("%s goes on", kind)
			}
			if _, lives, _ := d.Living(t.Context()); lives {
				t.Errorf("%s keeps the lease", kind)
			}
		}
		apply(rollout.Pause, rollout.IsPaused)
		if state, err := d.Apply(t.Context(), "", run.Wish{Kind: rollout.Pause}); !errors.Is(err, rollout.ErrUnexpected) || state.Status != rollout.IsPaused {
			t.Errorf("paused twice: %s, %v", text(state), err)
		} else if err.Error() != "cannot pause: the rollout is paused" {
			t.Error(err)
		}
		apply(rollout.Abort, rollout.IsAborted)
		for _, kind := range []rollout.EventKind{"", rollout.Pause, rollout.Resume, rollout.Abort} {
			before := s.store.Appended()
			if _, err := d.Resume(t.Context(), "", run.Wish{Kind: kind}); !errors.Is(err, rollout.ErrUnexpected) || s.store.Appended() != before {
				t.Errorf("%q of an aborted one: %v", kind, err)
			}
		}
		if state, err := d.Resume(t.Context(), "", run.Wish{Kind: rollout.Rollback}); err != nil || state.Status != rollout.IsRolledBack {
			t.Errorf("%s, %v", text(state), err)
		}
		s.all(older)
	})
}

// TestRefused: what must not begin is refused before anything is changed or journalled.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetting(t)
		d := s.driver("b", s.mortal())
		refused := func(what string, want error, says string, err error) {
			t.Helper()
			if !errors.Is(err, want) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, err := d.Resume(t.Context(), "r1", run.Wish{})
		refused("no such rollout", run.ErrNone, "r1", err)
		_, err = d.Resume(t.Context(), "", run.Wish{})
		refused("no rollout at all", run.ErrNone, "orders", err)
		_, err = d.Ask(t.Context(), "", run.Wish{Kind: rollout.Pause})
		refused("no rollout to ask for", run.ErrNone, "orders", err)
		other := spec("r1")
		other.Service = "billing"
		_, err = d.Start(t.Context(), other)
		refused("another service", rollout.ErrInvalid, "billing", err)
		bad := spec("r1")
		bad.Waves = nil
		_, err = d.Start(t.Context(), bad)
		refused("no waves", rollout.ErrInvalid, "waves", err)
		if n := s.store.Appended(); n > 0 {
			t.Errorf("%d records", n)
		}

		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := s.driver("a", s.mortal()).Start(ctx, spec("r1"))
			ended <- err
		}()
		time.Sleep(20 * time.Second)
		begun := time.Now()
		_, err = d.Start(t.Context(), spec("r2"))
		refused("two at once", run.ErrTaken, "a, until", err)
		var taken *run.TakenError
		if !errors.As(err, &taken) || taken.Holder != "a" || time.Since(begun) > 15*time.Second {
			t.Errorf("%+v, after %v: one who lives is not waited for", taken, time.Since(begun))
		}
		_, err = d.Resume(t.Context(), "r1", run.Wish{Kind: rollout.Rollback})
		refused("somebody drives", run.ErrTaken, "a, until", err)
		stop()
		refused("cancelled", context.Canceled, "", <-ended)
		begun = time.Now()
		_, err = d.Start(t.Context(), spec("r2"))
		refused("one is not over", run.ErrNotNow, "rollout r1 is running", err)
		if time.Since(begun) > time.Second {
			t.Error("the lease was not free")
		}
		_, err = d.Resume(t.Context(), "r2", run.Wish{})
		refused("another than the latest", run.ErrNotNow, "latest rollout of orders is r1", err)
		_, err = d.Resume(t.Context(), "r1", run.Wish{Kind: rollout.Resume, Despite: []rollout.Despite{{Alarm: "x"}}})
		refused("no reason", rollout.ErrInvalid, "--because", err)
		s.end(d, rollout.IsDone)
		if state, err := d.Start(t.Context(), spec("r2")); err != nil || state.Status != rollout.IsDone {
			t.Errorf("the next one: %s, %v", text(state), err)
		}
		s.once(newer) // the next finds that all is done
		_, err = d.Resume(t.Context(), "r1", run.Wish{Kind: rollout.Rollback})
		refused("rolling back what another followed", run.ErrNotNow, "r2", err)
	})
}

// TestConfig: a driver is not made of what cannot work.
func TestConfig(t *testing.T) {
	s := newSetting(t)
	for what, spoil := range map[string]func(*run.Config){
		"no service":  func(c *run.Config) { c.Service = "" },
		"no holder":   func(c *run.Config) { c.Holder = "" },
		"no leases":   func(c *run.Config) { c.Leases = nil },
		"no journal":  func(c *run.Config) { c.Journal = nil },
		"no wishes":   func(c *run.Config) { c.Wishes = nil },
		"no stacks":   func(c *run.Config) { c.Stacks = nil },
		"no gate":     func(c *run.Config) { c.Gate = nil },
		"short lease": func(c *run.Config) { c.TTL = time.Second },
		"interval":    func(c *run.Config) { c.Interval = -1 },
		"changes":     func(c *run.Config) { c.Changes = -1 },
		"tries":       func(c *run.Config) { c.Tries = -1 },
		"patience":    func(c *run.Config) { c.Patience = -1 },
	} {
		m := s.mortal()
		c := run.Config{Service: "orders", Holder: "a", Leases: m, Journal: m, Wishes: m, Stacks: m, Gate: m}
		if _, err := run.New(c); err != nil {
			t.Fatal(err)
		}
		if spoil(&c); c.Service != "" {
			if _, err := run.New(c); err == nil {
				t.Errorf("%s: it is made", what)
			}
		}
	}
}
