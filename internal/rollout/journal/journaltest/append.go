package journaltest

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/journal"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// Several write the same transition under one lease, as they must not: one of them is written.
func gapless(t *testing.T, home directory.Home) {
	s := journal.New(home)
	l := take(t, s, "ann", at(0))
	all := []run.Record{write(t, s, l, begun("r"))}
	is(t, "a gap", s.Append(t.Context(), l, gap(all[0], l)), run.ErrStale)
	for round := range 4 {
		records, errs := make([]run.Record, 6), make([]error, 6)
		var wg sync.WaitGroup
		for i := range records {
			records[i] = turn(all[len(all)-1], l, fmt.Sprintf("%d-%d", round, i))
			wg.Go(func() { errs[i] = s.Append(t.Context(), l, records[i]) })
		}
		wg.Wait()
		won := 0
		for i, err := range errs {
			if err == nil {
				won++
				all = append(all, records[i])
				continue
			}
			is(t, "one who lost", err, run.ErrStale)
		}
		if won != 1 {
			t.Fatalf("%d were written", won)
		}
	}
	stands(t, s, all...)
	for i, r := range all[1:] {
		is(t, "the same again, however late", s.Append(t.Context(), l, r), nil)
		is(t, "another in its place", s.Append(t.Context(), l, turn(all[i], l, "another")), run.ErrStale)
	}
	stands(t, s, all...)
	is(t, "number 0", s.Append(t.Context(), l, run.Record{State: all[0].State}), rollout.ErrInvalid)
	is(t, "a first one with an event", s.Append(t.Context(), l, run.Record{Seq: 1, Event: all[1].Event, State: all[0].State}), rollout.ErrInvalid)
	is(t, "a later one without", s.Append(t.Context(), l, run.Record{Seq: 2, State: all[0].State}), rollout.ErrInvalid)
	bad := all[1]
	bad.State.Status = "well"
	is(t, "a state that could not be read again", s.Append(t.Context(), l, bad), rollout.ErrInvalid)
}

func gap(r run.Record, l run.Lease) run.Record {
	r = turn(r, l, "")
	r.Seq++
	return r
}

func oneAtATime(t *testing.T, home directory.Home) {
	s := journal.New(home)
	_, err := s.Latest(t.Context(), service)
	is(t, "latest of none", err, run.ErrNone)
	l := take(t, s, "ann", at(0))
	_, err = s.Latest(t.Context(), service)
	is(t, "latest of none, with a lease", err, run.ErrNone)
	first := []run.Record{write(t, s, l, begun("first"))}
	first = append(first, write(t, s, l, then(first[0], l, rollout.Taken, "")))
	is(t, "another meanwhile", s.Append(t.Context(), l, begun("second")), run.ErrStale)
	first = append(first, write(t, s, l, then(first[1], l, rollout.Abort, "enough")))
	other := begun("first")
	other.State.Spec.Digest = "sha256:1"
	is(t, "another of that id", s.Append(t.Context(), l, other), run.ErrStale)
	is(t, "the first record again", s.Append(t.Context(), l, first[0]), nil)

	second := []run.Record{write(t, s, l, begun("second"))}
	back := then(first[2], l, rollout.Rollback, "")
	is(t, "the one before goes on", s.Append(t.Context(), l, back), run.ErrStale)
	second = append(second, write(t, s, l, then(second[0], l, rollout.Taken, "")))
	is(t, "the one before begins again", s.Append(t.Context(), l, other), run.ErrStale)
	stands(t, s, first...)
	stands(t, s, second...)
	got, err := s.Latest(t.Context(), service)
	is(t, "latest", err, nil)
	equal(t, "latest", second[1], got)
	states, err := s.Rollouts(t.Context(), service, 10)
	is(t, "rollouts", err, nil)
	equal(t, "rollouts", []rollout.State{second[1].State, first[2].State}, states)
}

// Several begin at once, while the one before is over and could go on: one of all that.
func oneBegins(t *testing.T, home directory.Home) {
	s := journal.New(home)
	l := take(t, s, "ann", at(0))
	last := lead(t, s, l, "r-0")
	for round := range 3 {
		last = write(t, s, l, then(last, l, rollout.Abort, ""))
		// Nothing was executed, so that the way back is at its end at once, and only its record counts.
		records := []run.Record{then(last, l, rollout.Rollback, "")}
		for i := range 4 {
			records = append(records, begun(fmt.Sprintf("r-%d-%d", round, i)))
		}
		errs := make([]error, len(records))
		var wg sync.WaitGroup
		for i, r := range records {
			wg.Go(func() { errs[i] = s.Append(t.Context(), l, r) })
		}
		wg.Wait()
		var won []run.Record
		for i, err := range errs {
			if is(t, records[i].State.Spec.ID, err, nil, run.ErrStale); err == nil && i > 0 {
				won = append(won, records[i])
			}
		}
		if len(won) != 1 {
			t.Fatalf("%d began", len(won))
		}
		states, err := s.Rollouts(t.Context(), service, 100)
		if is(t, "rollouts", err, nil); len(states) != round+2 {
			t.Fatalf("%d rollouts, want %d", len(states), round+2)
		}
		equal(t, "the newest", won[0].State, states[0])
		last = write(t, s, l, then(won[0], l, rollout.Taken, ""))
	}
}

