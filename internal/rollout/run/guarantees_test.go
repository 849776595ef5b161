package run_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
	"cellwall.dev/cellwall/internal/rollout/run/runtest"
)

// TestStart: all goes well.
func TestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetting(t)
		w := &watcher{}
		state, err := s.driver("a", s.mortal(), w.observe).Start(t.Context(), spec("r1"))
		if err != nil || state.Status != rollout.IsDone {
			t.Fatalf("%s, %v", text(state), err)
		}
		s.all(newer)
		s.once(newer)
		if l, lives, err := s.driver("b", s.mortal()).Living(t.Context()); lives || err != nil {
			t.Errorf("the lease %+v was not given back: %v", l, err)
		}
		for i, r := range w.records {
			if r.Seq != uint64(i+1) {
				t.Errorf("record %d was told as number %d", r.Seq, i+1)
			}
		}
		if len(w.troubles) > 0 {
			t.Errorf("trouble: %v", w.troubles)
		}
	})
}

// stacks are ports that look at each command before it is performed.
type stacks struct {
	run.Stacks
	see func(kind rollout.CommandKind, cell, stage string, fencing uint64)
}

func (p stacks) Prepare(ctx context.Context, cell, stage, digest string, fencing uint64) error {
	p.see(rollout.Prepare, cell, stage, fencing)
	return p.Stacks.Prepare(ctx, cell, stage, digest, fencing)
}

func (p stacks) Execute(ctx context.Context, cell, stage, digest string, fencing uint64, permit func(context.Context) error) error {
	p.see(rollout.Execute, cell, stage, fencing)
	return p.Stacks.Execute(ctx, cell, stage, digest, fencing, permit)
}

func (p stacks) Restore(ctx context.Context, cell, stage, digest string, fencing uint64, permit func(context.Context) error) error {
	p.see(rollout.Restore, cell, stage, fencing)
	return p.Stacks.Restore(ctx, cell, stage, digest, fencing, permit)
}

// TestJournalledFirst: whenever a command comes, the journal's last state asks for it.
func TestJournalledFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetting(t)
		seen := 0
		var mu sync.Mutex
		m := s.mortal()
		m.Stacks = stacks{s.world, func(kind rollout.CommandKind, cell, stage string, fencing uint64) {
			r, err := s.store.Last(t.Context(), "orders", "r1")
			if err != nil || !slices.ContainsFunc(rollout.Due(r.State), func(c rollout.Command) bool {
				return c.Kind == kind && c.Cell == cell && c.Stage == stage && c.Fencing == fencing
			}) {
				t.Errorf("%s of %s/%s, which the journal does not ask for: %v", kind, cell, stage, err)
			}
			mu.Lock()
			defer mu.Unlock()
			seen++
		}}
		s.end(s.driver("a", m), rollout.IsDone)
		d := s.driver("b", m)
		if state, err := d.Resume(t.Context(), "r1", run.Wish{Kind: rollout.Rollback}); err != nil || state.Status != rollout.IsRolledBack {
			t.Errorf("%s, %v", text(state), err)
		}
		if seen != 8+8+8 {
			t.Errorf("%d commands", seen)
		}
		s.all(older)
	})
}

