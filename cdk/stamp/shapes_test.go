package stamp

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/routing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// shapes are the fleets that differ in which resources they have. Each is synthesised once.
var shapes = map[string]func(*fleet.Fleet){
	"per-shard": func(*fleet.Fleet) {},
	"grouped": func(f *fleet.Fleet) {
		f.Shard.HTTP.Ingress = fleet.Ingress{Kind: fleet.IngressGrouped, Group: 2}
	},
	"shared": func(f *fleet.Fleet) { f.Shard.HTTP.Ingress = fleet.Ingress{Kind: fleet.IngressShared} },
	"lambda-only": func(f *fleet.Fleet) {
		f.Shard = fleet.Shard{Lambda: f.Shard.Lambda, State: fleet.State{Mode: fleet.StateNone}}
	},
	"http-only": func(f *fleet.Fleet) {
		f.Shard = fleet.Shard{HTTP: f.Shard.HTTP, State: fleet.State{Mode: fleet.StateNone}}
	},
	// Whatever else a fleet may say.
	"everything": func(f *fleet.Fleet) {
		f.FrontDoor = &fleet.FrontDoor{Memory: 512, ReservedConcurrency: 100}
		f.Auth.Source, f.Auth.Algorithms = fleet.AuthVerify, []string{"RS256", "ES256"}
		f.Auth.PathTenant, f.Auth.BodyTenant = "/tenants/{tenant}/*", "tenant_id"
		f.Router.TenantRate, f.Router.TenantBurst, f.Router.HashTenants = 100, 200, true
		f.Router.AttemptTimeout = 1500 * time.Millisecond
		f.Alerts = &fleet.Alerts{TopicARN: "arn:aws:sns:us-east-1:111111111111:oncall", Topics: map[string]string{"eu-west-1": "arn:aws:sns:eu-west-1:111111111111:oncall"}}
		f.Shard.State.IdempotencyKeys = true
		f.Shard.Table = &fleet.Table{MaxReads: 900, MaxWrites: 300}
		f.Shard.Encryption = fleet.EncryptionOwn
		f.Shard.Schedules = []fleet.Schedule{{Name: "sweep", Every: 15 * time.Minute}, {Name: "report", Every: 24 * time.Hour}}
		f.Cells[0].Quarantine = []string{"s03", "s04"}
		f.Cells[0].Egress = fleet.EgressNAT
		f.Router.Ingress, f.Router.Stream, f.Router.ProvisionedConcurrency = fleet.IngressURL, true, 10
		f.Shard.Zones = fleet.ZonesOne
		f.Deploy = fleet.Deploy{Qualifier: "orders9", PermissionsBoundary: "team-boundary", Tags: map[string]string{"team": "payments", "cost-center": "1207"}}
		f.Routes = append([]fleet.Route{{Path: "/reports/*", Via: "lambda", Fanout: true, Timeout: 3 * time.Second},
			{Path: "/same/*", Via: "http", Timeout: f.Router.AttemptTimeout}}, f.Routes...)
	},
	"home": func(f *fleet.Fleet) { f.Shard.State.Mode = fleet.StateHome },
	"imported": func(f *fleet.Fleet) {
		f.Cells[0].CIDR = ""
		f.Cells[0].VPC = &fleet.VPC{ID: "vpc-0123456789abcdef0", Subnets: map[string]string{
			"a": "subnet-0123456789abcdef0", "b": "subnet-0123456789abcdef1", "c": "subnet-0123456789abcdef2"}}
	},
}

var shapeCache = map[string]assembly{}

// shape is the assembly of one shape. Tests of this package run one after another.
func shape(t *testing.T, name string) assembly {
	t.Helper()
	if _, ok := shapeCache[name]; !ok {
		shapeCache[name] = synth(t, sample(t, shapes[name]))
	}
	return shapeCache[name]
}

// eachShape runs a test on every shape.
func eachShape(t *testing.T, test func(t *testing.T, a assembly)) {
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		t.Run(name, func(t *testing.T) { test(t, shape(t, name)) })
	}
}

// distinct are the stacks that tell all of a shape: the shards' are alike, and so are the front doors'.
func (a assembly) distinct() []string {
	paths := []string{"global", "watch-us-east-1", "eu-canary/core", "eu-canary/shard-s01", "eu-canary/watch"}
	if _, ok := a["frontdoor-eu-west-1"]; ok {
		paths = append(paths, "frontdoor-eu-west-1")
	}
	return paths
}

// The id of a function's version ends in a hash of the function, which changes with everything.
var versionHash = regexp.MustCompile(`(CurrentVersion[0-9A-F]{8})[0-9a-f]{32}$`)

