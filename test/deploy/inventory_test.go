package deploy

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// place is an account's region. What an account has but once, such as its roles, has no region.
type place struct{ account, region string }

// inventory is what there is: names by their space, sorted.
type inventory map[place]map[string][]string

func (i inventory) add(account, region, space, name string) {
	if everywhere[space] {
		region = ""
	}
	at := place{account, region}
	if i[at] == nil {
		i[at] = map[string][]string{}
	}
	if all := i[at][space]; !slices.Contains(all, name) {
		i[at][space] = append(all, name)
		slices.Sort(i[at][space])
	}
}

// everywhere are the spaces whose names hold for an account, or for all the world.
var everywhere = map[string]bool{"bucket": true, "role": true, "host": true, "zone": true, "made: instance profile": true, "made: role": true}

// kept are the spaces of what stays when a cell goes.
var kept = map[string]bool{"table": true, "queue": true, "bucket": true, "secret": true}

// templateOnly are the spaces of what the emulator does not make.
var templateOnly = map[string]bool{"API": true}

// wanted is what the fleet says is there, of the cells and front doors that were deployed so far.
func (w *world) wanted(t *testing.T) inventory {
	t.Helper()
	want := inventory{}
	add := func(account, region string, keep func(string) bool, all ...names.Named) {
		for _, n := range all {
			if !templateOnly[n.Space] && keep(n.Space) {
				want.add(account, region, n.Space, n.Name)
			}
		}
	}
	all := func(string) bool { return true }
	directory := []names.Named{{Space: "stack", Name: w.names.Stack()}, {Space: "table", Name: w.names.DirectoryTable()}}
	watch := names.Named{Space: "stack", Name: w.names.WatchStack()} // of replicas alone
	watched := names.Named{Space: "made: metric's alarm", Name: w.names.WatchStack()}
	add(homeAccount, homeRegion, all, append(directory, watched)...)
	for _, region := range w.doors {
		for _, n := range w.names.All() {
			if !slices.Contains(directory, n) && (n != watch || region != homeRegion) {
				add(homeAccount, region, all, n)
			}
		}
		add(homeAccount, region, all, watched, names.Named{Space: "dashboard", Name: w.names.FrontDoorDashboard(region)})
		add(homeAccount, region, all, names.Named{Space: "bucket", Name: w.names.FrontDoorSnapshotBucket(homeAccount, region)},
			names.Named{Space: "role", Name: w.names.FrontDoorKeeperRole(region)})
	}
	// The roles of all front doors stand in the global stack, so that cells may name them before.
	for _, region := range w.fleet.FrontDoors() {
		add(homeAccount, region, all, names.Named{Space: "role", Name: w.names.FrontDoorRole(region)})
	}
	cell := func(c fleet.Cell, keep func(string) bool) {
		n := w.fleet.NamesOf(c)
		own := n.All()
		if w.fleet.Router.Ingress == fleet.IngressURL { // which writes no log of its own
			own = slices.DeleteFunc(own, func(named names.Named) bool { return named.Name == n.AccessLog() })
		}
		add(c.Account, c.Region, keep, own...)
		add(c.Account, c.Region, keep, names.Named{Space: "bucket", Name: n.SnapshotBucket(c.Account, c.Region)})
		for _, id := range c.Shards.IDs() {
			s := n.Shard(id)
			balancer, word := w.balancer(n, s)
			bears := func(space string) bool {
				return keep(space) && (space != "key alias" || w.fleet.Shard.Encryption == fleet.EncryptionOwn) && space != "load balancer"
			}
			add(c.Account, c.Region, bears, s.All(c.Account, c.Region)...)
			add(c.Account, c.Region, keep, names.Named{Space: "load balancer", Name: balancer},
				names.Named{Space: "target group", Name: s.TargetGroup(w.fleet.Shard.HTTP.Port, word)})
			for _, schedule := range w.fleet.Shard.Schedules {
				add(c.Account, c.Region, keep, names.Named{Space: "rule", Name: s.Schedule(schedule.Name)})
			}
			add(c.Account, c.Region, keep, names.Named{Space: "made: metric's alarm", Name: s.Stack()})
			for _, space := range []string{"launch template", "instance profile", "role", "security group"} {
				add(c.Account, c.Region, keep, names.Named{Space: "made: " + space, Name: s.Stack()})
			}
		}
		add(c.Account, c.Region, keep, names.Named{Space: "made: metric's alarm", Name: n.WatchStack()})
		for _, space := range []string{"security group", "parameter"} {
			add(c.Account, c.Region, keep, names.Named{Space: "made: " + space, Name: n.Stack()})
		}
	}
	for _, name := range w.cells {
		cell(w.cell(t, name), all)
	}
	for _, c := range w.left {
		cell(c, func(space string) bool { return kept[space] })
	}
	return want
}

