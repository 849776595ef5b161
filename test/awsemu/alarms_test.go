package awsemu_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/google/go-cmp/cmp"
)

// TestAlarmsOverAlarms: one is made over those that are there alone, is read back, and holds on to them.
func TestAlarmsOverAlarms(t *testing.T) {
	s := newStacks(t)
	const below = `"Child":{"Type":"AWS::CloudWatch::Alarm","Properties":{"AlarmName":"child","Namespace":"cellwall","MetricName":"Errors","Statistic":"Sum",
		"Period":60,"EvaluationPeriods":1,"Threshold":1,"ComparisonOperator":"GreaterThanThreshold","TreatMissingData":"notBreaching"}}`
	over := func(rule, more string) string {
		return `"Over":{"Type":"AWS::CloudWatch::CompositeAlarm","Properties":{"AlarmName":"over","AlarmDescription":"why","AlarmRule":"` + rule + `",
			"AlarmActions":["arn:aws:sns:eu-west-1:111111111111:oncall"]` + more + `}}`
	}
	const rule = `ALARM(\"child\")`
	if got := s.create(t, "over-none", over(rule, "")); got != "ROLLBACK_COMPLETE" || !strings.Contains(s.reasons(t, "over-none"), "do not exist") {
		t.Errorf("over an alarm that is not there the stack is %s: %s", got, s.reasons(t, "over-none"))
	}
	if got := s.create(t, "child", below); got != "CREATE_COMPLETE" {
		t.Fatalf("the stack is %s: %s", got, s.reasons(t, "child"))
	}
	for name, resources := range map[string]string{"over-nonsense": over(`child`, ""), "over-coloured": over(rule, `,"Colour":"red"`)} {
		if got := s.create(t, name, resources); got != "ROLLBACK_COMPLETE" {
			t.Errorf("%s: the stack is %s", name, got)
		}
	}
	if got := s.create(t, "over", over(rule+` AND NOT ALARM(\"child\")`, "")); got != "CREATE_COMPLETE" {
		t.Fatalf("the stack is %s: %s", got, s.reasons(t, "over"))
	}
	if got := s.update(t, "over", over(rule, "")); got != "UPDATE_COMPLETE" {
		t.Fatalf("the stack is %s: %s", got, s.reasons(t, "over"))
	}
	client := cloudwatch.NewFromConfig(use(t).Config(t, account, region))
	in := &cloudwatch.DescribeAlarmsInput{AlarmNames: []string{"over"}, AlarmTypes: []cwtypes.AlarmType{cwtypes.AlarmTypeCompositeAlarm}}
	out, err := client.DescribeAlarms(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.CompositeAlarms) != 1 || *out.CompositeAlarms[0].AlarmRule != `ALARM("child")` || *out.CompositeAlarms[0].AlarmDescription != "why" || len(out.CompositeAlarms[0].AlarmActions) != 1 {
		t.Errorf("read back: %+v", out)
	}
	in.AlarmTypes = nil
	if out, err := client.DescribeAlarms(t.Context(), in); err != nil || len(out.CompositeAlarms)+len(out.MetricAlarms) != 0 {
		t.Errorf("who does not ask for alarms over others is told of %+v, %v", out, err)
	}
	for _, step := range []struct{ stack, want string }{{"child", "DELETE_FAILED"}, {"over", ""}, {"child", ""}} {
		if _, err := s.DeleteStack(t.Context(), &cloudformation.DeleteStackInput{StackName: aws.String(step.stack)}); err != nil {
			t.Fatal(err)
		}
		got := ""
		if out, err := s.DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{StackName: aws.String(step.stack)}); err == nil {
			got = string(out.Stacks[0].StackStatus)
		}
		if got != step.want {
			t.Errorf("stack %s is %q after it was to be deleted, want %q", step.stack, got, step.want)
		}
	}
}

