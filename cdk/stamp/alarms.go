package stamp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/jsii-runtime-go"

	"cellwall.dev/cellwall/internal/fleet"
)

// Alarms are of the bare CloudFormation types: every property of theirs is said here, by plain values.
//
// A fault tells people once: alarms on what breaks together tell nobody, and the one over them does. That one tells
// when it begins to ring, and not again while it rings. So nothing is below it that may ring for long while everybody is
// served, such as a letter that nobody fetches: it would hide the next fault. Such alarms tell by themselves.

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
	tells      voice
	after      []awscdk.CfnResource // that are made before
}

// voice is by whom people are told of an alarm.
type voice int

const (
	// together: by an alarm over it, which tells once of all that breaks with it.
	together voice = iota
	// alone: by itself. It is about service, and below what rollouts watch.
	alone
	// lasting: by itself, and no alarm is over it. It may ring for long while everybody is served.
	lasting
)

// queried is what an expression has by an id: a metric, or what another expression fetches.
type queried struct {
	id string
	metric
	fetch string // "" for the metric
}

// comparison is by what a value is beyond the threshold.
type comparison string

const (
	above   comparison = "GreaterThanThreshold"
	below   comparison = "LessThanThreshold"
	atLeast comparison = "GreaterThanOrEqualToThreshold"
)

// missing is what a period without data counts as (CloudWatch PutMetricAlarm, TreatMissingData). None is bad: what is new
// has no data yet, and would ring when it is made.
type missing string

const (
	missingIsGood missing = "notBreaching" // nothing happened
	missingIsSame missing = "ignore"       // whoever measures has stopped, and the last word stands
	// missingTells is of one who has to speak. The alarm then knows nothing, and tells so when it knew something before:
	// who was never heard is new.
	missingTells missing = "missing"
)

// minute is the shortest period, in seconds, and the one by which AWS's services report.
const minute = 60

// newAlarms makes alarms, and returns them by their voice. The topics, if any, are told of those that tell.
func newAlarms(st awscdk.Stack, name func(kind string) string, topics []string, all ...alarm) map[voice][]child {
	made := map[voice][]child{}
	for _, a := range all {
		c := child{name: name(a.kind)}
		if a.tells == together {
			c.made = newAlarm(st, c.name, a, nil)
		} else {
			c.made = newAlarm(st, c.name, a, topics)
		}
		for _, first := range a.after {
			c.made.AddResourceDependency(first, str("there is nothing to watch before"))
		}
		made[a.tells] = append(made[a.tells], c)
	}
	return made
}

func newAlarm(st awscdk.Stack, name string, a alarm, topics []string) awscloudwatch.CfnAlarm {
	props := &awscloudwatch.CfnAlarmProps{
		AlarmName: str(name), AlarmDescription: str(a.about),
		ComparisonOperator: str(string(a.compare)), Threshold: jsii.Number(a.threshold),
		EvaluationPeriods: num(a.of), DatapointsToAlarm: num(a.bad), TreatMissingData: str(string(a.missing)),
		AlarmActions: actions(topics), OkActions: actions(topics),
	}
	if a.missing == missingTells {
		props.InsufficientDataActions = actions(topics)
	}
	if a.expression == "" {
		m := a.metrics[0]
		props.Namespace, props.MetricName, props.Statistic, props.Period = str(m.namespace), str(m.name), str(m.stat), num(a.period)
		props.Dimensions = m.forAlarm()
		return awscloudwatch.NewCfnAlarm(st, str("Alarm-"+a.kind), props)
	}
	queries := []any{&awscloudwatch.CfnAlarm_MetricDataQueryProperty{
		// The period is that of expressions that fetch data themselves; else it is that of what they are over.
		Id: str("value"), Label: str(a.kind), Expression: str(a.expression), Period: a.expressionPeriod(), ReturnData: yes}}
	for _, q := range a.metrics {
		query := &awscloudwatch.CfnAlarm_MetricDataQueryProperty{Id: str(q.id), ReturnData: no}
		if q.fetch != "" {
			query.Expression, query.Period = str(q.fetch), num(a.period)
		} else {
			query.MetricStat = &awscloudwatch.CfnAlarm_MetricStatProperty{Period: num(a.period), Stat: str(q.stat),
				Metric: &awscloudwatch.CfnAlarm_MetricProperty{Namespace: str(q.namespace), MetricName: str(q.name), Dimensions: q.forAlarm()}}
		}
		queries = append(queries, query)
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
	children    []child
	topics      []string
}

// child is an alarm that another is over. It is of another stack, which is deployed before, when made is nil.
type child struct {
	name string
	made awscdk.CfnResource
}

// newComposite is that alarm. It is made after those of its children that are in its own stack, and goes before
// them: CloudWatch neither makes an alarm over one that is not there, nor deletes one that another is over.
func newComposite(st awscdk.Stack, id string, c composite) child {
	terms := make([]string, len(c.children))
	for i, below := range c.children {
		terms[i] = `ALARM("` + below.name + `")`
	}
	made := awscloudwatch.NewCfnCompositeAlarm(st, str(id), &awscloudwatch.CfnCompositeAlarmProps{
		AlarmName: str(c.name), AlarmDescription: str(c.about), AlarmRule: str(strings.Join(terms, " OR ")),
		AlarmActions: actions(c.topics), OkActions: actions(c.topics)})
	for _, below := range c.children {
		if below.made != nil {
			made.AddResourceDependency(below.made, str("an alarm over others comes after them"))
		}
	}
	return child{c.name, made}
}

// newWorst is an alarm over what is alike, such as shards: it is as bad as the worst of them, however well the others
// are. A rule takes a hundred alarms, so that more are first put together by the hundred: as part-1 and on, which name
// names and about describes.
func newWorst(st awscdk.Stack, id, part string, c composite, name func(kind string) string, about string) child {
	if len(c.children) > maxChildren {
		var groups []child
		for of := range slices.Chunk(c.children, maxChildren) {
			kind := part + "-" + strconv.Itoa(len(groups)+1)
			groups = append(groups, newComposite(st, "Group-"+kind, composite{name: name(kind), about: about, children: of}))
		}
		c.children = groups
	}
	return newComposite(st, id, c)
}

// topicsOf are who is told of a region's alarms.
func topicsOf(f *fleet.Fleet, region string) []string {
	if t := f.Alerts.Topic(region); t != "" {
		return []string{t}
	}
	return nil
}

// failingShare is the share of requests, in percent, that failed, where there are at least floor of them in a period.
// Fewer must all have failed.
func failingShare(floor int, requests, errors metric) (expression string, metrics []queried) {
	return fmt.Sprintf("IF(requests >= %d OR errors == requests, 100 * errors / requests, 0)", floor),
		[]queried{{id: "requests", metric: requests}, {id: "errors", metric: errors}}
}

// single is the only metric of an alarm without an expression.
func single(namespace, name, stat string, dimensions ...dimension) []queried {
	return []queried{{metric: metric{namespace, name, stat, dimensions}}}
}

// ofFunction is a metric of a Lambda function.
func ofFunction(function, name, stat string) []queried {
	return single("AWS/Lambda", name, stat, dimension{"FunctionName", function})
}
