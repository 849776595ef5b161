// Package journaltest holds the journal of rollouts to its guarantees, on any home.
package journaltest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/journal"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// Run runs the whole suite on a kind of home, and what Short does under the race detector. open gives an empty one; it is
// called once for each test.
func Run(t *testing.T, open func(t *testing.T) directory.Home) {
	t.Helper()
	if directorytest.UnderRace {
		Short(t, open)
		return
	}
	each(t, open, append(short, []test{
		{"RepeatableAndWhole", repeatableAndWhole},
		{"Damaged", damaged},
		{"LikeAModel", likeAModel},
	}...))
}

// Short runs what a slow home can be asked for.
func Short(t *testing.T, open func(t *testing.T) directory.Home) {
	t.Helper()
	each(t, open, short)
}

type test struct {
	name string
	run  func(*testing.T, directory.Home)
}

var short = []test{
	{"OneHolder", oneHolder},
	{"NumbersRise", numbersRise},
	{"LeasesRunOut", leasesRunOut},
	{"LatestWrites", latestWrites},
	{"TakenWhileWriting", takenWhileWriting},
	{"Gapless", gapless},
	{"OneAtATime", oneAtATime},
	{"OneBegins", oneBegins},
	{"Wishes", wishes},
	{"AnsweredWishesStayAway", answeredWishesStayAway},
	{"ManyWish", manyWish},
	{"Bounded", bounded},
	{"NamesOfEveryKind", namesOfEveryKind},
	{"LargeRollout", largeRollout},
	{"Histories", histories},
	{"DirectoryKnowsNothingOfIt", directoryKnowsNothing},
}

func each(t *testing.T, open func(t *testing.T) directory.Home, tests []test) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

const (
	service = "orders"
	ttl     = time.Minute
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 1, time.UTC)

// at is a number of minutes after the start.
func at(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }

// same compares values as JSON carries them.
var same = cmp.Options{cmpopts.EquateEmpty(), cmpopts.EquateApproxTime(0)}

func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, same...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// is fails unless err is one of the errors; nil is success.
func is(t *testing.T, what string, err error, want ...error) {
	t.Helper()
	for _, w := range want {
		if errors.Is(err, w) || err == nil && w == nil {
			return
		}
	}
	t.Errorf("%s: %v, want %v", what, err, want)
}

func take(t *testing.T, s *journal.Store, holder string, now time.Time) run.Lease {
	t.Helper()
	l, err := s.Take(t.Context(), service, holder, now, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// spec is a rollout of cells with stages.
func spec(service, id string, cells, stages int) rollout.Spec {
	w := rollout.Wave{Bake: rollout.Duration(time.Hour)}
	for c := range cells {
		p := rollout.PlannedCell{Name: fmt.Sprintf("cell-%03d", c)}
		for s := range stages {
			p.Stages = append(p.Stages, rollout.PlannedStage{Name: fmt.Sprintf("zone-%d", s)})
		}
		w.Batches = append(w.Batches, []rollout.PlannedCell{p})
	}
	return rollout.Spec{ID: id, Service: service, Digest: "sha256:0", Phase: rollout.Release, Waves: []rollout.Wave{w}}
}

// begun is the first record of a rollout.
func begun(id string) run.Record { return begunOf(spec(service, id, 2, 2)) }

func begunOf(p rollout.Spec) run.Record {
	s, err := rollout.New(p, start)
	if err != nil {
		panic(err)
	}
	return run.Record{Seq: 1, State: s}
}

// then is the record after r when an event of that kind comes under the lease. It makes no other than valid ones.
func then(r run.Record, l run.Lease, kind rollout.EventKind, why string) run.Record {
	if r.State.Fencing != l.Fencing && kind != rollout.Taken {
		panic("the state is not of this lease")
	}
	e := rollout.Event{Kind: kind, At: start.Add(time.Duration(r.Seq) * time.Second), Fencing: l.Fencing, By: l.Holder, Why: why}
	s, _, err := rollout.Next(r.State, e)
	if err != nil {
		panic(err)
	}
	return run.Record{Seq: r.Seq + 1, Event: &e, State: s}
}

// turn is the record after r that changes something: a pause or a resume.
func turn(r run.Record, l run.Lease, why string) run.Record {
	switch {
	case r.State.Fencing != l.Fencing:
		return then(r, l, rollout.Taken, why)
	case r.State.Status == rollout.IsPaused:
		return then(r, l, rollout.Resume, why)
	}
	return then(r, l, rollout.Pause, why)
}

func write(t *testing.T, s *journal.Store, l run.Lease, r run.Record) run.Record {
	t.Helper()
	if err := s.Append(t.Context(), l, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// lead begins a rollout under a lease and takes it over.
func lead(t *testing.T, s *journal.Store, l run.Lease, id string) run.Record {
	t.Helper()
	r := write(t, s, l, begun(id))
	return write(t, s, l, then(r, l, rollout.Taken, ""))
}

// stands fails unless the rollout stands as its last record says, and its transitions are those.
func stands(t *testing.T, s *journal.Store, all ...run.Record) {
	t.Helper()
	last := all[len(all)-1]
	id := last.State.Spec.ID
	got, err := s.Last(t.Context(), service, id)
	is(t, "last of "+id, err, nil)
	equal(t, "last of "+id, last, got)
	events, err := s.Events(t.Context(), service, id, 0, len(all)+10)
	is(t, "events of "+id, err, nil)
	want := make([]run.Record, len(all))
	for i, r := range all {
		want[i] = run.Record{Seq: r.Seq, Event: r.Event}
	}
	equal(t, "events of "+id, want, events)
}
