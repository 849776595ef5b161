package fleet

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// everything is a valid fleet file that sets every key, most of them to something else than the default.
const everything = `service: orders
directory: {account: "111111111111", region: eu-west-1, replicas: [us-east-1]}
accounts: {"111111111111": {lambdaConcurrency: 2000, eventRules: 500}}
auth: {issuer: "https://login.example.com/", audience: "7", claim: org, source: verify, algorithms: [ES256], pathTenant: "/tenants/{tenant}/*", bodyTenant: org}
placement: {scheme: rendezvous/v1, perTenant: 3, maxShared: 0, sizes: {whale: {perTenant: 4}}}
budget: {concurrentFailures: 2, degradedTenants: 15%, capacityLoss: 0.5%, fullyDown: 0%}
routes:
  - {path: /jobs, via: queue}
  - {path: /reports/*, via: lambda, fanout: true, timeout: 20s}
  - {path: /*, via: http}
router: {memory: 1024, reservedConcurrency: 50, attemptTimeout: 3s, tenantRate: 100, tenantBurst: 200, tenantConcurrency: 20, fanoutConcurrency: 5, hashTenants: true, provisionedConcurrency: 2, ingress: url, stream: true}
keeper: {every: 5m, memory: 256}
frontDoor: {memory: 256, reservedConcurrency: 40}
shard:
  capacity: 1000
  http: {asset: dist/web, command: web, port: 9000, amis: {eu-west-1/x86_64: ami-01234567}, instanceType: m7i.large, min: 3, max: 5, healthPath: /up, ingress: {grouped: 2}}
  lambda: {asset: dist/worker, memory: 256, timeout: 60, reservedConcurrency: 30}
  queue: {maxReceive: 3, consumers: 4}
  table: {maxReads: 100, maxWrites: 50}
  bucket: {}
  state: {mode: home}
  zones: one
  encryption: own
  schedules: [{name: sweep, every: 15m}, {name: report, every: 24h}]
alerts: {topicArn: "arn:aws:sns:eu-west-1:111111111111:oncall", topics: {us-east-1: "arn:aws:sns:us-east-1:111111111111:oncall"}}
deploy: {qualifier: ours, permissionsBoundary: edge, tags: {team: payments}}
audit: {waivers: accepted.yaml}
cells:
  - name: one
    account: "111111111111"
    region: eu-west-1
    zones: [b, a]
    shards: [{id: s01}, {id: blue, weight: 5}, {id: green, zone: b, weight: 2}, {id: s04}, {id: s05}, {id: s06}]
    tenants: internal
    cidr: 172.16.0.0/18
    egress: nat
    generation: 2
    budget: {concurrentFailures: 1, fullyDown: 1%}
    quarantine: [green]
  - name: two
    account: "111111111111"
    region: eu-west-1
    zones: [a, b]
    shards: 6
    vpc: {id: vpc-01234567, subnets: {a: subnet-01234567, b: subnet-0123456789abcdef0}}
rollout: {waves: [{cells: [two], bake: 2h30m}, {percent: 100, bake: 90m}], haltOn: {alarms: none, minRequests: 5}, probe: {path: /healthz, every: 5s}}
`

func parse(t *testing.T, file string) *Fleet {
	t.Helper()
	f, err := Parse("dir/f.yaml", []byte(file))
	if err != nil {
		t.Fatalf("Parse:\n%v", err)
	}
	return f
}

func TestSamplesLoad(t *testing.T) {
	for _, file := range []string{"../../fleet.yaml", "testdata/design.yaml"} {
		if _, err := Load(file); err != nil {
			t.Errorf("Load(%s):\n%v", file, err)
		}
	}
}

