package run_test

import (
	"context"
	"testing"
	"testing/synctest"

	"cellwall.dev/cellwall/internal/rollout"
)

// TestStart: all goes well.
func TestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetting(t)
		m := s.mortal()
		w := &watcher{}
		state, err := s.driver("a", m, w.observe).Start(t.Context(), spec("r1"))
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
	})
}

// TestKilledAnywhere kills a driver before and after every call, has another take over, and sometimes kills that too.
func TestKilledAnywhere(t *testing.T) {
	calls := 0
	synctest.Test(t, func(t *testing.T) {
		s := newSetting(t)
		m := s.mortal()
		s.end(s.driver("a", m), rollout.IsDone)
		calls = m.Calls()
	})
	if calls < 100 {
		t.Fatalf("only %d calls", calls)
	}
	for k := 1; k <= calls; k++ {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := newSetting(t)
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
