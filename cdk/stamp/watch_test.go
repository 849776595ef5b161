package stamp

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/keeper"
)

const (
	alarmType     = "AWS::CloudWatch::Alarm"
	compositeType = "AWS::CloudWatch::CompositeAlarm"
	watchPath     = "eu-canary/watch"
)

// kinds are the last words of names of a stack's alarms.
func kinds(s stack, types ...string) []string {
	var all []string
	for _, typ := range types {
		for _, r := range s.of(typ) {
			name := r.at("AlarmName").(string)
			all = append(all, name[strings.LastIndexByte(name, '/')+1:])
		}
	}
	slices.Sort(all)
	return all
}

// TestAlarmsOfEachShape: what a shard does not have rings no alarm.
func TestAlarmsOfEachShape(t *testing.T) {
	for name, want := range map[string]struct{ shard, cell []string }{
		"per-shard":   {[]string{"dead-letters", "errors", "no-instances", "no-targets", "queue-age", "sick-targets", "throttles"}, []string{"dispatch-dead-letters"}},
		"shared":      {[]string{"dead-letters", "errors", "no-instances", "no-targets", "queue-age", "sick-targets", "throttles"}, []string{"dispatch-dead-letters"}},
		"lambda-only": {[]string{"errors", "throttles"}, nil},
		"http-only":   {[]string{"errors", "no-instances", "no-targets", "sick-targets"}, nil},
	} {
		a := shape(t, name)
		if got := kinds(a["eu-canary/shard-s02"], alarmType); !slices.Equal(got, want.shard) {
			t.Errorf("%s: a shard has the alarms %v, want %v", name, got, want.shard)
		}
		cell := append([]string{"directory-age", "failing-tenants", "keeper-errors", "key-age", "load-variation", "router-errors", "router-throttles", "snapshot-age", "stale-health"}, want.cell...)
		if got := kinds(a[watchPath], alarmType); !slices.Equal(got, slices.Sorted(slices.Values(cell))) {
			t.Errorf("%s: the cell has the alarms %v, want %v", name, got, cell)
		}
		if got := kinds(a[watchPath], compositeType); !slices.Equal(got, []string{"faults", "health", "worst-shard"}) {
			t.Errorf("%s: over them are %v", name, got)
		}
	}
}

// rings is what an alarm watches, and when it rings, in one line.
func rings(r resource) string {
	what := ""
	if metrics, ok := r.at("Metrics").([]any); ok {
		for _, m := range metrics {
			q := resource{Properties: m.(map[string]any)}
			switch e, period := q.at("Expression"), q.at("Period"); {
			case q.at("ReturnData") == true && period != nil:
				what += fmt.Sprintf("%v by %v s", e, period)
			case q.at("ReturnData") == true:
				what += fmt.Sprint(e)
			case e != nil:
				what += fmt.Sprintf(", %v is %v by %v s", q.at("Id"), e, period)
			default:
				what += fmt.Sprintf(", %v is %v %v by %v s of %s", q.at("Id"), q.at("MetricStat", "Stat"), q.at("MetricStat", "Metric", "MetricName"), q.at("MetricStat", "Period"), text(q.at("MetricStat", "Metric", "Dimensions")))
			}
		}
	} else {
		what = fmt.Sprintf("%v %v %v by %v s of %s", r.at("Namespace"), r.at("Statistic"), r.at("MetricName"), r.at("Period"), text(r.at("Dimensions")))
	}
	return fmt.Sprintf("%s: %v %v, %v of %v, missing %v", what, r.at("ComparisonOperator"), r.at("Threshold"), r.at("DatapointsToAlarm"), r.at("EvaluationPeriods"), r.at("TreatMissingData"))
}

