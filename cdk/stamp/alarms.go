package stamp

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/jsii-runtime-go"
)

// Alarms are of the bare CloudFormation types: every property of theirs is said here, by plain values.
//
// A fault tells people once. The alarms on metrics tell nobody; those over them do, a shard's of the shard and the
// cell's of what is the cell's own. What rollouts watch, names.Cell.Health, is over both and tells nobody again.

// metric is one of CloudWatch's, by the names of its dimensions and their values in turn.
type metric struct {
	namespace, name, stat string
	dimensions            []dimension
}

type dimension struct{ name, value string }

// alarm is an alarm on a metric, or on an expression over metrics.
type alarm struct {
	kind  string // last part of its name
	about string // for whom it wakes: what it means and what to do; at most 1,024 characters
	// term is what is compared; of the metrics, by their ids, when there is an expression, else the only metric.
	expression string
	metrics    []queried
	period     int // seconds: a minute, or a multiple
	compare    comparison
	threshold  float64
	of, bad    int     // it rings when bad of the latest `of` periods are beyond the threshold
	missing    missing // what a period without data is
}

// queried is a metric by the id that an expression has for it.
type queried struct {
	id string
	metric
}

// comparison is by what a value is beyond the threshold.
type comparison string

const (
	above   comparison = "GreaterThanThreshold"
	below   comparison = "LessThanThreshold"
	atLeast comparison = "GreaterThanOrEqualToThreshold"
)

// missing is what a period without data counts as (CloudWatch PutMetricAlarm, TreatMissingData).
type missing string

const (
	missingIsGood missing = "notBreaching" // nothing happened
	missingIsBad  missing = "breaching"    // who should have said something did not
	missingIsSame missing = "ignore"       // whoever measures has stopped, and the last word stands
)

// minute is the shortest period, in seconds, and the one by which AWS's services report.
const minute = 60

// newAlarm is an alarm that tells the topics, if any.
func newAlarm(st awscdk.Stack, name string, a alarm, topics ...string) awscloudwatch.CfnAlarm {
	props := &awscloudwatch.CfnAlarmProps{
		AlarmName: str(name), AlarmDescription: str(a.about),
		ComparisonOperator: str(string(a.compare)), Threshold: jsii.Number(a.threshold),
		EvaluationPeriods: num(a.of), DatapointsToAlarm: num(a.bad), TreatMissingData: str(string(a.missing)),
		AlarmActions: actions(topics), OkActions: actions(topics),
	}
	if a.expression == "" {
		m := a.metrics[0]
		props.Namespace, props.MetricName, props.Statistic, props.Period = str(m.namespace), str(m.name), str(m.stat), num(a.period)
		props.Dimensions = m.forAlarm()
		return awscloudwatch.NewCfnAlarm(st, str("Alarm-"+a.kind), props)
	}
	queries := []any{&awscloudwatch.CfnAlarm_MetricDataQueryProperty{
		// The period is that of functions that fetch data themselves; of others it is the metrics'.
		Id: str("value"), Label: str(a.kind), Expression: str(a.expression), Period: a.expressionPeriod(), ReturnData: yes}}
	for _, q := range a.metrics {
		queries = append(queries, &awscloudwatch.CfnAlarm_MetricDataQueryProperty{Id: str(q.id), ReturnData: no,
			MetricStat: &awscloudwatch.CfnAlarm_MetricStatProperty{Period: num(a.period), Stat: str(q.stat),
				Metric: &awscloudwatch.CfnAlarm_MetricProperty{Namespace: str(q.namespace), MetricName: str(q.name), Dimensions: q.forAlarm()}}})
	}
	props.Metrics = queries
	return awscloudwatch.NewCfnAlarm(st, str("Alarm-"+a.kind), props)
}

func (a alarm) expressionPeriod() *float64 {
	if len(a.metrics) > 0 {
		return nil
	}
	return num(a.period)
}

func (m metric) forAlarm() *[]any {
	all := make([]any, len(m.dimensions))
	for i, d := range m.dimensions {
		all[i] = &awscloudwatch.CfnAlarm_DimensionProperty{Name: str(d.name), Value: str(d.value)}
	}
	return &all
}

func actions(topics []string) *[]any {
	if len(topics) == 0 {
		return nil
	}
	all := make([]any, len(topics))
	for i, t := range topics {
		all[i] = t
	}
	return &all
}

// Limits of an alarm over others (CloudWatch API, PutCompositeAlarm): the alarms in its rule, and the characters
// of that. A hundred names, which have at most 75 characters here, come nowhere near the second.
const (
	maxChildren = 100
	maxRule     = 10_240
)

// composite is an alarm over others, which rings while one of them does.
type composite struct {
	name, about string
	children    []string // names
	topics      []string
}

// newComposite is that alarm. It is made after those of its children that are in its own stack, and goes before
// them: CloudWatch neither makes an alarm over one that is not there, nor deletes one that another is over.
func newComposite(st awscdk.Stack, id string, c composite, own ...awscdk.CfnResource) awscloudwatch.CfnCompositeAlarm {
	terms := make([]string, len(c.children))
	for i, name := range c.children {
		terms[i] = `ALARM("` + name + `")`
	}
	made := awscloudwatch.NewCfnCompositeAlarm(st, str(id), &awscloudwatch.CfnCompositeAlarmProps{
		AlarmName: str(c.name), AlarmDescription: str(c.about), AlarmRule: str(strings.Join(terms, " OR ")),
		AlarmActions: actions(c.topics), OkActions: actions(c.topics)})
	for _, r := range own {
		made.AddResourceDependency(r, str("an alarm over others comes after them"))
	}
	return made
}

// topics are who is told of the cell's alarms.
func (p *plan) topics() []string {
	if t := p.fleet.Alerts.Topic(p.cell.Region); t != "" {
		return []string{t}
	}
	return nil
}
