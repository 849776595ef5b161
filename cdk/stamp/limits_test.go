package stamp

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/fleet"
)

// written is the sample fleet's file with some texts replaced, read as the app reads it, so that faults know their
// lines. Pairs are what stands in the file, and what is to stand there.
func written(t *testing.T, pairs ...string) Input {
	t.Helper()
	text := read(t, filepath.Join(root, "fleet.yaml"))
	for i := 0; i < len(pairs); i += 2 {
		if strings.Count(text, pairs[i]) != 1 {
			t.Fatalf("the sample fleet has %q %d times", pairs[i], strings.Count(text, pairs[i]))
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	dir := dist(t, ARM64)
	write(t, filepath.Join(dir, "fleet.yaml"), text, 0o644)
	f, at, err := fleet.LoadPositions(filepath.Join(dir, "fleet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	in := input(f)
	in.At = at
	return in
}

// Lines of the sample fleet that the tests replace.
const (
	canary  = "shards: 4, tenants: internal"
	ingress = "ingress: per-shard"
	second  = `name: eu-1, account: "222222222222"`
)

// TestRefusedPlans: what only stamping can know is refused before anything is built, by the line that causes it.
func TestRefusedPlans(t *testing.T) {
	clash := clashing()
	listed := func(ids ...string) string {
		var all []string
		for _, id := range ids {
			all = append(all, "{id: "+id+"}")
		}
		return "shards: [" + strings.Join(all, ", ") + "], tenants: internal"
	}
	var apart []string // not numbered, and in the order of the file
	for n := range 33 {
		apart = append(apart, fmt.Sprintf("z%02d", n))
	}
	var routes strings.Builder
	for i := range 98 {
		fmt.Fprintf(&routes, "  - {path: /%d/%s, via: lambda}\n", i, strings.Repeat("x", 40))
	}
	for name, c := range map[string]struct {
		change []string
		want   string // the error, behind the file's name; "" when there is none
	}{
		"the sample":                 {nil, ""},
		"a name that begins another": {[]string{second, `name: eu, account: "111111111111"`}, ""},
		"a name that begins another, and shards with hyphens": {[]string{second, `name: eu, account: "111111111111"`, "region: eu-west-1, zones: [a, b, c], shards: 16", "region: eu-west-1, zones: [a, b, c], shards: [{id: a-1}, {id: a-2}, {id: a-3}, {id: a-4}]"},
			`33:12: cells eu and eu-canary share account 111111111111 and region eu-west-1, the one name begins the other, and shards of eu have hyphens: the router of eu would be allowed to call orders-eu-canary-s01-worker; rename one of the cells, or the shards`},
		"the same in another account": {[]string{second, `name: eu, account: "333333333333"`}, ""},
		"a directory out of reach": {[]string{", replicas: [us-east-1]", ""},
			`35:51: cell us-1: its own network has no way to other regions: the nearest directory is in eu-west-1; add us-east-1 to directory.replicas, or write egress: nat, or give the cell a vpc with a way out`},
		"a zone without room": {[]string{"zones: [a, b, c], " + canary, "zones: [a, z], " + canary},
			`33:74: cell eu-canary: zone "z" has no block: its own network has room for the zones a to h; write one of those, or give the cell a vpc`},
		"routes that do not fit": {[]string{"routes:\n", "routes:\n" + routes.String()},
			`30:3: the environment of cell eu-canary's router takes`},
		"two rules with one priority": {[]string{ingress, "ingress: shared", canary, listed("s01", clash[0], clash[1], "s02")},
			fmt.Sprintf(`33:%d: cell eu-canary: shards %s and %s get one rule priority, %d: they stand behind one load balancer, and the priority follows from the id; give the newer one another id`,
				118+len(clash[0]), clash[0], clash[1], rulePriority(clash[0]))},
		"the same behind their own": {[]string{canary, listed("s01", clash[0], clash[1], "s02")}, ""},
		"more targets than a load balancer takes": {[]string{ingress, "ingress: shared", "max: 6", "max: 70"},
			`23:14: cell eu-1: 16 shards of up to 70 instances stand behind the load balancer shared: one takes 1000 targets; write per-shard, smaller groups or a lower shard.http.max`},
	} {
		t.Run(name, func(t *testing.T) {
			in := written(t, c.change...)
			_, err := in.plan(t.TempDir())
			got := message(err)
			if c.want == "" && err != nil || c.want != "" && !strings.HasPrefix(got, in.Fleet.Path("fleet.yaml")+":"+c.want) {
				t.Errorf("the error is %q, want %q", got, c.want)
			}
		})
	}
}

// clashing are two ids of shards whose rules would have one priority.
func clashing() [2]string {
	first := map[int]string{}
	for i := 0; ; i++ {
		id := fmt.Sprintf("shard-%d", i)
		if other, met := first[rulePriority(id)]; met {
			return [2]string{other, id}
		}
		first[rulePriority(id)] = id
	}
}

// TestFullGroup: shards with ids of either kind meet in one group, which may then be more than a load balancer takes.
func TestFullGroup(t *testing.T) {
	p := plan{fleet: &fleet.Fleet{}, service: &service{HTTP: fleet.HTTP{Max: 1, Ingress: fleet.Ingress{Kind: fleet.IngressGrouped, Group: 100}}}}
	p.cell.Name = "eu-1"
	for n := range 99 {
		p.cell.Shards = append(p.cell.Shards, fleet.ShardSpec{ID: fmt.Sprintf("z%02d", n)})
	}
	p.cell.Shards = append(p.cell.Shards, fleet.ShardSpec{ID: "s01"})
	if err := p.checkGroups(groupShards(&p.service.HTTP, p.cell.Shards)); err != nil {
		t.Errorf("a hundred shards: %v", err)
	}
	p.cell.Shards = append(p.cell.Shards, fleet.ShardSpec{ID: "s02"})
	const want = "cell eu-1: 101 shards stand behind the load balancer g01: one takes 100 target groups; write per-shard or smaller groups, or split the cell"
	if got := message(p.checkGroups(groupShards(&p.service.HTTP, p.cell.Shards))); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestTargetGroupsThatMeet: two shards whose target groups would have one name are refused.
func TestTargetGroupsThatMeet(t *testing.T) {
	f := sample(t, func(f *fleet.Fleet) {
		f.Cells = append(f.Cells, f.Cells[0]) // no fleet file gives this
		f.Cells[1].Shards = f.Cells[1].Shards[2:3]
	})
	_, err := input(f).plan(t.TempDir())
	const want = "cell eu-canary: shard s03 would have the target group orders-eu-canary-s03-tg-8080-own: shard s03 of cell eu-canary has it already; rename one of the two"
	if message(err) != want {
		t.Errorf("%q, want %q", message(err), want)
	}
	f.Cells[1].Region = "us-east-1"
	if _, err := input(f).plan(t.TempDir()); err != nil {
		t.Errorf("in another region: %v", err)
	}
}

// TestExceeded: each limit of a template, at it and one over.
func TestExceeded(t *testing.T) {
	entries := func(section, entry string) func(n int) string {
		return func(n int) string {
			var all []string
			for i := range n {
				all = append(all, fmt.Sprintf(`"E%d": %s`, i, entry))
			}
			return fmt.Sprintf(`{%q: {%s}`, section, strings.Join(all, ","))
		}
	}
	resource := func(kind, properties string) func(n int) string {
		return func(n int) string {
			return fmt.Sprintf(`{"Resources": {"One": {"Type": %q, "Properties": %s}}`, kind, strings.Replace(properties, "#", strings.Repeat("x", n), 1))
		}
	}
	for what, c := range map[string]struct {
		limit int
		of    func(n int) string // a template without its last bracket
	}{
		"resources":  {500, entries("Resources", `{"Type": "AWS::SNS::Topic"}`)},
		"parameters": {200, entries("Parameters", `{"Type": "String"}`)},
		"outputs":    {200, entries("Outputs", `{"Value": ""}`)},
		"dynamic references": {60, func(n int) string {
			return `{"Resources": {"One": {"Type": "T", "Properties": {"P": "` + strings.Repeat("{{resolve:ssm:/p}}", n) + `"}}}`
		}},
		"bytes of user data in One": {16_384, resource("AWS::EC2::LaunchTemplate", `{"LaunchTemplateData": {"UserData": {"Fn::Base64": "#"}}}`)},
		"bytes of policy for One in eu-west-1": {20_480 - len(`{"Sid":""}`),
			resource("AWS::DynamoDB::GlobalTable", `{"Replicas": [{"Region": "eu-central-1"}, {"Region": "eu-west-1", "ResourcePolicy": {"PolicyDocument": {"Sid" : "#"}}}]}`)},
		"bytes": {1_000_000, func(n int) string {
			head := `{"Resources": {}, "Description": "`
			return head + strings.Repeat("x", n-len(head)-len(`"}`)) + `"`
		}},
	} {
		for extra, want := range []int{0, 1} {
			text := c.of(c.limit + extra)
			if !strings.Contains(text, `"Resources"`) {
				text += `, "Resources": {}`
			}
			over, err := exceeded([]byte(text + "}"))
			must(t, err)
			if len(over) != want || want == 1 && (over[0].what != what || over[0].n != over[0].limit+1) {
				t.Errorf("%s, %d over: %v", what, extra, over)
			}
		}
	}
}

// TestTemplatesOverLimits: what only the templates tell is refused by the lines that it follows from, all at once,
// and nothing is left that could be deployed.
func TestTemplatesOverLimits(t *testing.T) {
	in := written(t, ingress, "ingress: {grouped: 2}")
	context, err := settings()
	must(t, err)
	folder := t.TempDir()
	app := NewApp(Options{Out: folder, Context: context})
	stage := awscdk.NewStage(app, str("eu-canary"), nil)
	stack := func(scope awscdk.Stage, id, name string) awscdk.Stack {
		return awscdk.NewStack(scope, str(id), &awscdk.StackProps{StackName: str(name)})
	}
	core := stack(stage, "core", "orders-eu-canary-core")
	for i := range 501 {
		awscdk.NewCfnWaitConditionHandle(core, str(fmt.Sprintf("More%d", i)), nil)
	}
	topic := func(st awscdk.Stack, name string) {
		awscdk.NewCfnResource(st, str("Topic"), &awscdk.CfnResourceProps{Type: str("AWS::SNS::Topic"), Properties: &map[string]any{"TopicName": name}})
	}
	topic(stack(stage, "shard-s02", "orders-eu-canary-shard-s02"), strings.Repeat("{{resolve:ssm:/p}}", 61))
	topic(stack(stage, "shard-s03", "orders-eu-canary-shard-s03"), "{{resolve:ssm:/p}}")
	topic(stack(app, "global", "orders-global"), strings.Repeat("{{resolve:ssm:/p}}", 62))
	var got []string
	for _, line := range strings.Split(message(finish(app, in)), "\n") {
		got = append(got, strings.TrimPrefix(line, in.Fleet.Path("fleet.yaml")+":"))
	}
	want := []string{
		"33:3: stack orders-global has 62 dynamic references: AWS takes 60; describe the fleet as several services",
		"23:14: stack orders-eu-canary-core has 501 resources: AWS takes 500; write per-shard or larger groups, or split cell eu-canary",
		"12:3: stack orders-eu-canary-shard-s02 has 61 dynamic references: AWS takes 60; leave parts of the shard out, or schedules",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("faults (-want +got):\n%s", d)
	}
	if _, err := os.Stat(filepath.Join(folder, "manifest.json")); err == nil {
		t.Error("the assembly can still be deployed")
	}
}
