package cwgate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/smithy-go"

	"cellwall.dev/cellwall/internal/fleet"
)

// start is a time in the middle of a minute.
var start = time.Date(2026, 11, 30, 12, 0, 30, 0, time.UTC)

// clock is set by tests, and goes on by what is waited for.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

func (c *clock) wait(ctx context.Context, d time.Duration) error {
	c.set(c.now().Add(d))
	return ctx.Err()
}

// change is an alarm's entering a state.
type change struct {
	at    time.Time
	state types.StateValue
	late  time.Duration // until the history has it
}

// watch is CloudWatch in one account and region, at the time of its clock.
type watch struct {
	clock *clock

	mu     sync.Mutex
	alarms map[string][]change                    // in order; the last is the state
	served map[string][]served                    // by cell
	page   int                                    // records on a page; 0 for as many as are asked for
	items  []types.AlarmHistoryItem               // beside what became of alarms
	found  []types.AlarmHistoryItem               // by the last question for a first page
	lie    func(operation string, out any)        // changes an answer
	fail   func(operation string, call int) error // instead of an answer
	calls  map[string]int
}

// served is a request that routers told of.
type served struct {
	at   time.Time
	late time.Duration // until the metric has it
	sent int           // to how many shards in turn; 0 for one
}

func newWatch(c *clock) *watch {
	return &watch{clock: c, alarms: map[string][]change{}, served: map[string][]served{}, calls: map[string]int{}}
}

// set has alarms enter a state now; they are made when they are not there.
func (w *watch) set(state types.StateValue, names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		w.alarms[name] = append(w.alarms[name], change{at: w.clock.now(), state: state})
	}
}

func (w *watch) called(operation string) error {
	w.calls[operation]++
	if w.fail != nil {
		return w.fail(operation, w.calls[operation])
	}
	return nil
}

func kindOf(name string) types.AlarmType {
	if strings.HasSuffix(name, "/health") {
		return types.AlarmTypeCompositeAlarm
	}
	return types.AlarmTypeMetricAlarm
}

// state is an alarm's state now; "" when it is not there.
func (w *watch) state(name string) (state types.StateValue) {
	for _, c := range w.alarms[name] {
		if !c.at.After(w.clock.now()) {
			state = c.state
		}
	}
	return state
}

func cut[T any](all []T, token *string, size int) ([]T, *string) {
	from, _ := strconv.Atoi(aws.ToString(token))
	from = min(from, len(all))
	if to := from + size; to < len(all) {
		return all[from:to], aws.String(strconv.Itoa(to))
	}
	return all[from:], nil
}

func (w *watch) size(asked *int32) int {
	return cmp.Or(w.page, int(aws.ToInt32(asked)), 50)
}

