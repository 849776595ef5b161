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

// TestQuietLooks: a long bake is watched all along, and is one record.
func TestQuietLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short := newSetting(t)
		short.end(short.driver("a", short.mortal()), rollout.IsDone)

		s := newSetting(t)
		var mu sync.Mutex
		looks := make(map[string][]time.Time)
		s.world.Sees = func(cell string, _, _ time.Time, _ []string) (rollout.Observation, error) {
			mu.Lock()
			defer mu.Unlock()
			looks[cell] = append(looks[cell], time.Now())
			return rollout.Observation{Requests: 1000}, nil
		}
		p := spec("r1")
		p.Waves[0].Bake = rollout.Duration(12 * time.Hour)
		w := &watcher{}
		state, err := s.driver("a", s.mortal(), w.observe).Start(t.Context(), p)
		if err != nil || state.Status != rollout.IsDone {
			t.Fatalf("%s, %v", text(state), err)
		}
		if a, b := s.store.Appended(), short.store.Appended(); a != b {
			t.Errorf("%d records, and %d when the bake is short", a, b)
		}
		if n := len(looks["canary"]); n < 12*3600/5 || n > 13*3600/5 {
			t.Errorf("%d looks at the canary in 12 hours", n)
		}
		for i, at := range looks["canary"] {
			if i > 0 && at.Sub(looks["canary"][i-1]) > 5*time.Second {
				t.Fatalf("nobody looked from %v to %v", looks["canary"][i-1], at)
			}
		}
		if len(w.seen) < 12*3600/5 {
			t.Errorf("the observer was told of %d looks", len(w.seen))
		}
	})
}

// TestFreed cancels a driver at every record, while a command does not end for a while: the lease is free when it has, and
// not before; and another goes on.
func TestFreed(t *testing.T) {
	for k := uint64(2); k < 50; k += 3 {
		synctest.Test(t, func(t *testing.T) {
			s := newSetting(t)
			s.world.Deaf, s.world.Lasts = true, time.Minute
			ctx, cancel := context.WithCancel(t.Context())
			w := &watcher{on: func(r run.Record) {
				if r.Seq == k {
					time.AfterFunc(time.Second, cancel)
				}
			}}
			a := s.driver("a", s.mortal(), w.observe)
			ended := make(chan error, 1)
			go func() {
				_, err := a.Start(ctx, spec("r1"))
				ended <- err
			}()
			<-ctx.Done()
			for {
				synctest.Wait()
				_, lives, err := a.Living(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				busy := false
				for _, e := range s.world.Executed() {
					busy = busy || time.Since(e.At) < time.Minute
				}
				if busy != lives {
					t.Fatalf("cancelled at record %d: a change is under way: %t; the lease is held: %t", k, busy, lives)
				}
				if !lives {
					break
				}
				time.Sleep(700 * time.Millisecond)
			}
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			last, err := s.store.Last(t.Context(), "orders", "r1")
			if err != nil || last.State.Status != rollout.IsRunning {
				t.Fatalf("record %d: %s, %v", last.Seq, text(last.State), err)
			}
			time.Sleep(time.Hour)
			if again, err := s.store.Last(t.Context(), "orders", "r1"); err != nil || again.Seq != last.Seq {
				t.Errorf("the journal went on from %d to %d: %v", last.Seq, again.Seq, err)
			}
			s.end(s.driver("b", s.mortal(), func(c *run.Config) { c.Patience = 0 }), rollout.IsDone)
			s.all(newer)
			s.once(newer)
		})
	}
}

// broken is a journal that fails for a while, before it writes or after.
type broken struct {
	run.Journal
	at    uint64
	lasts time.Duration
	after bool
	since time.Time
}

func (b *broken) Append(ctx context.Context, l run.Lease, r run.Record) error {
	if r.Seq != b.at {
		return b.Journal.Append(ctx, l, r)
	}
	if b.since.IsZero() {
		b.since = time.Now()
		if b.after {
			if err := b.Journal.Append(ctx, l, r); err != nil {
				return err
			}
			return errors.New("the answer was lost")
		}
	}
	if time.Since(b.since) < b.lasts {
		return errors.New("the store is down")
	}
	return b.Journal.Append(ctx, l, r)
}

// TestJournalDown lets each record fail for a minute, and the answer to each be lost.
func TestJournalDown(t *testing.T) {
	for k := uint64(1); k <= 50; k++ {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := newSetting(t)
				m := s.mortal()
				b := &broken{Journal: s.store, at: k, lasts: time.Minute, after: after}
				m.Journal = b
				w := &watcher{}
				state, err := s.driver("a", m, w.observe).Start(t.Context(), spec("r1"))
				if err != nil || state.Status != rollout.IsDone || b.since.IsZero() {
					t.Fatalf("record %d: %s, %v", k, text(state), err)
				}
				s.all(newer)
				s.once(newer)
				for _, e := range s.world.Executed() {
					if e.At.After(b.since) && e.At.Before(b.since.Add(time.Minute)) {
						t.Errorf("%s/%s was changed while record %d could not be written", e.Cell, e.Stage, k)
					}
				}
				if len(w.troubles) == 0 {
					t.Error("nobody is told")
				}
			})
		}
	}
	// For ever: the driver ends, the lease is free, and whatever was begun is found by the next.
	synctest.Test(t, func(t *testing.T) {
		s := newSetting(t)
		m := s.mortal()
		m.Journal = &broken{Journal: s.store, at: 8, lasts: 24 * time.Hour}
		if state, err := s.driver("a", m).Start(t.Context(), spec("r1")); err == nil || !strings.Contains(err.Error(), "the store is down") {
			t.Fatalf("%s, %v", text(state), err)
		}
		s.end(s.driver("b", s.mortal(), func(c *run.Config) { c.Patience = 0 }), rollout.IsDone)
		s.once(newer)
	})
}

