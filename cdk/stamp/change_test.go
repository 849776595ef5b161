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

// TestShardAdded: a new shard changes not a byte of another's stack, and no logical id of the core's.
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
				if path == "eu-canary/core" {
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
			if name != "grouped" && len(is) != len(was) { // a group has a load balancer of its own
				t.Errorf("core had %d resources, now %d", len(was), len(is))
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