// TestAnsweredOnce: whatever a port does, each command is performed once and answered once.
func TestAnsweredOnce(t *testing.T) {
	for _, change := range changes {
		for _, revert := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := newSetting(t)
				s.world.Does = func(cell, stage, digest string) runtest.Change {
					if cell == "us" && stage == "zone-a" && digest == newer {
						return change
					}
					return changes[0]
				}
				var mu sync.Mutex
				told := make(map[string]int)
				m := s.mortal()
				m.Stacks = stacks{s.world, func(kind rollout.CommandKind, cell, stage string, _ uint64) {
					mu.Lock()
					defer mu.Unlock()
					told[fmt.Sprint(kind, cell, stage)]++
				}}
				p := spec("r1")
				p.Revert = revert
				state, err := s.driver("a", m).Start(t.Context(), p)
				want := rollout.IsHalted
				switch {
				case change == changes[0]:
					want = rollout.IsDone
				case revert && change != sticks:
					want = rollout.IsRolledBack
				}
				if err != nil || state.Status != want {
					t.Fatalf("change %d: %s, %v", change, text(state), err)
				}
				records, err := s.store.Events(t.Context(), "orders", "r1", 0, 1000)
				if err != nil {
					t.Fatal(err)
				}
				answered := make(map[string]int)
				for _, r := range records {
					if r.Event == nil {
						continue
					}
					kind := map[rollout.EventKind]rollout.CommandKind{rollout.Prepared: rollout.Prepare, rollout.Executed: rollout.Execute, rollout.Restored: rollout.Restore}[r.Event.Kind]
					if kind != "" {
						answered[fmt.Sprint(kind, r.Event.Cell, r.Event.Stage)]++
					}
				}
				for what, n := range told {
					if n != 1 || answered[what] != 1 {
						t.Errorf("change %d: %s was told %d times and answered %d times", change, what, n, answered[what])
					}
				}
				if change != changes[0] {
					for _, e := range s.world.Executed() {
						if e.Cell == "ap" {
							t.Errorf("change %d: ap was changed after us had failed", change)
						}
					}
				}
				if want == rollout.IsRolledBack {
					s.all(older)
				}
				if change == sticks && !strings.Contains(state.Why, "continue-update-rollback") {
					t.Errorf("there is no way out in %q", state.Why)
				}
			})
		}
	}
}

// TestPermitted leaves a wish at every record, while commands take a second before they ask: nothing is changed after it.
func TestPermitted(t *testing.T) {
	total := 0
	synctest.Test(t, func(t *testing.T) {
		s := newSetting(t)
		s.end(s.driver("a", s.mortal()), rollout.IsDone)
		total = s.store.Appended()
	})
	for _, kind := range []rollout.EventKind{rollout.Pause, rollout.Abort, rollout.Rollback} {
		for k := 2; k < total; k += stride {
			synctest.Test(t, func(t *testing.T) {
				s := newSetting(t)
				s.world.Delay = 100 * time.Millisecond
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				var at time.Time
				w := &watcher{on: func(r run.Record) {
					if r.Seq == uint64(k) {
						at = time.Now()
						if err := s.store.Wish(ctx, "orders", run.Wish{ID: "w", Rollout: "r1", Kind: kind}); err != nil {
							t.Error(err)
						}
					}
				}}
				state, err := s.driver("a", s.mortal(), w.observe).Start(ctx, spec("r1"))
				for _, e := range s.world.Executed() {
					if e.At.After(at) && (kind != rollout.Rollback || !e.Restored) {
						t.Errorf("%s at record %d, %v; and %s/%s was changed at %v", kind, k, at, e.Cell, e.Stage, e.At)
					}
				}
				switch kind {
				case rollout.Pause:
					if !errors.Is(err, context.DeadlineExceeded) || state.Status != rollout.IsPaused {
						t.Fatalf("record %d: %s, %v", k, text(state), err)
					}
					if state, err := s.driver("b", s.mortal()).Resume(t.Context(), "r1", run.Wish{Kind: rollout.Resume}); err != nil || state.Status != rollout.IsDone {
						t.Fatalf("record %d: %s, %v", k, text(state), err)
					}
					s.all(newer)
					s.once(newer)
				case rollout.Abort:
					if err != nil || state.Status != rollout.IsAborted {
						t.Fatalf("record %d: %s, %v", k, text(state), err)
					}
				case rollout.Rollback:
					if err != nil || state.Status != rollout.IsRolledBack {
						t.Fatalf("record %d: %s, %v", k, text(state), err)
					}
					s.all(older)
				}
			})
		}
	}
}

