package stamp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/quarantine"
	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/internal/routing/poison"
	"cellwall.dev/cellwall/internal/telemetry"
)

func readBoard(t *testing.T, watch stack) board {
	t.Helper()
	var b board
	if err := json.Unmarshal([]byte(watch.one(t, "AWS::CloudWatch::Dashboard").at("DashboardBody").(string)), &b); err != nil {
		t.Fatal(err)
	}
	return b
}

// checkDashboard holds a dashboard against CloudWatch's limits, and its widgets apart.
func checkDashboard(t *testing.T, watch stack) {
	t.Helper()
	b := readBoard(t, watch)
	taken, metrics := map[[2]int]int{}, 0
	for i, w := range b.Widgets {
		if w.X < 0 || w.Y < 0 || w.Width < 1 || w.Height < 1 || w.X+w.Width > 24 {
			t.Errorf("widget %d is at %d, %d and %d × %d", i, w.X, w.Y, w.Width, w.Height)
		}
		for x := w.X; x < w.X+w.Width; x++ {
			for y := w.Y; y < w.Y+w.Height; y++ {
				if other, twice := taken[[2]int{x, y}]; twice {
					t.Fatalf("widgets %d and %d lie over each other", other, i)
				}
				taken[[2]int{x, y}] = i
			}
		}
		lines, _ := w.Properties["metrics"].([]any)
		alarms, _ := w.Properties["alarms"].([]any)
		if metrics += len(lines); len(lines) > 500 || len(alarms) > 100 || w.Type == "metric" && len(lines) == 0 {
			t.Errorf("widget %d, %v, has %d metrics and %d alarms", i, w.Properties["title"], len(lines), len(alarms))
		}
		ids := map[any]bool{}
		for _, l := range lines {
			entries := l.([]any)
			if id := entries[len(entries)-1].(map[string]any)["id"]; id != nil && ids[id] {
				t.Errorf("widget %d has two lines %v", i, id)
			} else {
				ids[id] = true
			}
		}
	}
	if len(b.Widgets) > 500 || metrics > 2_500 {
		t.Errorf("%d widgets with %d metrics", len(b.Widgets), metrics)
	}
}

// TestDashboard: the rows in the order in which one looks, and every alarm and metric on it is there.
func TestDashboard(t *testing.T) {
	told := toldMetrics(t)
	eachShape(t, func(t *testing.T, a assembly) {
		watch := a[watchPath]
		checkDashboard(t, watch)
		resources, alarms := map[string]bool{}, map[string]bool{}
		for path, s := range a {
			if strings.HasPrefix(path, "eu-canary/") {
				for _, r := range s.Template.Resources {
					for _, property := range []string{"FunctionName", "QueueName", "AutoScalingGroupName"} {
						if name, ok := r.at(property).(string); ok {
							resources[property+" "+name] = true
						}
					}
					if name, ok := r.at("AlarmName").(string); ok {
						alarms["arn:aws:cloudwatch:eu-west-1:111111111111:alarm:"+name] = true
					}
				}
			}
		}
		var rows []string
		shown := map[string]bool{}
		for _, w := range readBoard(t, watch).Widgets {
			if markdown, ok := w.Properties["markdown"].(string); ok {
				rows = append(rows, strings.TrimPrefix(strings.SplitN(markdown, "\n", 2)[0], "## "))
			}
			for _, alarm := range items(w.Properties["alarms"]) {
				if shown[alarm.(string)] = true; !alarms[alarm.(string)] {
					t.Errorf("there is no alarm %v", alarm)
				}
			}
			for _, l := range items(w.Properties["metrics"]) {
				l := l.([]any)
				options := l[len(l)-1].(map[string]any)
				if e, ok := options["expression"].(string); ok {
					for _, m := range metricInExpression.FindAllStringSubmatch(e, -1) {
						if name := m[1] + m[2]; !told[name] {
							t.Errorf("nobody tells %s: %s", name, e)
						}
					}
					continue
				}
				switch {
				case l[0] == metricNamespace && !told[l[1].(string)]:
					t.Errorf("nobody tells %v", l)
				case l[0] != metricNamespace && !resources[fmt.Sprint(l[2], " ", l[3])]:
					t.Errorf("the cell has no %v", l)
				}
			}
		}
		if want := []string{"The worst shard", "Health by shard", "Load", "Age of knowledge", "Variance across shards", "Availability by tenant", "Fallbacks", "The cell's own"}; !slices.Equal(rows, want) {
			t.Errorf("rows are %q, want %q", rows, want)
		}
		cell := names.ForFleet("orders").Cell("eu-canary")
		for _, name := range []string{cell.Health(), cell.WorstShard(), cell.Faults(), cell.Shard("s04").Health()} {
			if !shown["arn:aws:cloudwatch:eu-west-1:111111111111:alarm:"+name] {
				t.Errorf("%s is not shown", name)
			}
		}
	})
}

// items are those of a list, none of what is none.
func items(v any) []any { l, _ := v.([]any); return l }

var metricInExpression = regexp.MustCompile(`MetricName="(\w+)"|SELECT \w+\((\w+)\)`)

