package awsemu_test

import (
	gocontext "context"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"cellwall.dev/cellwall/internal/adapter/cwgate"
	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// TestGateOverCloudWatch looks at cells through the SDK: what rings, what has come and gone, what rings in most others that lie
// in another account, what is not there, and what routers served.
func TestGateOverCloudWatch(t *testing.T) {
	const elsewhere = "222222222222"
	f := &fleet.Fleet{Service: "gated", Cells: []fleet.Cell{
		{Name: "one", Account: account, Region: region, Shards: fleet.Shards{{ID: "s01"}, {ID: "s02"}}},
		{Name: "two", Account: elsewhere, Region: region, Shards: fleet.Shards{{ID: "s01"}}},
		{Name: "bare", Account: elsewhere, Region: region, Shards: fleet.Shards{{ID: "s01"}}},
	}}
	clients := map[string]*cloudwatch.Client{}
	for _, a := range []string{account, elsewhere} {
		clients[a] = cloudwatch.NewFromConfig(use(t).Config(t, a, region))
	}
	put := func(client *cloudwatch.Client, name string) {
		t.Helper()
		if _, err := client.PutMetricAlarm(t.Context(), &cloudwatch.PutMetricAlarmInput{AlarmName: &name, Namespace: aws.String("cellwall"), MetricName: aws.String("Errors"),
			Statistic: cwtypes.StatisticSum, Period: aws.Int32(60), EvaluationPeriods: aws.Int32(1), Threshold: aws.Float64(1), ComparisonOperator: cwtypes.ComparisonOperatorGreaterThanThreshold}); err != nil {
			t.Fatal(err)
		}
	}
	set := func(client *cloudwatch.Client, name string, states ...cwtypes.StateValue) {
		t.Helper()
		for _, state := range states {
			if _, err := client.SetAlarmState(t.Context(), &cloudwatch.SetAlarmStateInput{AlarmName: &name, StateValue: state, StateReason: aws.String("test")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for cell, client := range map[string]*cloudwatch.Client{"one": clients[account], "two": clients[elsewhere]} {
		n := names.ForFleet("gated").Cell(cell)
		for _, name := range append(n.Lasting(), n.Shard("s01").Lasting()...) {
			put(client, name)
		}
		put(client, n.Faults())
		if _, err := client.PutCompositeAlarm(t.Context(), &cloudwatch.PutCompositeAlarmInput{AlarmName: aws.String(n.Health()), AlarmRule: aws.String(`ALARM("` + n.Faults() + `")`)}); err != nil {
			t.Fatal(err)
		}
	}
	one, two := names.ForFleet("gated").Cell("one"), names.ForFleet("gated").Cell("two")
	gate := func() *cwgate.Gate {
		t.Helper()
		g, err := cwgate.New(f, func(_ gocontext.Context, account, _ string) (cwgate.Client, error) { return clients[account], nil }, cwgate.Options{Every: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	look := func(g *cwgate.Gate, cell string, since, from time.Time, want string) {
		t.Helper()
		o, err := g.Look(t.Context(), cell, since, from, []string{"two"})
		if got := fmt.Sprintf("%d %v %v %v %v", o.Requests, o.Firing, o.Fired, o.Missing, o.Elsewhere); err != nil || got != want {
			t.Errorf("of cell %s: %s, %v; want %s", cell, got, err, want)
		}
	}

	set(clients[account], one.Alarm("keeper-errors"), "ALARM", "OK")
	g := gate()
	look(g, "one", time.Time{}, time.Time{}, "0 [] [] [] []")
	look(g, "bare", time.Time{}, time.Time{}, "0 [] [] [health (there is no such alarm; it is of stack gated-bare-watch)] []")

	from := time.Now()
	look(g, "one", time.Time{}, from, "0 [] [] [] []")
	set(clients[account], one.Faults(), "ALARM", "OK") // which the alarm over it follows, there and back
	set(clients[account], one.Shard("s01").Alarm("dead-letters"), "ALARM")
	look(g, "one", time.Time{}, from, "0 [s01/dead-letters] [health s01/dead-letters] [] []")
	set(clients[elsewhere], two.Shard("s01").Alarm("dead-letters"), "ALARM")
	set(clients[account], one.Alarm("snapshot-age"), "INSUFFICIENT_DATA")
	o, err := gate().Look(t.Context(), "one", time.Time{}, from, []string{"two"}) // another process
	if err != nil || fmt.Sprint(o.Firing, o.Fired, o.Elsewhere) != "[s01/dead-letters] [health s01/dead-letters] [s01/dead-letters]" || len(o.Missing) != 1 {
		t.Errorf("%+v, %v", o, err)
	}
	set(clients[account], one.Alarm("snapshot-age"), "OK")
	set(clients[account], one.Shard("s01").Alarm("dead-letters"), "OK")
	look(g, "one", time.Time{}, time.Now(), "0 [] [] [] []")

	// Whole minutes count: of one in each of the last six, those that lie within.
	minute := time.Now().Truncate(time.Minute)
	for back := range 6 {
		for metric, value := range map[string]float64{"Requests": 3, "Fallbacks": 1} {
			_, err := clients[account].PutMetricData(t.Context(), &cloudwatch.PutMetricDataInput{Namespace: aws.String("cellwall"), MetricData: []cwtypes.MetricDatum{{
				MetricName: &metric, Value: &value, Timestamp: aws.Time(minute.Add(-time.Duration(back)*time.Minute + 5*time.Second)),
				Dimensions: []cwtypes.Dimension{{Name: aws.String("cell"), Value: aws.String("one")}, {Name: aws.String("service"), Value: aws.String("gated")}}}}},
				onceMetrics)
			if unlessLost(err) != nil {
				t.Fatal(err)
			}
		}
	}
	g, err = cwgate.New(f, func(_ gocontext.Context, account, _ string) (cwgate.Client, error) { return clients[account], nil },
		cwgate.Options{Now: func() time.Time { return minute.Add(30 * time.Second) }})
	if err != nil {
		t.Fatal(err)
	}
	since := minute.Add(-4*time.Minute - 30*time.Second)
	if o, err := g.Look(t.Context(), "one", since, time.Time{}, nil); err != nil || o.Requests != 8 || len(o.Missing) > 0 {
		t.Errorf("since %v at %v: %+v, %v; want 4 minutes of 2 requests each", since, minute, o, err)
	}
}
