package names

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestGolden holds every name: a change here renames resources that are deployed, which replaces them.
func TestGolden(t *testing.T) {
	f := ForFleet("orders")
	c := f.Cell("eu-1")
	s := c.Shard("s01")
	long := ForFleet("abcdefghijk").Cell("lmnopqrstuv").Shard("wxyz0123456")
	for _, n := range []struct{ what, got, want string }{
		{"global stack", f.Stack(), "orders-global"},
		{"directory", f.DirectoryTable(), "orders-directory"},
		{"core stack", c.Stack(), "orders-eu-1-core"},
		{"router", c.Router(), "orders-eu-1-router"},
		{"router role", c.RouterRole(), "orders-eu-1-router-role"},
		{"router's alias", c.RouterAlias(), "orders-eu-1-router:live"},
		{"keeper", c.Keeper(), "orders-eu-1-keeper"},
		{"keeper role", c.KeeperRole(), "orders-eu-1-keeper-role"},
		{"keeper's schedule", c.KeeperSchedule(), "orders-eu-1-keeper"},
		{"snapshot's bucket", c.SnapshotBucket("111111111111", "eu-west-1"), "orders-eu-1-0snap-111111111111-eu-west-1"},
		{"snapshot's key", c.SnapshotKey(), "alias/orders-eu-1-snapshot"},
		{"snapshot's MAC", c.SnapshotMAC(), "alias/orders-eu-1-snapshot-mac"},
		{"dispatch queue", c.Dispatch(), "orders-eu-1-dispatch"},
		{"dispatch's dead letters", c.DispatchDeadLetters(), "orders-eu-1-dispatch-dead"},
		{"watch stack", c.WatchStack(), "orders-eu-1-watch"},
		{"cell's alarm", c.Alarm("router-errors"), "orders/eu-1/router-errors"},
		{"cell's health", c.Health(), "orders/eu-1/health"},
		{"cell's own faults", c.Faults(), "orders/eu-1/faults"},
		{"worst shard", c.WorstShard(), "orders/eu-1/worst-shard"},
		{"dashboard", c.Dashboard(), "orders-eu-1-watch"},
		{"rule of tenants", c.Tenants(), "orders-eu-1-tenants"},
		{"rule of failing tenants", c.FailingTenants(), "orders-eu-1-failing-tenants"},
		{"shard's alarm", s.Alarm("dead-letters"), "orders/eu-1/s01/dead-letters"},
		{"shard's health", s.Health(), "orders/eu-1/s01/health"},
		{"front door's stack", f.FrontDoorStack(), "orders-global-frontdoor"},
		{"front door", f.FrontDoor(), "orders-global-frontdoor"},
		{"front door's role", f.FrontDoorRole("eu-west-1"), "orders-global-frontdoor-role-eu-west-1"},
		{"front door's API", f.FrontDoorAPI(), "orders-global-frontdoor"},
		{"front door's keeper", f.FrontDoorKeeper(), "orders-global-keeper"},
		{"front door's keeper's schedule", f.FrontDoorKeeperSchedule(), "orders-global-keeper"},
		{"front door's keeper's role", f.FrontDoorKeeperRole("eu-west-1"), "orders-global-keeper-role-eu-west-1"},
		{"front door's snapshot's bucket", f.FrontDoorSnapshotBucket("111111111111", "eu-west-1"), "orders-global-0snap-111111111111-eu-west-1"},
		{"front door's snapshot's key", f.FrontDoorSnapshotKey(), "alias/orders-global-snapshot"},
		{"front door's snapshot's MAC", f.FrontDoorSnapshotMAC(), "alias/orders-global-snapshot-mac"},
		{"front door's log group", f.LogGroup("frontdoor"), "/cellwall/orders/global/frontdoor"},
		{"front door's access log", f.AccessLog(), "/aws/vendedlogs/cellwall/orders/global/ingress"},
		{"access log", c.AccessLog(), "/aws/vendedlogs/cellwall/orders/eu-1/ingress"},
		{"watch stack of a replica", f.WatchStack(), "orders-global-watch"},
		{"front door's alarm", f.Alarm("errors"), "orders/global/errors"},
		{"front door's health", f.Health(), "orders/global/health"},
		{"front door's own faults", f.Faults(), "orders/global/faults"},
		{"worst cell", f.WorstCell(), "orders/global/worst-cell"},
		{"cell's alarm at the front door", f.CellAlarm("eu-1"), "orders/global/cell-eu-1"},
		{"front door's dashboard", f.FrontDoorDashboard("eu-west-1"), "orders-global-frontdoor-eu-west-1"},
		{"cell's lasting alarms", strings.Join(c.Lasting(), " "), "orders/eu-1/directory-age orders/eu-1/dispatch-dead-letters orders/eu-1/keeper-errors orders/eu-1/load-variation orders/eu-1/snapshot-age orders/eu-1/stale-health"},
		{"shard's lasting alarms", strings.Join(s.Lasting(), " "), "orders/eu-1/s01/dead-letters orders/eu-1/s01/queue-age orders/eu-1/s01/sick-targets"},
		{"API", c.API(), "orders-eu-1-ingress"},
		{"store", c.Store(), "orders-eu-1-store"},
		{"placement key", c.PlacementKey(), "cellwall/orders/eu-1/placement-key"},
		{"parameter", c.Param("vpc/id"), "/cellwall/orders/eu-1/vpc/id"},
		{"zone", c.Zone(), "eu-1.orders.internal"},
		{"router's log group", c.LogGroup("router"), "/cellwall/orders/eu-1/router"},
		{"shared load balancer", c.GroupLoadBalancer("shared"), "orders-eu-1-lb-shared"},
		{"group's load balancer", c.GroupLoadBalancer("g01"), "orders-eu-1-lb-g01"},
		{"long group's load balancer", ForFleet("abcdefghijk").Cell("lmnopqrstuv").GroupLoadBalancer("shared"), "abcdefghijk-lmnopqrstuv-04dd894e"},
		{"shard stack", s.Stack(), "orders-eu-1-shard-s01"},
		{"worker", s.Worker(), "orders-eu-1-s01-worker"},
		{"worker's alias", s.WorkerAlias(), "orders-eu-1-s01-worker:live"},
		{"queue", s.Queue(), "orders-eu-1-s01-work"},
		{"dead letters", s.DeadLetters(), "orders-eu-1-s01-dead"},
		{"table", s.Table(), "orders-eu-1-s01-state"},
		{"bucket", s.Bucket("111111111111", "eu-west-1"), "orders-eu-1-s01-111111111111-eu-west-1"},
		{"Auto Scaling group", s.Group(), "orders-eu-1-s01-asg"},
		{"target group", s.TargetGroup(8080, OwnBalancer), "orders-eu-1-s01-tg-8080-own"},
		{"target group behind a group's load balancer", s.TargetGroup(80, "g01"), "orders-eu-1-s01-tg-80-g01"},
		{"load balancer", s.LoadBalancer(), "orders-eu-1-s01-lb"},
		{"host", s.Host(), "s01.eu-1.orders.internal"},
		{"shard's schedule", s.Schedule("sweep"), "orders-eu-1-s01-tick-sweep"},
		{"shard's key", s.Key(), "alias/orders-eu-1-s01-key"},
		{"worker's log group", s.LogGroup("worker"), "/cellwall/orders/eu-1/s01/worker"},
		{"service's log group", s.LogGroup("service"), "/cellwall/orders/eu-1/s01/service"},
		{"long target group", long.TargetGroup(8080, "shared"), "abcdefghijk-lmnopqrstuv-278dfd91"},
		{"long load balancer", long.LoadBalancer(), "abcdefghijk-lmnopqrstuv-ebfbf266"},
		{"tenant", Tenant("acme"), "qivthlmhyfekbiqklot42xv4vjung2qy46vnczkvjeb7klfie5lq"},
	} {
		if n.got != n.want {
			t.Errorf("%s is %q, want %q", n.what, n.got, n.want)
		}
	}
}