// TestAlarms: each alarm, in a line.
func TestAlarms(t *testing.T) {
	a := shape(t, "per-shard")
	const (
		ofCell  = `[{"Name":"service","Value":"orders"},{"Name":"cell","Value":"eu-canary"}]`
		ofShard = `[{"Name":"service","Value":"orders"},{"Name":"cell","Value":"eu-canary"},{"Name":"shard","Value":"s02"}]`
		targets = `[{"Name":"TargetGroup","Value":{"Fn::GetAtt":["Targets8080ownDCF06043","TargetGroupFullName"]}},{"Name":"LoadBalancer","Value":{"Fn::GetAtt":["Alb16C2F182","LoadBalancerFullName"]}}]`
	)
	want := map[string]string{
		"orders/eu-canary/s02/errors":            `IF(requests >= 5 OR errors == requests, 100 * errors / requests, 0), requests is Sum Requests by 60 s of ` + ofShard + `, errors is Sum Errors by 60 s of ` + ofShard + `: GreaterThanThreshold 5, 3 of 10, missing notBreaching`,
		"orders/eu-canary/s02/throttles":         `AWS/Lambda Sum Throttles by 60 s of [{"Name":"FunctionName","Value":"orders-eu-canary-s02-worker"}]: GreaterThanOrEqualToThreshold 1, 3 of 5, missing notBreaching`,
		"orders/eu-canary/s02/dead-letters":      `AWS/SQS Maximum ApproximateNumberOfMessagesVisible by 60 s of [{"Name":"QueueName","Value":"orders-eu-canary-s02-dead"}]: GreaterThanOrEqualToThreshold 1, 1 of 1, missing ignore`,
		"orders/eu-canary/s02/queue-age":         `AWS/SQS Maximum ApproximateAgeOfOldestMessage by 60 s of [{"Name":"QueueName","Value":"orders-eu-canary-s02-work"}]: GreaterThanThreshold 900, 5 of 5, missing notBreaching`,
		"orders/eu-canary/s02/no-targets":        `AWS/ApplicationELB Maximum HealthyHostCount by 60 s of ` + targets + `: LessThanThreshold 1, 2 of 3, missing notBreaching`,
		"orders/eu-canary/s02/no-instances":      `AWS/AutoScaling Maximum GroupInServiceInstances by 60 s of [{"Name":"AutoScalingGroupName","Value":"orders-eu-canary-s02-asg"}]: LessThanThreshold 1, 3 of 3, missing notBreaching`,
		"orders/eu-canary/s02/sick-targets":      `AWS/ApplicationELB Maximum UnHealthyHostCount by 60 s of ` + targets + `: GreaterThanOrEqualToThreshold 1, 15 of 15, missing notBreaching`,
		"orders/eu-canary/failing-tenants":       `IF(failing >= 3 AND requests >= 20, 100 * failing / asking, 0), failing is INSIGHT_RULE_METRIC("orders-eu-canary-failing-tenants", "UniqueContributors") by 300 s, asking is INSIGHT_RULE_METRIC("orders-eu-canary-tenants", "UniqueContributors") by 300 s, requests is INSIGHT_RULE_METRIC("orders-eu-canary-tenants", "Sum") by 300 s: GreaterThanThreshold 5, 2 of 3, missing notBreaching`,
		"orders/eu-canary/load-variation":        `cellwall Maximum LoadVariation by 300 s of ` + ofCell + `: GreaterThanThreshold 86, 6 of 6, missing notBreaching`,
		"orders/eu-canary/router-errors":         `AWS/Lambda Sum Errors by 60 s of [{"Name":"FunctionName","Value":"orders-eu-canary-router"}]: GreaterThanOrEqualToThreshold 1, 3 of 5, missing notBreaching`,
		"orders/eu-canary/router-throttles":      `AWS/Lambda Sum Throttles by 60 s of [{"Name":"FunctionName","Value":"orders-eu-canary-router"}]: GreaterThanOrEqualToThreshold 1, 3 of 5, missing notBreaching`,
		"orders/eu-canary/dispatch-dead-letters": `AWS/SQS Maximum ApproximateNumberOfMessagesVisible by 60 s of [{"Name":"QueueName","Value":"orders-eu-canary-dispatch-dead"}]: GreaterThanOrEqualToThreshold 1, 1 of 1, missing ignore`,
		"orders/eu-canary/stale-health":          `cellwall Maximum HealthAge by 60 s of ` + ofCell + `: GreaterThanThreshold 300, 1 of 1, missing notBreaching`,
		"orders/eu-canary/directory-age":         `cellwall Maximum DirectoryAge by 60 s of ` + ofCell + `: GreaterThanThreshold 600, 1 of 1, missing notBreaching`,
		"orders/eu-canary/snapshot-age":          `cellwall Maximum SnapshotAge by 60 s of ` + ofCell + `: GreaterThanThreshold 600, 5 of 5, missing missing`,
		"orders/eu-canary/keeper-errors":         `AWS/Lambda Sum Errors by 60 s of [{"Name":"FunctionName","Value":"orders-eu-canary-keeper"}]: GreaterThanOrEqualToThreshold 1, 3 of 5, missing notBreaching`,
		"orders/eu-canary/key-age":               `cellwall Maximum KeyAge by 3600 s of ` + ofCell + `: GreaterThanThreshold 365, 1 of 1, missing ignore`,
	}
	got := map[string]string{}
	for _, stack := range []string{"eu-canary/shard-s02", watchPath} {
		for _, r := range a[stack].of(alarmType) {
			got[r.at("AlarmName").(string)] = rings(r)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("alarms (-want +got):\n%s", d)
	}
	// Behind a load balancer of several shards, whose ARN the core tells.
	for _, r := range shape(t, "shared")["eu-canary/shard-s02"].of(alarmType) {
		if strings.HasSuffix(r.at("AlarmName").(string), "-targets") {
			listener := `{"Fn::Split":["/",{"Ref":"SsmParameterValuecellwallorderseucanarycoreingresssharedlistenerC96584B6F00A464EAD1953AFF4B05118Parameter"}]}`
			if got, want := text(r.at("Dimensions", 1, "Value")), fmt.Sprintf(`{"Fn::Join":["/",[{"Fn::Select":[1,%s]},{"Fn::Select":[2,%[1]s]},{"Fn::Select":[3,%[1]s]}]]}`, listener); got != want {
				t.Errorf("the load balancer is %s, want %s", got, want)
			}
		}
	}
}

// lastingAlarms are those of a cell that tell by themselves and that nothing is over, as rollouts know them.
func lastingAlarms(t *testing.T, a assembly) map[string]bool {
	t.Helper()
	cell := names.ForFleet("orders").Cell("eu-canary")
	all := map[string]bool{}
	for _, name := range cell.Lasting() {
		all[name] = true
	}
	for _, path := range a.paths() {
		if id, ok := strings.CutPrefix(path, "eu-canary/shard-"); ok {
			for _, name := range cell.Shard(id).Lasting() {
				all[name] = true
			}
		}
	}
	return all
}

// TestWhoIsTold: an alarm on a metric tells nobody where one is over it that tells of all that breaks together; others
// tell by themselves. Everybody is told what it means, and nothing is left to a default. Without a topic for the
// region nobody is told.
func TestWhoIsTold(t *testing.T) {
	topics := map[string]string{"eu-west-1": `["arn:aws:sns:eu-west-1:111111111111:oncall"]`, "us-east-1": `["arn:aws:sns:us-east-1:111111111111:oncall"]`}
	tells := lastingAlarms(t, shape(t, "everything"))
	for _, kind := range []string{"key-age", "failing-tenants", "faults", "s01/health", "s02/health", "s03/health", "s04/health"} {
		tells["orders/eu-canary/"+kind] = true
	}
	for _, kind := range []string{"faults", "out-of-time", "api-errors", "cell-eu-canary", "directory-age", "snapshot-age", "keeper-errors", "directory-throttles", "directory-errors", "replica-lag-us-east-1"} {
		tells["orders/global/"+kind] = true
	}
	eachShape(t, func(t *testing.T, a assembly) {
		spoken := path.Base(t.Name()) == "everything"
		there := map[string]bool{}
		for _, stack := range a.paths() {
			topic := topics[path.Base(a[stack].Environment)]
			for _, r := range slices.Concat(a[stack].of(alarmType), a[stack].of(compositeType)) {
				name := r.at("AlarmName").(string)
				there[name] = true
				if about := fmt.Sprint(r.at("AlarmDescription")); len(about) < 80 || len(about) > 1024 || strings.Contains(about, "%!") {
					t.Errorf("%s says: %s", name, about)
				}
				if r.Type == alarmType && r.at("TreatMissingData") == nil {
					t.Errorf("%s leaves missing data to chance", name)
				}
				want, unknown := "null", "null"
				if spoken && tells[name] {
					want = topic
				}
				if r.at("TreatMissingData") == "missing" {
					unknown = want
				}
				on, off, silent := text(r.at("AlarmActions")), text(r.at("OKActions")), text(r.at("InsufficientDataActions"))
				if on != want || off != want || silent != unknown {
					t.Errorf("%s of %s tells %s, %s and %s; want %s, and %s when it knows nothing", name, stack, on, off, silent, want, unknown)
				}
			}
		}
		for name := range tells {
			if spoken && !there[name] {
				t.Errorf("there is no %s", name)
			}
		}
	})
}

// TestNothingHidesAFault: no alarm is below another that may ring for long while everybody is served. Such are those
// whose last word stands when nobody measures any more, and those of a keeper, of the age of knowledge, of load, of
// queues, and of instances beside healthy ones.
func TestNothingHidesAFault(t *testing.T) {
	knowledge := []string{"DirectoryAge", "SnapshotAge", "HealthAge", "KeyAge", "LoadVariation"}
	mayLast := func(r resource) bool {
		of := text([]any{r.at("Dimensions"), r.at("Metrics")})
		return r.at("TreatMissingData") == "ignore" || r.at("TreatMissingData") == "missing" ||
			slices.Contains(knowledge, fmt.Sprint(r.at("MetricName"))) || r.at("Namespace") == "AWS/SQS" || strings.Contains(of, "-keeper") ||
			strings.Contains(of, "orders-directory") || r.at("MetricName") == "UnHealthyHostCount"
	}
	seen := 0
	eachShape(t, func(t *testing.T, a assembly) {
		for _, path := range a.paths() {
			below := map[string]bool{}
			for _, other := range a.paths() {
				if a[other].Environment == a[path].Environment {
					for _, r := range a[other].of(compositeType) {
						for _, term := range strings.Split(r.at("AlarmRule").(string), " OR ") {
							below[term] = true
						}
					}
				}
			}
			for _, r := range a[path].of(alarmType) {
				switch name := r.at("AlarmName").(string); {
				case mayLast(r) && below[`ALARM("`+name+`")`]:
					t.Errorf("%s: %s is below another", path, name)
				case mayLast(r):
					seen++
				case !below[`ALARM("`+name+`")`]:
					t.Errorf("%s: nothing is over %s", path, name)
				}
			}
		}
	})
	if seen < 100 {
		t.Errorf("only %d alarms that may last were looked at", seen)
	}
}

var ruleTerm = regexp.MustCompile(`^ALARM\("([^"]+)"\)$`)

// checkRules holds the alarms over others against CloudWatch's rules: all that they name are there, those of the
// same stack before them; and follows them from the top. It returns what is reached.
func checkRules(t *testing.T, stacks map[string]stack, top string) map[string]bool {
	t.Helper()
	type place struct{ path, id string }
	at, children := map[string]place{}, map[string][]string{}
	for path, s := range stacks {
		for id, r := range s.Template.Resources {
			if name, ok := r.at("AlarmName").(string); ok {
				at[name] = place{path, id}
			}
		}
	}
	for path, s := range stacks {
		for id, r := range s.Template.Resources {
			if r.Type != compositeType {
				continue
			}
			rule := r.at("AlarmRule").(string)
			terms := strings.Split(rule, " OR ")
			if len(terms) > 100 || len(rule) > 10_240 {
				t.Errorf("%s %s: the rule has %d alarms and %d characters", path, id, len(terms), len(rule))
			}
			for _, term := range terms {
				m := ruleTerm.FindStringSubmatch(term)
				if m == nil {
					t.Fatalf("%s: rule %s", id, rule)
				}
				child, ok := at[m[1]]
				if !ok {
					t.Errorf("%s: there is no %s", id, m[1])
				}
				if child.path == path && !slices.Contains(r.DependsOn, child.id) {
					t.Errorf("%s is not made after %s", id, child.id)
				}
				name := r.at("AlarmName").(string)
				children[name] = append(children[name], m[1])
			}
		}
	}
	reached := map[string]bool{}
	var follow func(name string)
	follow = func(name string) {
		if reached[name] {
			t.Errorf("%s is reached twice", name)
		}
		reached[name] = true
		for _, c := range children[name] {
			follow(c)
		}
	}
	follow(top)
	return reached
}

// TestHealth: what rollouts watch is complete: health is over every alarm of the cell and of its shards but for the
// key's age and those that may last, which rollouts know by name.
func TestHealth(t *testing.T) {
	eachShape(t, func(t *testing.T, a assembly) {
		stacks := map[string]stack{}
		all := map[string]bool{}
		for _, path := range a.paths() {
			if strings.HasPrefix(path, "eu-canary/") {
				stacks[path] = a[path]
				for _, r := range slices.Concat(a[path].of(alarmType), a[path].of(compositeType)) {
					all[r.at("AlarmName").(string)] = true
				}
			}
		}
		delete(all, "orders/eu-canary/key-age")
		for name := range lastingAlarms(t, a) {
			delete(all, name)
		}
		if d := cmp.Diff(all, checkRules(t, stacks, "orders/eu-canary/health")); d != "" {
			t.Errorf("health is over (-all +reached):\n%s", d)
		}
	})
}

// TestLargeCell: the watch stack of a cell with more shards than one alarm can be over.
func TestLargeCell(t *testing.T) {
	f := sample(t, func(f *fleet.Fleet) {
		f.Cells[0].Shards = nil
		for i := range 250 {
			f.Cells[0].Shards = append(f.Cells[0].Shards, fleet.ShardSpec{ID: fmt.Sprintf("s%03d", i+1), Zone: "a", Weight: 1})
		}
	})
	plans, err := input(f).plan(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	context, err := settings()
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	app := NewApp(Options{Out: out, Context: context})
	stage := awscdk.NewStage(app, str("eu-canary"), &awscdk.StageProps{Env: &awscdk.Environment{Account: str("111111111111"), Region: str("eu-west-1")}})
	buildWatch(awscdk.NewStack(stage, str("watch"), nil), plans[0])
	app.Synth(nil)
	watch := open(t, out)[watchPath]
	shards := stack{Template: templateFile{Resources: map[string]resource{}}}
	for _, s := range plans[0].shards {
		shards.Template.Resources[s.id] = resource{Type: alarmType, Properties: map[string]any{"AlarmName": s.names.Health()}}
	}
	reached := checkRules(t, map[string]stack{watchPath: watch, "shards": shards}, "orders/eu-canary/health")
	for _, s := range plans[0].shards {
		if !reached[s.names.Health()] {
			t.Errorf("nothing is over %s", s.names.Health())
		}
	}
	if got := kinds(watch, compositeType); !slices.Equal(got, []string{"faults", "health", "shards-1", "shards-2", "shards-3", "worst-shard"}) {
		t.Errorf("over the alarms are %v", got)
	}
	checkDashboard(t, watch)
}

// TestLoadVariation: the bound is below the most that so many shards can have, so that the alarm can ring, also when
// they are two; and above what one shard has that carries a third more than its part. The most, and what is measured,
// are the keeper's.
func TestLoadVariation(t *testing.T) {
	for shards, want := range map[int]float64{2: 50, 3: 70, 4: 86, 5: 100, 16: 100, 64: 100} {
		bound := loadVariation(shards)
		if bound != want {
			t.Errorf("of %d shards it is %v, want %v", shards, bound, want)
		}
		of := func(part float64) float64 { // one shard carries so many times its part
			requests, weights := map[string]float64{}, map[string]int{}
			for i := range shards {
				id := fmt.Sprint(i)
				if weights[id], requests[id] = 1, 1e6*(float64(shards)-part)/float64(shards-1); i == 0 {
					requests[id] = 1e6 * part
				}
			}
			v, ok := keeper.Variation(requests, weights)
			if !ok {
				t.Fatalf("no variation of %v", requests)
			}
			return v
		}
		if most := of(float64(shards)); most <= bound {
			t.Errorf("of %d shards the bound is %v, and one that has everything varies by %v", shards, bound, most)
		}
		if little := of(4. / 3); little >= bound {
			t.Errorf("of %d shards the bound is %v, and a third more varies by %v", shards, bound, little)
		}
	}
	of := func(n int, quarantine ...string) string {
		f := sample(t, func(f *fleet.Fleet) {
			f.Cells[0].Shards, f.Cells[0].Quarantine = f.Cells[0].Shards[:n], quarantine
		})
		plans, err := input(f).plan(t.TempDir())
		must(t, err)
		for _, a := range cellAlarms(plans[0]) {
			if a.kind == "load-variation" {
				return fmt.Sprint(a.threshold)
			}
		}
		return "none"
	}
	for want, got := range map[string]string{"50": of(2), "70": of(3), "50 without the quarantine's": of(4, "s03", "s04") + " without the quarantine's", "none": of(3, "s02", "s03")} {
		if got != want {
			t.Errorf("the alarm's bound is %s, want %s", got, want)
		}
	}
}

// TestInsightQueries: what a rule of Contributor Insights tells is a query of its own, in alarms and on dashboards.
func TestInsightQueries(t *testing.T) {
	const fetch = "INSIGHT_RULE_METRIC("
	seen := 0
	check := func(where string, expression any) {
		if e := fmt.Sprint(expression); strings.Contains(e, fetch) {
			if seen++; strings.Count(e, fetch) != 1 || !strings.HasPrefix(e, fetch) || strings.Count(e, ")") != 1 || !strings.HasSuffix(e, ")") {
				t.Errorf("%s computes with %s", where, e)
			}
		}
	}
	watch := shape(t, "per-shard")[watchPath]
	for _, r := range watch.of(alarmType) {
		for _, m := range items(r.at("Metrics")) {
			check(r.at("AlarmName").(string), m.(map[string]any)["Expression"])
		}
	}
	for _, w := range readBoard(t, watch).Widgets {
		for _, l := range items(w.Properties["metrics"]) {
			l := l.([]any)
			check(fmt.Sprint(w.Properties["title"]), l[len(l)-1].(map[string]any)["expression"])
		}
	}
	if seen != 8 {
		t.Errorf("%d queries, want three of an alarm and five on the dashboard", seen)
	}
}

// TestWatchIsLast: the watch stack is deployed after every other stack of its cell.
func TestWatchIsLast(t *testing.T) {
	a := shape(t, "per-shard")
	var others []string
	for _, path := range a.paths() {
		if strings.HasPrefix(path, "eu-canary/") && path != watchPath {
			others = append(others, path)
		}
	}
	if got := slices.Sorted(maps.Keys(a[watchPath].after)); !slices.Equal(got, others) {
		t.Errorf("it waits for %v, want %v", got, others)
	}
}
