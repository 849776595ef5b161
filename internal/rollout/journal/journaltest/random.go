package journaltest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/journal"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// model is what a journal of one service should be.
type model struct {
	lease    run.Lease
	freed    bool
	rollouts []*modelRollout
	gone     []run.Lease // every lease that was given
}

type modelRollout struct {
	id      string
	records []run.Record
	under   []run.Lease // lease of each
	waiting []run.Wish
	done    []string
}

func (m *model) latest() *modelRollout {
	if len(m.rollouts) == 0 {
		return nil
	}
	return m.rollouts[len(m.rollouts)-1]
}

func (r *modelRollout) last() run.Record { return r.records[len(r.records)-1] }

func (m *model) find(id string) *modelRollout {
	i := slices.IndexFunc(m.rollouts, func(r *modelRollout) bool { return r.id == id })
	if i < 0 {
		return nil
	}
	return m.rollouts[i]
}

func (m *model) holds(l run.Lease) bool {
	return l.Fencing > 0 && l.Fencing == m.lease.Fencing && l.Holder == m.lease.Holder && !m.freed
}

// append is what comes of a record.
func (m *model) append(l run.Lease, r run.Record) error {
	have := m.find(r.State.Spec.ID)
	n := uint64(0)
	if have != nil {
		n = uint64(len(have.records))
		if r.Seq <= n && have.under[r.Seq-1].Fencing == l.Fencing && have.records[r.Seq-1].State.Why == r.State.Why {
			return nil // it is there; each has a reason of its own
		}
	}
	switch {
	case !m.holds(l):
		return run.ErrLost
	case r.Seq != n+1, r.Seq > 1 && m.latest() != have, r.Seq == 1 && m.latest() != nil && !m.latest().last().State.Status.Over():
		return run.ErrStale
	}
	if have == nil {
		have = &modelRollout{id: r.State.Spec.ID}
		m.rollouts = append(m.rollouts, have)
	}
	have.records, have.under = append(have.records, r), append(have.under, l)
	return nil
}

