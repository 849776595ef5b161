package cwgate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"pgregory.net/rapid"
)

var states = []types.StateValue{types.StateValueOk, types.StateValueAlarm, types.StateValueInsufficientData}

// seconds draws a time within so many of them from the start.
func seconds(from, to int) *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.IntRange(from, to), func(s int) time.Duration { return time.Duration(s) * time.Second })
}

// span is a time in which an alarm was in ALARM: from its begin on, and until its end without that.
type span struct{ begin, end time.Time }

type spans func(alarm string) []span

// pasts looks at two cells whose alarms come and go, by a history that is late and in pages, with some questions turned away, and
// gives each look to judge.
func pasts(t *testing.T, judge func(t *rapid.T, cell string, now, from time.Time, told []string, rang spans)) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		g := w.gate(t)
		watched := map[string][]string{}
		for _, cell := range []string{"c1", "c2"} {
			watched[cell] = g.cells[cell].own[:5]
			for _, alarm := range watched[cell] {
				for _, at := range slices.Sorted(maps.Keys(rapid.MapOfN(seconds(-1800, 7200), rapid.Bool(), 0, 6).Draw(r, "changes of "+alarm))) {
					w.of(cell).alarms[alarm] = append(w.of(cell).alarms[alarm], change{start.Add(at), rapid.SampledFrom(states).Draw(r, "state"), seconds(0, 300).Draw(r, "late")})
				}
			}
		}
		rang := func(alarm string) (all []span) {
			for i, c := range w.of("c1").alarms[alarm] {
				if c.state == types.StateValueAlarm {
					all = append(all, span{c.at, start.Add(24 * time.Hour)})
					if i+1 < len(w.of("c1").alarms[alarm]) {
						all[len(all)-1].end = w.of("c1").alarms[alarm][i+1].at
					}
				}
			}
			return all
		}
		w.of("c1").page = rapid.IntRange(1, 9).Draw(r, "page")
		away := rapid.IntRange(2, 9).Draw(r, "turned away")
		w.of("c1").fail = func(_ string, call int) error {
			if call%away == 0 {
				return refusal("ThrottlingException")
			}
			return nil
		}
		from := map[string]time.Time{}
		for _, cell := range []string{"c1", "c2"} {
			from[cell] = start.Add(seconds(0, 1800).Draw(r, "from"))
		}
		for _, at := range slices.Sorted(maps.Keys(rapid.MapOfN(seconds(1800, 9000), rapid.Bool(), 1, 8).Draw(r, "looks"))) {
			if w.now().Before(start.Add(at)) {
				w.clock.set(start.Add(at))
			}
			cell := rapid.SampledFrom([]string{"c1", "c2"}).Draw(r, "cell")
			if rapid.IntRange(0, 5).Draw(r, "another process") == 0 {
				g = w.gate(t)
			}
			asked := w.now()
			o, err := g.Look(t.Context(), cell, time.Time{}, from[cell], nil)
			if err != nil {
				r.Fatal(err)
			}
			for _, missing := range o.Missing {
				if strings.Contains(missing, "istory") || strings.Contains(missing, "alarms (") {
					r.Fatalf("missing: %s", missing)
				}
			}
			judge(r, cell, asked, from[cell], append(o.Firing, o.Fired...), rang)
		}
	})
}

// TestFired looks at any times, from one process or several.
func TestFired(t *testing.T) {
	pasts(t, func(r *rapid.T, cell string, now, from time.Time, told []string, rang spans) {
		known := now.Add(-5 * time.Minute) // the history has all of it
		within := func(at time.Time) bool { return !at.Before(from) && !at.After(known) }
		for _, short := range []string{"health", "directory-age", "dispatch-dead-letters", "keeper-errors", "load-variation"} {
			for _, s := range rang("orders/" + cell + "/" + short) {
				// What it rings by may be as old as the last look, and the look lasts.
				rings := !s.begin.After(now.Add(-5*time.Second)) && s.end.After(now.Add(time.Minute))
				if (rings || within(s.begin) || within(s.end) && s.end.After(from)) && !slices.Contains(told, short) {
					r.Errorf("%s of %s was in ALARM from %v to %v, and since %v %v is told at %v", short, cell, s.begin, s.end, from, told, now)
				}
			}
		}
	})
}

