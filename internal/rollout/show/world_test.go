package show

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
)

var begin = time.Date(2026, 7, 28, 9, 0, 0, 0, time.UTC)

const oursDigest = "sha256:9f3a1c2b7d4e9f3a1c2b7d4e9f3a1c2b7d4e9f3a1c2b7d4e9f3a1c2b7d4e9f3a"

// specOf is waves with as many cells each, in batches of at most third cells, that bake for an hour.
func specOf(third int, waves ...int) rollout.Spec { return bakingFor(time.Hour, third, waves...) }

func bakingFor(bake time.Duration, third int, waves ...int) rollout.Spec {
	s := rollout.Spec{ID: "20260728-9f3a1c", Service: "orders", Digest: oursDigest, Phase: rollout.Release, MinRequests: 100}
	n := 0
	for _, cells := range waves {
		wave := rollout.Wave{Bake: rollout.Duration(bake)}
		for range cells {
			n++
			c := rollout.PlannedCell{Name: fmt.Sprintf("eu-%d", n), Stages: []rollout.PlannedStage{{Name: "core"},
				{Name: "zone-a", Bake: rollout.Duration(bake)}, {Name: "zone-b", Bake: rollout.Duration(bake)}, {Name: "watch"}}}
			if n == 1 {
				c.Name = "eu-canary"
			}
			if last := len(wave.Batches) - 1; last < 0 || len(wave.Batches[last]) == third {
				wave.Batches = append(wave.Batches, nil)
			}
			wave.Batches[len(wave.Batches)-1] = append(wave.Batches[len(wave.Batches)-1], c)
		}
		s.Waves = append(s.Waves, wave)
	}
	return s
}

// drill drives a rollout by answers of its own, and keeps the journal.
type drill struct {
	t       *testing.T
	state   rollout.State
	now     time.Time
	journal []run.Record
	sights  map[string]Sight
	ran     map[string]string // digest by cell and stage
}

func newDrill(t *testing.T, spec rollout.Spec) *drill {
	t.Helper()
	s, err := rollout.New(spec, begin)
	if err != nil {
		t.Fatal(err)
	}
	d := &drill{t: t, state: s, now: begin, sights: map[string]Sight{}, ran: map[string]string{}}
	d.journal = []run.Record{{Seq: 1, State: s}}
	d.send(rollout.Event{Kind: rollout.Taken, Fencing: 1, By: "ann@build-7"})
	return d
}

func (d *drill) send(e rollout.Event) {
	d.t.Helper()
	if e.At = d.now; e.Fencing == 0 {
		e.Fencing = d.state.Fencing
	}
	s, _, err := rollout.Next(d.state, e)
	if err != nil {
		d.t.Fatalf("%+v: %v", e, err)
	}
	d.state = s
	d.journal = append(d.journal, run.Record{Seq: uint64(len(d.journal) + 1), Event: &e, State: s})
}

// good is the answer to a command when all goes well.
func (d *drill) good(c rollout.Command) rollout.Event {
	e := rollout.Event{Cell: c.Cell, Stage: c.Stage}
	key := c.Cell + "/" + c.Stage
	switch c.Kind {
	case rollout.Look:
		e.Kind, e.Stage = rollout.Looked, ""
		e.Observation = &rollout.Observation{Requests: 41 * int64(d.now.Sub(c.Since)/time.Minute)}
		if c.Since.IsZero() {
			e.Observation.Requests = 0
		}
		d.sights[c.Cell] = Sight{d.now, *e.Observation}
	case rollout.AskRead:
		e.Kind, e.Stack, e.Digest = rollout.Read, rollout.Complete, d.ran[key]
		if e.Digest == "" {
			e.Digest = "sha256:0ld"
		}
	case rollout.Prepare:
		e.Kind = rollout.Prepared
	case rollout.Execute:
		e.Kind = rollout.Executed
		d.ran[key] = c.Digest
	case rollout.Restore:
		e.Kind = rollout.Restored
		d.ran[key] = c.Digest
	}
	return e
}

// until drives for minutes, by good answers, until something holds.
func (d *drill) until(holds func(rollout.State) bool) {
	d.t.Helper()
	for range 100_000 {
		if holds(d.state) {
			return
		}
		due := rollout.Due(d.state)
		if len(due) == 0 {
			d.t.Fatalf("nothing is due while it is %s", d.state.Status)
		}
		looks := true
		for _, c := range due {
			if c.Kind != rollout.Look {
				looks = false
			}
		}
		if looks {
			d.now = d.now.Add(time.Minute)
		}
		for _, c := range due {
			before := d.state
			if e := d.good(c); e.Kind != "" {
				e.At, e.Fencing = d.now, d.state.Fencing
				if _, _, err := rollout.Next(before, e); err != nil {
					continue // somebody's answer before has changed what is due
				}
				d.send(e)
			}
			if holds(d.state) {
				return
			}
		}
	}
	d.t.Fatal("it never holds")
}

func (d *drill) view() View {
	return View{State: d.state, Now: d.now, Sights: d.sights,
		Lease: &run.Lease{Service: "orders", Holder: "ann@build-7", Fencing: d.state.Fencing, Until: d.now.Add(30 * time.Second)}}
}

// at says that a cell is at a step of a stage.
func at(cell string, step rollout.Step, stage int) func(rollout.State) bool {
	return func(s rollout.State) bool {
		for _, c := range s.Cells {
			if c.Name == cell {
				return c.Step == step && c.Stage == stage
			}
		}
		return false
	}
}

// walk is a drill that went through n random answers, wishes and takings.
func walk(t *testing.T, r *rand.Rand, spec rollout.Spec, n int) *drill {
	t.Helper()
	d := newDrill(t, spec)
	for range n {
		d.now = d.now.Add(time.Duration(r.IntN(1800)) * time.Second)
		e := rollout.Event{At: d.now, Fencing: d.state.Fencing, By: "eve", Why: "because"}
		due := rollout.Due(d.state)
		if len(due) == 0 || r.IntN(40) == 0 {
			switch r.IntN(6) {
			case 0:
				e.Kind = rollout.Pause
			case 1, 2:
				e.Kind = rollout.Resume
				e.Despite = []rollout.Despite{{Alarm: "health", Because: "known"}}
			case 3:
				e.Kind, e.Fencing = rollout.Taken, d.state.Fencing+1
			case 4:
				e.Kind = rollout.Rollback
			case 5:
				e.Kind = rollout.Pause
				if r.IntN(5) == 0 {
					e.Kind = rollout.Abort
				}
			}
		} else {
			e = d.good(due[r.IntN(len(due))])
			e.At, e.Fencing = d.now, d.state.Fencing
			switch r.IntN(30) {
			case 0:
				e.Error = "it broke"
			case 1:
				e.Stack = rollout.Failed
			case 2:
				if e.Observation != nil {
					e.Observation.Firing = []string{"health"}
				}
			case 3:
				if e.Observation != nil {
					e.Observation.Missing = []string{"s01/health"}
				}
			case 4:
				if e.Kind == rollout.Read {
					e.Stack, e.Digest = rollout.Stuck, ""
				}
			}
		}
		if _, _, err := rollout.Next(d.state, e); err == nil {
			d.send(e)
		}
	}
	return d
}
