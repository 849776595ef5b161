package stamp

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/routerenv"
)

// abroad adds a cell of another account beside the directory's replica in us-east-1.
func abroad(f *fleet.Fleet) {
	f.Cells = append(f.Cells, f.Cells[0])
	f.Cells[1].Name, f.Cells[1].Account, f.Cells[1].Region = "us-1", "222222222222", "us-east-1"
}

// withWayOut is abroad with a network of somebody else's.
func withWayOut(f *fleet.Fleet) {
	abroad(f)
	f.Cells[1].CIDR = ""
	f.Cells[1].VPC = someVPC()
}

func someVPC() *fleet.VPC {
	return &fleet.VPC{ID: "vpc-0123456789abcdef0", Subnets: map[string]string{
		"a": "subnet-0123456789abcdef0", "b": "subnet-0123456789abcdef1", "c": "subnet-0123456789abcdef2"}}
}

// readersOf are the roles that the directory's policy in each region lets read, routers to read entries and keepers
// to list what is their cell's; nil where there is no policy.
func readersOf(t *testing.T, global stack) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	table := global.one(t, "AWS::DynamoDB::GlobalTable")
	for i := range table.at("Replicas").([]any) {
		region := table.at("Replicas", i, "Region").(string)
		all[region] = nil
		document := table.at("Replicas", i, "ResourcePolicy", "PolicyDocument")
		if document == nil {
			continue
		}
		table := "arn:aws:dynamodb:" + region + ":111111111111:table/orders-directory"
		for _, s := range statements(t, document) {
			if strings.Contains(s.Condition, "-keeper-role") && !slices.Contains(s.Action, "dynamodb:Query") {
				continue // what keepers note: TestSuspectsAbroad
			}
			who := "router"
			switch s.Effect + " " + text(s.Action) + text(s.Resource) {
			case `Allow ["dynamodb:GetItem"]["` + table + `"]`:
			case `Allow ["dynamodb:GetItem","dynamodb:Query"]["` + table + `","` + table + `/index/first"]`:
				who = "keeper"
			default:
				t.Errorf("the policy in %s says %+v", region, s)
			}
			var condition struct {
				ArnEquals map[string][]string
			}
			if err := json.Unmarshal([]byte(s.Condition), &condition); err != nil {
				t.Fatal(err)
			}
			for _, role := range condition.ArnEquals["aws:PrincipalArn"] {
				if !strings.HasSuffix(role, "-"+who+"-role") {
					t.Errorf("the policy in %s lets %s do what a %s does", region, role, who)
				}
			}
			all[region] = append(all[region], condition.ArnEquals["aws:PrincipalArn"]...)
		}
	}
	return all
}

// TestReaders: a region's policy names the routers and keepers of other accounts that read there, and no other; a
// region without such a router has no policy. A keeper reads in one region only.
func TestReaders(t *testing.T) {
	role := func(account, cell, who string) string {
		return "arn:aws:iam::" + account + ":role/orders-" + cell + "-" + who + "-role"
	}
	const router, keeper = "router", "keeper"
	for name, c := range map[string]struct {
		cells func(*fleet.Fleet)
		want  map[string][]string
	}{
		"the directory's own account alone": {func(*fleet.Fleet) {}, map[string][]string{"eu-west-1": nil, "us-east-1": nil}},
		"another account beside a replica": {abroad, map[string][]string{"eu-west-1": nil,
			"us-east-1": {role("222222222222", "us-1", router), role("222222222222", "us-1", keeper)}}},
		"other accounts in both regions, and one in a region without a replica": {func(f *fleet.Fleet) {
			abroad(f)
			far, near := f.Cells[1], f.Cells[1]
			far.Name, far.Account, far.Region, far.CIDR = "ap-1", "333333333333", "ap-south-1", ""
			far.VPC = someVPC()
			near.Name, near.Region = "eu-1", "eu-west-1"
			f.Cells = append(f.Cells, far, near)
			f.Shard.HTTP.AMIs["ap-south-1/arm64"] = "ami-0123456789abcdef1"
		}, map[string][]string{
			"eu-west-1": {role("222222222222", "eu-1", router), role("333333333333", "ap-1", router), role("222222222222", "eu-1", keeper), role("333333333333", "ap-1", keeper)},
			"us-east-1": {role("222222222222", "us-1", router), role("222222222222", "us-1", keeper)}}},
		"another account beside a replica, with a way to the home region": {
			withWayOut, map[string][]string{
				"eu-west-1": {role("222222222222", "us-1", router)},
				"us-east-1": {role("222222222222", "us-1", router), role("222222222222", "us-1", keeper)}}},
	} {
		t.Run(name, func(t *testing.T) {
			a := synth(t, sample(t, c.cells))
			if d := cmp.Diff(c.want, readersOf(t, a["global"])); d != "" {
				t.Errorf("readers (-want +got):\n%s", d)
			}
		})
	}
}

