package cwgate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"cellwall.dev/cellwall/internal/fleet"
)

// TestBaseline looks before the change: at what rings now, and at nothing of before; nothing is counted.
func TestBaseline(t *testing.T) {
	w := newWorld(t)
	at := w.of("c1")
	at.set(types.StateValueAlarm, "orders/c1/health", "orders/c1/s01/dead-letters", "orders/c1/s01/health", "orders/c1/key-age", "orders/c2/health", "orders/c1", "other/c1/health")
	w.after(time.Minute)
	at.set(types.StateValueOk, "orders/c1/s01/dead-letters")
	o, err := w.gate(t).Look(t.Context(), "c1", time.Time{}, time.Time{}, []string{"c2"})
	if err != nil || fmt.Sprintf("%+v", o) != "{Requests:0 Firing:[health] Fired:[] Missing:[] Elsewhere:[]}" {
		t.Errorf("%+v, %v", o, err)
	}
	if at.calls["DescribeAlarms"] != 2 || at.calls["DescribeAlarmHistory"]+at.calls["GetMetricData"] != 0 {
		t.Errorf("calls: %v", at.calls)
	}
	if _, err := w.gate(t).Look(t.Context(), "c9", time.Time{}, time.Time{}, nil); err == nil || err.Error() != `look at cell "c9": the fleet has none of that name` {
		t.Errorf("of no cell: %v", err)
	}
}

// TestAlarmsThatDoNotHalt are not asked for.
func TestAlarmsThatDoNotHalt(t *testing.T) {
	w := newWorld(t)
	w.fleet.Rollout.HaltOn = fleet.HaltOn{Alarms: "none"}
	at := w.of("c1")
	at.set(types.StateValueAlarm, "orders/c1/health")
	at.served["c1"] = []served{{at: start.Add(time.Minute)}}
	w.after(2 * time.Minute)
	o, err := w.gate(t).Look(t.Context(), "c1", start, start, []string{"c2"})
	if err != nil || fmt.Sprintf("%+v", o) != "{Requests:1 Firing:[] Fired:[] Missing:[] Elsewhere:[]}" || len(at.calls) != 1 {
		t.Errorf("%+v, %v, by %v", o, err, at.calls)
	}
}

// TestFewCalls: cells of one account and region are looked at together, however many they are, and a quiet interval costs a
// handful of calls.
func TestFewCalls(t *testing.T) {
	w := newWorld(t)
	for i := range 34 {
		c := fleet.Cell{Name: fmt.Sprint("d", i), Account: "111111111111", Region: "eu-west-1", Shards: fleet.Shards{{ID: "s01"}}}
		w.fleet.Cells = append(w.fleet.Cells, c)
	}
	g, at := w.gate(t), w.of("c1")
	for name, c := range g.cells {
		if strings.HasPrefix(name, "d") {
			at.set(types.StateValueOk, c.own...)
			at.served[name] = []served{{at: start}}
		}
	}
	w.after(time.Minute)
	for round := range 5 {
		clear(at.calls)
		var all sync.WaitGroup
		for i := range 34 {
			all.Go(func() {
				if o, err := g.Look(context.Background(), fmt.Sprint("d", i), start, start, []string{"c1"}); err != nil || len(o.Missing)+len(o.Firing)+len(o.Fired) > 0 {
					t.Errorf("%+v, %v", o, err)
				}
			})
		}
		all.Wait()
		// 38 cells have 266 alarms of their own.
		if at.calls["DescribeAlarms"] != 4 || at.calls["DescribeAlarmHistory"] != 2 || at.calls["GetMetricData"] > 34 || round%4 != 0 && at.calls["GetMetricData"] > 0 {
			t.Errorf("round %d: %v", round, at.calls)
		}
		w.after(time.Minute + time.Duration(round+1)*5*time.Second)
	}
}

// TestNothingOfBefore: what was seen before a change, or before a bake began, is not told of what came after.
func TestNothingOfBefore(t *testing.T) {
	w := newWorld(t)
	g, at := w.gate(t), w.of("c1")
	if o, err := g.Look(t.Context(), "c1", time.Time{}, time.Time{}, nil); err != nil || len(o.Firing) > 0 {
		t.Fatalf("%+v, %v", o, err)
	}
	changed := w.after(time.Second)
	at.set(types.StateValueAlarm, "orders/c1/health")
	if o, err := g.Look(t.Context(), "c1", changed, changed, nil); err != nil || fmt.Sprint(o.Firing, o.Fired) != "[health] [health]" {
		t.Errorf("a second after the change: %+v, %v", o, err)
	}
}

// TestTurnedAway: what is turned away is asked again, until patience ends; what is refused is not.
func TestTurnedAway(t *testing.T) {
	for _, c := range []struct {
		err   error
		times int
		calls int // DescribeAlarms by names and by prefix: each patiently
		ok    bool
	}{
		{refusal("ThrottlingException"), 3, 5, true},
		{refusal("Throttling"), 100, 8, false},
		{refusal("InternalServiceFault"), 100, 2, false},
		{refusal("AccessDenied"), 100, 2, false},
	} {
		w := newWorld(t)
		at := w.of("c1")
		at.fail = func(_ string, call int) error {
			if call <= c.times {
				return c.err
			}
			return nil
		}
		o, err := w.gate(t).Look(t.Context(), "c1", time.Time{}, time.Time{}, nil)
		if err != nil || (len(o.Missing) == 0) != c.ok || at.calls["DescribeAlarms"] != c.calls {
			t.Errorf("%v, %d times: %+v, %v after %v", c.err, c.times, o, err, at.calls)
		}
	}
}

