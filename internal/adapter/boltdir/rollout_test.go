package boltdir

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/journal"
	"cellwall.dev/cellwall/internal/rollout/journal/journaltest"
	"cellwall.dev/cellwall/internal/rollout/run"
)

func TestRolloutJournal(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) directory.Home { return open(t, file(t)) })
}

func TestRolloutJournalShared(t *testing.T) {
	journaltest.Short(t, func(t *testing.T) directory.Home { return shared(t, file(t)) })
}

// rolloutFile names the directory's file to a process that is to journal until it is killed.
const rolloutFile = "CELLWALL_TEST_JOURNAL_UNTIL_KILLED"

// journalUntilKilled drives rollouts of 5 transitions each, and tells what was acknowledged, a line each: rollout, number.
func journalUntilKilled(path string) error {
	fmt.Println("begun")
	home, err := Open(path)
	if err != nil {
		return err
	}
	ctx, s, holder := context.Background(), journal.New(home), fmt.Sprint("process ", os.Getpid())
	before, _, err := s.Holder(ctx, "orders")
	if err != nil {
		return err
	}
	now := before.Until // of the one that was killed
	for i := 0; ; i++ {
		now = now.Add(time.Minute)
		l, err := s.Take(ctx, "orders", holder, now, time.Minute)
		if err != nil {
			return err
		}
		fmt.Printf("lease %d\n", l.Fencing)
		r, err := s.Latest(ctx, "orders")
		if err != nil && !errors.Is(err, run.ErrNone) {
			return err
		}
		if err != nil || r.State.Status.Over() {
			fresh, err := rollout.New(killSpec(fmt.Sprintf("%d-%d", os.Getpid(), i)), now)
			if err != nil {
				return err
			}
			r = run.Record{Seq: 1, State: fresh}
		} else {
			r = killNext(r, rollout.Taken, l, now)
		}
		for {
			if err := s.Append(ctx, l, r); err != nil {
				return err
			}
			fmt.Printf("%s %d\n", r.State.Spec.ID, r.Seq)
			switch {
			case r.State.Status.Over():
			case r.State.Fencing != l.Fencing:
				r = killNext(r, rollout.Taken, l, now)
				continue
			case r.Seq < 4:
				r = killNext(r, rollout.Pause, l, now)
				continue
			default:
				r = killNext(r, rollout.Abort, l, now)
				continue
			}
			break
		}
		if i%2 == 0 {
			if err := s.Free(ctx, l); err != nil {
				return err
			}
		}
	}
}

func killSpec(id string) rollout.Spec {
	cell := rollout.PlannedCell{Name: "eu-1", Stages: []rollout.PlannedStage{{Name: "core"}}}
	return rollout.Spec{ID: id, Service: "orders", Digest: "sha256:0", Phase: rollout.Release, Waves: []rollout.Wave{{Batches: [][]rollout.PlannedCell{{cell}}}}}
}

// killNext is the record after r. A pause of what is paused is a resume.
func killNext(r run.Record, kind rollout.EventKind, l run.Lease, now time.Time) run.Record {
	if kind == rollout.Pause && r.State.Status == rollout.IsPaused {
		kind = rollout.Resume
	}
	e := rollout.Event{Kind: kind, At: now, Fencing: l.Fencing, By: l.Holder}
	s, _, err := rollout.Next(r.State, e)
	if err != nil {
		panic(err)
	}
	return run.Record{Seq: r.Seq + 1, Event: &e, State: s}
}

// A process that journals is killed at random instants, many times over one file: what it told is there, numbers of leases
// rise over all of them, and the records agree with each other each time.
func TestRolloutJournalKilled(t *testing.T) {
	path := file(t)
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	lease, told := uint64(0), 0
	for round := 0; round < 40 || told < 60; round++ {
		lines := runAndKill(t, rolloutFile, path, round%2 == 0, time.Duration(rng.IntN(60_000))*time.Microsecond)
		home := open(t, path)
		found := journaltest.Consistent(t, journal.New(home), "orders")
		for _, line := range lines {
			word, number, _ := strings.Cut(line, " ")
			n, err := strconv.ParseUint(number, 10, 64)
			switch {
			case err != nil:
				t.Fatalf("%q: %v", line, err)
			case word == "lease" && n <= lease:
				t.Errorf("lease %d after %d", n, lease)
			case word == "lease":
				lease = n
			case uint64(len(found[word])) < n:
				t.Errorf("transition %d of rollout %s was acknowledged, and there are %d", n, word, len(found[word]))
			default:
				told++
			}
		}
		if err := home.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			t.Fatalf("after %d kills", round+1)
		}
	}
	t.Logf("%d transitions acknowledged, %d leases", told, lease)
}