// TestNewReplicas: a deployment that creates a replica leaves its policy out, and nothing else; regions
// in which the fleet has no replica are refused.
func TestNewReplicas(t *testing.T) {
	in := input(sample(t, abroad))
	with := func(fresh ...string) (assembly, error) {
		in.NewReplicas = fresh
		folder, err := try(t, in)
		if err != nil {
			return nil, err
		}
		return open(t, folder), nil
	}
	second, err := with()
	if err != nil {
		t.Fatal(err)
	}
	first, err := with("us-east-1")
	if err != nil {
		t.Fatal(err)
	}
	if got := readersOf(t, first["global"]); got["us-east-1"] != nil {
		t.Errorf("the new replica is created with a policy for %v", got["us-east-1"])
	}
	table := second["global"].one(t, "AWS::DynamoDB::GlobalTable")
	for i := range table.at("Replicas").([]any) {
		if replica := table.at("Replicas", i).(map[string]any); replica["Region"] == "us-east-1" {
			delete(replica, "ResourcePolicy")
		}
	}
	if d := cmp.Diff(table.Properties, first["global"].one(t, "AWS::DynamoDB::GlobalTable").Properties); d != "" {
		t.Errorf("more than the policy is left out (-second +first):\n%s", d)
	}
	for _, path := range second.paths() {
		if path != "global" && first[path].text != second[path].text {
			t.Errorf("%s depends on newReplicas", path)
		}
	}
	for _, c := range []struct{ fresh, want string }{
		{"eu-west-9", "-c newReplicas=eu-west-9: the directory has no replica there; write one of directory.replicas: us-east-1"},
		{"eu-west-1", "-c newReplicas=eu-west-1: the directory has no replica there; write one of directory.replicas: us-east-1"},
	} {
		if _, err := with(c.fresh); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.fresh, err, c.want)
		}
	}
	in.Fleet.Directory.Replicas, in.Fleet.Cells = nil, in.Fleet.Cells[:1]
	if _, err := with("us-east-1"); err == nil || !strings.Contains(err.Error(), "directory.replicas has none; leave the setting out") {
		t.Errorf("without replicas: %v", err)
	}
}

// TestDirectory: the global table and its replicas.
func TestDirectory(t *testing.T) {
	a := synth(t, sample(t, abroad))
	table := a["global"].one(t, "AWS::DynamoDB::GlobalTable")
	if table.DeletionPolicy != "RetainExceptOnCreate" || table.UpdateReplacePolicy != "Retain" {
		t.Errorf("the directory is not kept: %s, %s", table.DeletionPolicy, table.UpdateReplacePolicy)
	}
	if got := text(table.at("KeySchema")); got != `[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}]` {
		t.Errorf("its key is %s", got)
	}
	if table.at("BillingMode") != "PAY_PER_REQUEST" || table.at("TableName") != "orders-directory" {
		t.Errorf("it is %v, %v", table.at("TableName"), table.at("BillingMode"))
	}
	if got := text(table.at("GlobalSecondaryIndexes")); got != `[`+
		`{"IndexName":"first","KeySchema":[{"AttributeName":"i1","KeyType":"HASH"},{"AttributeName":"pk","KeyType":"RANGE"}],"Projection":{"ProjectionType":"ALL"}},`+
		`{"IndexName":"second","KeySchema":[{"AttributeName":"i2","KeyType":"HASH"},{"AttributeName":"pk","KeyType":"RANGE"}],"Projection":{"ProjectionType":"ALL"}}]` {
		t.Errorf("its indexes are %s", got)
	}
	if got := text(table.at("StreamSpecification")); got != `{"StreamViewType":"NEW_AND_OLD_IMAGES"}` {
		t.Errorf("its stream is %s", got)
	}
	var regions []string
	for i := range table.at("Replicas").([]any) {
		region := table.at("Replicas", i, "Region").(string)
		regions = append(regions, region)
		if table.at("Replicas", i, "DeletionProtectionEnabled") != true ||
			table.at("Replicas", i, "PointInTimeRecoverySpecification", "PointInTimeRecoveryEnabled") != true {
			t.Errorf("the replica in %s is not protected", region)
		}
	}
	slices.Sort(regions)
	if d := cmp.Diff([]string{"eu-west-1", "us-east-1"}, regions); d != "" {
		t.Errorf("replicas (-want +got):\n%s", d)
	}
}

// TestBesideAReplica: the router reads the replica, and asks the home region where its network leads there;
// its role and its environment name the same tables.
func TestBesideAReplica(t *testing.T) {
	const (
		replica = "arn:aws:dynamodb:us-east-1:111111111111:table/orders-directory"
		home    = "arn:aws:dynamodb:eu-west-1:111111111111:table/orders-directory"
	)
	for name, c := range map[string]struct {
		cells func(*fleet.Fleet)
		home  string
	}{"own network": {abroad, ""}, "network with a way out": {withWayOut, home}} {
		t.Run(name, func(t *testing.T) {
			core := synth(t, sample(t, c.cells))["us-1/core"]
			env, err := routerenv.Parse(core.environment(t, "orders-us-1-router"))
			if err != nil {
				t.Fatal(err)
			}
			if env.Directory != replica || env.DirectoryRegion != "us-east-1" || env.HomeRegion != "eu-west-1" || env.Home != c.home || !env.Replica() {
				t.Errorf("the router reads %q in %q, of the home %q in %q", env.Directory, env.DirectoryRegion, env.Home, env.HomeRegion)
			}
			want := []string{replica}
			if c.home != "" {
				want = []string{home, replica} // as the CDK sorts them
			}
			var got []string
			for _, s := range core.permissions(t, "orders-us-1-router-role") {
				if slices.Contains(s.Action, "dynamodb:GetItem") {
					got = append(got, s.Resource...)
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("tables that the router's role may read (-want +got):\n%s", d)
			}
		})
	}
}