// TestAlarmsHaveAHistory: an alarm keeps its state when it is changed, those over it follow it, and what came and went is
// told to whom asks by time, kind and page.
func TestAlarmsHaveAHistory(t *testing.T) {
	client := cloudwatch.NewFromConfig(use(t).Config(t, account, region))
	put := func(name string, threshold float64) {
		t.Helper()
		if _, err := client.PutMetricAlarm(t.Context(), &cloudwatch.PutMetricAlarmInput{AlarmName: &name, Namespace: aws.String("cellwall"), MetricName: aws.String("Errors"),
			Statistic: cwtypes.StatisticSum, Period: aws.Int32(60), EvaluationPeriods: aws.Int32(1), Threshold: &threshold, ComparisonOperator: cwtypes.ComparisonOperatorGreaterThanThreshold}); err != nil {
			t.Fatal(err)
		}
	}
	over := func(name, rule string) {
		t.Helper()
		if _, err := client.PutCompositeAlarm(t.Context(), &cloudwatch.PutCompositeAlarmInput{AlarmName: &name, AlarmRule: &rule}); err != nil {
			t.Fatal(err)
		}
	}
	set := func(name string, state cwtypes.StateValue) {
		t.Helper()
		if _, err := client.SetAlarmState(t.Context(), &cloudwatch.SetAlarmStateInput{AlarmName: &name, StateValue: state, StateReason: aws.String("test")}); err != nil {
			t.Fatal(err)
		}
	}
	states := func() map[string]cwtypes.StateValue {
		t.Helper()
		pages, found := cloudwatch.NewDescribeAlarmsPaginator(client, &cloudwatch.DescribeAlarmsInput{AlarmNamePrefix: aws.String("past/"), MaxRecords: aws.Int32(1),
			AlarmTypes: []cwtypes.AlarmType{cwtypes.AlarmTypeMetricAlarm, cwtypes.AlarmTypeCompositeAlarm}}), map[string]cwtypes.StateValue{}
		for pages.HasMorePages() {
			out, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if n := len(out.MetricAlarms) + len(out.CompositeAlarms); n > 1 {
				t.Fatalf("a page of one has %d", n)
			}
			for _, a := range out.MetricAlarms {
				found[*a.AlarmName] = a.StateValue
			}
			for _, a := range out.CompositeAlarms {
				found[*a.AlarmName] = a.StateValue
			}
		}
		return found
	}
	history := func(name string, kind cwtypes.AlarmType, since time.Time) (all []string) {
		t.Helper()
		pages := cloudwatch.NewDescribeAlarmHistoryPaginator(client, &cloudwatch.DescribeAlarmHistoryInput{AlarmName: &name, AlarmTypes: []cwtypes.AlarmType{kind},
			HistoryItemType: cwtypes.HistoryItemTypeStateUpdate, StartDate: &since, MaxRecords: aws.Int32(1), ScanBy: cwtypes.ScanByTimestampAscending})
		for pages.HasMorePages() {
			out, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range out.AlarmHistoryItems {
				if item.Timestamp.Before(since) || *item.AlarmName != name || item.AlarmType != kind {
					t.Errorf("of %s since %v there is %+v", name, since, item)
				}
				all = append(all, *item.HistorySummary)
			}
		}
		return all
	}

	before := time.Now().Add(-time.Second)
	put("past/one", 1)
	put("past/two", 1)
	over("past/any", `ALARM("past/one") OR (ALARM("past/two"))`)
	over("past/all", `ALARM("past/any") AND NOT OK("past/two")`)
	set("past/one", cwtypes.StateValueAlarm)
	put("past/one", 2)
	want := map[string]cwtypes.StateValue{"past/one": "ALARM", "past/two": "OK", "past/any": "ALARM", "past/all": "OK"}
	if diff := cmp.Diff(want, states()); diff != "" {
		t.Errorf("with one that rings (-want +got):\n%s", diff)
	}
	set("past/two", cwtypes.StateValueInsufficientData)
	set("past/one", cwtypes.StateValueOk)
	set("past/two", cwtypes.StateValueOk)
	want = map[string]cwtypes.StateValue{"past/one": "OK", "past/two": "OK", "past/any": "OK", "past/all": "OK"}
	if diff := cmp.Diff(want, states()); diff != "" {
		t.Errorf("at the end (-want +got):\n%s", diff)
	}
	const up, down = "Alarm updated from OK to ALARM", "Alarm updated from ALARM to OK"
	for name, kind := range map[string]cwtypes.AlarmType{"past/one": cwtypes.AlarmTypeMetricAlarm, "past/any": cwtypes.AlarmTypeCompositeAlarm, "past/all": cwtypes.AlarmTypeCompositeAlarm} {
		if diff := cmp.Diff([]string{up, down}, history(name, kind, before)); diff != "" {
			t.Errorf("history of %s (-want +got):\n%s", name, diff)
		}
		if got := history(name, kind, time.Now().Add(time.Second)); got != nil {
			t.Errorf("of the future of %s is told %v", name, got)
		}
	}
	var missing *cwtypes.ResourceNotFound
	if _, err := client.SetAlarmState(t.Context(), &cloudwatch.SetAlarmStateInput{AlarmName: aws.String("past/none"), StateValue: "OK", StateReason: aws.String("test")}); !errors.As(err, &missing) {
		t.Errorf("an alarm that is not there gives %v", err)
	}
}

// TestMetricsAreRead: what was put is read by the minute, by namespace and all dimensions in whatever order.
func TestMetricsAreRead(t *testing.T) {
	client := cloudwatch.NewFromConfig(use(t).Config(t, account, region))
	dimensions := func(pairs ...string) (all []cwtypes.Dimension) {
		for i := 0; i < len(pairs); i += 2 {
			all = append(all, cwtypes.Dimension{Name: &pairs[i], Value: &pairs[i+1]})
		}
		return all
	}
	now := time.Now()
	for namespace, values := range map[string][]float64{"read": {3, 4}, "other": {100}} {
		var data []cwtypes.MetricDatum
		for range 200 { // more than the client sends without compressing it
			data = append(data, cwtypes.MetricDatum{MetricName: aws.String("Noise"), Value: aws.Float64(1), Timestamp: &now, Dimensions: dimensions("service", "orders", "shard", "s01", "cell", "eu")})
		}
		for _, v := range values {
			data = append(data, cwtypes.MetricDatum{MetricName: aws.String("Requests"), Value: &v, Timestamp: &now, Dimensions: dimensions("service", "orders", "shard", "s01", "cell", "eu")})
		}
		_, err := client.PutMetricData(t.Context(), &cloudwatch.PutMetricDataInput{Namespace: &namespace, MetricData: data}, onceMetrics)
		if unlessLost(err) != nil {
			t.Fatal(err)
		}
	}
	out, err := client.GetMetricData(t.Context(), &cloudwatch.GetMetricDataInput{StartTime: aws.Time(now.Add(-5 * time.Minute)), EndTime: aws.Time(now.Add(time.Minute)),
		MetricDataQueries: []cwtypes.MetricDataQuery{{Id: aws.String("m"), MetricStat: &cwtypes.MetricStat{Period: aws.Int32(60), Stat: aws.String("Sum"), Metric: &cwtypes.Metric{
			Namespace: aws.String("read"), MetricName: aws.String("Requests"), Dimensions: dimensions("cell", "eu", "service", "orders", "shard", "s01")}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.MetricDataResults) != 1 || !slices.Equal(out.MetricDataResults[0].Values, []float64{7}) || out.MetricDataResults[0].Timestamps[0].Sub(now).Abs() > time.Minute {
		t.Errorf("read %+v", out.MetricDataResults)
	}
}