// TestGolden compares which resources the stacks have, by logical id. A changed id replaces the
// resource: look at each line before you run the tests with -update.
func TestGolden(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			a := shape(t, name)
			for _, path := range a.distinct() {
				s := a[path]
				fmt.Fprintf(&b, "%s = %s\n", path, s.Name)
				var lines []string
				for id, r := range s.Template.Resources {
					lines = append(lines, fmt.Sprintf("  %s %s\n", versionHash.ReplaceAllString(id, "$1"), r.Type))
				}
				for id, p := range s.Template.Parameters {
					lines = append(lines, fmt.Sprintf("  %s %s %s\n", id, p.Type, p.Default))
				}
				slices.Sort(lines)
				b.WriteString(strings.Join(lines, ""))
			}
			file := filepath.Join("testdata", name+".golden")
			if *update {
				write(t, file, b.String(), 0o644)
			}
			if want := read(t, file); b.String() != want {
				t.Errorf("resources differ from %s:\n%s", file, difference(want, b.String()))
			}
		})
	}
}

// difference lists the lines that only one of two texts has.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	var out []string
	for _, line := range w {
		if !slices.Contains(g, line) {
			out = append(out, "- "+line)
		}
	}
	for _, line := range g {
		if !slices.Contains(w, line) {
			out = append(out, "+ "+line)
		}
	}
	return strings.Join(out, "\n")
}

// TestNothingBetweenStacks: what a shard's stack knows of the core is in typed SSM parameters that the
// core stack of the same cell publishes.
func TestNothingBetweenStacks(t *testing.T) {
	eachShape(t, func(t *testing.T, a assembly) {
		published := map[string]bool{}
		for _, r := range a["eu-canary/core"].of("AWS::SSM::Parameter") {
			published[r.Properties["Name"].(string)] = true
		}
		for _, path := range a.paths() {
			s := a[path]
			if len(s.Template.Outputs) > 0 {
				t.Errorf("%s has outputs: %v", path, s.Template.Outputs)
			}
			for _, banned := range []string{"Fn::ImportValue", "Fn::GetStackOutput", "{{resolve:", "AWS::CDK::Metadata", "Custom::", "AWS::CloudFormation::CustomResource"} {
				if strings.Contains(s.text, banned) {
					t.Errorf("%s contains %s", path, banned)
				}
			}
			for id, p := range s.Template.Parameters {
				if !strings.HasPrefix(p.Type, "AWS::SSM::Parameter::Value<") || strings.Contains(p.Type, "Image") {
					t.Errorf("%s: parameter %s is a %s", path, id, p.Type)
				}
				if !published[p.Default] {
					t.Errorf("%s reads %s, which the core does not publish", path, p.Default)
				}
			}
		}
	})
}

// TestShardNamesNoOther: no shard's stack names another shard or its resources.
func TestShardNamesNoOther(t *testing.T) {
	eachShape(t, func(t *testing.T, a assembly) {
		for _, path := range a.paths() {
			own, ok := strings.CutPrefix(path, "eu-canary/shard-")
			if !ok {
				continue
			}
			for _, other := range []string{"s01", "s02", "s03", "s04"} {
				if other != own && strings.Contains(a[path].text, other) {
					t.Errorf("%s names %s", path, other)
				}
			}
		}
	})
}

// TestStacks: names, tags and environments of the stacks.
func TestStacks(t *testing.T) {
	a := shape(t, "per-shard")
	want := map[string]string{
		"global":              "orders-global aws://111111111111/eu-west-1 map[cellwall:service:orders]",
		"watch-us-east-1":     "orders-global-watch aws://111111111111/us-east-1 map[cellwall:service:orders]",
		"eu-canary/core":      "orders-eu-canary-core aws://111111111111/eu-west-1 map[cellwall:cell:eu-canary cellwall:service:orders]",
		"eu-canary/watch":     "orders-eu-canary-watch aws://111111111111/eu-west-1 map[cellwall:cell:eu-canary cellwall:service:orders]",
		"eu-canary/shard-s03": "orders-eu-canary-shard-s03 aws://111111111111/eu-west-1 map[cellwall:cell:eu-canary cellwall:service:orders cellwall:shard:s03]",
	}
	for path, line := range want {
		s := a[path]
		if got := fmt.Sprintf("%s %s %v", s.Name, s.Environment, s.Tags); got != line {
			t.Errorf("%s is %s, want %s", path, got, line)
		}
	}
	if len(a) != 8 {
		t.Errorf("stacks are %v, want the global one, what watches the directory's replica, the core, four shards and what watches them", a.paths())
	}
}