// TestClients: one is made for each account and region, once it is needed; an error of it is missing data, and it is asked for again.
func TestClients(t *testing.T) {
	w := newWorld(t)
	made := map[string]int{}
	down := true
	g, err := New(w.fleet, func(_ context.Context, account, region string) (Client, error) {
		made[account+"/"+region]++
		if down {
			return nil, errors.New("no credentials\nfor it")
		}
		return w.watches[account], nil
	}, Options{Now: w.now, Wait: w.wait})
	if err != nil || len(made) > 0 {
		t.Fatal(err, made)
	}
	o, err := g.Look(t.Context(), "c1", time.Time{}, time.Time{}, nil)
	if want := "alarms (CloudWatch of account 111111111111 in eu-west-1: no credentials for it)"; err != nil || len(o.Missing) != 1 || o.Missing[0] != want {
		t.Errorf("%q, %v", o.Missing, err)
	}
	down = false
	w.after(5 * time.Second)
	for _, cell := range []string{"c1", "c2", "c1"} {
		if o, err := g.Look(t.Context(), cell, time.Time{}, time.Time{}, nil); err != nil || len(o.Missing) > 0 {
			t.Errorf("%+v, %v", o, err)
		}
	}
	if fmt.Sprint(made) != "map[111111111111/eu-west-1:2]" {
		t.Error(made)
	}
}

// TestCancelled: a look that is cut off is an error, and spoils nothing for the next.
func TestCancelled(t *testing.T) {
	w := newWorld(t)
	g := w.gate(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if o, err := g.Look(ctx, "c1", start, start, nil); !errors.Is(err, context.Canceled) || len(o.Missing) > 0 {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := g.Look(t.Context(), "c1", start, start, nil); err != nil || len(o.Missing) > 0 {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestLateItems: what the history has later than it was is found by the looks after that, also when these come often.
func TestLateItems(t *testing.T) {
	w := newWorld(t)
	g, at := w.gate(t), w.of("c1")
	at.alarms["orders/c1/health"] = append(at.alarms["orders/c1/health"], change{start.Add(2 * time.Minute), types.StateValueAlarm, 8 * time.Minute},
		change{start.Add(2*time.Minute + time.Second), types.StateValueOk, 9 * time.Minute})
	for at := time.Minute; at <= 12*time.Minute; at += 7 * time.Second {
		now := w.after(at)
		o, err := g.Look(t.Context(), "c1", time.Time{}, start, nil)
		if want := now.After(start.Add(10*time.Minute + 5*time.Second)); err != nil || (len(o.Fired) == 1) != want && (want || now.Before(start.Add(10*time.Minute))) {
			t.Errorf("at %v: %+v, %v", now, o, err)
		}
	}
}

// TestLongHistory has more items than one look reads; the next looks read on.
func TestLongHistory(t *testing.T) {
	w := newWorld(t)
	g, at := w.gate(t), w.of("c1")
	for i := range 12_000 { // another service's alarm that flaps
		at.alarms["noise"] = append(at.alarms["noise"], change{at: start.Add(time.Duration(i) * time.Second), state: states[i%2]})
	}
	w.after(11_000 * time.Second)
	at.set(types.StateValueAlarm, "orders/c1/keeper-errors")
	at.set(types.StateValueOk, "orders/c1/keeper-errors")
	var told []string
	for look := range 3 {
		w.after(12_000*time.Second + time.Duration(look)*5*time.Second)
		o, err := g.Look(t.Context(), "c1", time.Time{}, start, nil)
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, fmt.Sprint(len(o.Missing), o.Fired))
	}
	if got := strings.Join(told, " "); got != "1 [] 1 [] 0 [keeper-errors]" {
		t.Error(got)
	}
}

// TestNew refuses what cannot be.
func TestNew(t *testing.T) {
	if _, err := New(nil, nil, Options{}); err == nil {
		t.Error("a gate of nothing")
	}
	if _, err := New(&fleet.Fleet{}, func(context.Context, string, string) (Client, error) { return nil, nil }, Options{Every: -1}); err == nil {
		t.Error("a gate that looks before now")
	}
	g, err := New(newWorld(t).fleet, func(context.Context, string, string) (Client, error) { return nil, nil }, Options{})
	if err != nil || g.now == nil || g.wait == nil {
		t.Fatal(err)
	}
	if o, err := g.Look(t.Context(), "c1", time.Time{}, time.Time{}, nil); err != nil || len(o.Missing) != 1 || !strings.Contains(o.Missing[0], "there is no client") {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestPause(t *testing.T) {
	if err := pause(t.Context(), time.Nanosecond); err != nil {
		t.Error(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := pause(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