// TestStoreDown: neither lease nor journal nor wishes answer for longer than the lease: the driver ends with ErrLost and
// begins nothing meanwhile.
func TestStoreDown(t *testing.T) {
	for k := 20; k < 340; k += 7 {
		synctest.Test(t, func(t *testing.T) {
			s := newSetting(t)
			m := s.mortal()
			down := s.mortal() // its store is dead after a while, and its world lives
			down.Stacks, down.Gate = nil, nil
			down.Die = k
			var at time.Time
			down.Kill = func() { at = time.Now() }
			m.Leases, m.Journal, m.Wishes = down, down, down
			_, err := s.driver("a", m).Start(t.Context(), spec("r1"))
			if !down.Dead() {
				return // it was done before
			}
			if err == nil {
				return // only the lease could not be given back
			}
			if !errors.Is(err, run.ErrLost) {
				t.Fatalf("call %d: %v", k, err)
			}
			if waited := time.Since(at); waited > 20*time.Second {
				t.Errorf("call %d: it ends %v after", k, waited)
			}
			for _, e := range s.world.Executed() {
				if e.At.After(at) {
					t.Errorf("call %d: %s/%s was changed without a lease", k, e.Cell, e.Stage)
				}
			}
			s.end(s.driver("b", s.mortal()), rollout.IsDone)
			s.all(newer)
			s.once(newer)
		})
	}
}

