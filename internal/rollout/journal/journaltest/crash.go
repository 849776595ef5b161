package journaltest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/journal"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// life is what a service goes through: steps that may each be repeated.
type life struct {
	service string
	minute  int
	lease   run.Lease
	last    run.Record
	past    map[string][]run.Record // by rollout
}

type step func(context.Context, *journal.Store, *life) error

func takes(holder string) step {
	return func(ctx context.Context, s *journal.Store, l *life) error {
		got, err := s.Take(ctx, l.service, holder, at(l.minute), ttl)
		if errors.Is(err, run.ErrTaken) { // by the process that died
			l.minute += 2
			got, err = s.Take(ctx, l.service, holder, at(l.minute), ttl)
		}
		if err == nil {
			l.lease = got
		}
		return err
	}
}

func keeps(ctx context.Context, s *journal.Store, l *life) error {
	got, err := s.Keep(ctx, l.lease, at(l.minute), ttl)
	if err == nil {
		l.lease = got
	}
	return err
}

func frees(ctx context.Context, s *journal.Store, l *life) error { return s.Free(ctx, l.lease) }

func begins(id string) step {
	return func(ctx context.Context, s *journal.Store, l *life) error {
		return l.append(ctx, s, begunOf(spec(l.service, id, 1, 2)))
	}
}

func goesOn(kind rollout.EventKind) step {
	return func(ctx context.Context, s *journal.Store, l *life) error {
		return l.append(ctx, s, then(l.last, l.lease, kind, "because"))
	}
}

func (l *life) append(ctx context.Context, s *journal.Store, r run.Record) error {
	err := s.Append(ctx, l.lease, r)
	if err == nil {
		l.last = r
		id := r.State.Spec.ID
		l.past[id] = append(l.past[id], run.Record{Seq: r.Seq, Event: r.Event})
	}
	return err
}

func (l *life) wish(id string) run.Wish {
	return run.Wish{ID: id, Rollout: "first", Kind: rollout.Pause, At: at(3)}
}

func isWished(id string) step {
	return func(ctx context.Context, s *journal.Store, l *life) error { return s.Wish(ctx, l.service, l.wish(id)) }
}

func isAnswered(id string) step {
	return func(ctx context.Context, s *journal.Store, l *life) error {
		return s.Answer(ctx, l.service, l.wish(id))
	}
}

var lifetime = []step{
	takes("ann"), begins("first"), goesOn(rollout.Taken), keeps, isWished("a"), goesOn(rollout.Pause), isAnswered("a"), isWished("b"),
	goesOn(rollout.Resume), goesOn(rollout.Abort), begins("second"), goesOn(rollout.Taken), frees, takes("bob"), goesOn(rollout.Taken),
	goesOn(rollout.Abort), begins("third"),
}

// crashed goes through a life in which the process dies at each write in turn, before it and after it. died is called with
// what a new process sees; the step is repeated then.
func crashed(t *testing.T, home directory.Home, died func(*journal.Store, *life), ended func(*journal.Store, *life)) {
	t.Helper()
	for die, deaths := 1, 1; deaths > 0; die++ {
		deaths = 0
		for _, after := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			l := &life{service: fmt.Sprintf("orders-%d-%t", die, after), past: map[string][]run.Record{}}
			s := journal.New(&dying{Home: home, die: die, after: after, kill: cancel})
			for i := 0; i < len(lifetime); {
				err := lifetime[i](ctx, s, l)
				switch {
				case err == nil:
					i++
				case ctx.Err() != nil && !errors.Is(err, errDead) && !errors.Is(err, context.Canceled):
					t.Fatalf("write %d, after it: %t: step %d: %v", die, after, i, err)
				case ctx.Err() != nil:
					deaths++
					ctx, s = t.Context(), journal.New(home)
					died(s, l)
				default:
					t.Fatalf("write %d, after it: %t: step %d: %v", die, after, i, err)
				}
			}
			cancel()
			ended(s, l)
			if t.Failed() {
				t.Fatalf("write %d, after it: %t", die, after)
			}
		}
	}
}

func repeatableAndWhole(t *testing.T, home directory.Home) {
	crashed(t, home, func(s *journal.Store, l *life) { Consistent(t, s, l.service) }, func(s *journal.Store, l *life) {
		Consistent(t, s, l.service)
		for id, want := range l.past {
			got, err := s.Events(t.Context(), l.service, id, 0, 100)
			is(t, "events", err, nil)
			equal(t, "events of "+id, want, got)
		}
		got, err := s.Latest(t.Context(), l.service)
		is(t, "latest", err, nil)
		equal(t, "latest", l.last, got)
		waiting, err := s.Wished(t.Context(), l.service, "first")
		is(t, "wished", err, nil)
		equal(t, "what is wished", []run.Wish{l.wish("b")}, waiting)
	})
}

// Consistent fails unless all records of a service agree with each other. Nobody may write meanwhile. It returns the
// transitions of each rollout.
func Consistent(t *testing.T, s *journal.Store, service string) map[string][]run.Record {
	t.Helper()
	found := map[string][]run.Record{}
	states, err := s.Rollouts(t.Context(), service, 1000)
	if err != nil {
		t.Fatal(err)
	}
	latest, err := s.Latest(t.Context(), service)
	switch {
	case len(states) == 0:
		is(t, "latest of none", err, run.ErrNone)
	case err != nil:
		t.Fatal(err)
	default:
		equal(t, "latest", states[0], latest.State)
	}
	for i, state := range states {
		id := state.Spec.ID
		if i > 0 && !state.Status.Over() {
			t.Errorf("rollout %s is %s, and another came after it", id, state.Status)
		}
		last, err := s.Last(t.Context(), service, id)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "state of "+id, state, last.State)
		if found[id], err = s.Events(t.Context(), service, id, 0, 1_000_000); err != nil {
			t.Fatal(err)
		}
		if n := len(found[id]); uint64(n) != last.Seq {
			t.Fatalf("rollout %s has %d transitions and stands at number %d", id, n, last.Seq)
		}
		equal(t, "last event of "+id, last.Event, found[id][last.Seq-1].Event)
	}
	return found
}
