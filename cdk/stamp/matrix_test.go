package stamp

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/fleet"
)

// stateful are the types that keep what nobody can make again. Changes of a fleet leave them as they are.
var stateful = []string{"AWS::DynamoDB::GlobalTable", "AWS::DynamoDB::Table", "AWS::KMS::Key", "AWS::S3::Bucket", "AWS::SecretsManager::Secret", "AWS::SQS::Queue"}

// touched are the differences between two assemblies: stacks that come and go, and in the others each logical id
// that is added (+), removed (-) or changed (~), the last with the properties that differ. What all shards of a cell
// have in common is said of shard-*.
func touched(before, after assembly) []string {
	var all []string
	for _, path := range slices.Compact(slices.Sorted(slices.Values(append(before.paths(), after.paths()...)))) {
		was, had := before[path]
		is, has := after[path]
		switch {
		case !had:
			all = append(all, path+": added")
		case !has:
			all = append(all, path+": removed")
		case was.text != is.text:
			for _, line := range within(was.Template, is.Template) {
				all = append(all, path+": "+line)
			}
		}
	}
	return common(all, before, after)
}

// within are the differences between two templates of one stack. A function's version has an id of its own for every
// release, of which the function's part counts.
func within(was, is templateFile) []string {
	type part struct{ kind, text string }
	parts := func(t templateFile) map[string]map[string]part {
		all := map[string]map[string]part{}
		for id, r := range t.Resources {
			p := map[string]part{"": {r.Type, text([]any{r.CreationPolicy, r.UpdatePolicy, r.DeletionPolicy, r.UpdateReplacePolicy})}}
			for name, v := range r.Properties {
				p[name] = part{r.Type, text(v)}
			}
			all[versionHash.ReplaceAllString(id, "$1")] = p
		}
		for id, v := range t.Parameters {
			all[id] = map[string]part{"": {"a parameter", text(v)}}
		}
		return all
	}
	a, b := parts(was), parts(is)
	ids := maps.Clone(a)
	maps.Copy(ids, b)
	var lines []string
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		switch p, q := a[id], b[id]; {
		case p == nil:
			lines = append(lines, "+"+id+" "+q[""].kind)
		case q == nil:
			lines = append(lines, "-"+id+" "+p[""].kind)
		default:
			var differ []string
			names := maps.Clone(p)
			maps.Copy(names, q)
			for _, name := range slices.Sorted(maps.Keys(names)) {
				if p[name] != q[name] {
					differ = append(differ, name)
				}
			}
			if len(differ) > 0 {
				lines = append(lines, "~"+id+" "+q[""].kind+" "+strings.Join(differ, " "))
			}
		}
	}
	return lines
}