// TestGenerationGolden holds the names that a generation has: those of what keeps data, and no other.
func TestGenerationGolden(t *testing.T) {
	c := ForFleet("orders").Cell("eu-1").Generation(2)
	s := c.Shard("s01")
	want := map[string]string{
		c.Store(): "orders-eu-1-store-g2", c.PlacementKey(): "cellwall/orders/eu-1/placement-key-g2",
		c.SnapshotBucket("111111111111", "eu-west-1"): "orders-eu-1-0snap-111111111111-eu-west-1-g2",
		c.SnapshotKey(): "alias/orders-eu-1-snapshot-g2", s.Key(): "alias/orders-eu-1-s01-key-g2", c.SnapshotMAC(): "alias/orders-eu-1-snapshot-mac-g2",
		c.Dispatch(): "orders-eu-1-dispatch-g2", c.DispatchDeadLetters(): "orders-eu-1-dispatch-dead-g2",
		s.Queue(): "orders-eu-1-s01-work-g2", s.DeadLetters(): "orders-eu-1-s01-dead-g2", s.Table(): "orders-eu-1-s01-state-g2",
		s.Bucket("111111111111", "eu-west-1"): "orders-eu-1-s01-111111111111-eu-west-1-g2",
		c.KeyVersion(3):                       "g2-3",
	}
	for got, want := range want {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	first := ForFleet("orders").Cell("eu-1")
	before := slices.Concat(first.All(), first.Shard("s01").All("111111111111", "eu-west-1"))
	for i, n := range slices.Concat(c.All(), s.All("111111111111", "eu-west-1")) {
		if _, kept := want[n.Name]; kept != (n.Name != before[i].Name) {
			t.Errorf("%s %s in generation 2, %s in 0", n.Space, n.Name, before[i].Name)
		} else if AnyGeneration(n.Name) != before[i].Name {
			t.Errorf("AnyGeneration(%q) = %q", n.Name, AnyGeneration(n.Name))
		}
	}
}

// TestGenerationsDiffer: nothing that keeps data has one name in two generations, whatever other cells and
// shards are called, and a key's version is of one generation.
func TestGenerationsDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, a, b := ForFleet("orders"), rapid.IntRange(0, 999).Draw(t, "a"), rapid.IntRange(0, 999).Draw(t, "b")
		one, two := f.Cell(part.Draw(t, "cell")), f.Cell(part.Draw(t, "other cell"))
		if a == b {
			two = one
		}
		x, y := one.Generation(a).Shard(part.Draw(t, "shard")), two.Generation(b).Shard(part.Draw(t, "other shard"))
		for _, pair := range [][2]string{
			{x.Store(), y.Store()}, {x.PlacementKey(), y.PlacementKey()}, {x.Table(), y.Table()}, {x.Key(), y.Key()}, {x.Queue(), y.Queue()}, {x.DeadLetters(), y.DeadLetters()},
			{x.Dispatch(), y.Dispatch()}, {x.DispatchDeadLetters(), y.DispatchDeadLetters()}, {x.SnapshotKey(), y.SnapshotKey()}, {x.SnapshotMAC(), y.SnapshotMAC()},
			{x.SnapshotBucket("111111111111", "ap-southeast-2"), y.SnapshotBucket("111111111111", "ap-southeast-2")},
			{x.Bucket("111111111111", "ap-southeast-2"), y.Bucket("111111111111", "ap-southeast-2")},
		} {
			if a != b && pair[0] == pair[1] {
				t.Errorf("generations %d and %d have both %q", a, b, pair[0])
			}
		}
		n := rapid.IntRange(1, 9999).Draw(t, "number")
		if generation, got, ok := ParseKeyVersion(x.KeyVersion(n)); !ok || generation != a || got != n {
			t.Errorf("ParseKeyVersion(%q) = %d, %d, %t", x.KeyVersion(n), generation, got, ok)
		}
		if len(x.KeyVersion(n)) > 16 { // directory.Topology
			t.Errorf("version %q is too long", x.KeyVersion(n))
		}
	})
	for _, version := range []string{"", "0", "-1", "01", "+1", "x", "g0-1", "g1000-1", "g1-0", "g1-", "2026-11", "1 "} {
		if generation, n, ok := ParseKeyVersion(version); ok {
			t.Errorf("ParseKeyVersion(%q) = %d, %d", version, generation, n)
		}
	}
}