// TestNotBefore is of the same looks.
func TestNotBefore(t *testing.T) {
	pasts(t, func(r *rapid.T, cell string, now, from time.Time, told []string, rang spans) {
		for _, short := range told {
			if !slices.ContainsFunc(rang("orders/"+cell+"/"+short), func(s span) bool {
				return s.end.After(from) && s.begin.Before(now.Add(time.Minute)) // the look lasts
			}) {
				r.Errorf("%s of %s is told at %v, and was not in ALARM since %v", short, cell, now, from)
			}
		}
	})
}

// TestNeverOverCounted counts requests of any times, some of which went to several shards, by a metric that is late, in pages,
// and says some things twice. When all is there, what whole periods have is all counted.
func TestNeverOverCounted(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		at, g := w.of("c1"), w.gate(t)
		longest := rapid.SampledFrom([]int{600, 7200, 2 * 86400, 10 * 86400}).Draw(r, "span")
		for range rapid.IntRange(0, 60).Draw(r, "requests") {
			at.served["c1"] = append(at.served["c1"], served{start.Add(seconds(-3600, longest).Draw(r, "at")), seconds(0, 600).Draw(r, "late"), rapid.IntRange(1, 3).Draw(r, "sent")})
		}
		at.served["c2"] = []served{{at: start.Add(time.Minute)}}
		at.page = rapid.IntRange(0, 9).Draw(r, "page")
		if rapid.Bool().Draw(r, "twice") {
			at.lie = func(_ string, out any) {
				if out, ok := out.(*cloudwatch.GetMetricDataOutput); ok {
					out.MetricDataResults = append(out.MetricDataResults, out.MetricDataResults...)
				}
			}
		}
		since := start.Add(seconds(0, 300).Draw(r, "since"))
		count := func(from, to time.Time) (n int64) {
			for _, s := range at.served["c1"] {
				if !s.at.Before(from) && s.at.Before(to) {
					n++
				}
			}
			return n
		}
		for _, after := range append(slices.Sorted(maps.Keys(rapid.MapOfN(seconds(0, longest), rapid.Bool(), 1, 8).Draw(r, "looks"))), time.Duration(longest+1200)*time.Second) {
			now := w.after(after)
			o, err := g.Look(t.Context(), "c1", since, time.Time{}, nil)
			if err != nil {
				r.Fatal(err)
			}
			if o.Requests > count(since, now) {
				r.Errorf("%d requests since %v are told at %v; there were %d", o.Requests, since, now, count(since, now))
			}
			if from, to := within(since, now, period(now.Sub(since))); after == time.Duration(longest+1200)*time.Second && o.Requests != count(from, to) {
				r.Errorf("%d requests are told in the end; there were %d from %v to %v", o.Requests, count(from, to), from, to)
			}
		}
	})
}

// TestElsewhere rings in any cells, some of which cannot be seen.
func TestElsewhere(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		g := w.gate(t)
		kinds := map[string][]string{"health": {"health"}, "stale-health": {"stale-health"}, "s01/dead-letters": {"s01/dead-letters", "s02/dead-letters"}}
		now := w.after(time.Minute)
		for alarm := range kinds {
			w.of("c1").set(types.StateValueAlarm, "orders/c1/"+alarm)
		}
		unseen := rapid.Bool().Draw(r, "the other account cannot be seen")
		if unseen {
			w.of("c6").fail = func(string, int) error { return refusal("AccessDenied") }
		}
		unreached := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"c1", "c2", "c3", "c4", "c5", "c6", "gone"}), func(s string) string { return s }).Draw(r, "unreached")
		var others []string
		for _, cell := range unreached {
			if cell != "c1" {
				others = append(others, cell)
			}
		}
		ringing := map[string]int{}
		for _, cell := range []string{"c2", "c3", "c4", "c5", "c6"} {
			for alarm, alike := range kinds {
				if rapid.Bool().Draw(r, alarm+" of "+cell) {
					w.of(cell).set(types.StateValueAlarm, "orders/"+cell+"/"+rapid.SampledFrom(alike).Draw(r, "which"))
					if slices.Contains(others, cell) && (!unseen || cell < "c5") {
						ringing[alarm]++
					}
				}
			}
		}
		o, err := g.Look(t.Context(), "c1", time.Time{}, now, unreached)
		if err != nil || len(o.Missing) > 0 || len(o.Firing) != 3 {
			r.Fatalf("%+v, %v", o, err)
		}
		for alarm := range kinds {
			if want := 2*ringing[alarm] > len(others); slices.Contains(o.Elsewhere, alarm) != want {
				r.Errorf("%s rings in %d of %v, and elsewhere is told %v", alarm, ringing[alarm], others, o.Elsewhere)
			}
		}
	})
}

