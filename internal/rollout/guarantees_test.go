package rollout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Guarantees 1 to 7 are rules, asked at every step of every order of events of every shape.

func TestNothingAfterRed(t *testing.T) { held(t, "NothingAfterRed", "HaltedIsForGood") }
func TestNoSkip(t *testing.T)          { held(t, "NoSkip", "OneCommandAtATime") }
func TestOnlyTouched(t *testing.T)     { held(t, "OnlyTouched") }
func TestDoneIsProved(t *testing.T)    { held(t, "DoneIsProved") }
func TestResumed(t *testing.T)         { held(t, "Resumed", "TakenIsReadAnew", "Reached") }
func TestDespite(t *testing.T) {
	held(t, "Despite", "MissingDataStopsAll", "PausedBeginsNothing", "MayNoMore")
}
func TestNeverStuckSilently(t *testing.T) { held(t, "NeverStuckSilently") }

// TestContractLast: for all that three cells may run, a contract begins only when each runs what is known and does without
// the old form; and what a cell turns out to run when its turn comes counts, too.
func TestContractLast(t *testing.T) {
	spec := shape{[][]int{{1}, {2}}, 1, false, false}.spec()
	spec.Phase, spec.NeedOld = Contract, []string{"v1", "v2"}
	runs := []string{"v1", "v2", "v3", "new", "", "not told"}
	for i := range 6 * 6 * 6 {
		spec.Running = nil
		all := true
		for j, cell := range []string{"c1", "c2", "c3"} {
			digest := runs[[]int{i % 6, i / 6 % 6, i / 36}[j]]
			all = all && (digest == "v3" || digest == "new")
			if digest != "not told" {
				spec.Running = append(spec.Running, Running{Cell: cell, Digest: digest})
			}
		}
		_, err := New(spec, begin)
		if all && err != nil || !all && !errors.Is(err, ErrNeedsOld) {
			t.Fatalf("%+v: %v", spec.Running, err)
		}
		for _, phase := range []Phase{Release, Expand, Migrate} {
			other := spec
			other.Phase = phase
			if _, err := New(other, begin); err != nil {
				t.Fatalf("%s: %v", phase, err)
			}
		}
	}
	// A cell of another rollout, or of none, counts as well: it reads the same messages.
	spec.Running = []Running{{"c1", "v3"}, {"c2", "v3"}, {"c3", "v3"}, {"c9", "v2"}}
	if _, err := New(spec, begin); !errors.Is(err, ErrNeedsOld) || !strings.Contains(err.Error(), "c9") {
		t.Fatal(err)
	}
	spec.Running = spec.Running[:3]
	for digest, ok := range map[string]bool{"v1": false, "v2": false, "": false, "v3": true, "unheard of": true} {
		s := play(t, spec, Event{Kind: Looked, Cell: "c1", Observation: &Observation{}}, Event{Kind: Read, Cell: "c1", Stage: "s0", Stack: Complete, Digest: digest})
		if c := s.Cells[0]; (c.Step == Preparing) != ok || !ok && s.Status != IsHalted {
			t.Errorf("read %q, and it is %s, the cell %s", digest, s.Status, c.Step)
		}
	}
}

// TestPure asks Next twice at each step of the smallest plans, the second time with what came back from JSON.
func TestPure(t *testing.T) {
	marshal := func(v any) []byte {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, sh := range []shape{{[][]int{{1}}, 1, false, true}, {[][]int{{1}, {1}}, 1, true, false}, {[][]int{{1}}, 2, true, false}} {
		x := newExplorer(sh)
		x.node, x.edge = nil, nil
		x.next = func(s State, e Event) (State, []Command, error) {
			before, event := marshal(s), marshal(e)
			after, commands, err := Next(s, e)
			if !bytes.Equal(before, marshal(s)) || !bytes.Equal(event, marshal(e)) {
				t.Fatalf("the arguments were changed: %s\n%s", before, event)
			}
			again, err2 := Decode(before)
			if err2 != nil {
				t.Fatalf("%v\n%s", err2, before)
			}
			if !bytes.Equal(before, marshal(again)) {
				t.Fatalf("%s\ncame back as\n%s", before, marshal(again))
			}
			var e2 Event
			if err := json.Unmarshal(event, &e2); err != nil {
				t.Fatal(err)
			}
			after2, commands2, err2 := Next(again, e2)
			if !bytes.Equal(marshal(after), marshal(after2)) || !bytes.Equal(marshal(commands), marshal(commands2)) || fmt.Sprint(err) != fmt.Sprint(err2) {
				t.Fatalf("from %s by %s once\n%s\nand once\n%s", before, event, marshal(after), marshal(after2))
			}
			if err != nil && (!bytes.Equal(marshal(after), before) || commands != nil) {
				t.Fatalf("%v, and the state was changed", err)
			}
			return after, commands, err
		}
		x.run()
		t.Logf("%v: %d steps", sh, x.edges)
	}
}

// TestFenced sends every event of another lease at each state of the smallest plans.
func TestFenced(t *testing.T) {
	for _, sh := range []shape{{[][]int{{1}}, 1, true, true}, {[][]int{{1}, {1}}, 1, false, false}} {
		x := newExplorer(sh)
		x.edge, x.node = nil, map[string]nodeRule{"Fenced": func(x *explorer, n *node) string {
			s := n.s
			s.Fencing = 5
			for _, e := range n.possible(true) {
				for _, fencing := range []uint64{0, 1, 4, 5, 6, math.MaxUint64} {
					e.Fencing = fencing
					after, commands, err := Next(s, e)
					latest := fencing == 5
					if e.Kind == Taken {
						latest = fencing > 5
					}
					if errors.Is(err, ErrFenced) == latest {
						return fmt.Sprintf("%s with fencing number %d: %v", e.Kind, fencing, err)
					}
					if !latest && (commands != nil || !reflect.DeepEqual(after, s)) {
						return fmt.Sprintf("%s with fencing number %d changed the state", e.Kind, fencing)
					}
				}
			}
			return ""
		}}
		if x.run(); x.fault != "" {
			t.Error(x.why)
		}
	}
	s, err := New(shape{[][]int{{1}}, 1, false, false}.spec(), begin)
	if err != nil || len(Due(s)) > 0 {
		t.Fatalf("%+v is due before anybody took it: %v", Due(s), err)
	}
	if _, _, err := Next(s, Event{Kind: Pause, At: begin}); !errors.Is(err, ErrFenced) {
		t.Errorf("nobody holds it, and it is paused: %v", err)
	}
}

// play is the state after the events, to which it adds time and fencing number.
func play(t *testing.T, spec Spec, events ...Event) State {
	t.Helper()
	s, err := New(spec, begin)
	if err != nil {
		t.Fatal(err)
	}
	return more(t, s, append([]Event{{Kind: Taken, Fencing: 1}}, events...)...)
}

// more is the state after more events, a minute apart.
func more(t *testing.T, s State, events ...Event) State {
	t.Helper()
	for i, e := range events {
		e.Fencing = max(e.Fencing, s.Fencing)
		if e.At.IsZero() {
			e.At = s.Updated.Add(time.Minute)
		}
		after, _, err := Next(s, e)
		if err != nil {
			t.Fatalf("event %d, %+v: %v", i+1, e, err)
		}
		s = after
	}
	return s
}