func TestEveryKeyIsRead(t *testing.T) {
	got := parse(t, everything)
	percent := func(p Percent) *Percent { return &p }
	want := &Fleet{
		Dir:       "dir",
		Service:   "orders",
		Directory: Directory{Account: "111111111111", Region: "eu-west-1", Replicas: []string{"us-east-1"}},
		Accounts:  map[string]Account{"111111111111": {2000, 500}},
		Auth: Auth{Issuer: "https://login.example.com/", Audience: "7", Claim: "org", Source: AuthVerify,
			Algorithms: []string{"ES256"}, PathTenant: "/tenants/{tenant}/*", BodyTenant: "org"},
		Placement: Placement{Scheme: "rendezvous/v1", PerTenant: 3, Sizes: map[string]Size{"whale": {4}}},
		Budget:    Budget{ConcurrentFailures: 2, DegradedTenants: percent(1500), CapacityLoss: percent(50), FullyDown: percent(0)},
		Routes:    []Route{{"/jobs", "queue", false, 3 * time.Second}, {"/reports/*", "lambda", true, 20 * time.Second}, {"/*", "http", false, 3 * time.Second}},
		Router: Router{Memory: 1024, ReservedConcurrency: 50, AttemptTimeout: 3 * time.Second,
			TenantRate: 100, TenantBurst: 200, TenantConcurrency: 20, FanoutConcurrency: 5, HashTenants: true, ProvisionedConcurrency: 2, Ingress: IngressURL, Stream: true},
		Keeper:    Keeper{5 * time.Minute, 256},
		FrontDoor: &FrontDoor{256, 40},
		Shard: Shard{
			Capacity: 1000,
			HTTP: &HTTP{Asset: "dist/web", Command: "web", Port: 9000, AMIs: map[string]string{"eu-west-1/x86_64": "ami-01234567"}, InstanceType: "m7i.large",
				Min: 3, Max: 5, HealthPath: "/up", Ingress: Ingress{IngressGrouped, 2}},
			Lambda: &Lambda{Asset: "dist/worker", Memory: 256, Timeout: 60, ReservedConcurrency: 30},
			Queue:  &Queue{MaxReceive: 3, Consumers: 4},
			Table:  &Table{100, 50},
			Bucket: &Bucket{},
			State:  State{Mode: StateHome},
			Zones:  ZonesOne, Encryption: EncryptionOwn, Schedules: []Schedule{{"sweep", 15 * time.Minute}, {"report", 24 * time.Hour}},
		},
		Alerts: &Alerts{"arn:aws:sns:eu-west-1:111111111111:oncall", map[string]string{"us-east-1": "arn:aws:sns:us-east-1:111111111111:oncall"}},
		Deploy: Deploy{"ours", "edge", map[string]string{"team": "payments"}},
		Audit:  Audit{"accepted.yaml"},
		Cells: []Cell{
			{Name: "one", Account: "111111111111", Region: "eu-west-1", Zones: []string{"b", "a"},
				Shards:  Shards{{"s01", "b", 1}, {"blue", "a", 5}, {"green", "b", 2}, {"s04", "a", 1}, {"s05", "b", 1}, {"s06", "a", 1}},
				Tenants: "internal", CIDR: "172.16.0.0/18", Budget: &Budget{ConcurrentFailures: 1, FullyDown: percent(100)}, Quarantine: []string{"green"},
				Egress: EgressNAT, Generation: 2},
			{Name: "two", Account: "111111111111", Region: "eu-west-1", Zones: []string{"a", "b"},
				Shards:  Shards{{"s01", "a", 1}, {"s02", "b", 1}, {"s03", "a", 1}, {"s04", "b", 1}, {"s05", "a", 1}, {"s06", "b", 1}},
				Tenants: "any", VPC: &VPC{"vpc-01234567", map[string]string{"a": "subnet-01234567", "b": "subnet-0123456789abcdef0"}}},
		},
		Rollout: Rollout{Waves: []Wave{{Cells: []string{"two"}, Bake: 150 * time.Minute}, {Percent: new(100), Bake: 90 * time.Minute}}, HaltOn: HaltOn{"none", 5}, Probe: &Probe{"/healthz", 5 * time.Second}},
	}
	got.Notes = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fleet (-want +got):\n%s", diff)
	}
}

