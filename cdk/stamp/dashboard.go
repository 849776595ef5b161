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

func newDashboard(st awscdk.Stack, name string, b board) {
	awscloudwatch.NewCfnDashboard(st, str("Dashboard"), &awscloudwatch.CfnDashboardProps{
		DashboardName: str(name), DashboardBody: str(document(b))})
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

// view lays widgets out from left to right. Its metrics are those that the service's router, or front door, and its
// keeper tell under one cell.
type view struct {
	service, cell   string
	account, region string
	widgets         []widget
	x, y, lower     int
}

func (v *view) board() board {
	return board{Start: "-PT3H", PeriodOverride: "inherit", Widgets: v.widgets}
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
		"title": title, "region": v.region, "view": "timeSeries", "stacked": false, "stat": stat, "period": period,
		"yAxis": map[string]any{"left": map[string]any{"min": 0}}, "metrics": lines})
}

// alarms shows states of alarms, a hundred a widget.
func (v *view) alarms(title string, names ...string) {
	for part := range slices.Chunk(names, alarmsInAWidget) {
		arns := make([]string, len(part))
		for i, name := range part {
			arns[i] = arn("cloudwatch", v.region, v.account, "alarm:"+name)
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
		metricNamespace, name, v.cell, v.service, stat)
}

// top is the ten shards with the largest values.
func (v *view) top(function, name string) string {
	return fmt.Sprintf(`SELECT %s(%s) FROM SCHEMA(%s, cell, service, shard) WHERE cell = '%s' AND service = '%s' GROUP BY shard ORDER BY %s() DESC LIMIT 10`,
		function, name, metricNamespace, v.cell, v.service, function)
}

// told is a metric that is told of all at once.
func (v *view) told(name, stat string) metric { return told(v.service, v.cell, name, stat) }

// function is a metric of a Lambda function.
func (v *view) function(name, metricName, stat string) metric {
	return metric{"AWS/Lambda", metricName, stat, []dimension{{"FunctionName", name}}}
}

// hidden is a line by whose id others compute, and which is not drawn.
func hidden(id, text string) []any {
	return []any{map[string]any{"id": id, "expression": text, "visible": false}}
}

// worst: Errors is 0 or 1 for each request, so that its average is the share of those that failed.
func (v *view) worst(what, about string) {
	v.title("The worst "+what, about)
	v.graph(12, "Requests that failed on the worst "+what+" (%)", "Average", minute, expression("worst", "worst "+what, "100 * MAX("+v.shards("Errors", "Average")+")"))
	v.graph(12, "Ten worst "+what+"s (share of requests that failed)", "Average", minute, expression("ten", "", v.top("AVG", "Errors")))
}

// slowest is the ten of the largest latency.
func (v *view) slowest(what string) {
	v.graph(12, "Ten slowest "+what+" (p99, ms)", "p99", minute, expression("slow", "", "SLICE(SORT("+v.shards("Latency", "p99")+", MAX, DESC), 0, 10)"))
}

// byTenant is of the lines of requests in a log, as the rules of Contributor Insights have them.
const byTenant = `filter msg = "request" and ispresent(tenant) and not ispresent(left) | stats 100 * (1 - sum(status >= 500) / count(*)) as availability, count(*) as requests by tenant`

// unlucky is what tenants had of the service.
func (v *view) unlucky(log string) {
	v.query(12, "Worst percentiles of tenants' availability (%)", log, byTenant+` | stats min(availability) as worst, pct(availability, 1) as p1, pct(availability, 5) as p5, pct(availability, 50) as median, count(*) as tenants`)
	v.query(12, "Twenty unluckiest tenants", log, byTenant+` | sort availability asc, requests desc | limit 20`)
}

// query is a table that Logs Insights makes of a log.
func (v *view) query(width int, title, log, text string) {
	v.add("log", width, 6, map[string]any{"title": title, "region": v.region, "view": "table",
		"query": "SOURCE '" + log + "' | " + text})
}
