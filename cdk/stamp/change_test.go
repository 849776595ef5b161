package stamp

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/fleet"
)

// ids are a stack's logical ids with their types, versions by the function they belong to.
func ids(s stack) map[string]string {
	all := map[string]string{}
	for id, r := range s.Template.Resources {
		all[versionHash.ReplaceAllString(id, "$1")] = r.Type
	}
	return all
}

// TestShardAdded: a new shard changes not a byte of any other stack, but for a new group of shards, whose
// load balancer is the core's.
func TestShardAdded(t *testing.T) {
	for _, name := range []string{"per-shard", "grouped", "shared"} {
		t.Run(name, func(t *testing.T) {
			before := shape(t, name)
			after := synth(t, sample(t, shapes[name], func(f *fleet.Fleet) {
				f.Cells[0].Shards = append(f.Cells[0].Shards, fleet.ShardSpec{ID: "s05", Zone: "b"}, fleet.ShardSpec{ID: "s06", Zone: "c"})
			}))
			if len(after) != len(before)+2 {
				t.Errorf("stacks are %v", after.paths())
			}
			for _, path := range before.paths() {
				if path == "eu-canary/core" && name == "grouped" {
					continue
				}
				if d := cmp.Diff(before[path].text, after[path].text); d != "" {
					t.Errorf("%s changed (-before +after):\n%s", path, d)
				}
			}
			was, is := ids(before["eu-canary/core"]), ids(after["eu-canary/core"])
			for id, kind := range was {
				if is[id] != kind {
					t.Errorf("core: %s %s is now %q", kind, id, is[id])
				}
			}
		})
	}
}

// TestShardRemoved: a shard that goes leaves the others as they were, whichever it was.
func TestShardRemoved(t *testing.T) {
	for _, name := range []string{"per-shard", "grouped", "shared"} {
		t.Run(name, func(t *testing.T) {
			before := shape(t, name)
			after := synth(t, sample(t, shapes[name], func(f *fleet.Fleet) {
				f.Cells[0].Shards = append(f.Cells[0].Shards[:1:1], f.Cells[0].Shards[2:]...)
			}))
			for _, path := range []string{"eu-canary/shard-s01", "eu-canary/shard-s03", "eu-canary/shard-s04", "global"} {
				if d := cmp.Diff(before[path].text, after[path].text); d != "" {
					t.Errorf("%s changed (-before +after):\n%s", path, d)
				}
			}
			if _, ok := after["eu-canary/shard-s02"]; ok {
				t.Error("s02 is still there")
			}
		})
	}
}

// TestZones: a zone that is appended, and zones in another order, change no existing subnet.
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
	for name, zones := range map[string][]string{"appended": {"a", "b", "c", "d"}, "reordered": {"c", "a", "b"}} {
		t.Run(name, func(t *testing.T) {
			after := subnets(synth(t, sample(t, func(f *fleet.Fleet) {
				f.Cells[0].Zones = zones
				f.Cells[0].Shards = f.Cells[0].Shards[:1]
			})))
			for id, r := range before {
				if d := cmp.Diff(r, after[id]); d != "" {
					t.Errorf("%s changed (-before +after):\n%s", id, d)
				}
			}
			if want := 3 * len(zones); len(after) != want {
				t.Errorf("%d resources of subnets, want %d", len(after), want)
			}
		})
	}
}

// TestCellAdded: a new cell changes nothing of another but who may read the directory.
func TestCellAdded(t *testing.T) {
	before := shape(t, "per-shard")
	after := synth(t, sample(t, func(f *fleet.Fleet) {
		f.Cells = append([]fleet.Cell{f.Cells[0]}, f.Cells...)
		f.Cells[0].Name, f.Cells[0].Account = "apart", "333333333333"
	}))
	for _, path := range before.paths() {
		if path == "global" {
			continue
		}
		if d := cmp.Diff(before[path].text, after[path].text); d != "" {
			t.Errorf("%s changed (-before +after):\n%s", path, d)
		}
	}
	if d := cmp.Diff(ids(before["global"]), ids(after["global"])); d != "" {
		t.Errorf("global changed (-before +after):\n%s", d)
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
