package show

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
)

var update = flag.Bool("update", false, "write the golden pictures anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
	}
}

// TestPictures draws rollouts in moments that people look at, in three widths.
func TestPictures(t *testing.T) {
	baking := newDrill(t, specOf(2, 1, 3, 6))
	baking.until(at("eu-2", rollout.Proving, 2))
	baking.until(at("eu-3", rollout.Proving, 2))
	baking.now = baking.now.Add(42 * time.Minute)
	for _, cell := range []string{"eu-2", "eu-3"} {
		baking.sights[cell] = Sight{baking.now, rollout.Observation{Requests: 12_345}}
	}
	baking.sights["eu-3"] = Sight{baking.now, rollout.Observation{Requests: 63}}

	paused := newDrill(t, specOf(2, 1, 3, 6))
	paused.until(at("eu-2", rollout.Proving, 1))
	paused.now = paused.now.Add(5 * time.Minute)
	seen := rollout.Observation{Missing: []string{"s03/health", "requests"}}
	paused.sights["eu-2"] = Sight{paused.now, seen}
	paused.send(rollout.Event{Kind: rollout.Looked, Cell: "eu-2", Observation: &seen})

	halted := newDrill(t, bakingFor(time.Minute, 70, 1, 70, 129))
	halted.until(at("eu-2", rollout.Baking, 3))
	halted.now = halted.now.Add(61 * time.Second)
	halted.send(rollout.Event{Kind: rollout.Looked, Cell: "eu-17", Observation: &rollout.Observation{Firing: []string{"s03/failing-tenants", "health"}}})
	halted.send(rollout.Event{Kind: rollout.Rollback, By: "ann", Why: "sev 2, see the incident's page"})

	for _, c := range []struct {
		name string
		view View
		hint string
	}{
		{"baking", baking.view(), ""},
		{"paused", paused.view(), "cellwall rollout resume, when it has data"},
		{"rolling-back-200", halted.view(), ""},
	} {
		c.view.Hint = c.hint
		var b strings.Builder
		for _, width := range []int{40, 80, 200} {
			b.WriteString(strings.Repeat("-", width) + "\n")
			for _, line := range c.view.Lines(Look{Width: width, Height: 30}) {
				b.WriteString(line + "\n")
			}
		}
		golden(t, c.name+".txt", b.String())
	}
}
