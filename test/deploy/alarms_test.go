package deploy

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/fleet/names"
)

// alarms are those of an account's region, by name.
type alarms struct {
	metrics []string            // over a metric
	over    map[string][]string // over other alarms, with the names of these, sorted
}

var inRule = regexp.MustCompile(`ALARM\("([^"]+)"\)`)

func (w *world) alarms(t *testing.T, at place, prefix string) alarms {
	t.Helper()
	in := &cloudwatch.DescribeAlarmsInput{AlarmTypes: []cwtypes.AlarmType{cwtypes.AlarmTypeMetricAlarm, cwtypes.AlarmTypeCompositeAlarm}}
	if prefix != "" {
		in.AlarmNamePrefix = &prefix
	}
	found := alarms{over: map[string][]string{}}
	pages := cloudwatch.NewDescribeAlarmsPaginator(cloudwatch.NewFromConfig(w.aws.Config(t, at.account, at.region)), in)
	for pages.HasMorePages() {
		out := page(t, pages.NextPage)
		for _, a := range out.MetricAlarms {
			found.metrics = append(found.metrics, *a.AlarmName)
		}
		for _, a := range out.CompositeAlarms {
			children := []string{}
			for _, m := range inRule.FindAllStringSubmatch(*a.AlarmRule, -1) {
				children = append(children, m[1])
			}
			slices.Sort(children)
			found.over[*a.AlarmName] = children
		}
	}
	slices.Sort(found.metrics)
	return found
}

// without are the names that are not among others.
func without(all []string, others ...string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(others, name) })
}

// shardAlarms reads back that a shard has one alarm over all of its others, but for those that may last.
func (w *world) shardAlarms(t *testing.T, at place, shard names.Shard) {
	found := w.alarms(t, at, shard.Alarm(""))
	serves := without(found.metrics, shard.Lasting()...)
	if len(serves) < 2 || len(serves) == len(found.metrics) {
		t.Errorf("alarms %v", found.metrics)
	}
	if diff := cmp.Diff(map[string][]string{shard.Health(): serves}, found.over); diff != "" {
		t.Errorf("alarms over alarms (-want +got):\n%s", diff)
	}
}

// cellAlarms reads back what a cell's alarms over others are over: each of its shards, and all of its own but those that
// may last, and the key's age.
func (w *world) cellAlarms(t *testing.T, name string) {
	c, cell := w.cell(t, name), w.of(name)
	found := w.alarms(t, place{c.Account, c.Region}, cell.Alarm(""))
	var shards, own []string
	for _, id := range c.Shards.IDs() {
		shards = append(shards, cell.Shard(id).Health())
	}
	for _, a := range found.metrics {
		if !strings.Contains(strings.TrimPrefix(a, cell.Alarm("")), "/") {
			own = append(own, a)
		}
	}
	lasting := append(cell.Lasting(), cell.Alarm("key-age"))
	for _, a := range lasting {
		if !slices.Contains(own, a) {
			t.Errorf("there is no %s", a)
		}
	}
	alone := cell.Alarm("failing-tenants") // which tells by itself
	want := map[string][]string{cell.WorstShard(): shards, cell.Faults(): without(own, append(lasting, alone)...), cell.Health(): {alone, cell.Faults(), cell.WorstShard()}}
	for over, children := range want {
		slices.Sort(children)
		if diff := cmp.Diff(children, found.over[over]); diff != "" {
			t.Errorf("%s is over (-want +got):\n%s", over, diff)
		}
	}
}