// TestKilledAnywhere kills a driver before and after every call, and has another take over. Two stages are rolled back from
// a change that failed before: of that the rollout is not to blame, whoever reads it.
func TestKilledAnywhere(t *testing.T) {
	calls := wellCalls(t)
	for k := 1; k <= calls; k += stride {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := newSetting(t)
				s.world.Set("canary", "zone-a", rollout.RolledBack, older)
				s.world.Set("eu", "core", rollout.RolledBack, older)
				m := s.mortal()
				ctx, kill := context.WithCancel(t.Context())
				m.Die, m.After, m.Kill = k, after, kill
				// Looks come and go: the last few calls may not be reached.
				if _, err := s.driver("a", m).Start(ctx, spec("r1")); !m.Dead() && (err != nil || k < calls*9/10) {
					t.Fatalf("call %d was not reached: %v", k, err)
				}
				s.end(s.driver("b", s.mortal()), rollout.IsDone)
				s.all(newer)
				s.once(newer)
				if t.Failed() {
					t.Fatalf("killed at call %d, after it: %t", k, after)
				}
			})
		}
	}
}

// TestKilledOnTheWayBack kills the driver of a rollback before and after every call.
func TestKilledOnTheWayBack(t *testing.T) {
	for k := 1; ; k += stride {
		reached := false
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := newSetting(t)
				s.world.Does = func(cell, stage, digest string) runtest.Change {
					if cell == "us" && digest == newer {
						return fails
					}
					return changes[0]
				}
				s.end(s.driver("a", s.mortal()), rollout.IsHalted)
				m := s.mortal()
				ctx, kill := context.WithCancel(t.Context())
				m.Die, m.After, m.Kill = k, after, kill
				back := run.Wish{Kind: rollout.Rollback}
				_, _ = s.driver("b", m).Resume(ctx, "r1", back)
				reached = reached || m.Dead()
				state, err := s.driver("c", s.mortal()).Resume(t.Context(), "r1", back)
				if state.Status != rollout.IsRolledBack || err != nil && !errors.Is(err, rollout.ErrUnexpected) {
					t.Fatalf("killed at call %d: %s, %v", k, text(state), err)
				}
				s.all(older)
				for _, e := range s.world.Executed() {
					if e.Cell == "ap" || e.Restored && e.Digest != older {
						t.Errorf("killed at call %d: %+v", k, e)
					}
				}
			})
		}
		if !reached {
			if k < 20 {
				t.Errorf("only %d calls", k)
			}
			return
		}
	}
}

// TestZombie stalls a driver at every call for so long that another takes over and ends the rollout; then it wakes up.
func TestZombie(t *testing.T) {
	calls := wellCalls(t)
	for k := 1; k <= calls*9/10; k += stride {
		synctest.Test(t, func(t *testing.T) {
			s := newSetting(t)
			m := s.mortal()
			m.Die, m.Stalls = k, 30*time.Minute
			ended := make(chan error)
			go func() {
				_, err := s.driver("a", m).Start(t.Context(), spec("r1"))
				ended <- err
			}()
			time.Sleep(5 * time.Minute) // it stands still by now
			s.end(s.driver("b", s.mortal()), rollout.IsDone)
			last, err := s.store.Last(t.Context(), "orders", "r1")
			if err != nil {
				t.Fatal(err)
			}
			err = <-ended
			// One that stood still before it had the lease finds the rollout that another began.
			if !errors.Is(err, run.ErrLost) && !(k <= 4 && errors.Is(err, run.ErrStale)) {
				t.Errorf("stalled at call %d: %v", k, err)
			}
			if again, err := s.store.Last(t.Context(), "orders", "r1"); err != nil || again.Seq != last.Seq {
				t.Errorf("stalled at call %d: the journal went on from %d to %d: %v", k, last.Seq, again.Seq, err)
			}
			s.all(newer)
			s.once(newer)
		})
		if t.Failed() {
			return
		}
	}
}

// wellCalls is the number of calls of a rollout on which all goes well.
func wellCalls(t *testing.T) (calls int) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetting(t)
		m := s.mortal()
		s.end(s.driver("a", m), rollout.IsDone)
		calls = m.Calls()
	})
	if calls < 100 {
		t.Fatalf("only %d calls", calls)
	}
	return calls
}