// TestAllIsComplete calls every method that derives one name and looks for its result in All.
func TestAllIsComplete(t *testing.T) {
	f := ForFleet("orders")
	c := f.Cell("eu-1")
	s := c.Shard("s01")
	// Not the name of a resource: a function's name with its alias.
	skip := []string{"WorkerAlias", "RouterAlias"}
	collect := func(names []Named) (all []string) {
		for _, n := range names {
			all = append(all, n.Name)
		}
		return all
	}
	ofCell := collect(c.All())
	for _, level := range []struct {
		value any
		all   []string
	}{
		{f, collect(f.All())},
		{c, ofCell},
		{s, slices.Concat(ofCell, collect(s.All("111111111111", "eu-west-1")))},
	} {
		v := reflect.ValueOf(level.value)
		for m, method := range v.Methods() {
			if method.Type().NumIn() != 0 || method.Type().NumOut() != 1 || method.Type().Out(0).Kind() != reflect.String || slices.Contains(skip, m.Name) {
				continue
			}
			if got := method.Call(nil)[0].String(); !slices.Contains(level.all, got) {
				t.Errorf("%T.%s gives %q, which All lacks", level.value, m.Name, got)
			}
		}
	}
	if b := s.Bucket("111111111111", "eu-west-1"); !slices.Contains(collect(s.All("111111111111", "eu-west-1")), b) {
		t.Errorf("All lacks the bucket %q", b)
	}
}

