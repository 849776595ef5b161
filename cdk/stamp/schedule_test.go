package stamp

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// TestCron: for every length that a fleet may give and each offset, the expression fires at the offset, and then every
// so often until the first time of the next day.
func TestCron(t *testing.T) {
	for _, minutes := range []int{1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60, 120, 180, 240, 360, 480, 720, 1440} {
		for offset := range minutes {
			expression := cron(time.Duration(minutes)*time.Minute, time.Duration(offset)*time.Minute)
			fires := firesOf(t, expression)
			if len(fires) != 1440/minutes || fires[0] != offset {
				t.Fatalf("every %d minutes from %d: %s fires at %v", minutes, offset, expression, fires)
			}
			for i, at := range fires {
				next := append(fires[1:len(fires):len(fires)], fires[0]+1440)[i]
				if next-at != minutes {
					t.Fatalf("every %d minutes from %d: %s fires at %d and %d", minutes, offset, expression, at, next)
				}
			}
		}
	}
}

// firesOf are the minutes of a day at which EventBridge fires by an expression of every day, as its documentation has
// it: a field is *, a number, or a first value and a step.
func firesOf(t *testing.T, expression string) []int {
	t.Helper()
	m := regexp.MustCompile(`^cron\((\S+) (\S+) \* \* \? \*\)$`).FindStringSubmatch(expression)
	if m == nil {
		t.Fatalf("%s is not of every day", expression)
	}
	values := func(field string, most int) []int {
		first, step := 0, 1
		if field != "*" {
			start, every, stepped := strings.Cut(field, "/")
			first, _ = strconv.Atoi(start)
			if step = most; stepped {
				step, _ = strconv.Atoi(every)
			}
			if first >= most || step < 1 || fmt.Sprint(first) != start {
				t.Fatalf("%s: field %s", expression, field)
			}
		}
		var all []int
		for v := first; v < most; v += step {
			all = append(all, v)
		}
		return all
	}
	var fires []int
	for _, hour := range values(m[2], 24) {
		for _, minute := range values(m[1], 60) {
			fires = append(fires, 60*hour+minute)
		}
	}
	return fires
}

// TestSchedules: each shard's slice is invoked by a rule of its own for each schedule, at times of its own, and its event
// is the tick that the shard kit reads. The shapes without schedules have no rules.
func TestSchedules(t *testing.T) {
	a := shape(t, "everything")
	times := map[string][]string{}
	for _, id := range []string{"s01", "s02", "s03", "s04"} {
		s := a["eu-canary/shard-"+id]
		for _, schedule := range []fleet.Schedule{{Name: "sweep", Every: 15 * time.Minute}, {Name: "report", Every: 24 * time.Hour}} {
			name := "orders-eu-canary-" + id + "-tick-" + schedule.Name
			rule := s.named(t, "AWS::Events::Rule", "Name", name)
			expression, _ := rule.at("ScheduleExpression").(string)
			fires := firesOf(t, expression)
			times[schedule.Name] = append(times[schedule.Name], expression)
			if targets, _ := rule.at("Targets").([]any); len(targets) != 1 || rule.at("State") != nil ||
				text(rule.at("Targets", 0, "RetryPolicy")) != fmt.Sprintf(`{"MaximumEventAgeInSeconds":%d,"MaximumRetryAttempts":2}`, min(21_600, int(schedule.Every.Seconds()))) {
				t.Errorf("%s: %s", name, text(rule.Properties))
			}
			target, permission := text(rule.at("Targets", 0, "Arn")), s.named(t, "AWS::Lambda::Permission", "SourceArn", "arn:aws:events:eu-west-1:111111111111:rule/"+name)
			if s.Template.Resources[behind(s.Template.Resources, rule.at("Targets", 0, "Arn"))].Type != "AWS::Lambda::Alias" || text(permission.at("FunctionName")) != target ||
				permission.at("Principal") != "events.amazonaws.com" || permission.at("Action") != "lambda:InvokeFunction" {
				t.Errorf("%s invokes %s, and %s", name, target, text(permission.Properties))
			}
			if text(rule.at("Targets", 0, "InputTransformer", "InputPathsMap")) != `{"time":"$.time"}` {
				t.Errorf("%s tells %s", name, text(rule.at("Targets", 0, "InputTransformer")))
			}
			template, _ := rule.at("Targets", 0, "InputTransformer", "InputTemplate").(string)
			for _, minute := range fires {
				due := time.Date(2026, 3, 29, 0, minute, 0, 0, time.UTC)
				event := strings.Replace(template, "<time>", due.Add(7*time.Second).Format(`"`+time.RFC3339+`"`), 1)
				got, ok, err := shardkit.ParseTick([]byte(event))
				if !ok || err != nil || got.Name != schedule.Name || got.Shard != id || got.Every != schedule.Every || !got.Due.Equal(due) {
					t.Fatalf("%s: the event %s is %+v, %t, %v; due %v", name, event, got, ok, err, due)
				}
			}
		}
		if config := s.one(t, "AWS::Lambda::EventInvokeConfig"); config.at("MaximumRetryAttempts") != 2.0 || config.at("MaximumEventAgeInSeconds") != 21_600.0 || !strings.Contains(text(config.at("Qualifier")), "WorkerLive") {
			t.Errorf("shard %s: %s", id, text(config.Properties))
		}
	}
	for name, all := range times {
		if slices.Sort(all); len(slices.Compact(all)) < 3 {
			t.Errorf("%s fires in all shards alike: %v", name, all)
		}
	}
	for _, name := range []string{"per-shard", "lambda-only"} {
		if s := shape(t, name)[shardPath]; len(s.of("AWS::Events::Rule"))+len(s.of("AWS::Lambda::EventInvokeConfig")) > 0 {
			t.Errorf("%s has rules", name)
		}
	}
}
