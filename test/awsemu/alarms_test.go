package awsemu_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
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
	var out struct {
		CompositeAlarms []struct {
			AlarmName, AlarmRule, AlarmDescription string
			AlarmActions                           []string
		}
	}
	use(t).Ask(t, account, region, "monitoring", "1.0", "GraniteServiceVersion20100801.DescribeAlarms", map[string][]string{"AlarmNames": {"over"}}, &out)
	if len(out.CompositeAlarms) != 1 || out.CompositeAlarms[0].AlarmRule != `ALARM("child")` || out.CompositeAlarms[0].AlarmDescription != "why" || len(out.CompositeAlarms[0].AlarmActions) != 1 {
		t.Errorf("read back: %+v", out)
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