// part draws a service, cell or shard name.
var part = rapid.StringMatching(`[a-z]([a-z0-9-]{0,8}[a-z0-9])?`)

// TestAWSLimits holds each name against AWS's rules for its kind, while service, cell and shard stay
// within 33 characters together.
func TestAWSLimits(t *testing.T) {
	rules := map[string]*regexp.Regexp{
		"stack":              regexp.MustCompile(`^[a-zA-Z][-a-zA-Z0-9]{0,127}$`),                 // CloudFormation CreateStack
		"function":           regexp.MustCompile(`^[a-zA-Z0-9-_]{1,64}$`),                         // Lambda CreateFunction
		"role":               regexp.MustCompile(`^[\w+=,.@-]{1,64}$`),                            // IAM CreateRole
		"API":                regexp.MustCompile(`^.{1,128}$`),                                    // API Gateway v2 CreateApi
		"table":              regexp.MustCompile(`^[a-zA-Z0-9_.-]{3,255}$`),                       // DynamoDB CreateTable
		"secret":             regexp.MustCompile(`^[a-zA-Z0-9/_+=.@-]{1,512}$`),                   // Secrets Manager CreateSecret
		"zone":               regexp.MustCompile(`^([a-z0-9-]{1,63}\.){2}internal$`),              // RFC 1035
		"log group":          regexp.MustCompile(`^[.\-_/#A-Za-z0-9]{1,512}$`),                    // CloudWatch Logs CreateLogGroup
		"key alias":          regexp.MustCompile(`^alias/[a-zA-Z0-9/_-]{1,250}$`),                 // KMS CreateAlias
		"queue":              regexp.MustCompile(`^[a-zA-Z0-9_-]{1,80}$`),                         // SQS CreateQueue
		"bucket":             regexp.MustCompile(`^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$`),             // S3 bucket naming rules
		"Auto Scaling group": regexp.MustCompile(`^[^:]{1,255}$`),                                 // CreateAutoScalingGroup
		"target group":       regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?$`), // CreateTargetGroup
		"load balancer":      regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?$`), // CreateLoadBalancer
		"rule":               regexp.MustCompile(`^[.\-_A-Za-z0-9]{1,64}$`),                       // EventBridge PutRule
		"alarm":              regexp.MustCompile(`^[^\pC"]{1,255}$`),                              // CloudWatch PutMetricAlarm; quoted in rules of composite ones
		"dashboard":          regexp.MustCompile(`^[A-Za-z0-9_-]{1,255}$`),                        // CloudWatch PutDashboard
		"insight rule":       regexp.MustCompile(`^[ !#-~]{1,128}$`),                              // CloudWatch PutInsightRule; quoted in metric math
		"host":               regexp.MustCompile(`^([a-z0-9-]{1,63}\.){3}internal$`),              // RFC 1035
	}
	rapid.Check(t, func(t *rapid.T) {
		service, cell, shard := part.Draw(t, "service"), part.Draw(t, "cell"), part.Draw(t, "shard")
		f := ForFleet(service)
		c := f.Cell(cell).Generation(rapid.IntRange(0, 999).Draw(t, "generation"))
		for _, n := range slices.Concat(f.All(), c.All(), c.Shard(shard).All("111111111111", "ap-southeast-2")) {
			if rule := rules[n.Space]; rule == nil || !rule.MatchString(n.Name) {
				t.Errorf("%s %q does not match %v", n.Space, n.Name, rule)
			}
		}
		if name := c.Shard(shard).TargetGroup(rapid.IntRange(1, 65535).Draw(t, "port"), "shared"); !rules["target group"].MatchString(name) {
			t.Errorf("target group %q", name)
		}
		if name := c.SnapshotBucket("111111111111", "ap-southeast-2"); !rules["bucket"].MatchString(name) {
			t.Errorf("bucket %q", name)
		}
		if name := f.FrontDoorRole("us-gov-west-1"); !rules["role"].MatchString(name) {
			t.Errorf("role %q", name)
		}
		if name := f.FrontDoorKeeperRole("us-gov-west-1"); !rules["role"].MatchString(name) {
			t.Errorf("role %q", name)
		}
		if name := f.FrontDoorSnapshotBucket("111111111111", "ap-southeast-2"); !rules["bucket"].MatchString(name) {
			t.Errorf("bucket %q", name)
		}
		if name := c.Shard(shard).Schedule("longest-name-of1"); !rules["rule"].MatchString(name) {
			t.Errorf("rule %q", name)
		}
		if name := c.GroupLoadBalancer("g25"); !rules["load balancer"].MatchString(name) {
			t.Errorf("load balancer %q", name)
		}
	})
}

