package journal_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/journal"
	"cellwall.dev/cellwall/internal/rollout/journal/journaltest"
	"cellwall.dev/cellwall/internal/rollout/run"
	"cellwall.dev/cellwall/internal/rollout/run/runtest"
)

const older, newer = "sha256:old", "sha256:new"

func drivenSpec() rollout.Spec {
	cell := func(name string) rollout.PlannedCell {
		return rollout.PlannedCell{Name: name, Stages: []rollout.PlannedStage{{Name: "core"}, {Name: "zone-a", Bake: rollout.Duration(5 * time.Second)}}}
	}
	return rollout.Spec{ID: "r", Service: "orders", Digest: newer, Phase: rollout.Release, Waves: []rollout.Wave{
		{Bake: rollout.Duration(5 * time.Second), Batches: [][]rollout.PlannedCell{{cell("canary")}}},
		{Bake: rollout.Duration(5 * time.Second), Batches: [][]rollout.PlannedCell{{cell("eu"), cell("us")}}},
	}}
}

// driven has a driver bring the rollout to its end, whether it was begun or not.
func driven(ctx context.Context, holder string, m *runtest.Mortal) (rollout.State, error) {
	d, err := run.New(run.Config{Service: "orders", Holder: holder, Leases: m, Journal: m, Wishes: m, Stacks: m, Gate: m, TTL: 15 * time.Second, Patience: time.Minute})
	if err != nil {
		return rollout.State{}, err
	}
	s, err := d.Resume(ctx, "r", run.Wish{})
	switch {
	case errors.Is(err, run.ErrNone):
		return d.Start(ctx, drivenSpec())
	case errors.Is(err, rollout.ErrUnexpected) && s.Status == rollout.IsDone:
		return s, nil // it had come to its end
	}
	return s, err
}

// The driver of rollouts over this journal, whose home loses batches and answers: killed at any call, another brings the rollout to
// its end, and each stage is changed once.
func TestDriven(t *testing.T) {
	calls := 0
	for die := 0; die == 0 || die <= calls; die += 3 {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := journal.New(journaltest.Forgetful(directory.NewMemory()))
				world := runtest.NewWorld(run.Wall{}, drivenSpec(), older)
				world.Lasts = 3 * time.Second
				mortal := func() *runtest.Mortal {
					return &runtest.Mortal{Leases: s, Journal: s, Wishes: s, Stacks: world, Gate: world}
				}
				first := mortal()
				ctx, kill := context.WithCancel(t.Context())
				defer kill()
				first.Die, first.After, first.Kill = die, after, kill
				state, err := driven(ctx, "first", first)
				calls = max(calls, first.Calls())
				if first.Dead() {
					state, err = driven(t.Context(), "second", mortal())
				}
				if err != nil || state.Status != rollout.IsDone {
					t.Fatalf("killed at call %d, after it: %t: it is %s (%s), %v", die, after, state.Status, state.Why, err)
				}
				for at, digest := range world.Digests() {
					if digest != newer {
						t.Errorf("%s runs %s", at, digest)
					}
				}
				if n := len(world.Executed()); n != 6 {
					t.Errorf("killed at call %d, after it: %t: %d changes of 6 stages", die, after, n)
				}
				journaltest.Consistent(t, s, "orders")
			})
		}
	}
	if calls < 100 {
		t.Errorf("only %d calls", calls)
	}
}
