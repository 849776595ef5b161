package journaltest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/journal"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// rush has n holders take the lease at once, and returns the lease of the one who got it.
func rush(t *testing.T, s *journal.Store, n int, now time.Time) run.Lease {
	t.Helper()
	leases, errs := make([]run.Lease, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { leases[i], errs[i] = s.Take(t.Context(), service, fmt.Sprintf("holder-%d", i), now, ttl) })
	}
	wg.Wait()
	var won run.Lease
	for i, err := range errs {
		switch {
		case err == nil && won.Holder != "":
			t.Fatalf("%s and %s have the lease", won.Holder, leases[i].Holder)
		case err == nil:
			won = leases[i]
		}
	}
	if won.Holder == "" {
		t.Fatalf("nobody has the lease: %v", errors.Join(errs...))
	}
	for i, err := range errs {
		var taken *run.TakenError
		if err != nil && (!errors.As(err, &taken) || taken.Holder != won.Holder || !taken.Until.Equal(won.Until)) {
			t.Errorf("holder-%d: %v, while %s has it until %s", i, err, won.Holder, won.Until)
		}
	}
	return won
}

func oneHolder(t *testing.T, home directory.Home) {
	s := journal.New(home)
	if _, is, err := s.Holder(t.Context(), service); is || err != nil {
		t.Errorf("before the first: %t, %v", is, err)
	}
	won := rush(t, s, 16, at(0))
	equal(t, "the lease", run.Lease{Service: service, Holder: won.Holder, Fencing: 1, Until: at(1)}, won)
	got, there, err := s.Holder(t.Context(), service)
	if is(t, "holder", err, nil); !there {
		t.Error("there is no holder")
	}
	equal(t, "holder", won, got)
	_, err = s.Take(t.Context(), service, won.Holder, at(0), ttl)
	is(t, "take again, by the same name", err, run.ErrTaken)
	if _, err := s.Take(t.Context(), "others", "ann", at(0), ttl); err != nil {
		t.Errorf("another service: %v", err)
	}
}

func numbersRise(t *testing.T, home directory.Home) {
	s := journal.New(home)
	last, minute := uint64(0), 0
	for round := range 6 {
		l := rush(t, s, 6, at(minute))
		if l.Fencing <= last {
			t.Fatalf("number %d after %d", l.Fencing, last)
		}
		last = l.Fencing
		switch round % 3 {
		case 0: // it runs out
			minute += 5
		case 1:
			is(t, "free", s.Free(t.Context(), l), nil)
		case 2:
			kept, err := s.Keep(t.Context(), l, at(minute), 2*ttl)
			is(t, "keep", err, nil)
			equal(t, "kept", run.Lease{Service: service, Holder: l.Holder, Fencing: l.Fencing, Until: at(minute + 2)}, kept)
			minute += 5
		}
	}
}

func leasesRunOut(t *testing.T, home directory.Home) {
	s := journal.New(home)
	old := take(t, s, "ann", at(0))
	_, err := s.Take(t.Context(), service, "bob", at(1).Add(-time.Nanosecond), ttl)
	is(t, "a moment before it runs out", err, run.ErrTaken)
	_, err = s.Keep(t.Context(), old, at(1), ttl)
	is(t, "kept when it has run out", err, run.ErrLost)
	is(t, "a record when it has run out, but is the latest", s.Append(t.Context(), old, begun("r")), nil)
	late := take(t, s, "bob", at(1))
	if late.Fencing <= old.Fencing {
		t.Errorf("number %d after %d", late.Fencing, old.Fencing)
	}
	// By a clock that is behind, the old holder's lease still lasts.
	_, err = s.Keep(t.Context(), old, at(0), ttl)
	is(t, "kept when it is not the latest", err, run.ErrLost)
	is(t, "given back when it is not the latest", s.Free(t.Context(), old), nil)
	got, _, err := s.Holder(t.Context(), service)
	is(t, "holder", err, nil)
	equal(t, "holder", late, got)

	for range 2 {
		is(t, "given back", s.Free(t.Context(), late), nil)
	}
	got, there, err := s.Holder(t.Context(), service)
	if is(t, "holder", err, nil); !there {
		t.Error("a lease that was given back is the latest")
	}
	equal(t, "holder of what was given back", run.Lease{Service: service, Holder: "bob", Fencing: late.Fencing}, got)
	_, err = s.Keep(t.Context(), late, at(1), ttl)
	is(t, "kept when it was given back", err, run.ErrLost)
	take(t, s, "cid", at(1))

	for _, wrong := range []struct {
		now time.Time
		ttl time.Duration
	}{{at(9), 0}, {at(9), -time.Second}, {time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), time.Hour}, {time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC), time.Hour}} {
		_, err := s.Take(t.Context(), service, "dan", wrong.now, wrong.ttl)
		is(t, fmt.Sprintf("a lease from %s for %s", wrong.now, wrong.ttl), err, rollout.ErrInvalid)
	}
	_, err = s.Keep(t.Context(), run.Lease{Service: "nobody's", Holder: "ann"}, at(0), ttl)
	is(t, "kept without any", err, run.ErrLost)
	is(t, "given back without any", s.Free(t.Context(), run.Lease{Service: "nobody's", Holder: "ann"}), nil)
}

