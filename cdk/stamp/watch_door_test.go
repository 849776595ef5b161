package stamp

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const doorPath = "frontdoor-eu-west-1"

// TestDoorAlarms: each alarm of a front door and of the directory, in a line.
func TestDoorAlarms(t *testing.T) {
	a := shape(t, "everything")
	const (
		ofDoor = `[{"Name":"service","Value":"orders"},{"Name":"cell","Value":"frontdoor"}]`
		ofSeen = `[{"Name":"service","Value":"orders"},{"Name":"cell","Value":"frontdoor"},{"Name":"shard","Value":"eu-canary"}]`
		ofAPI  = `[{"Name":"ApiId","Value":{"Ref":"ApiF70053CD"}}]`
		door   = `[{"Name":"FunctionName","Value":"orders-global-frontdoor"}]`
		keeper = `[{"Name":"FunctionName","Value":"orders-global-keeper"}]`
		sum    = `SELECT SUM(%s) FROM SCHEMA("AWS/DynamoDB", Operation, TableName) WHERE TableName = 'orders-directory' by 60 s: GreaterThanOrEqualToThreshold 1, 5 of 5, missing notBreaching`
	)
	want := map[string]string{
		"errors":                `AWS/Lambda Sum Errors by 60 s of ` + door + `: GreaterThanOrEqualToThreshold 1, 3 of 5, missing notBreaching`,
		"throttles":             `AWS/Lambda Sum Throttles by 60 s of ` + door + `: GreaterThanOrEqualToThreshold 1, 3 of 5, missing notBreaching`,
		"out-of-time":           `AWS/Lambda Maximum Duration by 60 s of ` + door + `: GreaterThanThreshold 26100, 3 of 5, missing notBreaching`,
		"api-errors":            `IF(requests >= 5 OR errors == requests, 100 * errors / requests, 0), requests is Sum Count by 60 s of ` + ofAPI + `, errors is Sum 5xx by 60 s of ` + ofAPI + `: GreaterThanThreshold 5, 3 of 10, missing notBreaching`,
		"cell-eu-canary":        `IF(requests >= 5 OR errors == requests, 100 * errors / requests, 0), requests is Sum Requests by 60 s of ` + ofSeen + `, errors is Sum Errors by 60 s of ` + ofSeen + `: GreaterThanThreshold 5, 3 of 10, missing notBreaching`,
		"directory-age":         `cellwall Maximum DirectoryAge by 60 s of ` + ofDoor + `: GreaterThanThreshold 600, 1 of 1, missing notBreaching`,
		"snapshot-age":          `cellwall Maximum SnapshotAge by 60 s of ` + ofDoor + `: GreaterThanThreshold 600, 5 of 5, missing missing`,
		"keeper-errors":         `AWS/Lambda Sum Errors by 60 s of ` + keeper + `: GreaterThanOrEqualToThreshold 1, 3 of 5, missing notBreaching`,
		"directory-throttles":   fmt.Sprintf(sum, "ThrottledRequests"),
		"directory-errors":      fmt.Sprintf(sum, "SystemErrors"),
		"replica-lag-us-east-1": `AWS/DynamoDB Average ReplicationLatency by 60 s of [{"Name":"TableName","Value":"orders-directory"},{"Name":"ReceivingRegion","Value":"us-east-1"}]: GreaterThanThreshold 60000, 10 of 10, missing notBreaching`,
	}
	lines := func(stacks ...string) map[string]string {
		got := map[string]string{}
		for _, stack := range stacks {
			for _, r := range a[stack].of(alarmType) {
				got[strings.TrimPrefix(r.at("AlarmName").(string), "orders/global/")] = rings(r)
			}
		}
		return got
	}
	if d := cmp.Diff(want, lines("global", doorPath)); d != "" {
		t.Errorf("alarms (-want +got):\n%s", d)
	}
	// Where there is a replica the table is watched by a stack of that region, which writes nothing.
	if got := slices.Collect(maps.Keys(lines("watch-us-east-1"))); len(got) != 2 || !slices.Contains(got, "directory-throttles") || !slices.Contains(got, "directory-errors") {
		t.Errorf("alarms on the replica are %v", got)
	}
	s := a["watch-us-east-1"]
	if got := fmt.Sprintf("%s %s %v after %v", s.Name, s.Environment, s.Tags["cellwall:service"], s.after); got != "orders-global-watch aws://111111111111/us-east-1 orders after map[global:true]" {
		t.Errorf("the replica's stack is %s", got)
	}
}