// balancer is the load balancer that a shard stands behind, and the word for it in the name of the shard's target group.
func (w *world) balancer(cell names.Cell, shard names.Shard) (name, word string) {
	if w.fleet.Shard.HTTP.Ingress.Kind == fleet.IngressShared {
		return cell.GroupLoadBalancer("shared"), "shared"
	}
	return shard.LoadBalancer(), names.OwnBalancer
}

// places are all accounts and regions of the fleet, with those that it left.
func (w *world) places() map[place]bool {
	all := map[place]bool{{homeAccount, homeRegion}: true}
	for _, region := range w.fleet.FrontDoors() {
		all[place{homeAccount, region}] = true
	}
	for _, c := range slices.Concat(w.fleet.Cells, slices.Collect(maps.Values(w.left))) {
		all[place{c.Account, c.Region}] = true
	}
	return all
}

// found is what there is, in all accounts and regions of the fleet but for what the CDK's bootstrap made.
func (w *world) found(t *testing.T) inventory {
	t.Helper()
	found := inventory{}
	for at := range w.places() {
		for space, list := range listers {
			for _, name := range list(t, w, at) {
				if strings.HasPrefix(name, "cdk-") || strings.HasPrefix(name, "/cdk-bootstrap/") || name == "CDKToolkit" {
					continue
				}
				if owner, generated := w.owner(space, name); generated {
					found.add(at.account, at.region, "made: "+space, owner)
				} else {
					found.add(at.account, at.region, space, name)
				}
			}
		}
	}
	return found
}

// made is how CloudFormation names what bears no name: by stack, logical id and a random end.
var made = regexp.MustCompile(`^(.+)-[A-Za-z0-9]+-[0-9A-F]{12}$`)

// owner is the stack that made a thing which internal/fleet/names has no name for.
func (w *world) owner(space, name string) (string, bool) {
	if m := made.FindStringSubmatch(name); m != nil {
		return m[1], true
	}
	parts := strings.Split(name, "/")
	// SERVICE/CELL/KIND or SERVICE/CELL/SHARD/KIND; those of front doors and of the directory's table as a cell's.
	if space == "metric's alarm" && len(parts) > 2 {
		if cell := w.names.Cell(parts[1]); len(parts) == 3 {
			return cell.WatchStack(), true
		} else {
			return cell.Shard(parts[2]).Stack(), true
		}
	}
	if len(parts) > 4 && parts[1] == "cellwall" && parts[2] == w.fleet.Service && parts[4] == "core" {
		return w.names.Cell(parts[3]).Stack(), true // a parameter
	}
	return "", false
}

// nothingElse compares everything that is there with everything that the fleet says is there.
func (w *world) nothingElse(t *testing.T) {
	t.Helper()
	want, found := w.wanted(t), w.found(t)
	for at, spaces := range want {
		for space := range spaces {
			if _, ok := listers[strings.TrimPrefix(space, "made: ")]; !ok {
				t.Errorf("nobody looks for what is a %s, as in %v: add a lister", space, at)
			}
		}
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("what there is (-want +found):\n%s", diff)
	}
}