func latestWrites(t *testing.T, home directory.Home) {
	s := journal.New(home)
	is(t, "without a lease", s.Append(t.Context(), run.Lease{Service: service}, begun("r")), run.ErrLost)
	old := take(t, s, "ann", at(0))
	r := lead(t, s, old, "r")
	late := take(t, s, "bob", at(2))
	is(t, "under the old lease", s.Append(t.Context(), old, turn(r, old, "")), run.ErrLost)
	is(t, "a first one under the old lease", s.Append(t.Context(), old, begun("r2")), run.ErrLost)
	forged := late
	forged.Holder = "ann"
	is(t, "under a number that is another's", s.Append(t.Context(), forged, turn(r, late, "")), run.ErrLost)
	next := write(t, s, late, turn(r, late, ""))
	is(t, "given back", s.Free(t.Context(), late), nil)
	is(t, "after it was given back", s.Append(t.Context(), late, turn(next, late, "")), run.ErrLost)
	got, err := s.Latest(t.Context(), service)
	is(t, "latest", err, nil)
	equal(t, "latest", next, got)
	is(t, "of another service", s.Append(t.Context(), late, begunOf(spec("others", "r", 1, 1))), rollout.ErrInvalid)
}

// A holder writes as fast as it can while another takes over: what was acknowledged is there, and nothing is written
// under the old lease once the new one was given.
func takenWhileWriting(t *testing.T, home directory.Home) {
	s := journal.New(home)
	minute := 0
	l := take(t, s, "holder-0", at(minute))
	all := []run.Record{write(t, s, l, begun("r"))}
	for round := 1; round <= 3; round++ {
		writer, now := l, at(minute)
		enough := make(chan struct{})
		stop := sync.OnceFunc(func() { close(enough) })
		var acknowledged []run.Record
		var failed error
		var wg sync.WaitGroup
		wg.Go(func() {
			defer stop()
			r := all[len(all)-1]
			for i := 0; ; i++ {
				if i == 3 {
					stop()
				}
				r = turn(r, writer, fmt.Sprint(i))
				if failed = s.Append(t.Context(), writer, r); failed != nil {
					return
				}
				acknowledged = append(acknowledged, r)
			}
		})
		wg.Go(func() { // the lease is kept meanwhile, and nobody is in the other's way
			for {
				if _, err := s.Keep(t.Context(), writer, now, ttl); err != nil {
					is(t, "keep", err, run.ErrLost)
					return
				}
				time.Sleep(time.Millisecond) // as often as no driver does
			}
		})
		<-enough
		minute += 2
		late := take(t, s, fmt.Sprintf("holder-%d", round), at(minute))
		taken, err := s.Last(t.Context(), service, "r")
		is(t, "last", err, nil)
		wg.Wait()
		is(t, "the old holder", failed, run.ErrLost)
		all = append(all, acknowledged...)
		stands(t, s, all...)
		equal(t, "the last of the old holder, when the new one has the lease", all[len(all)-1], taken)
		l = late
	}
}