// likeAModel does what comes, over a bad line, and compares with the model each time.
func likeAModel(t *testing.T, home directory.Home) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	s := journal.New(&flaky{Home: home, rng: rand.New(rand.NewPCG(seed, 1))})
	models := map[string]*model{"orders": {}, "or#ders": {}}
	statuses := []rollout.Status{rollout.IsRunning, rollout.IsPaused, rollout.IsHalted, rollout.IsAborted, rollout.IsDone, rollout.IsRolledBack}
	now, written, refused := start, 0, 0
	for n := range 400 {
		svc := []string{"orders", "or#ders"}[rng.IntN(2)]
		m := models[svc]
		now = now.Add(time.Duration(rng.IntN(20)) * time.Second)
		seen := now.Add(time.Duration(rng.IntN(60)-30) * time.Second) // by somebody's clock
		l := run.Lease{Service: svc, Holder: "nobody", Fencing: uint64(rng.IntN(2))}
		if len(m.gone) > 0 && rng.IntN(10) > 0 {
			l = m.gone[len(m.gone)-1-min(rng.IntN(4)*rng.IntN(2), len(m.gone)-1)]
		}
		fail := func(what string, err, want error) {
			t.Helper()
			if want == nil && err != nil || want != nil && !errors.Is(err, want) {
				t.Fatalf("%d: %s of %s: %v, want %v", n, what, svc, err, want)
			}
		}
		switch rng.IntN(12) {
		case 0, 1:
			holder := fmt.Sprintf("holder-%d", rng.IntN(3))
			got, err := s.Take(t.Context(), svc, holder, seen, ttl)
			if m.lease.Fencing > 0 && !m.freed && seen.Before(m.lease.Until) {
				fail("take", err, run.ErrTaken)
				break
			}
			fail("take", err, nil)
			m.lease, m.freed = run.Lease{Service: svc, Holder: holder, Fencing: m.lease.Fencing + 1, Until: seen.Add(ttl)}, false
			m.gone = append(m.gone, m.lease)
			equal(t, "lease", m.lease, got)
		case 2, 3:
			got, err := s.Keep(t.Context(), l, seen, ttl)
			if !m.holds(l) || !seen.Before(m.lease.Until) {
				fail("keep", err, run.ErrLost)
				break
			}
			fail("keep", err, nil)
			m.lease.Until = seen.Add(ttl)
			equal(t, "lease", m.lease, got)
		case 4:
			fail("free", s.Free(t.Context(), l), nil)
			m.freed = m.freed || m.holds(l)
		case 5, 6, 7, 8:
			var r run.Record
			before := m.latest()
			if before != nil && rng.IntN(8) == 0 {
				before = m.rollouts[rng.IntN(len(m.rollouts))]
			}
			switch {
			case before == nil || rng.IntN(4) == 0:
				r = begunOf(spec(svc, fmt.Sprintf("r#%d", rng.IntN(40)), 1, 1))
			case rng.IntN(4) == 0: // again
				at := rng.IntN(len(before.records))
				r = before.records[at]
				if rng.IntN(3) > 0 {
					l = before.under[at]
				}
			default:
				r = before.last()
				r.Seq += uint64(1 + rng.IntN(8)/7)
				r.State.Status, r.State.Why = statuses[rng.IntN(len(statuses))], fmt.Sprint("reason ", n)
				r.Event = &rollout.Event{Kind: rollout.Pause, At: seen, Why: r.State.Why}
			}
			if r.Seq == 1 && r.State.Why == "" {
				r.State.Why = fmt.Sprint("begun ", n)
			}
			want := m.append(l, r)
			if want == nil {
				written++
			} else {
				refused++
			}
			fail(fmt.Sprintf("transition %d of %s", r.Seq, r.State.Spec.ID), s.Append(t.Context(), l, r), want)
		case 9, 10:
			if m.latest() == nil {
				break
			}
			r := m.rollouts[rng.IntN(len(m.rollouts))]
			w := run.Wish{ID: fmt.Sprint(rng.IntN(10)), Rollout: r.id, Kind: rollout.Abort, At: start}
			if rng.IntN(2) == 0 {
				fail("wish", s.Wish(t.Context(), svc, w), nil)
				if !slices.Contains(r.done, w.ID) && !slices.ContainsFunc(r.waiting, func(o run.Wish) bool { return o.ID == w.ID }) {
					r.waiting = append(r.waiting, w)
				}
			} else {
				fail("answer", s.Answer(t.Context(), svc, w), nil)
				if i := slices.IndexFunc(r.waiting, func(o run.Wish) bool { return o.ID == w.ID }); i >= 0 {
					r.waiting = slices.Delete(r.waiting, i, i+1)
					r.done = append(r.done, w.ID)
				}
			}
			got, err := s.Wished(t.Context(), svc, r.id)
			fail("wished", err, nil)
			equal(t, "wished", r.waiting, got)
		case 11:
			m.compare(t, s, svc)
		}
		if t.Failed() {
			t.Fatalf("at operation %d", n)
		}
	}
	for svc, m := range models {
		m.compare(t, s, svc)
		Consistent(t, s, svc)
	}
	t.Logf("%d records written, %d refused", written, refused)
	if written < 10 || refused < 10 {
		t.Error("hardly anything was written or refused: the test says nothing")
	}
}

func (m *model) compare(t *testing.T, s *journal.Store, svc string) {
	t.Helper()
	l, there, err := s.Holder(t.Context(), svc)
	is(t, "holder", err, nil)
	want := m.lease
	if m.freed {
		want.Until = time.Time{}
	}
	if equal(t, "holder", want, l); there != (want.Fencing > 0) {
		t.Errorf("there is a holder: %t", there)
	}
	states, err := s.Rollouts(t.Context(), svc, 100)
	is(t, "rollouts", err, nil)
	var all []rollout.State
	for _, r := range slices.Backward(m.rollouts) {
		all = append(all, r.last().State)
		got, err := s.Last(t.Context(), svc, r.id)
		is(t, "last", err, nil)
		equal(t, "last", r.last(), got)
		events, err := s.Events(t.Context(), svc, r.id, 0, 1000)
		is(t, "events", err, nil)
		var past []run.Record
		for _, one := range r.records {
			past = append(past, run.Record{Seq: one.Seq, Event: one.Event})
		}
		equal(t, "events", past, events)
	}
	equal(t, "rollouts", all, states)
	latest, err := s.Latest(t.Context(), svc)
	if len(all) == 0 {
		is(t, "latest", err, run.ErrNone)
		return
	}
	is(t, "latest", err, nil)
	equal(t, "latest", m.latest().last(), latest)
}