func histories(t *testing.T, home directory.Home) {
	s := journal.New(home)
	states, err := s.Rollouts(t.Context(), service, 5)
	if is(t, "rollouts of none", err, nil); len(states) != 0 {
		t.Errorf("%d rollouts", len(states))
	}
	_, err = s.Events(t.Context(), service, "r-0", 0, 5)
	is(t, "events of none", err, run.ErrNone)
	_, err = s.Last(t.Context(), service, "r-0")
	is(t, "last of none", err, run.ErrNone)
	l := take(t, s, "ann", at(0))
	var want []rollout.State
	for i := range 23 { // more than are read at once
		r := lead(t, s, l, fmt.Sprintf("r-%d", i))
		want = append([]rollout.State{write(t, s, l, then(r, l, rollout.Abort, "")).State}, want...)
	}
	for _, limit := range []int{1, 20, 21, 23, 1000} {
		states, err := s.Rollouts(t.Context(), service, limit)
		is(t, "rollouts", err, nil)
		equal(t, fmt.Sprintf("up to %d rollouts", limit), want[:min(limit, len(want))], states)
	}
	for after := range uint64(5) {
		for limit := 1; limit < 5; limit++ {
			events, err := s.Events(t.Context(), service, "r-7", after, limit)
			is(t, "events", err, nil)
			if n := max(0, min(limit, 3-int(after))); len(events) != n {
				t.Errorf("%d events after %d, up to %d; want %d", len(events), after, limit, n)
			}
			for i, r := range events {
				if r.Seq != after+uint64(i)+1 || (r.Event == nil) != (r.Seq == 1) {
					t.Errorf("event %d after %d is %+v", i, after, r)
				}
			}
		}
	}
	_, err = s.Rollouts(t.Context(), service, 0)
	is(t, "no limit", err, rollout.ErrInvalid)
	_, err = s.Events(t.Context(), service, "r-7", 0, 0)
	is(t, "no limit", err, rollout.ErrInvalid)
}

// Names are taken as they are: nobody's records are another's.
func namesOfEveryKind(t *testing.T, home directory.Home) {
	s := journal.New(home)
	names := []string{"a", "a#", "a#b", "#", "%23", "a%23b", "%", "a/b", `"`, "\x00", "ä", "STATE", "EVENT#00000000000000000001"}
	all := map[[2]string]run.Record{}
	for i, svc := range names {
		l, err := s.Take(t.Context(), svc, "ann", at(0), ttl)
		if err != nil {
			t.Fatal(err)
		}
		for j := range 4 {
			id := names[(i*5+j*3)%len(names)]
			r := write(t, s, l, begunOf(spec(svc, id, 1, 1)))
			r = write(t, s, l, then(r, l, rollout.Taken, ""))
			all[[2]string{svc, id}] = write(t, s, l, then(r, l, rollout.Abort, fmt.Sprint(i, j)))
			is(t, "wish", s.Wish(t.Context(), svc, run.Wish{ID: id, Rollout: id, Kind: rollout.Rollback, Why: svc}), nil)
		}
	}
	for _, svc := range names {
		for _, id := range names {
			want, there := all[[2]string{svc, id}]
			got, err := s.Last(t.Context(), svc, id)
			wished, wishErr := s.Wished(t.Context(), svc, id)
			is(t, "wished", wishErr, nil)
			if !there {
				is(t, fmt.Sprintf("rollout %q of service %q", id, svc), err, run.ErrNone)
				equal(t, "wishes of none", []run.Wish{}, wished)
				continue
			}
			is(t, fmt.Sprintf("rollout %q of service %q", id, svc), err, nil)
			equal(t, fmt.Sprintf("rollout %q of service %q", id, svc), want, got)
			equal(t, "wishes", []run.Wish{{ID: id, Rollout: id, Kind: rollout.Rollback, Why: svc}}, wished)
		}
	}
}