// TestMissingIsTold has something that rings in each case, which is told all the same.
func TestMissingIsTold(t *testing.T) {
	minute := time.Minute
	for name, c := range map[string]struct {
		do   func(w *world, at *watch)
		want string
	}{
		"no alarm over everything": {func(_ *world, at *watch) { delete(at.alarms, "orders/c1/health") }, "health (there is no such alarm; it is of stack orders-c1-watch)"},
		"which knows nothing":      {func(_ *world, at *watch) { at.set(types.StateValueInsufficientData, "orders/c1/health") }, "health (it knows nothing)"},
		"which knew nothing between two looks": {func(w *world, at *watch) {
			at.set(types.StateValueInsufficientData, "orders/c1/health")
			w.after(3 * minute)
			at.set(types.StateValueOk, "orders/c1/health")
		}, "health (it knew nothing at 2026-11-30T12:02:30Z)"},
		"a keeper that is silent": {func(_ *world, at *watch) { at.set(types.StateValueInsufficientData, "orders/c1/snapshot-age") }, "snapshot-age (it knows nothing since 2026-11-30T12:02:30Z)"},
		"no history": {func(_ *world, at *watch) { at.fail = failing("DescribeAlarmHistory", refusal("AccessDenied")) },
			"the alarms' history (DescribeAlarmHistory: api error AccessDenied: no DescribeAlarmHistory: api error AccessDenied: no)"},
		"history that makes no sense": {func(w *world, at *watch) {
			bad := item("orders/c1/keeper-errors", w.now(), types.StateValueOk, types.StateValueOk)
			bad.HistoryData, bad.HistorySummary = aws.String("{"), aws.String("?")
			at.items = append(at.items, bad)
		}, "keeper-errors (what CloudWatch says of its history makes no sense)"},
		"no metrics": {func(_ *world, at *watch) { at.fail = failing("GetMetricData", refusal("AccessDenied")) }, "requests (GetMetricData: api error AccessDenied: no)"},
		"nobody who counts": {func(w *world, at *watch) { at.served, w.at = nil, start.Add(20*minute) },
			"requests (routers told of none in 19m30s; a probe would send some)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			at := w.of("c1")
			at.served["c1"] = []served{{at: start.Add(2 * minute)}}
			since := w.after(90 * time.Second)
			w.after(2 * minute)
			c.do(w, at)
			at.set(types.StateValueAlarm, "orders/c1/s02/queue-age")
			w.after(w.now().Sub(start) + minute)
			o, err := w.gate(t).Look(t.Context(), "c1", since, start.Add(minute), nil)
			if err != nil || len(o.Missing) != 1 || o.Missing[0] != c.want || fmt.Sprint(o.Firing) != "[s02/queue-age]" {
				t.Errorf("%+v, %v; want only %q missing", o, err, c.want)
			}
			// What was a hole before the bake began anew is behind it.
			if strings.Contains(c.want, " at ") || strings.Contains(c.want, "no sense") {
				now := w.after(w.now().Sub(start) + minute)
				if o, err := w.gate(t).Look(t.Context(), "c1", now, start.Add(minute), nil); err != nil || len(o.Missing) > 0 {
					t.Errorf("in the next bake %+v, %v", o, err)
				}
			}
		})
	}
}

