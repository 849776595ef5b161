package stamp

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/fleet"
)

// TestZones: zones in another order change no existing subnet.
func TestZones(t *testing.T) {
	subnets := func(a assembly) map[string]resource {
		found := map[string]resource{}
		for id, r := range a["eu-canary/core"].Template.Resources {
			switch r.Type {
			case "AWS::EC2::Subnet", "AWS::EC2::RouteTable", "AWS::EC2::SubnetRouteTableAssociation":
				found[id] = r
			}
		}
		return found
	}
	before := subnets(shape(t, "per-shard"))
	after := subnets(synth(t, sample(t, func(f *fleet.Fleet) {
		f.Cells[0].Zones = []string{"c", "a", "b"}
		f.Cells[0].Shards = f.Cells[0].Shards[:1]
	})))
	if d := cmp.Diff(before, after); len(before) != 9 || d != "" {
		t.Errorf("%d resources of subnets changed (-before +after):\n%s", len(before), d)
	}
}

// targets is a shard's target group, with its logical id.
func targets(t *testing.T, s stack) (id string, group resource) {
	t.Helper()
	group = s.one(t, "AWS::ElasticLoadBalancingV2::TargetGroup")
	for i, r := range s.Template.Resources {
		if r.Type == group.Type {
			id = i
		}
	}
	return id, group
}

// TestPortOrBalancerChanged: a target group keeps its port and its balancer for life. Another port or
// another ingress gives another target group, whose id and name collide with those of no other.
func TestPortOrBalancerChanged(t *testing.T) {
	onPort := func(shape string) func(*fleet.Fleet) {
		return func(f *fleet.Fleet) {
			shapes[shape](f)
			f.Shard.HTTP.Port = 9090
		}
	}
	seenIDs, seenNames := map[string]string{}, map[string]string{}
	for what, a := range map[string]assembly{
		"per-shard": shape(t, "per-shard"), "grouped": shape(t, "grouped"), "shared": shape(t, "shared"),
		"per-shard on 9090": synth(t, sample(t, onPort("per-shard"))), "shared on 9090": synth(t, sample(t, onPort("shared"))),
	} {
		id, group := targets(t, a[shardPath])
		name := group.at("Name").(string)
		if other, taken := seenIDs[id]; taken {
			t.Errorf("%s and %s have the target group %s", what, other, id)
		}
		if other, taken := seenNames[name]; taken {
			t.Errorf("%s and %s name their target groups %s", what, other, name)
		}
		seenIDs[id], seenNames[name] = what, what
		for _, sg := range a["eu-canary/core"].of("AWS::EC2::SecurityGroup") {
			if sg.at("GroupDescription") != "Load balancer: in from the router, out to instances" {
				continue
			}
			if from, to := sg.at("SecurityGroupEgress", 0, "FromPort"), sg.at("SecurityGroupEgress", 0, "ToPort"); from != 1.0 || to != 65_535.0 {
				t.Errorf("%s: a group's load balancer reaches the ports %v to %v: a core that is deployed first cuts off shards on another port", what, from, to)
			}
		}
	}
}

// TestIngressSwitched: while a cell goes from load balancers of the shards' own to those of the core or
// back, the core has the groups' load balancers and the shards are of either form. Both find all that
// they read, and no two resources of the two forms want one name.
func TestIngressSwitched(t *testing.T) {
	for _, groups := range []string{"grouped", "shared"} {
		core := shape(t, groups)["eu-canary/core"]
		published, taken := map[string]bool{}, map[string]string{}
		for _, r := range core.of("AWS::SSM::Parameter") {
			published[r.at("Name").(string)] = true
		}
		take := func(path string, s stack) {
			for id, r := range s.Template.Resources {
				name, ok := r.Properties[physical[r.Type].property].(string)
				if !ok {
					continue
				}
				if other, twice := taken[r.Type+" "+name]; twice {
					t.Errorf("%s: both %s and %s are %s", groups, path+" "+id, other, name)
				}
				taken[r.Type+" "+name] = path + " " + id
			}
		}
		take("eu-canary/core", core)
		for i, shard := range []string{"s01", "s02", "s03", "s04"} {
			form := []string{"per-shard", groups}[i%2]
			s := shape(t, form)["eu-canary/shard-"+shard]
			take("eu-canary/shard-"+shard, s)
			for _, form := range []string{"per-shard", groups} {
				for _, p := range shape(t, form)["eu-canary/shard-"+shard].Template.Parameters {
					if !published[p.Default] {
						t.Errorf("shard %s in form %s reads %s, which a core with %s ingress does not publish", shard, form, p.Default, groups)
					}
				}
			}
		}
	}
}