// common says of shard-* what is said of every shard of a cell that both assemblies have.
func common(lines []string, before, after assembly) []string {
	shards := map[string]int{} // of a cell, by the beginning of their paths
	for path := range before {
		if cell, _, ok := strings.Cut(path, "/shard-"); ok && after[path].text != "" {
			shards[cell+"/shard-"]++
		}
	}
	said := map[string]int{}
	general := func(line string) string {
		path, what, _ := strings.Cut(line, ": ")
		cell, _, ok := strings.Cut(path, "/shard-")
		if !ok || what == "added" || what == "removed" {
			return line
		}
		return cell + "/shard-*: " + what
	}
	for _, line := range lines {
		said[general(line)]++
	}
	var all []string
	for _, line := range lines {
		g := general(line)
		if cell, _, ok := strings.Cut(g, "*: "); ok && said[g] == shards[cell] {
			line = g
		}
		if !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	return all
}

// TestChanges: what a change of the fleet, or of what is built, touches, by logical id, and nothing else; and never
// what keeps state.
func TestChanges(t *testing.T) {
	pair := func(f *fleet.Fleet) { // a cell of another account beside the sample's first
		second := f.Cells[0]
		second.Name, second.Account, second.Shards = "eu-2", "222222222222", second.Shards[:1]
		f.Cells = append(f.Cells, second)
	}
	cells := synth(t, sample(t, pair))
	add := func(f *fleet.Fleet) {
		f.Cells[0].Shards = append(f.Cells[0].Shards, fleet.ShardSpec{ID: "s05", Zone: "b"}, fleet.ShardSpec{ID: "s06", Zone: "c"})
	}
	remove := func(f *fleet.Fleet) { f.Cells[0].Shards = slices.Delete(slices.Clone(f.Cells[0].Shards), 1, 2) }
	rebuilt := func(names ...string) func(*fleet.Fleet) {
		return func(f *fleet.Fleet) {
			for _, name := range names {
				write(t, filepath.Join(f.Dir, name), executable(ARM64)+"another release", 0o755)
			}
		}
	}
	for _, c := range []struct {
		name   string
		shape  string // what is changed; "" for the pair of cells
		change func(*fleet.Fleet)
		want   []string
	}{
		{"a shard added", "per-shard", add, []string{
			"eu-canary/shard-s05: added",
			"eu-canary/shard-s06: added",
			"eu-canary/watch: ~Alarmloadvariation AWS::CloudWatch::Alarm AlarmDescription Threshold",
			"eu-canary/watch: ~Dashboard AWS::CloudWatch::Dashboard DashboardBody",
			"eu-canary/watch: ~WorstShard AWS::CloudWatch::CompositeAlarm AlarmRule",
		}},
		{"a shard added, grouped", "grouped", add, []string{
			"eu-canary/core: +AlbGroupg03AD7DE93D AWS::EC2::SecurityGroup",
			"eu-canary/core: +AlbGroupg03fromeucanarycoreRouterGroupF9FD6A3C80E4270343 AWS::EC2::SecurityGroupIngress",
			"eu-canary/core: +Albg0303B1DB5E AWS::ElasticLoadBalancingV2::LoadBalancer",
			"eu-canary/core: +Albg03HttpEE0F51FB AWS::ElasticLoadBalancingV2::Listener",
			"eu-canary/core: ~KeeperD1EBA005 AWS::Lambda::Function Environment",
			"eu-canary/core: ~KeeperEarE615BE0F AWS::Lambda::Alias FunctionVersion",
			"eu-canary/core: ~KeeperLiveAA2CDC02 AWS::Lambda::Alias FunctionVersion",
			"eu-canary/core: +ParamAlbDnsZoneg03E924BD05 AWS::SSM::Parameter",
			"eu-canary/core: +ParamAlbDnsg03973A4D6E AWS::SSM::Parameter",
			"eu-canary/core: +ParamAlbGroupg034D186506 AWS::SSM::Parameter",
			"eu-canary/core: +ParamListenerg03CB06FA20 AWS::SSM::Parameter",
			"eu-canary/shard-s05: added",
			"eu-canary/shard-s06: added",
			"eu-canary/watch: ~Alarmloadvariation AWS::CloudWatch::Alarm AlarmDescription Threshold",
			"eu-canary/watch: ~Dashboard AWS::CloudWatch::Dashboard DashboardBody",
			"eu-canary/watch: ~WorstShard AWS::CloudWatch::CompositeAlarm AlarmRule",
		}},
		{"a shard added, shared", "shared", add, []string{
			"eu-canary/shard-s05: added",
			"eu-canary/shard-s06: added",
			"eu-canary/watch: ~Alarmloadvariation AWS::CloudWatch::Alarm AlarmDescription Threshold",
			"eu-canary/watch: ~Dashboard AWS::CloudWatch::Dashboard DashboardBody",
			"eu-canary/watch: ~WorstShard AWS::CloudWatch::CompositeAlarm AlarmRule",
		}},
		{"a shard removed", "per-shard", remove, []string{
			"eu-canary/shard-s02: removed",
			"eu-canary/watch: ~Alarmloadvariation AWS::CloudWatch::Alarm AlarmDescription Threshold",
			"eu-canary/watch: ~Dashboard AWS::CloudWatch::Dashboard DashboardBody",
			"eu-canary/watch: ~WorstShard AWS::CloudWatch::CompositeAlarm AlarmRule",
		}},
		{"a shard removed, grouped", "grouped", remove, []string{
			"eu-canary/shard-s02: removed",
			"eu-canary/watch: ~Alarmloadvariation AWS::CloudWatch::Alarm AlarmDescription Threshold",
			"eu-canary/watch: ~Dashboard AWS::CloudWatch::Dashboard DashboardBody",
			"eu-canary/watch: ~WorstShard AWS::CloudWatch::CompositeAlarm AlarmRule",
		}},
		{"a shard removed, shared", "shared", remove, []string{
			"eu-canary/shard-s02: removed",
			"eu-canary/watch: ~Alarmloadvariation AWS::CloudWatch::Alarm AlarmDescription Threshold",
			"eu-canary/watch: ~Dashboard AWS::CloudWatch::Dashboard DashboardBody",
			"eu-canary/watch: ~WorstShard AWS::CloudWatch::CompositeAlarm AlarmRule",
		}},
		{"a shard renamed", "per-shard", func(f *fleet.Fleet) {
			f.Cells[0].Shards = slices.Clone(f.Cells[0].Shards)
			f.Cells[0].Shards[1].ID = "blue"
		}, []string{
			"eu-canary/shard-blue: added",
			"eu-canary/shard-s02: removed",
			"eu-canary/watch: ~Dashboard AWS::CloudWatch::Dashboard DashboardBody",
			"eu-canary/watch: ~WorstShard AWS::CloudWatch::CompositeAlarm AlarmRule",
		}},
		{"a cell added", "per-shard", pair, []string{
			"eu-2/core: added",
			"eu-2/shard-s01: added",
			"eu-2/watch: added",
			"global: ~Directory98167B95 AWS::DynamoDB::GlobalTable Replicas",
		}},
		{"a cell removed", "", func(f *fleet.Fleet) { f.Cells = f.Cells[1:] }, []string{
			"eu-canary/core: removed",
			"eu-canary/shard-s01: removed",
			"eu-canary/shard-s02: removed",
			"eu-canary/shard-s03: removed",
			"eu-canary/shard-s04: removed",
			"eu-canary/watch: removed",
		}},
		{"a cell renamed", "", func(f *fleet.Fleet) { f.Cells[1].Name = "eu-3" }, []string{
			"eu-2/core: removed",
			"eu-2/shard-s01: removed",
			"eu-2/watch: removed",
			"eu-3/core: added",
			"eu-3/shard-s01: added",
			"eu-3/watch: added",
			"global: ~Directory98167B95 AWS::DynamoDB::GlobalTable Replicas",
		}},
		{"more shards for a tenant", "per-shard", func(f *fleet.Fleet) { f.Placement.PerTenant = 3 }, nil},
		{"another instance type", "per-shard", func(f *fleet.Fleet) { f.Shard.HTTP.InstanceType = "t4g.medium" }, []string{
			"eu-canary/shard-*: ~Template576A9730 AWS::EC2::LaunchTemplate LaunchTemplateData",
		}},
		{"another image", "per-shard", func(f *fleet.Fleet) {
			f.Shard.HTTP.AMIs = map[string]string{"eu-west-1/arm64": "ami-0123456789abcdef1"}
		}, []string{
			"eu-canary/shard-*: ~Template576A9730 AWS::EC2::LaunchTemplate LaunchTemplateData",
		}},
		{"more instances", "per-shard", func(f *fleet.Fleet) { f.Shard.HTTP.Max = 8 }, []string{
			"eu-canary/shard-*: ~Instances AWS::AutoScaling::AutoScalingGroup MaxSize",
		}},
		{"a zone appended", "per-shard", func(f *fleet.Fleet) { f.Cells[0].Zones = []string{"a", "b", "c", "d"} }, []string{
			"eu-canary/core: +ParamSubnetdE36E5F5D AWS::SSM::Parameter",
			"eu-canary/core: ~Router16807C72 AWS::Lambda::Function VpcConfig",
			"eu-canary/core: ~RouterLive07757374 AWS::Lambda::Alias FunctionVersion",
			"eu-canary/core: +SubnetdRouteTableAssociation130F9849 AWS::EC2::SubnetRouteTableAssociation",
			"eu-canary/core: +SubnetdRouteTableC34E94B8 AWS::EC2::RouteTable",
			"eu-canary/core: +SubnetdSubnet5E6B1010 AWS::EC2::Subnet",
			"eu-canary/core: ~ToCloudFormation1203C60C AWS::EC2::VPCEndpoint SubnetIds",
			"eu-canary/core: ~ToDynamoDB933B53B7 AWS::EC2::VPCEndpoint RouteTableIds",
			"eu-canary/core: ~ToKMS7BA94399 AWS::EC2::VPCEndpoint SubnetIds",
			"eu-canary/core: ~ToLambda2B327B3F AWS::EC2::VPCEndpoint SubnetIds",
			"eu-canary/core: ~ToLogs88B044E7 AWS::EC2::VPCEndpoint SubnetIds",
			"eu-canary/core: ~ToS3D1A2A5B7 AWS::EC2::VPCEndpoint RouteTableIds",
			"eu-canary/core: ~ToSQSA20B2C38 AWS::EC2::VPCEndpoint SubnetIds",
			"eu-canary/core: ~ToSecretsManagerCB77A552 AWS::EC2::VPCEndpoint SubnetIds",
			"eu-canary/shard-*: ~Alb16C2F182 AWS::ElasticLoadBalancingV2::LoadBalancer Subnets",
			"eu-canary/shard-*: ~Instances AWS::AutoScaling::AutoScalingGroup VPCZoneIdentifier",
			"eu-canary/shard-*: +SsmParameterValuecellwallorderseucanarycoresubnetdC96584B6F00A464EAD1953AFF4B05118Parameter a parameter",
		}},
		{"another worker", "per-shard", rebuilt("dist/worker/bootstrap"), []string{
			"eu-canary/shard-*: ~Worker11F36D0F AWS::Lambda::Function Code",
			"eu-canary/shard-*: ~WorkerLive5169039E AWS::Lambda::Alias FunctionVersion",
		}},
		{"another service", "per-shard", rebuilt("dist/worker-http/worker-http"), []string{
			"eu-canary/shard-*: ~InstanceRoleDefaultPolicy1531605C AWS::IAM::Policy PolicyDocument",
			"eu-canary/shard-*: ~Template576A9730 AWS::EC2::LaunchTemplate LaunchTemplateData",
		}},
		{"another router", "per-shard", rebuilt("dist/router/bootstrap"), []string{
			"eu-canary/core: ~Router16807C72 AWS::Lambda::Function Code",
			"eu-canary/core: ~RouterLive07757374 AWS::Lambda::Alias FunctionVersion",
		}},
		{"another keeper", "per-shard", rebuilt("dist/keeper/bootstrap"), []string{
			"eu-canary/core: ~KeeperD1EBA005 AWS::Lambda::Function Code",
			"eu-canary/core: ~KeeperEarE615BE0F AWS::Lambda::Alias FunctionVersion",
			"eu-canary/core: ~KeeperLiveAA2CDC02 AWS::Lambda::Alias FunctionVersion",
		}},
		{"more concurrency for the slices", "per-shard", func(f *fleet.Fleet) { f.Shard.Lambda.ReservedConcurrency = 30 }, []string{
			"eu-canary/shard-*: ~Worker11F36D0F AWS::Lambda::Function ReservedConcurrentExecutions",
			"eu-canary/watch: ~Dashboard AWS::CloudWatch::Dashboard DashboardBody",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, from := cells, pair
			if c.shape != "" {
				before, from = shape(t, c.shape), shapes[c.shape]
			}
			after := synth(t, sample(t, from, c.change))
			if d := cmp.Diff(c.want, touched(before, after)); d != "" {
				t.Errorf("touches (-want +got):\n%s", d)
			}
			kept(t, before, after)
		})
	}
}

// kept sees that what keeps state is as it was, and stays behind where its stack goes.
func kept(t *testing.T, before, after assembly) {
	t.Helper()
	n := 0
	for path, s := range before {
		for id, r := range s.Template.Resources {
			if !slices.Contains(stateful, r.Type) || strings.HasPrefix(id, "SnapshotKey") || strings.HasPrefix(id, "SnapshotMAC") {
				continue // a snapshot that nobody opens any more is written anew in a minute
			}
			n++
			now, there := after[path].Template.Resources[id]
			switch _, stack := after[path]; {
			case there && now.Type == r.Type && text(now.Properties) == text(r.Properties):
			case !stack && strings.HasPrefix(r.DeletionPolicy, "Retain"):
			case path == "global": // its policy lists the cells of other accounts
			default:
				t.Errorf("%s: %s %s is %s", path, r.Type, id, text(now))
			}
		}
	}
	if n == 0 {
		t.Error("there is nothing that keeps state")
	}
}