// TestGate: what the gate shows in the second wave, and what becomes of it.
func TestGate(t *testing.T) {
	fires := func(cell string, from time.Time) rollout.Observation {
		o := rollout.Observation{Requests: 1000}
		if cell == "us" && !from.IsZero() {
			o.Fired = []string{"health"}
		}
		return o
	}
	var failed int
	for _, test := range []struct {
		name   string
		revert bool
		sees   func(cell string, from time.Time, unreached []string) (rollout.Observation, error)
		want   rollout.Status
		why    string
		ap     bool // it is reached
	}{
		{"an alarm came and went", false, func(cell string, from time.Time, _ []string) (rollout.Observation, error) {
			return fires(cell, from), nil
		}, rollout.IsHalted, "cell us: health fired", false},
		{"and it goes back by itself", true, func(cell string, from time.Time, _ []string) (rollout.Observation, error) {
			return fires(cell, from), nil
		}, rollout.IsRolledBack, "cell us: health fired", false},
		{"it fires elsewhere, too", false, func(cell string, from time.Time, unreached []string) (rollout.Observation, error) {
			o := fires(cell, from)
			if o.Firing, o.Fired = o.Fired, nil; slices.Contains(unreached, "ap") {
				o.Elsewhere = o.Firing
			}
			return o, nil
		}, rollout.IsPaused, "as it does in cells that are not deployed yet", false},
		{"two looks fail", false, func(cell string, from time.Time, _ []string) (rollout.Observation, error) {
			if cell == "us" {
				if failed++; failed%3 != 0 {
					return rollout.Observation{}, errors.New("throttled")
				}
			}
			return rollout.Observation{Requests: 1000}, nil
		}, rollout.IsDone, "", true},
		{"every look fails", false, func(cell string, from time.Time, _ []string) (rollout.Observation, error) {
			if cell == "us" {
				return rollout.Observation{}, errors.New("AccessDenied")
			}
			return rollout.Observation{Requests: 1000}, nil
		}, rollout.IsPaused, "cell us has no data of the whole gate: AccessDenied", false},
		{"a look panics", false, func(cell string, from time.Time, _ []string) (rollout.Observation, error) {
			if cell == "us" {
				panic("no such index")
			}
			return rollout.Observation{Requests: 1000}, nil
		}, rollout.IsPaused, "panic: no such index", false},
		{"nobody sends requests", false, func(cell string, from time.Time, _ []string) (rollout.Observation, error) {
			o := rollout.Observation{Requests: 1000}
			if cell == "us" {
				o.Requests = 99
			}
			return o, nil
		}, rollout.IsRunning, "", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSetting(t)
			var mu sync.Mutex
			failed = 0
			s.world.Sees = func(cell string, _, from time.Time, unreached []string) (rollout.Observation, error) {
				mu.Lock()
				defer mu.Unlock()
				return test.sees(cell, from, unreached)
			}
			p := spec("r1")
			p.Revert = test.revert
			ctx, stop := context.WithTimeout(t.Context(), 20*time.Minute)
			defer stop()
			state, err := s.driver("a", s.mortal()).Start(ctx, p)
			over := test.want != rollout.IsPaused && test.want != rollout.IsRunning
			if state.Status != test.want || !strings.Contains(state.Why, test.why) || over && err != nil || !over && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %s, %v", test.name, text(state), err)
			}
			reached := slices.ContainsFunc(s.world.Executed(), func(e runtest.Executed) bool { return e.Cell == "ap" })
			if reached != test.ap {
				t.Errorf("%s: ap was reached: %t", test.name, reached)
			}
			if test.want == rollout.IsRolledBack {
				s.all(older)
			}
		})
	}
}

// TestBusyGate: a gate that rings between any two looks, here and elsewhere, is a record a second at most.
func TestBusyGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetting(t)
		s.world.Sees = func(cell string, _, from time.Time, _ []string) (rollout.Observation, error) {
			o := rollout.Observation{Requests: 1000}
			if !from.IsZero() { // it fired between any two looks, here and elsewhere
				o.Fired, o.Elsewhere = []string{"x"}, []string{"x"}
			}
			return o, nil
		}
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		state, err := s.driver("a", s.mortal()).Start(ctx, spec("r1"))
		if !errors.Is(err, context.DeadlineExceeded) || state.Status != rollout.IsPaused {
			t.Errorf("%s, %v", text(state), err)
		}
		if n := s.store.Appended(); n > 700 {
			t.Errorf("%d records in ten minutes", n)
		}
	})
}