// logLines are what routers and keepers write of everything that there is.
func logLines(t *testing.T) []map[string]any {
	t.Helper()
	var out bytes.Buffer
	r := telemetry.New(telemetry.Config{Service: "orders", Cell: "eu-canary", Metrics: true, Out: &out})
	one := 1.0
	answer := func(o routing.Outcome) {
		if o.Tenant != "" && o.Attempts == nil {
			o.Attempts = []routing.Attempt{{Shard: "s01", Status: o.Status}}
		}
		r.Observe(o)
	}
	answer(routing.Outcome{Tenant: "well", Status: 200})
	answer(routing.Outcome{Tenant: "gone", Status: 404})
	answer(routing.Outcome{Tenant: "failed", Status: 500})
	answer(routing.Outcome{Tenant: "failed-over", Status: 503, Attempts: []routing.Attempt{{Shard: "s01", Status: 503}, {Shard: "s02", Status: 503}}})
	answer(routing.Outcome{Tenant: "left", Status: 502, Left: true, Err: errors.New("left")})
	answer(routing.Outcome{Status: 503, Err: errors.New("nobody knows who asks")})
	r.Verdict(poison.Verdict{Tenant: "poison", Until: time.Now()})
	r.Quarantine(quarantine.Outcome{})
	r.Measures(telemetry.Measures{SnapshotAge: &one, DirectoryAge: &one, HealthAge: &one, KeyAge: &one, LoadVariation: &one})
	var lines []map[string]any
	for l := range strings.Lines(out.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, m)
	}
	return lines
}

// toldMetrics are the names of the metrics that lines are.
func toldMetrics(t *testing.T) map[string]bool {
	t.Helper()
	told := map[string]bool{}
	for _, l := range logLines(t) {
		for _, d := range (resource{Properties: l}).at("_aws", "CloudWatchMetrics").([]any) {
			directive := resource{Properties: d.(map[string]any)}
			if directive.at("Namespace") != metricNamespace {
				t.Errorf("metrics are told in %v, and looked for in %s", directive.at("Namespace"), metricNamespace)
			}
			for _, m := range directive.at("Metrics").([]any) {
				told[m.(map[string]any)["Name"].(string)] = true
			}
		}
	}
	return told
}

// TestAlarmsOnWhatIsTold: the metrics of ours on which alarms are, with those dimensions, are told.
func TestAlarmsOnWhatIsTold(t *testing.T) {
	told := toldMetrics(t)
	a, seen := shape(t, "per-shard"), 0
	for _, path := range []string{shardPath, watchPath} {
		for _, r := range a[path].of(alarmType) {
			all := []any{r.at("MetricName")}
			if r.at("Namespace") != metricNamespace {
				all = nil
			}
			for _, m := range items(r.at("Metrics")) {
				if q := (resource{Properties: m.(map[string]any)}); q.at("MetricStat") != nil {
					all = append(all, q.at("MetricStat", "Metric", "MetricName"))
				}
			}
			for _, name := range all {
				if seen++; !told[name.(string)] {
					t.Errorf("%v: nobody tells %v", r.at("AlarmName"), name)
				}
			}
		}
	}
	if seen != 7 {
		t.Errorf("%d metrics of ours are watched, want two of a shard and five of the cell", seen)
	}
}

// TestTenantRules: of what routers write, the rules count each request of a tenant whose client waited once, and
// those that failed.
func TestTenantRules(t *testing.T) {
	watch := shape(t, "per-shard")[watchPath]
	for name, want := range map[string][]string{
		"orders-eu-canary-tenants":         {"well", "gone", "failed", "failed-over"},
		"orders-eu-canary-failing-tenants": {"failed", "failed-over"},
	} {
		rule := watch.named(t, "AWS::CloudWatch::InsightRule", "RuleName", name)
		var body struct {
			Schema        struct{ Name, Version any }
			LogGroupNames []string
			LogFormat     string
			Contribution  struct {
				Keys    []string
				Filters []map[string]any
			}
			AggregateOn string
		}
		if err := json.Unmarshal([]byte(rule.at("RuleBody").(string)), &body); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(rule.at("RuleState"), body.Schema, body.LogGroupNames, body.LogFormat, body.AggregateOn, body.Contribution.Keys); got != "ENABLED{CloudWatchLogRule 1} [/cellwall/orders/eu-canary/router]JSONCount[$.tenant]" {
			t.Errorf("%s is %s", name, got)
		}
		if n := len(body.Contribution.Filters); n > 4 {
			t.Errorf("%s has %d filters, and four are the most", name, n)
		}
		var got []string
		for _, l := range logLines(t) {
			if !slices.ContainsFunc(body.Contribution.Filters, func(f map[string]any) bool { return !passes(t, f, l) }) {
				got = append(got, l["tenant"].(string))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s counts %v, want %v", name, got, want)
		}
	}
}

// passes applies one filter as CloudWatch does: words are compared with lists of words, numbers with one.
func passes(t *testing.T, filter, line map[string]any) bool {
	t.Helper()
	value, there := line[strings.TrimPrefix(filter["Match"].(string), "$.")]
	for operator, want := range filter {
		switch operator {
		case "Match":
		case "In":
			return there && slices.Contains(want.([]any), value)
		case "IsPresent":
			return there == want
		case "GreaterThan":
			n, ok := value.(float64)
			return ok && n > want.(float64)
		default:
			t.Fatalf("no operator of Contributor Insights: %s", operator)
		}
	}
	return false
}
