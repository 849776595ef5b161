package stamp

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/routerenv"
)

// TestVerdicts: the keeper hears the router's verdicts, and the log may say them only once it may ask the keeper.
func TestVerdicts(t *testing.T) {
	core := shape(t, "per-shard")["eu-canary/core"]
	filter := core.one(t, "AWS::Logs::SubscriptionFilter")
	if got := text(filter.Properties); got != `{"DestinationArn":{"Ref":"KeeperEarE615BE0F"},"FilterPattern":"{ $.msg = \"poison verdict\" }","LogGroupName":"/cellwall/orders/eu-canary/router"}` {
		t.Errorf("the keeper hears %s", got)
	}
	permission := core.named(t, "AWS::Lambda::Permission", "Principal", "logs.amazonaws.com")
	if got := text(permission.Properties); got != `{"Action":"lambda:InvokeFunction","FunctionName":{"Ref":"KeeperEarE615BE0F"},"Principal":"logs.amazonaws.com","SourceAccount":"111111111111",`+
		`"SourceArn":"arn:aws:logs:eu-west-1:111111111111:log-group:/cellwall/orders/eu-canary/router:*"}` {
		t.Errorf("the log may %s", got)
	}
	for _, first := range []string{"KeeperHears", "RouterLogsDF967322"} {
		if !slices.Contains(filter.DependsOn, first) {
			t.Errorf("it does not wait for %s, but for %v", first, filter.DependsOn)
		}
	}
}

// TestHears: a verdict that meets a run of the keeper, or a directory that is down, is told again; a run that is due is
// not, since the next comes soon.
func TestHears(t *testing.T) {
	core := shape(t, "per-shard")["eu-canary/core"]
	got := map[string]string{}
	for _, c := range core.of("AWS::Lambda::EventInvokeConfig") {
		alias := core.Template.Resources[ref(c.at("Qualifier", "Fn::Select", 1, "Fn::Split", 1))]
		got[ref(c.at("FunctionName"))+" "+alias.at("Name").(string)] = text([]any{c.at("MaximumRetryAttempts"), c.at("MaximumEventAgeInSeconds")})
	}
	run := core.named(t, "AWS::Lambda::Function", "FunctionName", "orders-eu-canary-keeper").at("Timeout").(float64)
	if hearPatience < 2*run {
		t.Errorf("a verdict waits for %d s, and a run may take %v s", hearPatience, run)
	}
	if d := cmp.Diff(map[string]string{"KeeperD1EBA005 live": "[0,60]", "KeeperD1EBA005 ear": "[2,3600]"}, got); d != "" {
		t.Errorf("events wait (-want +got):\n%s", d)
	}
	ear, live := core.named(t, "AWS::Lambda::Alias", "Name", "ear"), core.Template.Resources["KeeperLiveAA2CDC02"]
	if text(ear.at("FunctionVersion")) != text(live.at("FunctionVersion")) || text(ear.at("FunctionName")) != text(live.at("FunctionName")) {
		t.Errorf("the ear is of %s, and runs are of %s", text(ear.at("FunctionVersion")), text(live.at("FunctionVersion")))
	}
}

// TestQuarantine: the keeper of a cell with a quarantine may pin tenants, and reaches its own cell's holdings alone.
func TestQuarantine(t *testing.T) {
	const here = "arn:aws:dynamodb:eu-west-1:111111111111:table/"
	holdings := func(s statement) bool { return slices.Contains(s.Action, "dynamodb:DeleteItem") }
	pin := statement{Effect: "Allow", Action: []string{"dynamodb:BatchGetItem", "dynamodb:ConditionCheckItem", "dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem"}, Resource: []string{here + "orders-directory"}}
	hold := statement{Effect: "Allow", Action: []string{"dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:UpdateItem"}}
	tables := shape(t, "everything")["eu-canary/core"].permissions(t, "orders-eu-canary-keeper-role")
	for _, s := range []string{"s01", "s02", "s03", "s04"} {
		hold.Resource = append(hold.Resource, here+"orders-eu-canary-"+s+"-state")
	}
	if d := cmp.Diff([]statement{pin, hold}, tables[2:4]); d != "" {
		t.Errorf("with tables (-want +got):\n%s", d)
	}
	one := func(f *fleet.Fleet) { f.Cells[0].Quarantine = []string{"s04"} }
	store := synth(t, sample(t, one, func(f *fleet.Fleet) { f.Shard.Table = nil }))["eu-canary/core"].permissions(t, "orders-eu-canary-keeper-role")
	hold.Resource = []string{here + "orders-eu-canary-store"}
	if d := cmp.Diff([]statement{pin, hold}, store[2:4]); d != "" {
		t.Errorf("with the cell's store (-want +got):\n%s", d)
	}
	none := synth(t, sample(t, shapes["lambda-only"], one))["eu-canary/core"].permissions(t, "orders-eu-canary-keeper-role")
	if i := slices.IndexFunc(none, holdings); i >= 0 || !cmp.Equal(none[2], pin) {
		t.Errorf("without state it may %v", none)
	}
}