// TestScheduleRules: the rules of two schedules never have one name in one shard, nor in two of a cell unless the one's id
// and "-tick-" begin the other's, or the one schedule's name holds it, which the fleet refuses; none is shortened, by
// which two could become one.
func TestScheduleRules(t *testing.T) {
	schedule := rapid.StringMatching(`[a-z][a-z0-9-]{0,15}`)
	rapid.Check(t, func(t *rapid.T) {
		c := ForFleet(part.Draw(t, "service")).Cell(part.Draw(t, "cell"))
		one, two := part.Draw(t, "shard"), part.Draw(t, "other shard")
		a, b := schedule.Draw(t, "schedule"), schedule.Draw(t, "other schedule")
		x, y := c.Shard(one).Schedule(a), c.Shard(two).Schedule(b)
		if !strings.HasSuffix(x, "-"+one+"-tick-"+a) {
			t.Errorf("%q is shortened", x)
		}
		if (one != two || a != b) && x == y && !strings.HasPrefix(two, one+"-tick-") && !strings.HasPrefix(one, two+"-tick-") {
			t.Errorf("schedule %s of shard %s and schedule %s of shard %s have one rule: %s", a, one, b, two, x)
		}
	})
}

func TestShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z][a-z0-9-]{0,60}`).Draw(t, "name")
		most := rapid.IntRange(10, 40).Draw(t, "max")
		got := Short(name, most)
		switch {
		case len(name) <= most && got != name:
			t.Errorf("Short(%q, %d) = %q, want it unchanged", name, most, got)
		case len(got) > most:
			t.Errorf("Short(%q, %d) = %q, which is longer", name, most, got)
		case len(name) > most && strings.Contains(got, "--") && !strings.Contains(name, "--"):
			t.Errorf("Short(%q, %d) = %q doubles a hyphen", name, most, got)
		}
		if other := Short(name+"x", most); len(name) > most && other == got {
			t.Errorf("%q and %q both become %q", name, name+"x", got)
		}
	})
}

func TestTenant(t *testing.T) {
	rule := regexp.MustCompile(`^[a-z2-7]{52}$`)
	seen := map[string]string{}
	for _, id := range []string{"acme", "Acme", "acme ", "ä", strings.Repeat("x", 128)} {
		name := Tenant(id)
		if !rule.MatchString(name) || seen[name] != "" {
			t.Errorf("Tenant(%q) = %q", id, name)
		}
		seen[name] = id
	}
}