// The sources of identities whose keys exclude each other, and what mode: home excludes.
func TestSourcesAreRead(t *testing.T) {
	for line, want := range map[string]Auth{
		"source: verify": {Source: AuthVerify, Algorithms: []string{"RS256"}},
		"source: verify, algorithms: [ES256, EdDSA]":                            {Source: AuthVerify, Algorithms: []string{"ES256", "EdDSA"}},
		`source: iam, principals: {"arn:aws:iam::111111111111:role/acme": "1"}`: {Source: AuthIAM, Principals: map[string]string{"arn:aws:iam::111111111111:role/acme": "1"}},
		`source: lambda, authorizerArn: "` + someFn + `"`:                       {Source: AuthLambda, AuthorizerARN: someFn},
	} {
		got := parse(t, strings.Replace(base, "audience: orders}", "audience: orders, "+line+"}", 1))
		want.Issuer, want.Audience, want.Claim = "https://login.example.com/", "orders", "tenant_id"
		if diff := cmp.Diff(want, got.Auth); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
	if got := parse(t, strings.Replace(base, "cells:\n", "  state: {mode: cell, idempotencyKeys: true}\ncells:\n", 1)); got.Shard.State != (State{StateCell, true}) {
		t.Errorf("state is %+v", got.Shard.State)
	}
}

const someFn = "arn:aws:lambda:eu-west-1:111111111111:function:authorizer"

// The other schemes, and what only bounded/v1 has.
func TestSchemesAreRead(t *testing.T) {
	for line, want := range map[string]Placement{
		"scheme: hmac/v1":                  {Scheme: "hmac/v1", PerTenant: 2},
		"scheme: bounded/v1":               {Scheme: "bounded/v1", PerTenant: 2},
		"scheme: bounded/v1, maxShared: 1": {Scheme: "bounded/v1", PerTenant: 2, MaxShared: 1},
	} {
		got := parse(t, strings.Replace(base, "auth:", "placement: {"+line+"}\nauth:", 1))
		if diff := cmp.Diff(want, got.Placement); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

func TestDefaults(t *testing.T) {
	got := parse(t, strings.Replace(base, "cells:\n", "  http: {asset: dist/web, min: 3, amis: {eu-west-1/arm64: ami-01234567, us-east-1/arm64: ami-01234567}}\n  queue: {}\ncells:\n", 1))
	if got.Auth.Claim != "tenant_id" || got.Budget != (Budget{ConcurrentFailures: 1}) || got.Rollout.HaltOn != (HaltOn{"any", 100}) ||
		got.Router != (Router{Memory: 512, ReservedConcurrency: 100, AttemptTimeout: 5 * time.Second, FanoutConcurrency: 10, Ingress: IngressAPI}) ||
		got.Keeper != (Keeper{time.Minute, 512}) || got.FrontDoor != nil || got.Auth.Source != AuthJWT || got.Routes[0].Timeout != 5*time.Second || got.Shard.State.Mode != StateNone || got.Shard.Zones != ZonesAll || got.Shard.Encryption != EncryptionAWS || got.Cells[0].Egress != EgressEndpoints || got.Deploy.Qualifier != "hnb659fds" || got.Account("999999999999").LambdaConcurrency != 1000 {
		t.Errorf("defaults of the fleet: %+v", got)
	}
	if diff := cmp.Diff(Placement{Scheme: "rendezvous/v1", PerTenant: 2}, got.Placement); diff != "" {
		t.Errorf("placement (-want +got):\n%s", diff)
	}
	http := HTTP{Asset: "dist/web", Command: "web", Port: 8080, AMIs: got.Shard.HTTP.AMIs, InstanceType: "t4g.small", Min: 3, Max: 9, HealthPath: "/healthz", Ingress: Ingress{Kind: IngressPerShard}}
	if diff := cmp.Diff(http, *got.Shard.HTTP); diff != "" {
		t.Errorf("http (-want +got):\n%s", diff)
	}
	if l, q := *got.Shard.Lambda, *got.Shard.Queue; l != (Lambda{"dist/worker", 512, 20, 20}) || q != (Queue{5, 2}) || got.Shard.Table != nil || got.Shard.Bucket != nil {
		t.Errorf("shard: %+v %+v", l, q)
	}
	if c := got.Cells[0]; c.CIDR != "10.20.0.0/16" || c.Tenants != "any" || c.VPC != nil || c.Budget != nil {
		t.Errorf("cell: %+v", c)
	}
	if diff := cmp.Diff([]Route{{Path: "/*", Via: "lambda", Timeout: 5 * time.Second}}, got.Routes); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Wave{{Cells: []string{"eu-1"}}, {Cells: []string{"us-1"}}}, got.Rollout.Waves); diff != "" {
		t.Errorf("waves (-want +got):\n%s", diff)
	}
}

func TestLoadReports(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load of no file: %v", err)
	}
	if _, err := Load(t.TempDir()); err == nil || !strings.HasPrefix(err.Error(), "read the fleet file: ") {
		t.Errorf("Load of a folder: %v", err)
	}
	huge := filepath.Join(t.TempDir(), "huge.yaml")
	if err := os.WriteFile(huge, []byte(strings.Repeat("#\n", maxFile)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(huge); err == nil || !strings.Contains(err.Error(), "huge.yaml:1:1: file of more than 1048576 bytes") {
		t.Errorf("Load of a huge file: %v", err)
	}
}

func TestPathsStartInTheFleetsFolder(t *testing.T) {
	f := parse(t, base)
	if got := f.Path("dist/worker"); got != filepath.Join("dir", "dist", "worker") {
		t.Errorf("relative: %s", got)
	}
	if got := f.Path("/opt/worker/"); got != filepath.FromSlash("/opt/worker") {
		t.Errorf("absolute: %s", got)
	}
}

func TestValues(t *testing.T) {
	f := parse(t, everything)
	c, ok := f.Cell("one")
	if _, none := f.Cell("three"); !ok || none || c.Name != "one" {
		t.Errorf("Cell: %v %v", c, ok)
	}
	if diff := cmp.Diff([]string{"eu-west-1b", "eu-west-1a"}, c.ZoneNames()); diff != "" {
		t.Errorf("ZoneNames (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"s01", "blue", "green", "s04", "s05", "s06"}, c.Shards.IDs()); diff != "" {
		t.Errorf("IDs (-want +got):\n%s", diff)
	}
	b := f.BudgetOf(c)
	if b.ConcurrentFailures != 1 || *b.DegradedTenants != 1500 || *b.CapacityLoss != 50 || *b.FullyDown != 100 {
		t.Errorf("budget of one: %+v", b)
	}
	if two, _ := f.Cell("two"); f.BudgetOf(two) != f.Budget {
		t.Errorf("budget of two: %+v", f.BudgetOf(two))
	}
	if k := [3]int{f.Placement.K("whale"), f.Placement.K(""), f.Placement.K("minnow")}; k != [3]int{4, 3, 3} {
		t.Errorf("K: %v", k)
	}
	if n := f.ReservedConcurrency(c); n != 6*30+50+1 {
		t.Errorf("reserved concurrency: %d", n)
	}
	if id, ok := f.Shard.HTTP.AMI("eu-west-1"); !ok || id != "ami-01234567" {
		t.Errorf("AMI: %s %v", id, ok)
	}
	want := []Use{
		{Account: "111111111111", Region: "eu-west-1", Limit: 2000, Reserved: 6*30 + 50 + 1 + 6*30 + 50 + 1 + 40 + 1, Left: 1397, frontDoor: 41},
		{Account: "111111111111", Region: "us-east-1", Limit: 2000, Reserved: 40 + 1, Left: 1859, frontDoor: 41},
	}
	got := f.Concurrency()
	for i := range got {
		got[i].cells = nil
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Use{})); diff != "" {
		t.Errorf("concurrency (-want +got):\n%s", diff)
	}
}

func TestArchitecture(t *testing.T) {
	for instance, want := range map[string]string{
		"t4g.small": "arm64", "m7g.large": "arm64", "c7gn.xlarge": "arm64", "r8gd.2xlarge": "arm64", "g5g.xlarge": "arm64", "a1.medium": "arm64", "im4gn.large": "arm64", "x2gd.medium": "arm64", "hpc7g.4xlarge": "arm64",
		"t3.small": "x86_64", "m7i.large": "x86_64", "g5.xlarge": "x86_64", "g6e.xlarge": "x86_64", "m7i-flex.large": "x86_64", "u-6tb1.metal": "x86_64", "gr6.4xlarge": "x86_64", "u7i-12tb.224xlarge": "x86_64", "mac2.metal": "x86_64",
	} {
		if got := (&HTTP{InstanceType: instance}).Architecture(); got != want {
			t.Errorf("%s: %s, want %s", instance, got, want)
		}
	}
}

// TestNotesOfWhomNobodyIsTold: a cell, or the directory, in a region without a topic, where others have one.
func TestNotesOfWhomNobodyIsTold(t *testing.T) {
	const topic = `"arn:aws:sns:REGION:111111111111:oncall"`
	in := func(region string) string { return strings.Replace(topic, "REGION", region, 1) }
	for alerts, untold := range map[string]string{
		"":                             "",
		"topicArn: " + in("eu-west-1"): "directory.replicas[0] cells[1].region in us-east-1",
		"topics: {us-east-1: " + in("us-east-1") + "}":                                    "directory.region cells[0].region in eu-west-1",
		"topicArn: " + in("eu-west-1") + ", topics: {us-east-1: " + in("us-east-1") + "}": "",
	} {
		file := strings.Replace(base, "region: eu-west-1}\n", "region: eu-west-1, replicas: [us-east-1]}\n", 1)
		if alerts != "" {
			file += "alerts: {" + alerts + "}\n"
		}
		var got []string
		for _, n := range parse(t, file).Notes {
			if got = append(got, n.Path); !strings.Contains(n.Text, "no topic"+untold[strings.LastIndex(untold, " in "):]) {
				t.Errorf("%q: %v", alerts, n)
			}
		}
		if want, _, _ := strings.Cut(untold, " in "); strings.Join(got, " ") != want {
			t.Errorf("%q: notes on %v, want %s", alerts, got, want)
		}
	}
}

func TestNotes(t *testing.T) {
	f := parse(t, strings.Replace(everything, `accounts: {`, `accounts: {"222222222222": {}, `, 1))
	noted := map[string]string{}
	for _, n := range f.Notes {
		noted[n.Path] = n.Text
	}
	for key := range noEffectYet {
		found := false
		for path := range noted {
			found = found || index.ReplaceAllString(path, "[]") == key
		}
		if !found {
			t.Errorf("no note for %s, which has no effect", key)
		}
	}
	if noted["accounts.222222222222"] == "" {
		t.Error("no note for an account that nothing uses")
	}
	if notes := parse(t, base).Notes; len(notes) != 0 {
		t.Errorf("notes on a fleet without such keys: %v", notes)
	}
}