// TestSuspectsAbroad: keepers of other accounts write in the home region alone: their cells' partitions, or, for a
// quarantine, what it takes; where they do not read, they read what they write.
func TestSuspectsAbroad(t *testing.T) {
	const table = "arn:aws:dynamodb:eu-west-1:111111111111:table/orders-directory"
	a := synth(t, sample(t, func(f *fleet.Fleet) {
		abroad(f)
		near, pinning := f.Cells[1], f.Cells[1]
		near.Name, near.Region, near.Account = "eu-1", "eu-west-1", "333333333333"
		pinning.Name, pinning.Quarantine = "us-2", []string{"s04"}
		f.Cells = append(f.Cells, near, pinning)
	}))
	role := func(account, cell string) string {
		return `"arn:aws:iam::` + account + ":role/orders-" + cell + `-keeper-role"`
	}
	who := func(roles ...string) string {
		return `{"ArnEquals":{"aws:PrincipalArn":[` + strings.Join(roles, ",") + `]}`
	}
	eu1, us1, us2 := role("333333333333", "eu-1"), role("222222222222", "us-1"), role("222222222222", "us-2")
	want := map[string][]statement{
		"eu-west-1": {
			{Effect: "Allow", Action: []string{"dynamodb:GetItem", "dynamodb:Query"}, Resource: []string{table, table + "/index/first"}, Condition: who(eu1) + "}"},
			{Effect: "Allow", Action: []string{"dynamodb:BatchGetItem", "dynamodb:ConditionCheckItem", "dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem"}, Resource: []string{table}, Condition: who(us2) + "}"},
			{Effect: "Allow", Action: []string{"dynamodb:GetItem"}, Resource: []string{table}, Condition: who(us1) + "}"},
			{Effect: "Allow", Action: []string{"dynamodb:UpdateItem"}, Resource: []string{table},
				Condition: who(us1, eu1) + `,"ForAllValues:StringEquals":{"dynamodb:LeadingKeys":["CELL#eu-1","CELL#us-1"]}}`},
		},
		"us-east-1": {
			{Effect: "Allow", Action: []string{"dynamodb:GetItem", "dynamodb:Query"}, Condition: who(us1, us2) + "}",
				Resource: []string{strings.Replace(table, "eu-west-1", "us-east-1", 1), strings.Replace(table, "eu-west-1", "us-east-1", 1) + "/index/first"}},
		},
	}
	got := map[string][]statement{}
	replicas := a["global"].one(t, "AWS::DynamoDB::GlobalTable")
	for i := range replicas.at("Replicas").([]any) {
		region := replicas.at("Replicas", i, "Region").(string)
		for _, s := range statements(t, replicas.at("Replicas", i, "ResourcePolicy", "PolicyDocument")) {
			if strings.Contains(s.Condition, "keeper-role") {
				got[region] = append(got[region], s)
			}
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the directory's policy (-want +got):\n%s", d)
	}
	env, err := routerenv.ParseKeeper(a["us-2/core"].environment(t, "orders-us-2-keeper"))
	if err != nil || env.Home != table || env.HomeRegion != "eu-west-1" || env.DirectoryRegion != "us-east-1" || !slices.Equal(env.Quarantine, []string{"s04"}) {
		t.Errorf("the keeper reads %+v, %v", env, err)
	}
}
