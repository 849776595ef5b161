package release

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/wave"
)

// stagesOf is a cell's stages on one line, each with its bake.
func line1(c rollout.PlannedCell) string {
	var all []string
	for _, s := range c.Stages {
		text := s.Name
		if s.Bake != 0 {
			text += "=" + time.Duration(s.Bake).String()
		}
		all = append(all, text)
	}
	return c.Name + ": " + strings.Join(all, " ")
}

func TestPlan(t *testing.T) {
	f := testFleet(t, fleetText)
	a := opened(t, made(f, "code", nil).write(t))
	despite := []rollout.Despite{{Alarm: "health", Because: "it is the fix"}}
	spec, err := Plan(f, a, Options{ID: "r1", Despite: despite, Revert: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rollout.New(spec, time.Now()); err != nil {
		t.Errorf("the engine refuses it: %v", err)
	}
	if spec.ID != "r1" || spec.Service != "orders" || spec.Digest != a.Digest || spec.Phase != rollout.Release || spec.MinRequests != 100 || !spec.Revert || len(spec.Despite) != 1 {
		t.Errorf("%+v", spec)
	}
	var got []string
	for _, w := range spec.Waves {
		got = append(got, "bake "+time.Duration(w.Bake).String())
		for _, b := range w.Batches {
			for _, c := range b {
				got = append(got, line1(c))
			}
		}
	}
	want := []string{
		"bake 1h0m0s", "canary: core zone-a=1h0m0s zone-b watch",
		"bake 2h0m0s", "eu-1: core zone-a=2h0m0s zone-b=2h0m0s zone-c watch", "us-1: core zone-b=2h0m0s zone-a watch",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	// Every stage has stacks, and every stack of a cell is in one.
	s := stacksFor(t, f, a)
	n := 0
	for _, w := range spec.Waves {
		for _, b := range w.Batches {
			for _, c := range b {
				for _, stage := range c.Stages {
					stacks, err := s.stage(a.Digest, c.Name, stage.Name)
					if err != nil || len(stacks) == 0 {
						t.Errorf("%s %s: %v, %v", c.Name, stage.Name, stacks, err)
					}
					n += len(stacks)
				}
			}
		}
	}
	if n != len(a.stacks)-1 {
		t.Errorf("%d stacks are in stages, of %d and the global one", n, len(a.stacks)-1)
	}
}

// TestPlanBySizes: percents count what the caller counts.
func TestPlanBySizes(t *testing.T) {
	text := strings.Replace(fleetText, "{percent: 100, bake: 2h}", "{percent: 60, bake: 2h}, {percent: 100}", 1)
	f := testFleet(t, text)
	a := &Assembly{Digest: "sha256:x"}
	spec, err := Plan(f, a, Options{ID: "r1", Sizes: map[string]int{"canary": 1, "eu-1": 10, "us-1": 1000}})
	if err != nil || len(spec.Waves) != 3 || line1(spec.Waves[1].Batches[0][0])[:4] != "eu-1" || len(spec.Waves[1].Batches) != 1 {
		t.Errorf("%+v, %v", spec, err)
	}
	if got := Sizes(f, nil); got[1] != (wave.Cell{Name: "eu-1", Size: 5}) {
		t.Errorf("%v", got)
	}
	f.Rollout.Waves[0].Cells = []string{"eu-9"}
	_, err = Plan(f, a, Options{ID: "r1"})
	wants(t, err, ErrRefused, `names "eu-9"`)
	f.Rollout.Waves = f.Rollout.Waves[1:2]
	_, err = Plan(f, a, Options{ID: "r1"})
	wants(t, err, ErrRefused, "the waves must reach every cell")
}