// TestDoorHealth: the alarm over a front door is over all of its own but those that may last, and over each cell.
func TestDoorHealth(t *testing.T) {
	a := shape(t, "everything")
	for _, region := range []string{"eu-west-1", "us-east-1"} {
		door := "frontdoor-" + region
		want := map[string]bool{}
		for _, kind := range []string{"health", "faults", "errors", "throttles", "out-of-time", "api-errors", "worst-cell", "cell-eu-canary"} {
			want["orders/global/"+kind] = true
		}
		if d := cmp.Diff(want, checkRules(t, map[string]stack{door: a[door]}, "orders/global/health")); d != "" {
			t.Errorf("%s: health is over (-want +reached):\n%s", region, d)
		}
	}
}

// TestDoorDashboard: the rows in the order in which one looks, every alarm and metric on it is there, and each region's
// has a name of its own, since an account's dashboards are those of all regions.
func TestDoorDashboard(t *testing.T) {
	a, told := shape(t, "everything"), toldMetrics(t)
	seen := map[string]bool{}
	for _, region := range []string{"eu-west-1", "us-east-1"} {
		stacks := []string{"frontdoor-" + region, "global"}
		if region != "eu-west-1" {
			stacks[1] = "watch-" + region
		}
		alarms, resources := map[string]bool{}, map[string]bool{"orders-directory": true}
		for _, path := range stacks {
			for _, r := range a[path].Template.Resources {
				if name, ok := r.at("AlarmName").(string); ok {
					alarms["arn:aws:cloudwatch:"+region+":111111111111:alarm:"+name] = false
				}
				if name, ok := r.at("FunctionName").(string); ok {
					resources[name] = true
				}
			}
		}
		door := a["frontdoor-"+region]
		seen[door.one(t, "AWS::CloudWatch::Dashboard").at("DashboardName").(string)] = true
		checkDashboard(t, door)
		var rows []string
		for _, w := range readBoard(t, door).Widgets {
			if markdown, ok := w.Properties["markdown"].(string); ok {
				rows = append(rows, strings.TrimPrefix(strings.SplitN(markdown, "\n", 2)[0], "## "))
			}
			for _, alarm := range items(w.Properties["alarms"]) {
				if _, ok := alarms[alarm.(string)]; !ok {
					t.Errorf("%s: there is no alarm %v", region, alarm)
				}
				alarms[alarm.(string)] = true
			}
			if q, ok := w.Properties["query"].(string); ok && !strings.HasPrefix(q, "SOURCE '/cellwall/orders/global/frontdoor' | ") {
				t.Errorf("%s asks %s", region, q)
			}
			for _, l := range items(w.Properties["metrics"]) {
				l := l.([]any)
				e, computed := l[len(l)-1].(map[string]any)["expression"].(string)
				switch {
				case computed:
					for _, m := range metricInExpression.FindAllStringSubmatch(e, -1) {
						if name := m[1] + m[2]; !told[name] && !strings.Contains(e, `SCHEMA("AWS/DynamoDB", Operation, TableName) WHERE TableName = 'orders-directory'`) {
							t.Errorf("nobody tells %s: %s", name, e)
						}
					}
				case l[0] == metricNamespace:
					if !told[l[1].(string)] || l[5] != "frontdoor" {
						t.Errorf("nobody tells %v", l)
					}
				case !resources[l[3].(string)]:
					t.Errorf("%s: there is no %v", path.Base(door.Name), l)
				}
			}
		}
		if want := []string{"The worst cell", "Health by cell", "Age of knowledge", "Availability by tenant", "The directory", "The front door's own"}; !slices.Equal(rows, want) {
			t.Errorf("rows are %q, want %q", rows, want)
		}
		for alarm, shown := range alarms {
			if !shown && !strings.HasSuffix(alarm, "/errors") && !strings.HasSuffix(alarm, "/throttles") { // which faults is over
				t.Errorf("%s is not shown", alarm)
			}
		}
	}
	if len(seen) != 2 {
		t.Errorf("dashboards are called %v", seen)
	}
}
