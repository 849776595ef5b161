package run_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// ahead is a clock that is ahead by an hour, as that of a holder's machine may be.
type ahead struct{ run.Wall }

func (ahead) Now() time.Time { return run.Wall{}.Now().Add(time.Hour) }

// TestSilentHolder: a holder dies whose clock was an hour ahead, or right. Nobody waits for an hour, or without being told.
func TestSilentHolder(t *testing.T) {
	for name, clock := range map[string]run.Clock{"ahead": ahead{}, "right": run.Wall{}} {
		synctest.Test(t, func(t *testing.T) {
			s := newSetting(t)
			m := s.mortal()
			dead := s.driver("dead", m, func(c *run.Config) { c.Clock = clock })
			ctx, kill := context.WithCancel(t.Context())
			m.Die, m.Kill = 60, kill
			_, _ = dead.Start(ctx, spec("r1"))
			if !m.Dead() {
				t.Fatal("it does not die")
			}
			w := &watcher{}
			begin := time.Now()
			asker := s.driver("b", s.mortal(), w.observe)
			wish := run.Wish{Kind: rollout.Abort, By: "ann"}
			_, err := asker.Ask(t.Context(), "", wish)
			if !errors.Is(err, run.ErrNotNow) || errors.Is(err, run.ErrSilent) != (name == "ahead") {
				t.Errorf("%s: %v", name, err)
			}
			state, err := asker.Apply(t.Context(), "", wish)
			if took := time.Since(begin); err != nil || state.Status != rollout.IsAborted || took > 45*time.Second {
				t.Errorf("%s: %s after %v: %v", name, text(state), took, err)
			}
			if !slices.ContainsFunc(w.troubles, func(e error) bool { return strings.Contains(e.Error(), "waiting for dead") }) {
				t.Errorf("%s: nobody is told why it takes long: %v", name, w.troubles)
			}
		})
	}
}

// TestLivingHolder: one who lives is not overtaken, however long his clock is ahead.
func TestLivingHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetting(t)
		done := make(chan error)
		go func() {
			_, err := s.driver("a", s.mortal(), func(c *run.Config) { c.Clock = ahead{} }).Start(t.Context(), spec("r1"))
			done <- err
		}()
		time.Sleep(20 * time.Second)
		if _, err := s.driver("b", s.mortal()).Resume(t.Context(), "", run.Wish{}); !errors.Is(err, run.ErrTaken) {
			t.Errorf("it is overtaken: %v", err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