// physical are the properties that name a resource, and the longest name that AWS takes.
var physical = map[string]struct {
	property string
	longest  int
}{
	"AWS::ApiGatewayV2::Api":                    {"Name", 128},
	"AWS::AutoScaling::AutoScalingGroup":        {"AutoScalingGroupName", 255},
	"AWS::CloudWatch::Alarm":                    {"AlarmName", 255},
	"AWS::CloudWatch::CompositeAlarm":           {"AlarmName", 255},
	"AWS::CloudWatch::Dashboard":                {"DashboardName", 255},
	"AWS::CloudWatch::InsightRule":              {"RuleName", 128},
	"AWS::DynamoDB::GlobalTable":                {"TableName", 255},
	"AWS::DynamoDB::Table":                      {"TableName", 255},
	"AWS::ElasticLoadBalancingV2::LoadBalancer": {"Name", 32},
	"AWS::ElasticLoadBalancingV2::TargetGroup":  {"Name", 32},
	"AWS::Events::Rule":                         {"Name", 64},
	"AWS::IAM::Role":                            {"RoleName", 64},
	"AWS::KMS::Alias":                           {"AliasName", 256},
	"AWS::Lambda::Function":                     {"FunctionName", 64},
	"AWS::Logs::LogGroup":                       {"LogGroupName", 512},
	"AWS::Route53::HostedZone":                  {"Name", 255},
	"AWS::Route53::RecordSet":                   {"Name", 255},
	"AWS::S3::Bucket":                           {"BucketName", 63},
	"AWS::SQS::Queue":                           {"QueueName", 80},
	"AWS::SSM::Parameter":                       {"Name", 1011},
	"AWS::SecretsManager::Secret":               {"Name", 512},
}

// TestLimits: at most 500 resources a template, no two equal names, none too long; with names as long
// as a fleet may have them.
func TestLimits(t *testing.T) {
	long := synth(t, sample(t, func(f *fleet.Fleet) {
		f.Service = "orderprocessing" // 15, and 33 with cell and shard
		f.Cells[0].Name = "eu-central-one"
		f.Shard.HTTP.Ingress = fleet.Ingress{Kind: fleet.IngressGrouped, Group: 2}
	}))
	check := func(t *testing.T, a assembly) {
		seen := map[string]string{}
		for _, path := range a.paths() {
			s := a[path]
			if n := len(s.Template.Resources); n > 500 {
				t.Errorf("%s has %d resources", path, n)
			}
			for id, r := range s.Template.Resources {
				kind := physical[r.Type]
				name, ok := r.Properties[kind.property].(string)
				if !ok {
					continue
				}
				if len(name) > kind.longest {
					t.Errorf("%s: %s %s has %d characters, AWS takes %d", path, r.Type, name, len(name), kind.longest)
				}
				key := r.Type + " " + s.Environment + " " + name
				if other, twice := seen[key]; twice {
					t.Errorf("%s is both %s and %s", key, other, path+" "+id)
				}
				seen[key] = path + " " + id
			}
		}
		if len(seen) < 10 {
			t.Errorf("only %d names were compared", len(seen))
		}
	}
	eachShape(t, check)
	t.Run("long names", func(t *testing.T) { check(t, long) })
}

// TestNoWarnings: the CDK's own checks of the templates find nothing either. The report lists only the
// checks that found something, acknowledged or not.
func TestNoWarnings(t *testing.T) {
	eachShape(t, func(t *testing.T, a assembly) {
		var report struct {
			PluginReports []struct{ Violations []any }
		}
		if err := json.Unmarshal([]byte(read(t, filepath.Join(filepath.Dir(a["global"].file), "validation-report.json"))), &report); err != nil {
			t.Fatal(err)
		}
		for _, p := range report.PluginReports {
			for _, v := range p.Violations {
				t.Error(text(v))
			}
		}
	})
}

// TestLint runs cfn-lint over one cell of each shape, and the global stack.
func TestLint(t *testing.T) {
	linter := filepath.Join(root, ".venv/bin/cfn-lint")
	if _, err := os.Stat(linter); err != nil {
		t.Fatal("cfn-lint is not installed in .venv: make test installs it")
	}
	eachShape(t, func(t *testing.T, a assembly) {
		args := []string{"--config-file", filepath.Join(root, ".cfnlintrc"), "--"}
		for _, path := range a.distinct() {
			args = append(args, a[path].file)
		}
		if out, err := exec.Command(linter, args...).CombinedOutput(); err != nil {
			t.Errorf("cfn-lint: %v\n%s", err, out)
		}
	})
}

// TestShardHeader: the load balancers choose by the header that the router sets.
func TestShardHeader(t *testing.T) {
	if shardHeader != routing.HeaderShard {
		t.Errorf("load balancers choose by %s, the router sets %s", shardHeader, routing.HeaderShard)
	}
}