// What a large fleet needs has room in a record, and an event takes little of it.
func largeRollout(t *testing.T, home directory.Home) {
	counted := &counting{Home: home}
	s := journal.New(counted)
	l := take(t, s, "ann", at(0))
	r := begunOf(spec(service, "large", 200, 5))
	for i := range r.State.Cells {
		c := &r.State.Cells[i]
		c.Why = fmt.Sprintf("cell %s, stage %s: the deployment failed: %x", c.Name, c.Stages[0].Name, i*i*i)
		c.Before = []string{"health", fmt.Sprintf("s%02d/health", i)}
		for j := range c.Stages { // each runs something else, as no fleet does
			c.Stages[j].Read, c.Stages[j].Touched = true, true
			c.Stages[j].Previous = "sha256:" + scrambled(i*5+j)
		}
	}
	r = write(t, s, l, r)
	first := counted.bytes
	counted.largest = 0
	next := write(t, s, l, turn(r, l, "a reason"))
	stands(t, s, r, next)
	t.Logf("the first record takes %d bytes, the largest part of a later one %d", first, counted.largest)
	if counted.largest > directory.MaxRecord/3 {
		t.Errorf("a state takes %d bytes of %d", counted.largest, directory.MaxRecord)
	}
	if counted.event == 0 || counted.event > 400 {
		t.Errorf("an event takes %d bytes", counted.event)
	}
}

func bounded(t *testing.T, home directory.Home) {
	counted := &counting{Home: home}
	s := journal.New(counted)
	l := take(t, s, "ann", at(0))
	r := lead(t, s, l, "r")
	writes := counted.writes
	long := strings.Repeat("x", 300)
	_, err := s.Take(t.Context(), long, "ann", at(9), ttl)
	is(t, "a service", err, rollout.ErrInvalid)
	_, err = s.Take(t.Context(), service, long, at(9), ttl)
	is(t, "a holder", err, rollout.ErrInvalid)
	for _, name := range []string{"", "\xff"} {
		_, err = s.Take(t.Context(), name, "ann", at(9), ttl)
		is(t, "a service", err, rollout.ErrInvalid)
		_, err = s.Take(t.Context(), service, name, at(9), ttl)
		is(t, "a holder", err, rollout.ErrInvalid)
		_, err = s.Last(t.Context(), service, name)
		is(t, "a rollout", err, run.ErrNone)
	}
	_, err = s.Last(t.Context(), service, long)
	is(t, "a rollout", err, run.ErrNone)
	_, err = s.Events(t.Context(), service, long, 0, 1)
	is(t, "a rollout's events", err, run.ErrNone)
	is(t, "an id", s.Append(t.Context(), l, begunOf(spec(service, long, 1, 1))), rollout.ErrInvalid)
	is(t, "an event", s.Append(t.Context(), l, turn(r, l, strings.Repeat("x", 300<<10))), directory.ErrTooLarge)
	var text strings.Builder
	for i := range 10_000 {
		text.WriteString(scrambled(i))
	}
	huge := turn(r, l, "")
	huge.State.Why = text.String()
	is(t, "a state, compressed", s.Append(t.Context(), l, huge), directory.ErrTooLarge)
	huge.State.Why = strings.Repeat("x", 17<<20)
	is(t, "a state", s.Append(t.Context(), l, huge), directory.ErrTooLarge)

	wish := run.Wish{ID: "w", Rollout: "r", Kind: rollout.Pause}
	for what, w := range map[string]run.Wish{
		"reason":     {Why: strings.Repeat("x", 1025)},
		"who":        {By: long},
		"id":         {ID: long},
		"kind":       {Kind: rollout.Taken},
		"long kind":  {Kind: rollout.EventKind(strings.Repeat("x", 1<<20))},
		"no id":      {ID: "-"},
		"despite":    {Despite: []rollout.Despite{{Alarm: "a", Because: strings.Repeat("x", 9<<10)}}},
		"bad reason": {Why: "\xff"},
	} {
		w.Rollout, w.At = "r", at(0)
		if w.Kind == "" {
			w.Kind = rollout.Pause
		}
		if w.ID == "" {
			w.ID = "w"
		}
		if w.ID == "-" {
			w.ID = ""
		}
		err := s.Wish(t.Context(), service, w)
		if is(t, "a wish: "+what, err, rollout.ErrInvalid, directory.ErrTooLarge); err != nil && len(err.Error()) > 1000 {
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
	}
	wish.Rollout = "none"
	is(t, "a wish of none", s.Wish(t.Context(), service, wish), run.ErrNone)
	wish.Rollout = long
	is(t, "a wish of none", s.Wish(t.Context(), service, wish), run.ErrNone)
	is(t, "an answer of none", s.Answer(t.Context(), service, wish), nil)
	if counted.writes != writes {
		t.Errorf("%d batches were sent", counted.writes-writes)
	}
	for i := range 32 {
		is(t, "wish", s.Wish(t.Context(), service, run.Wish{ID: fmt.Sprint(i), Rollout: "r", Kind: rollout.Pause, Why: strings.Repeat(`"`, 1024), By: strings.Repeat("x", 256)}), nil)
	}
	is(t, "one wish more", s.Wish(t.Context(), service, run.Wish{ID: "32", Rollout: "r", Kind: rollout.Pause}), directory.ErrTooLarge)
	stands(t, s, begun("r"), r)
}