// TestBusyBake: a gate that, during a bake, tells at every look of what fired here and fires elsewhere changes the state each
// time, and is looked at once a second all the same.
func TestBusyBake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetting(t)
		looks := 0
		s.world.Sees = func(cell string, since, _ time.Time, _ []string) (rollout.Observation, error) {
			o := rollout.Observation{Requests: 1000}
			if !since.IsZero() {
				looks++
			}
			if looks > 0 {
				o.Fired, o.Elsewhere = []string{"x"}, []string{"x"}
			}
			if looks > 10_000 {
				t.Error("it is looked at without an end")
				o.Fired = nil
			}
			return o, nil
		}
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		state, err := s.driver("a", s.mortal()).Start(ctx, spec("r1"))
		if !errors.Is(err, context.DeadlineExceeded) || state.Status != rollout.IsPaused {
			t.Errorf("%s, %v", text(state), err)
		}
		if n := s.store.Appended(); n > 700 {
			t.Errorf("%d records in ten minutes", n)
		}
	})
}

// TestBackAtOnce: all touched cells go back at the same time, and no other is changed.
func TestBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetting(t)
		s.end(s.driver("a", s.mortal()), rollout.IsDone)
		forward := len(s.world.Executed())
		begun := time.Now()
		state, err := s.driver("b", s.mortal()).Resume(t.Context(), "r1", run.Wish{Kind: rollout.Rollback, By: "ann", Why: "complaints"})
		if err != nil || state.Status != rollout.IsRolledBack || state.Why != "rolled back by ann: complaints" {
			t.Fatalf("%s, %v", text(state), err)
		}
		s.all(older)
		back := s.world.Executed()[forward:]
		// Two stages of 12 s, and nothing is waited for.
		if took := time.Since(begun); len(back) != 8 || took > 30*time.Second {
			t.Errorf("%d changes in %v", len(back), took)
		}
		for i, e := range back {
			if stage := []string{"zone-a", "core"}[i/4]; !e.Restored || e.Stage != stage {
				t.Errorf("change %d is %+v", i, e)
			}
		}
	})
}

// TestHundreds: commands of many cells are bounded, and the gate is looked at while they run.
func TestHundreds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := rollout.Spec{ID: "r1", Service: "orders", Digest: newer, Phase: rollout.Release, Waves: []rollout.Wave{{Batches: [][]rollout.PlannedCell{nil}}}}
		for i := range 40 {
			p.Waves[0].Batches[0] = append(p.Waves[0].Batches[0], rollout.PlannedCell{Name: fmt.Sprintf("c%03d", i), Stages: []rollout.PlannedStage{{Name: "core"}}})
		}
		s := newSetting(t)
		s.world = runtest.NewWorld(run.Wall{}, p, older)
		s.world.Lasts = time.Minute
		m := s.mortal()
		var mu sync.Mutex
		now, most := 0, 0
		m.Stacks = counted{s.world, func(n int) {
			mu.Lock()
			defer mu.Unlock()
			now += n
			most = max(most, now)
		}}
		state, err := s.driver("a", m, func(c *run.Config) { c.Changes = 2 }).Start(t.Context(), p)
		if err != nil || state.Status != rollout.IsDone || most != 2 {
			t.Fatalf("%s, %v; %d changes at once", text(state), err, most)
		}
		s.all(newer)
		if took := state.Updated.Sub(state.Started); took < 20*time.Minute || took > 22*time.Minute || s.world.Looks() < 40*20 {
			t.Errorf("it took %v and %d looks", took, s.world.Looks())
		}
	})
}

// counted tells how many changes there are at once.
type counted struct {
	run.Stacks
	count func(int)
}

func (c counted) Execute(ctx context.Context, cell, stage, digest string, fencing uint64, permit func(context.Context) error) error {
	c.count(1)
	defer c.count(-1)
	return c.Stacks.Execute(ctx, cell, stage, digest, fencing, permit)
}
