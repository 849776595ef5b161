package awsemu_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
)

// TestWatchingIsKept: alarms, dashboards and insight rules are made, changed in place, and gone with their stack; what
// the API does not know of them fails the stack.
func TestWatchingIsKept(t *testing.T) {
	s := newStacks(t)
	template := func(threshold, more string) string {
		return `"Alarm":{"Type":"AWS::CloudWatch::Alarm","Properties":{"AlarmName":"orders/eu/errors","ComparisonOperator":"GreaterThanThreshold","Threshold":` + threshold + `,
			"EvaluationPeriods":10,"DatapointsToAlarm":3,"TreatMissingData":"notBreaching","Metrics":[
			{"Id":"value","Expression":"errors","Label":"errors","ReturnData":true},
			{"Id":"errors","ReturnData":false,"MetricStat":{"Period":60,"Stat":"Sum","Metric":{"Namespace":"cellwall","MetricName":"Errors","Dimensions":[{"Name":"cell","Value":"eu"}]}}}]}},
			"Board":{"Type":"AWS::CloudWatch::Dashboard","Properties":{"DashboardName":"orders-eu-watch","DashboardBody":"{\"start\":\"` + threshold + `\"}"` + more + `}},
			"Rule":{"Type":"AWS::CloudWatch::InsightRule","Properties":{"RuleName":"orders-eu-tenants","RuleState":"ENABLED","RuleBody":"{\"AggregateOn\":\"` + threshold + `\"}"}}`
	}
	if got := s.create(t, "watches-wrongly", template("5", `,"Colour":"red"`)); got != "ROLLBACK_COMPLETE" {
		t.Errorf("with an unknown property the stack is %s", got)
	}
	if got := s.create(t, "watches", template("5", "")); got != "CREATE_COMPLETE" {
		t.Fatalf("the stack is %s:\n%s", got, s.reasons(t, "watches"))
	}
	if got := s.update(t, "watches", template("6", "")); got != "UPDATE_COMPLETE" {
		t.Fatalf("the stack is %s:\n%s", got, s.reasons(t, "watches"))
	}
	client := cloudformation.NewFromConfig(use(t).Config(t, account, region))
	resources, err := client.DescribeStackResources(t.Context(), &cloudformation.DescribeStackResourcesInput{StackName: aws.String("watches")})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources.StackResources {
		if want := map[string]string{"Alarm": "orders/eu/errors", "Board": "orders-eu-watch", "Rule": "orders-eu-tenants"}[aws.ToString(r.LogicalResourceId)]; aws.ToString(r.PhysicalResourceId) != want {
			t.Errorf("%s is %s, want %s", aws.ToString(r.LogicalResourceId), aws.ToString(r.PhysicalResourceId), want)
		}
	}
}
