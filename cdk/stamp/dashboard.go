package stamp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
)

const (
	// shownShards is how many shards have lines of their own where a widget lists metrics by name, which no query over
	// all shards can give. Four such lines a shard stay far below what a dashboard takes, 500 metrics a widget and 2,500
	// in all (CloudWatch service quotas); other shards of a larger cell are in the queries and alarms.
	shownShards = 100
	// alarmsInAWidget is how many alarms a widget shows (CloudWatch API, dashboard body).
	alarmsInAWidget = 100
)

// newDashboard is the cell's dashboard, in the order in which one looks: is a shard worse than the others, which one,
// does load explain it, do routers know what they ought to, and who of the tenants feels it.
func newDashboard(st awscdk.Stack, p *plan) {
	awscloudwatch.NewCfnDashboard(st, str("Dashboard"), &awscloudwatch.CfnDashboardProps{
		DashboardName: str(p.names.Dashboard()), DashboardBody: str(document(dashboard(p)))})
}

// document is a value as JSON. The values are strings, numbers, lists and maps of them, which always encode.
func document(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// board is a dashboard's body (CloudWatch API, "Dashboard body structure and syntax").
type board struct {
	Start          string   `json:"start"`
	PeriodOverride string   `json:"periodOverride"`
	Widgets        []widget `json:"widgets"`
}

type widget struct {
	Type       string         `json:"type"`
	X          int            `json:"x"`
	Y          int            `json:"y"`
	Width      int            `json:"width"`
	Height     int            `json:"height"`
	Properties map[string]any `json:"properties"`
}

func dashboard(p *plan) board {
	v := view{p: p}
	v.worst()
	v.health()
	v.load()
	v.knowledge()
	v.variance()
	v.tenants()
	v.fallbacks()
	v.cell()
	return board{Start: "-PT3H", PeriodOverride: "inherit", Widgets: v.widgets}
}

// view lays widgets out from left to right.
type view struct {
	p           *plan
	widgets     []widget
	x, y, lower int
}

// columns is the width of a dashboard.
const columns = 24

func (v *view) add(kind string, width, height int, properties map[string]any) {
	if v.x+width > columns {
		v.x, v.y = 0, v.lower
	}
	v.widgets = append(v.widgets, widget{kind, v.x, v.y, width, height, properties})
	v.x, v.lower = v.x+width, max(v.lower, v.y+height)
}

// title begins a row.
func (v *view) title(text, about string) {
	v.x, v.y = 0, v.lower
	v.add("text", columns, 2, map[string]any{"markdown": "## " + text + "\n" + about})
}

// graph is lines over time. Percentages begin at nought.
func (v *view) graph(width int, title, stat string, period int, lines ...[]any) {
	v.add("metric", width, 6, map[string]any{
		"title": title, "region": v.p.cell.Region, "view": "timeSeries", "stacked": false, "stat": stat, "period": period,
		"yAxis": map[string]any{"left": map[string]any{"min": 0}}, "metrics": lines})
}

// alarms shows states of alarms, a hundred a widget.
func (v *view) alarms(title string, names ...string) {
	for part := range slices.Chunk(names, alarmsInAWidget) {
		arns := make([]string, len(part))
		for i, name := range part {
			arns[i] = v.p.arn("cloudwatch", "alarm:"+name)
		}
		v.add("alarm", columns, 2+(len(part)+11)/12, map[string]any{"title": title, "alarms": arns})
	}
}

// line is a metric by its name.
func line(m metric, label string) []any {
	l := []any{m.namespace, m.name}
	for _, d := range m.dimensions {
		l = append(l, d.name, d.value)
	}
	return append(l, map[string]any{"label": label, "stat": m.stat})
}

// expression is a line that CloudWatch computes.
func expression(id, label, text string) []any {
	return []any{map[string]any{"id": id, "label": label, "expression": text}}
}

// shards is one line for each shard that tells the metric, present and to come.
func (v *view) shards(name, stat string) string {
	return fmt.Sprintf(`SEARCH('{%s,cell,service,shard} MetricName="%s" cell="%s" service="%s"', '%s')`,
		metricNamespace, name, v.p.cell.Name, v.p.fleet.Service, stat)
}

// top is the ten shards with the largest values.
func (v *view) top(function, name string) string {
	return fmt.Sprintf(`SELECT %s(%s) FROM SCHEMA(%s, cell, service, shard) WHERE cell = '%s' AND service = '%s' GROUP BY shard ORDER BY %s() DESC LIMIT 10`,
		function, name, metricNamespace, v.p.cell.Name, v.p.fleet.Service, function)
}

// each is a line for each shard by name, of a metric that one of its own resources tells.
func (v *view) each(of func(s shardPlan) metric) [][]any {
	var lines [][]any
	for _, s := range v.p.shards[:min(len(v.p.shards), shownShards)] {
		lines = append(lines, line(of(s), s.id))
	}
	return lines
}

// worst: Errors is 0 or 1 for each request, so that its average is the share of those that failed.
func (v *view) worst() {
	v.title("The worst shard", "The maximum over the shards, never the mean: one shard that serves nobody is no more than a few percent of a mean.")
	v.graph(12, "Requests that failed on the worst shard (%)", "Average", minute, expression("worst", "worst shard", "100 * MAX("+v.shards("Errors", "Average")+")"))
	v.graph(12, "Ten worst shards (share of requests that failed)", "Average", minute, expression("ten", "", v.top("AVG", "Errors")))
}

func (v *view) health() {
	v.title("Health by shard", "A shard's alarm is over all of its alarms; rollouts watch the first two.")
	v.alarms("Cell", v.p.names.Health(), v.p.names.WorstShard(), v.p.names.Faults(), v.p.names.Alarm("key-age"))
	var shards []string
	for _, s := range v.p.shards {
		shards = append(shards, s.names.Health())
	}
	v.alarms("Shards", shards...)
	v.graph(12, "Ten slowest shards (p99, ms)", "p99", minute, expression("slow", "", "SLICE(SORT("+v.shards("Latency", "p99")+", MAX, DESC), 0, 10)"))
	if v.p.fleet.Shard.Queue != nil {
		v.graph(12, "Oldest job by shard (s)", "Maximum", minute, v.each(func(s shardPlan) metric {
			return metric{"AWS/SQS", "ApproximateAgeOfOldestMessage", "Maximum", []dimension{{"QueueName", s.names.Queue()}}}
		})...)
	}
}

func (v *view) load() {
	v.title("Load", "What each shard is asked, and how much of itself that uses.")
	v.graph(12, "Requests by shard (a minute)", "Sum", minute, expression("requests", "", v.shards("Requests", "Sum")))
	if v.p.service != nil {
		v.graph(12, "Processors by shard (%)", "Average", minute, v.each(func(s shardPlan) metric {
			return metric{"AWS/EC2", "CPUUtilization", "Average", []dimension{{"AutoScalingGroupName", s.names.Group()}}}
		})...)
	}
	if l := v.p.fleet.Shard.Lambda; l != nil {
		v.graph(12, fmt.Sprintf("Invocations under way by slice, of %d", l.ReservedConcurrency), "Maximum", minute, v.each(func(s shardPlan) metric {
			return metric{"AWS/Lambda", "ConcurrentExecutions", "Maximum", []dimension{{"FunctionName", s.names.Worker()}}}
		})...)
		v.graph(12, "Invocations turned away by slice (a minute)", "Sum", minute, v.each(func(s shardPlan) metric {
			return metric{"AWS/Lambda", "Throttles", "Sum", []dimension{{"FunctionName", s.names.Worker()}}}
		})...)
	}
}

func (v *view) knowledge() {
	v.title("Age of knowledge", "Routers serve by what they know. Its age says since when somebody has been silent.")
	v.graph(12, "At the keeper (s)", "Maximum", minute,
		line(v.p.told("DirectoryAge", "Maximum"), "directory"), line(v.p.told("HealthAge", "Maximum"), "health"), line(v.p.told("SnapshotAge", "Maximum"), "snapshot"))
	v.graph(6, "At the routers: oldest entry that was used (ms)", "Maximum", minute, line(v.p.told("KnowledgeAge", "Maximum"), "entry"))
	v.graph(6, "Placement key (days)", "Maximum", 60*minute, line(v.p.told("KeyAge", "Maximum"), "key"))
}

func (v *view) variance() {
	v.title("Variance across shards", "The standard deviation of the shards' loads, in percent of their mean, quarantine left out. Even shards have 0; one that has all, with fifteen idle ones, 387.")
	v.graph(12, "Variation of load (%)", "Maximum", 5*minute, line(v.p.told("LoadVariation", "Maximum"), "load"))
	requests := v.shards("Requests", "Sum")
	v.graph(12, "Requests: most and least loaded shard (a minute)", "Sum", minute,
		expression("most", "most", "MAX("+requests+")"), expression("mean", "mean", "AVG("+requests+")"), expression("least", "least", "MIN("+requests+")"))
}

func (v *view) tenants() {
	failing, all := v.p.names.FailingTenants(), v.p.names.Tenants()
	v.title("Availability by tenant", "A tenant's availability is the share of its requests that no 5xx answered. Names are hashes with router.hashTenants.")
	v.graph(8, "Tenants that met a failure (%)", "Average", 5*minute,
		expression("share", "tenants", "100 * "+contributors(failing)+" / "+contributors(all)))
	v.graph(8, "The unluckiest tenant: failed requests", "Sum", 5*minute,
		expression("most", "unluckiest", fmt.Sprintf("INSIGHT_RULE_METRIC(%q, %q)", failing, "MaxContributorValue")))
	v.graph(8, "The busiest tenant, and all: requests", "Sum", 5*minute,
		expression("busiest", "busiest", fmt.Sprintf("INSIGHT_RULE_METRIC(%q, %q)", all, "MaxContributorValue")),
		expression("all", "all", fmt.Sprintf("INSIGHT_RULE_METRIC(%q, %q)", all, "Sum")))
	const byTenant = `filter msg = "request" and ispresent(tenant) and not ispresent(left) | stats 100 * (1 - sum(status >= 500) / count(*)) as availability, count(*) as requests by tenant`
	v.query(12, "Worst percentiles of tenants' availability (%)", byTenant+` | stats min(availability) as worst, pct(availability, 1) as p1, pct(availability, 5) as p5, pct(availability, 50) as median, count(*) as tenants`)
	v.query(12, "Twenty unluckiest tenants", byTenant+` | sort availability asc, requests desc | limit 20`)
}

// query is a table that Logs Insights makes of the router's log.
func (v *view) query(width int, title, text string) {
	v.add("log", width, 6, map[string]any{"title": title, "region": v.p.cell.Region, "view": "table",
		"query": "SOURCE '" + v.p.names.LogGroup("router") + "' | " + text})
}

func (v *view) fallbacks() {
	v.title("Fallbacks", "Requests that another member of the tenant's subset had to serve, by the shard that was left; and whom routers hold back.")
	v.graph(12, "Fallbacks by shard (a minute)", "Sum", minute, expression("fallbacks", "", v.shards("Fallbacks", "Sum")))
	v.graph(6, "Suspected tenants", "Maximum", minute,
		line(v.p.told("Suspects", "Maximum"), "held"), line(v.p.told("Quarantined", "Maximum"), "in quarantine"), line(v.p.told("PoisonVerdicts", "Sum"), "verdicts"))
	v.graph(6, "Requests refused, and of suspects (a minute)", "Sum", minute, line(v.p.told("Refused", "Sum"), "refused"), line(v.p.told("Poisoned", "Sum"), "of suspects"))
}

// cell is what all shards depend on.
func (v *view) cell() {
	function := func(name, metricName, stat string) metric {
		return metric{"AWS/Lambda", metricName, stat, []dimension{{"FunctionName", name}}}
	}
	router, keeper := v.p.names.Router(), v.p.names.Keeper()
	v.title("The cell's own", "Router, keeper, and the queue of jobs that are placed again.")
	v.graph(8, "Router (a minute)", "Sum", minute, line(function(router, "Invocations", "Sum"), "invocations"),
		line(function(router, "Errors", "Sum"), "errors"), line(function(router, "Throttles", "Sum"), "throttles"))
	v.graph(8, fmt.Sprintf("Router: requests under way, of %d", v.p.fleet.Router.ReservedConcurrency), "Maximum", minute, line(function(router, "ConcurrentExecutions", "Maximum"), "under way"))
	v.graph(8, "Keeper", "Sum", minute, line(function(keeper, "Invocations", "Sum"), "runs"), line(function(keeper, "Errors", "Sum"), "errors"))
	if v.p.fleet.Shard.Queue != nil {
		v.graph(12, "Jobs that are placed again", "Maximum", minute,
			line(metric{"AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", []dimension{{"QueueName", v.p.names.Dispatch()}}}, "waiting"),
			line(metric{"AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", []dimension{{"QueueName", v.p.names.DispatchDeadLetters()}}}, "given up"))
	}
}
