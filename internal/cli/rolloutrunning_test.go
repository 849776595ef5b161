package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// halfRead is stacks of which one stage cannot be read and one runs what nobody knows.
type halfRead struct{ noHands }

func (halfRead) Read(_ context.Context, _, stage, _ string) (run.Reading, error) {
	switch stage {
	case "core":
		return run.Reading{Stack: rollout.Unknown}, errors.New("AccessDenied: cloudformation:GetTemplate")
	case "watch":
		return run.Reading{Stack: rollout.Complete}, nil
	}
	return run.Reading{Stack: rollout.Complete, Digest: "old"}, nil
}

// A contract is refused for a cell of which it is not known what it runs; why, and where, is told.
func TestRunningTellsWhatIsNotKnown(t *testing.T) {
	cell := rollout.PlannedCell{Name: "eu-1", Stages: []rollout.PlannedStage{{Name: "core"}, {Name: "zone-a"}, {Name: "watch"}}}
	spec := rollout.Spec{Waves: []rollout.Wave{{Batches: [][]rollout.PlannedCell{{cell}}}}}
	var told []string
	all := running(t.Context(), halfRead{}, spec, func(err error) { told = append(told, err.Error()) })
	if len(all) != 2 || all[0].Digest != "" || all[1].Digest != "old" {
		t.Errorf("%+v", all)
	}
	if len(told) != 2 || !strings.Contains(told[0], "cell eu-1 runs in stage core is not known: AccessDenied: cloudformation:GetTemplate") ||
		!strings.Contains(told[1], "stage watch is none of the assemblies in --assemblies: its stacks are complete") {
		t.Errorf("%q", told)
	}
}