// failing fails one operation, for good.
func failing(operation string, err error) func(string, int) error {
	return func(o string, _ int) error {
		if o == operation {
			return err
		}
		return nil
	}
}

// TestMissingAlarms cannot be asked for at all.
func TestMissingAlarms(t *testing.T) {
	w := newWorld(t)
	w.of("c1").fail = failing("DescribeAlarms", refusal("AccessDenied"))
	w.of("c1").served["c1"] = []served{{at: start}}
	w.after(time.Minute)
	w.of("c1").set(types.StateValueAlarm, "orders/c1/health")
	w.of("c1").set(types.StateValueOk, "orders/c1/health")
	w.after(2 * time.Minute)
	o, err := w.gate(t).Look(t.Context(), "c1", start, start, nil)
	want := "alarms (DescribeAlarms: api error AccessDenied: no DescribeAlarms: api error AccessDenied: no)"
	if err != nil || len(o.Missing) != 1 || o.Missing[0] != want || fmt.Sprint(o.Fired) != "[health]" {
		t.Errorf("%+v, %v; want only %q missing", o, err, want)
	}
}

// TestBounded is of answers without an end, and of such as no CloudWatch gives. Each is missing data, or is read over.
func TestBounded(t *testing.T) {
	deep := strings.Repeat(`{"newState":`, 100_000)
	for name, c := range map[string]struct {
		lie  func(operation string, out any)
		item *types.AlarmHistoryItem
		want string // begins what is missing; "" when nothing is
	}{
		"alarms without an end": {lie: func(_ string, out any) {
			if out, ok := out.(*cloudwatch.DescribeAlarmsOutput); ok {
				out.NextToken = aws.String("0")
			}
		}, want: "alarms (DescribeAlarms: the answer has more than 50 pages"},
		"history without an end": {lie: func(_ string, out any) {
			if out, ok := out.(*cloudwatch.DescribeAlarmHistoryOutput); ok {
				out.NextToken = aws.String("0")
			}
		}, want: "the alarms' history (there are more than 5000 items; the next look reads on"},
		"metrics without an end": {lie: func(_ string, out any) {
			if out, ok := out.(*cloudwatch.GetMetricDataOutput); ok {
				out.NextToken = aws.String("0")
			}
		}, want: "requests (GetMetricData: the answer has more than 50 pages"},
		"another metric":        {lie: metric(func(r *types.MetricDataResult) { r.Id = aws.String("x") }), want: `requests (GetMetricData: CloudWatch answers with "x", which was not asked for`},
		"a metric that failed":  {lie: metric(func(r *types.MetricDataResult) { r.StatusCode = types.StatusCodeInternalError }), want: "requests (GetMetricData: CloudWatch says InternalError of"},
		"values of no time":     {lie: metric(func(r *types.MetricDataResult) { r.Timestamps = nil }), want: "requests (GetMetricData: CloudWatch answers with values that have no time"},
		"less than nothing":     {lie: metric(func(r *types.MetricDataResult) { r.Values = []float64{-1} }), want: "requests (GetMetricData: CloudWatch says that there were -1"},
		"times between periods": {lie: metric(func(r *types.MetricDataResult) { r.Timestamps[0] = r.Timestamps[0].Add(time.Second) })},
		"times of before":       {lie: metric(func(r *types.MetricDataResult) { r.Timestamps[0] = r.Timestamps[0].Add(-time.Hour) })},
		"nameless alarms": {lie: func(_ string, out any) {
			if out, ok := out.(*cloudwatch.DescribeAlarmsOutput); ok {
				out.MetricAlarms = append(out.MetricAlarms, types.MetricAlarm{StateValue: types.StateValueAlarm}, types.MetricAlarm{AlarmName: aws.String("orders/c1/../c1/health"), StateValue: types.StateValueAlarm})
			}
		}},
		"an empty item":     {item: &types.AlarmHistoryItem{AlarmType: types.AlarmTypeCompositeAlarm}},
		"a stranger's item": {item: new(item("orders/c1/healthy", start.Add(time.Minute), types.StateValueOk, types.StateValueAlarm))},
		"an item without words": {item: &types.AlarmHistoryItem{AlarmName: aws.String("orders/c1/health"), Timestamp: new(start.Add(2 * time.Minute)), AlarmType: types.AlarmTypeCompositeAlarm},
			want: "health (what CloudWatch says of its history makes no sense)"},
		"an item that is deep": {item: &types.AlarmHistoryItem{AlarmName: aws.String("orders/c1/health"), Timestamp: new(start.Add(2 * time.Minute)), AlarmType: types.AlarmTypeCompositeAlarm, HistoryData: &deep},
			want: "health (what CloudWatch says of its history makes no sense)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			at := w.of("c1")
			at.lie, at.served["c1"] = c.lie, []served{{at: start.Add(time.Minute)}}
			if c.item != nil {
				at.items = append(at.items, *c.item)
			}
			w.after(5 * time.Minute)
			o, err := w.gate(t).Look(t.Context(), "c1", start, start, nil)
			if err != nil || len(o.Firing)+len(o.Fired) > 0 || o.Requests > 1 {
				t.Errorf("%+v, %v", o, err)
			}
			if c.want == "" && len(o.Missing) > 0 || c.want != "" && (len(o.Missing) != 1 || !strings.HasPrefix(o.Missing[0], c.want)) {
				t.Errorf("missing is %q; want %q", o.Missing, c.want)
			}
		})
	}
}

