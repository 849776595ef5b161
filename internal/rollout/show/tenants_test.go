package show

import (
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
)

// counted is three cells in two waves, whose tenants were counted but for the last cell's.
func counted() rollout.Spec {
	s := bakingFor(time.Minute, 1, 1, 2)
	whole := map[string][]int{"eu-canary": {1, 12}, "eu-2": {250, 4000}}
	for _, w := range s.Waves {
		for _, b := range w.Batches {
			for _, c := range b {
				for i, n := range whole[c.Name] {
					c.Stages[1+i].Tenants = &rollout.Tenants{Of: whole[c.Name][1], Whole: n, Twice: 7 * i}
				}
			}
		}
	}
	return s
}

// TestTenants: each stage says what it means for the tenants of its cell when it has reached the new version, and the
// rollout how many of all are on it, forward and back.
func TestTenants(t *testing.T) {
	d := newDrill(t, counted())
	for _, step := range []struct {
		cell  string
		step  rollout.Step
		stage int
		whole int
		line  string // of the last event of the cell
	}{
		{"eu-canary", rollout.Executing, 1, 0, "executing zone-a"},
		{"eu-canary", rollout.Proving, 1, 1, "proving zone-a; 1 of 12 tenants of the cell have all of their shards on the new version"},
		{"eu-canary", rollout.Executing, 2, 1, "executing zone-b"},
		{"eu-canary", rollout.Proving, 2, 12, "proving zone-b; 12 of 12 tenants of the cell have all of their shards on the new version, and 7 two or more shards that are new at once"},
		{"eu-canary", rollout.Proving, 3, 12, "proving watch"},
		{"eu-canary", rollout.Done, 3, 12, "done"},
		{"eu-2", rollout.Settling, 2, 262, "settling zone-b"},
		{"eu-2", rollout.Proving, 2, 4012, "proving zone-b; 4,000 of 4,000"},
		{"eu-3", rollout.Done, 3, 4012, "done"},
	} {
		d.until(at(step.cell, step.step, step.stage))
		got := NewTenants(d.state)
		if got == nil || got.Whole != step.whole || got.Of != 4012 {
			t.Errorf("%s is %s of stage %d: %+v, want %d of 4012", step.cell, step.step, step.stage, got, step.whole)
		}
		replay := NewReplay(d.state)
		var last string
		for _, r := range d.journal {
			events, err := replay.Take(r)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				if e.Kind == Moved && e.Cell == step.cell {
					last = e.Line()
				}
			}
		}
		if !strings.Contains(last, "cell "+step.cell+": "+step.line) {
			t.Errorf("%q, want %q", last, step.line)
		}
	}
	if text := Summary(d.state, d.now); !strings.Contains(text, "| tenants with all shards new | 4,012 of 4,012 |") {
		t.Error(text)
	}
	if text := strings.Join(d.view().Lines(Look{Width: 200, Height: 30}), "\n"); !strings.Contains(text, "all shards of 4,012 of 4,012 tenants on it") {
		t.Error(text)
	}
	if r := NewReport(d.state, d.now, nil); r.Tenants == nil || *r.Tenants != (Tenants{4012, 4012}) {
		t.Errorf("%+v", r.Tenants)
	}
	d.send(rollout.Event{Kind: rollout.Rollback})
	d.until(at("eu-2", rollout.UndoReading, 1))
	if got := NewTenants(d.state); got.Whole > 262 {
		t.Errorf("eu-2 has one zone left on it, and %+v", got)
	}
	d.until(func(s rollout.State) bool { return s.Status == rollout.IsRolledBack })
	if got := NewTenants(d.state); *got != (Tenants{0, 4012}) {
		t.Errorf("all is rolled back, and %+v", got)
	}
	if got := NewTenants(newDrill(t, specOf(1, 1, 1)).state); got != nil {
		t.Errorf("nobody counted, and %+v", got)
	}
}