func (w *watch) DescribeAlarms(ctx context.Context, in *cloudwatch.DescribeAlarmsInput, _ ...func(*cloudwatch.Options)) (*cloudwatch.DescribeAlarmsOutput, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := errors.Join(ctx.Err(), w.called("DescribeAlarms")); err != nil {
		return nil, err
	}
	if len(in.AlarmNames) > 100 || aws.ToInt32(in.MaxRecords) > 100 || len(in.AlarmNames) > 0 && in.AlarmNamePrefix != nil {
		return nil, refusal("ValidationError")
	}
	var found []string
	for name := range w.alarms {
		state := w.state(name)
		if state != "" && (in.StateValue == "" || in.StateValue == state) && slices.Contains(in.AlarmTypes, kindOf(name)) &&
			(len(in.AlarmNames) == 0 || slices.Contains(in.AlarmNames, name)) && strings.HasPrefix(name, aws.ToString(in.AlarmNamePrefix)) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	out := &cloudwatch.DescribeAlarmsOutput{}
	found, out.NextToken = cut(found, in.NextToken, w.size(in.MaxRecords))
	for _, name := range found {
		if kindOf(name) == types.AlarmTypeCompositeAlarm {
			out.CompositeAlarms = append(out.CompositeAlarms, types.CompositeAlarm{AlarmName: &name, StateValue: w.state(name)})
		} else {
			out.MetricAlarms = append(out.MetricAlarms, types.MetricAlarm{AlarmName: &name, StateValue: w.state(name)})
		}
	}
	if w.lie != nil {
		w.lie("DescribeAlarms", out)
	}
	return out, nil
}

// item is what the history says of a change.
func item(name string, at time.Time, before, after types.StateValue) types.AlarmHistoryItem {
	return types.AlarmHistoryItem{AlarmName: &name, Timestamp: &at, HistoryItemType: types.HistoryItemTypeStateUpdate, AlarmType: kindOf(name),
		HistorySummary: aws.String(fmt.Sprintf("Alarm updated from %s to %s", before, after)),
		HistoryData:    aws.String(fmt.Sprintf(`{"version":"1.0","oldState":{"stateValue":%q,"stateReason":"x"},"newState":{"stateValue":%q,"stateReason":"y"}}`, before, after))}
}

func (w *watch) DescribeAlarmHistory(ctx context.Context, in *cloudwatch.DescribeAlarmHistoryInput, _ ...func(*cloudwatch.Options)) (*cloudwatch.DescribeAlarmHistoryOutput, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := errors.Join(ctx.Err(), w.called("DescribeAlarmHistory")); err != nil {
		return nil, err
	}
	if len(in.AlarmTypes) != 1 || in.HistoryItemType != types.HistoryItemTypeStateUpdate || in.ScanBy != types.ScanByTimestampAscending {
		return nil, refusal("ValidationError")
	}
	if in.NextToken == nil {
		w.found = w.history(in)
	}
	out := &cloudwatch.DescribeAlarmHistoryOutput{}
	out.AlarmHistoryItems, out.NextToken = cut(w.found, in.NextToken, w.size(in.MaxRecords))
	if w.lie != nil {
		w.lie("DescribeAlarmHistory", out)
	}
	return out, nil
}

func (w *watch) history(in *cloudwatch.DescribeAlarmHistoryInput) []types.AlarmHistoryItem {
	now := w.clock.now()
	items := slices.Clone(w.items)
	for name, changes := range w.alarms {
		for i, c := range changes {
			if i > 0 && !c.at.Add(c.late).After(now) {
				items = append(items, item(name, c.at, changes[i-1].state, c.state))
			}
		}
	}
	items = slices.DeleteFunc(items, func(i types.AlarmHistoryItem) bool {
		return i.AlarmType != in.AlarmTypes[0] || i.Timestamp != nil && (i.Timestamp.Before(*in.StartDate) || i.Timestamp.After(now))
	})
	slices.SortStableFunc(items, func(a, b types.AlarmHistoryItem) int { return aws.ToTime(a.Timestamp).Compare(aws.ToTime(b.Timestamp)) })
	return items
}

func (w *watch) GetMetricData(ctx context.Context, in *cloudwatch.GetMetricDataInput, _ ...func(*cloudwatch.Options)) (*cloudwatch.GetMetricDataOutput, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := errors.Join(ctx.Err(), w.called("GetMetricData")); err != nil {
		return nil, err
	}
	if !in.StartTime.Before(*in.EndTime) || len(in.MetricDataQueries) > 500 {
		return nil, refusal("ValidationError")
	}
	type point struct {
		id    string
		at    time.Time
		value float64
	}
	var points []point
	for _, q := range in.MetricDataQueries {
		m, p := q.MetricStat.Metric, time.Duration(*q.MetricStat.Period)*time.Second
		dimensions := map[string]string{}
		for _, d := range m.Dimensions {
			dimensions[*d.Name] = *d.Value
		}
		if *m.Namespace != "cellwall" || *q.MetricStat.Stat != "Sum" || dimensions["service"] != "orders" || len(dimensions) != 2 {
			return nil, refusal("ValidationError")
		}
		sums := map[time.Time]float64{}
		from := in.StartTime.Truncate(p) // CloudWatch looks at whole periods
		for _, s := range w.served[dimensions["cell"]] {
			if s.at.Add(s.late).After(w.clock.now()) || s.at.Before(from) || !s.at.Before(*in.EndTime) {
				continue
			}
			n := float64(cmp.Or(s.sent, 1))
			if *m.MetricName == "Fallbacks" {
				n--
			}
			sums[s.at.Truncate(p)] += n
		}
		for at, sum := range sums {
			points = append(points, point{*q.Id, at, sum})
		}
	}
	slices.SortFunc(points, func(a, b point) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.id, b.id)) })
	out := &cloudwatch.GetMetricDataOutput{}
	points, out.NextToken = cut(points, in.NextToken, cmp.Or(w.page, 100_800))
	for _, q := range in.MetricDataQueries {
		r := types.MetricDataResult{Id: q.Id, StatusCode: types.StatusCodeComplete}
		if out.NextToken != nil {
			r.StatusCode = types.StatusCodePartialData
		}
		for _, p := range points {
			if p.id == *q.Id {
				r.Timestamps, r.Values = append(r.Timestamps, p.at), append(r.Values, p.value)
			}
		}
		out.MetricDataResults = append(out.MetricDataResults, r)
	}
	if w.lie != nil {
		w.lie("GetMetricData", out)
	}
	return out, nil
}

// refusal is what CloudWatch says no with.
func refusal(code string) error { return &smithy.GenericAPIError{Code: code, Message: "no"} }

// world is a fleet of cells in two accounts, with a CloudWatch of each.
type world struct {
	*clock
	fleet   *fleet.Fleet
	watches map[string]*watch // by account
}

// newWorld has cells c1 to c6, the last two in the other account, whose alarms are all well since an hour.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{clock: &clock{at: start.Add(-time.Hour)}, fleet: &fleet.Fleet{Service: "orders"}, watches: map[string]*watch{}}
	for i := range 6 {
		c := fleet.Cell{Name: fmt.Sprint("c", i+1), Account: "111111111111", Region: "eu-west-1", Shards: fleet.Shards{{ID: "s01"}, {ID: "s02"}}}
		if i > 3 {
			c.Account = "222222222222"
		}
		w.fleet.Cells = append(w.fleet.Cells, c)
	}
	for _, account := range []string{"111111111111", "222222222222"} {
		w.watches[account] = newWatch(w.clock)
	}
	for name, c := range w.gate(t).cells {
		for alarm := range c.all {
			w.of(name).set(types.StateValueOk, alarm)
		}
	}
	w.clock.set(start)
	return w
}

func (w *world) gate(t testing.TB) *Gate {
	t.Helper()
	g, err := New(w.fleet, func(_ context.Context, account, region string) (Client, error) { return w.watches[account], nil }, Options{Now: w.now, Wait: w.wait})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (w *world) of(cell string) *watch {
	i := slices.IndexFunc(w.fleet.Cells, func(c fleet.Cell) bool { return c.Name == cell })
	return w.watches[w.fleet.Cells[i].Account]
}

// after sets the time to so long after the start.
func (w *world) after(d time.Duration) time.Time {
	w.clock.set(start.Add(d))
	return w.now()
}