func metric(change func(*types.MetricDataResult)) func(string, any) {
	return func(_ string, out any) {
		if out, ok := out.(*cloudwatch.GetMetricDataOutput); ok {
			for i := range out.MetricDataResults {
				if len(out.MetricDataResults[i].Values) > 0 {
					change(&out.MetricDataResults[i])
				}
			}
		}
	}
}

// TestTransition is of all that an item may say: ALARM is heard wherever it is said.
func TestTransition(t *testing.T) {
	texts := []string{"", "OK", "ALARM", "INSUFFICIENT_DATA", "alarm", "\x00"}
	for _, before := range texts {
		for _, after := range texts {
			for _, summary := range []string{"", "Alarm updated from OK to OK", "Alarm updated from OK to ALARM", "Alarm updated from ALARM to OK", "Alarm updated from OK", "x"} {
				i := types.AlarmHistoryItem{HistorySummary: &summary, HistoryData: aws.String(fmt.Sprintf(`{"oldState":{"stateValue":%q},"newState":{"stateValue":%q}}`, before, after))}
				old, now, ok := transition(i)
				said := after == "ALARM" || strings.HasSuffix(summary, "to ALARM")
				if strings.Contains(before+after, "\x00") {
					continue // %q is not JSON's
				}
				if said != (now == "ALARM") || (before == "ALARM" || strings.Contains(summary, "from ALARM")) != (old == "ALARM") {
					t.Errorf("%q, %q and %q: from %q to %q", before, after, summary, old, now)
				}
				known := func(s string) bool { return slices.Contains(texts[1:4], s) }
				if agree := strings.HasPrefix(summary, "Alarm") && strings.Contains(summary, "to") && summary == "Alarm updated from "+before+" to "+after; agree && known(before) && known(after) && !ok {
					t.Errorf("%q, %q and %q make no sense", before, after, summary)
				}
			}
		}
	}
}

func FuzzTransition(f *testing.F) {
	f.Add(`{"oldState":{"stateValue":"OK"},"newState":{"stateValue":"ALARM"}}`, "Alarm updated from OK to ALARM")
	f.Add(`[]`, "")
	f.Add(`{"newState":3}`, "Alarm updated from ALARM to")
	f.Fuzz(func(t *testing.T, data, summary string) {
		before, after, ok := transition(types.AlarmHistoryItem{HistoryData: &data, HistorySummary: &summary})
		if ok && (!slices.Contains(states, before) || !slices.Contains(states, after)) {
			t.Errorf("from %q to %q", before, after)
		}
	})
}
