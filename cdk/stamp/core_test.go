package stamp

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/routerenv"
	"cellwall.dev/cellwall/internal/routing"
)

// statement is one statement of an IAM policy, its single strings made into lists.
type statement struct {
	Effect    string
	Action    []string
	Resource  []string
	Condition string
}

// statements reads a policy document.
func statements(t testing.TB, document any) []statement {
	t.Helper()
	var all []statement
	for _, s := range document.(map[string]any)["Statement"].([]any) {
		s := s.(map[string]any)
		one := statement{Effect: s["Effect"].(string), Action: texts(s["Action"]), Resource: texts(s["Resource"])}
		if c, ok := s["Condition"]; ok {
			one.Condition = text(c)
		}
		all = append(all, one)
	}
	return all
}

// texts are the entries of a list or a single value; intrinsics as JSON.
func texts(v any) []string {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	var out []string
	for _, e := range list {
		if s, ok := e.(string); ok {
			out = append(out, s)
		} else {
			out = append(out, text(e))
		}
	}
	return out
}

// TestPlacementKey: generated in AWS, 256 bits in hexadecimal, encrypted with a key of the cell's own.
func TestPlacementKey(t *testing.T) {
	core := shape(t, "per-shard")["eu-canary/core"]
	secret := core.one(t, "AWS::SecretsManager::Secret")
	key := core.named(t, "AWS::KMS::Key", "Description", "Encrypts the placement key of cell eu-canary of orders")
	if secret.at("Name") != "cellwall/orders/eu-canary/placement-key" {
		t.Errorf("the secret is called %v", secret.at("Name"))
	}
	if got := text(secret.at("KmsKeyId")); !strings.Contains(got, "EncryptionB687BDBB") {
		t.Errorf("the secret is encrypted with %s", got)
	}
	if key.at("EnableKeyRotation") != true {
		t.Error("the key is not rotated")
	}
	for _, r := range []resource{secret, key} {
		if r.DeletionPolicy != "RetainExceptOnCreate" || r.UpdateReplacePolicy != "Retain" {
			t.Errorf("%s is not kept: %s, %s", r.Type, r.DeletionPolicy, r.UpdateReplacePolicy)
		}
	}
	// What Secrets Manager may draw from, by the rules of its GetRandomPassword.
	draw := secret.at("GenerateSecretString").(map[string]any)
	left := "abcdefghijklmnopqrstuvwxyz0123456789"
	for _, c := range draw["ExcludeCharacters"].(string) {
		left = strings.ReplaceAll(left, string(c), "")
	}
	if left != "abcdef0123456789" || draw["ExcludeUppercase"] != true || draw["ExcludePunctuation"] != true || draw["IncludeSpace"] == true {
		t.Errorf("the key is drawn from %q, %v", left, draw)
	}
	if draw["PasswordLength"] != 64.0 || draw["SecretStringTemplate"] != "{}" || draw["GenerateStringKey"] != "1" || draw["RequireEachIncludedType"] != false {
		t.Errorf("the key is drawn by %v", draw)
	}
}

// TestRouterEnvironment: what lambda/router reads, all of it.
func TestRouterEnvironment(t *testing.T) {
	core := shape(t, "per-shard")["eu-canary/core"]
	fn := core.named(t, "AWS::Lambda::Function", "FunctionName", "orders-eu-canary-router")
	want := map[string]any{
		"CELLWALL_SERVICE":               "orders",
		"CELLWALL_CELL":                  "eu-canary",
		"CELLWALL_AUTH":                  `{"source":"jwt","issuer":"https://login.example.com/","audience":"orders","claim":"tenant_id"}`,
		"CELLWALL_RULES":                 `{"attemptTimeout":"5s","reserved":100,"state":"cell","idempotencyKeys":true,"queue":true}`,
		"CELLWALL_SNAPSHOT_BUCKET":       "orders-eu-canary-0snap-111111111111-eu-west-1",
		"CELLWALL_KEY_SECRET":            "cellwall/orders/eu-canary/placement-key",
		"CELLWALL_DIRECTORY":             "arn:aws:dynamodb:eu-west-1:111111111111:table/orders-directory",
		"CELLWALL_DIRECTORY_REGION":      "eu-west-1",
		"CELLWALL_DIRECTORY_HOME_REGION": "eu-west-1",
		"CELLWALL_ROUTES":                `[{"path":"/jobs/*","via":"queue"},{"path":"/*","via":"lambda"}]`,
	}
	if d := cmp.Diff(want, fn.at("Environment", "Variables")); d != "" {
		t.Errorf("environment (-want +got):\n%s", d)
	}
	for property, want := range map[string]any{"Runtime": "provided.al2023", "Handler": "bootstrap",
		"MemorySize": 512.0, "ReservedConcurrentExecutions": 100.0, "Timeout": 29.0, "Architectures": []any{"arm64"}} {
		if d := cmp.Diff(want, fn.at(property)); d != "" {
			t.Errorf("%s (-want +got):\n%s", property, d)
		}
	}
}

// TestRouterReadsTheFleet: of every shape, what the router reads from its environment is what the fleet says.
func TestRouterReadsTheFleet(t *testing.T) {
	eachShape(t, func(t *testing.T, a assembly) {
		f := sample(t, shapes[path.Base(t.Name())])
		got, err := routerenv.Parse(a["eu-canary/core"].environment(t, "orders-eu-canary-router"))
		if err != nil {
			t.Fatalf("the router refuses its environment: %v", err)
		}
		want := routerenv.Environment{
			Service: "orders", Cell: "eu-canary", KeySecret: "cellwall/orders/eu-canary/placement-key",
			Directory: "arn:aws:dynamodb:eu-west-1:111111111111:table/orders-directory", DirectoryRegion: "eu-west-1", HomeRegion: "eu-west-1",
			Snapshots: "orders-eu-canary-0snap-111111111111-eu-west-1",
			Auth: routerenv.Auth{Source: string(f.Auth.Source), Issuer: f.Auth.Issuer, Audience: f.Auth.Audience, Claim: f.Auth.Claim,
				Algorithms: f.Auth.Algorithms, Principals: f.Auth.Principals, PathTenant: f.Auth.PathTenant, BodyTenant: f.Auth.BodyTenant},
			Rules: routerenv.Rules{AttemptTimeout: routerenv.Duration(f.Router.AttemptTimeout), Reserved: f.Router.ReservedConcurrency,
				TenantRate: f.Router.TenantRate, TenantBurst: f.Router.TenantBurst, State: routing.State(f.Shard.State.Mode),
				IdempotencyKeys: f.Shard.State.IdempotencyKeys, Queue: f.Shard.Queue != nil, HashTenants: f.Router.HashTenants},
			Stream: f.Router.Stream,
		}
		for _, region := range f.FrontDoors() {
			want.Auth.FrontDoors = append(want.Auth.FrontDoors, "arn:aws:iam::111111111111:role/orders-global-frontdoor-role-"+region)
		}
		for _, r := range f.Routes {
			if r.Timeout == f.Router.AttemptTimeout {
				r.Timeout = 0 // what the router has by itself
			}
			want.Routes = append(want.Routes, routing.Route{Path: r.Path, Via: r.Via, Fanout: r.Fanout, Timeout: r.Timeout})
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("environment (-fleet +router):\n%s", d)
		}
	})
}

// TestRouterReachesItsCellAlone: every permission of the router's role, and what its patterns match.
func TestRouterReachesItsCellAlone(t *testing.T) {
	core := shape(t, "per-shard")["eu-canary/core"]
	const here = ":eu-west-1:111111111111:"
	attach := []string{"ec2:AssignPrivateIpAddresses", "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface",
		"ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets", "ec2:UnassignPrivateIpAddresses"}
	want := []statement{
		{Effect: "Allow", Action: []string{"logs:CreateLogStream", "logs:PutLogEvents"}, Resource: []string{`{"Fn::GetAtt":["RouterLogsDF967322","Arn"]}`}},
		{Effect: "Allow", Action: []string{"lambda:InvokeFunction"}, Resource: []string{"arn:aws:lambda" + here + "function:orders-eu-canary-*-worker:live"}},
		{Effect: "Deny", Action: []string{"lambda:InvokeFunction"}, Resource: []string{"arn:aws:lambda" + here + "function:orders-eu-canary-*-*-worker:live"}},
		{Effect: "Allow", Action: []string{"sqs:GetQueueUrl", "sqs:SendMessage"}, Resource: []string{"arn:aws:sqs" + here + "orders-eu-canary-*-work"}},
		{Effect: "Deny", Action: []string{"sqs:GetQueueUrl", "sqs:SendMessage"}, Resource: []string{"arn:aws:sqs" + here + "orders-eu-canary-*-*-work"}},
		{Effect: "Allow", Action: []string{"dynamodb:GetItem"}, Resource: []string{"arn:aws:dynamodb" + here + "table/orders-directory"}},
		{Effect: "Allow", Action: attach, Resource: []string{"*"}},
		{Effect: "Deny", Action: attach, Resource: []string{"*"},
			Condition: `{"ArnEquals":{"lambda:SourceFunctionArn":"arn:aws:lambda` + here + `function:orders-eu-canary-router"}}`},
		{Effect: "Allow", Action: []string{"secretsmanager:DescribeSecret", "secretsmanager:GetSecretValue"}, Resource: []string{`{"Ref":"PlacementKey0DD64F4C"}`}},
		{Effect: "Allow", Action: []string{"s3:GetObject"}, Resource: []string{snapshotBucket + "/snapshot"}},
		{Effect: "Allow", Action: []string{"s3:ListBucket"}, Resource: []string{snapshotBucket}},
		{Effect: "Allow", Action: []string{"kms:Decrypt"}, Resource: []string{`{"Fn::GetAtt":["SnapshotKeyD4D086C1","Arn"]}`}, Condition: snapshotContext},
		{Effect: "Allow", Action: []string{"kms:VerifyMac"}, Resource: []string{`{"Fn::GetAtt":["SnapshotMAC39ABE3E9","Arn"]}`}},
		{Effect: "Allow", Action: []string{"sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:GetQueueUrl", "sqs:ReceiveMessage"},
			Resource: []string{`{"Fn::GetAtt":["DispatchDB0A2E2F","Arn"]}`}},
	}
	if d := cmp.Diff(want, core.permissions(t, "orders-eu-canary-router-role")); d != "" {
		t.Errorf("the router's permissions (-want +got):\n%s", d)
	}
	for _, s := range []string{"s01", "s02", "s03", "s04"} {
		shard := shape(t, "per-shard")["eu-canary/shard-"+s]
		fn := shard.one(t, "AWS::Lambda::Function").at("FunctionName").(string)
		alias := shard.one(t, "AWS::Lambda::Alias").at("Name").(string)
		if !matches(strings.TrimPrefix(want[1].Resource[0], "arn:aws:lambda"+here+"function:"), fn+":"+alias) {
			t.Errorf("the router may not call %s:%s", fn, alias)
		}
		shard.named(t, "AWS::SQS::Queue", "QueueName", "orders-eu-canary-"+s+"-work")
	}
}

// TestRouterReachesNoOtherFleet: the router of a cell reaches no shard of another service, of which no fleet file knows,
// though the service's name begins like this one's and its cell's; and all of its own, hyphens or none in their ids.
func TestRouterReachesNoOtherFleet(t *testing.T) {
	const here = ":eu-west-1:111111111111:"
	hyphens := func(f *fleet.Fleet) {
		shapes["everything"](f)
		f.Cells[0].Quarantine = nil
		f.Cells[0].Shards = fleet.Shards{{ID: "a-1", Zone: "a", Weight: 1}, {ID: "s02", Zone: "b", Weight: 1}}
	}
	for name, a := range map[string]assembly{"plain": shape(t, "everything"), "hyphens": synth(t, sample(t, hyphens))} {
		permissions := a["eu-canary/core"].permissions(t, "orders-eu-canary-router-role")
		reaches := func(action, arn string) bool {
			allowed := false
			for _, s := range permissions {
				if slices.Contains(s.Action, action) && slices.ContainsFunc(s.Resource, func(r string) bool { return matches(r, arn) }) {
					if s.Effect == "Deny" {
						return false
					}
					allowed = true
				}
			}
			return allowed
		}
		var keys struct {
			All  map[string]string `json:"ForAllValues:StringNotLike"`
			Like map[string]string `json:"ForAnyValue:StringLike"`
		}
		for _, s := range permissions {
			if strings.Contains(s.Condition, "kms:ResourceAliases") {
				if err := json.Unmarshal([]byte(s.Condition), &keys); err != nil {
					t.Fatal(err)
				}
			}
		}
		check := func(s names.Shard, want bool) {
			t.Helper()
			const alias = "kms:ResourceAliases"
			key := matches(keys.Like[alias], s.Key()) && !matches(keys.All[alias], s.Key())
			invoke, send := reaches("lambda:InvokeFunction", "arn:aws:lambda"+here+"function:"+s.WorkerAlias()), reaches("sqs:SendMessage", "arn:aws:sqs"+here+s.Queue())
			if key != want || invoke != want || send != want {
				t.Errorf("%s: the router may invoke %s: %v, send to its queue: %v, use its key: %v; want %v", name, s.Worker(), invoke, send, key, want)
			}
		}
		own := names.ForFleet("orders").Cell("eu-canary")
		for _, path := range a.paths() {
			if id, ok := strings.CutPrefix(path, "eu-canary/shard-"); ok {
				check(own.Shard(id), true)
			}
		}
		foreign := "s01"
		if name == "hyphens" {
			foreign = "s-01" // with an id of one hyphen in this cell, s01 of cell us would be one of its own
		}
		check(names.ForFleet("orders-eu").Cell("canary-us").Shard(foreign), false)
		check(names.ForFleet("orders-eu-canary").Cell("us").Shard(foreign), false)
		check(names.ForFleet("orders").Cell("eu-canary-2").Shard(foreign), false)
		check(names.ForFleet("orders").Cell("us").Shard("s01"), false)
	}
}

// sgDescription is what EC2 takes as the description of a security group or of a rule: no apostrophe, for
// one (Amazon EC2 API, CreateSecurityGroup and IpRange).
var sgDescription = regexp.MustCompile(`^[a-zA-Z0-9. _\-:/()#,@\[\]+=&;{}!$*]{1,255}$`)

// TestSecurityGroupDescriptions: EC2 takes every description of a security group and of its rules.
func TestSecurityGroupDescriptions(t *testing.T) {
	eachShape(t, func(t *testing.T, a assembly) {
		seen := 0
		check := func(where string, v any) {
			seen++
			if s, _ := v.(string); !sgDescription.MatchString(s) {
				t.Errorf("%s: EC2 refuses the description %q", where, v)
			}
		}
		for _, path := range a.paths() {
			for id, r := range a[path].Template.Resources {
				switch r.Type {
				case "AWS::EC2::SecurityGroup":
					check(path+" "+id, r.at("GroupDescription"))
					for _, rules := range []string{"SecurityGroupIngress", "SecurityGroupEgress"} {
						list, _ := r.at(rules).([]any)
						for i := range list {
							check(path+" "+id, r.at(rules, i, "Description"))
						}
					}
				case "AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress":
					check(path+" "+id, r.at("Description"))
				}
			}
		}
		if seen < 3 {
			t.Errorf("only %d descriptions were looked at", seen)
		}
	})
}

// TestGroups: load balancers of several shards answer 421 to whom they do not know, and each shard has
// one rule by its id.
func TestGroups(t *testing.T) {
	for name, want := range map[string]map[string]string{
		"grouped": {"s01": "g01", "s02": "g01", "s03": "g02", "s04": "g02"},
		"shared":  {"s01": "shared", "s02": "shared", "s03": "shared", "s04": "shared"},
	} {
		t.Run(name, func(t *testing.T) {
			a := shape(t, name)
			core := a["eu-canary/core"]
			for _, l := range core.of("AWS::ElasticLoadBalancingV2::Listener") {
				if got := text(l.at("DefaultActions")); got != `[{"FixedResponseConfig":{"ContentType":"text/plain","MessageBody":"no such shard here","StatusCode":"421"},"Type":"fixed-response"}]` {
					t.Errorf("a listener's default is %s", got)
				}
			}
			taken := map[string]bool{}
			for shard, group := range want {
				core.named(t, "AWS::ElasticLoadBalancingV2::LoadBalancer", "Name", "orders-eu-canary-lb-"+group)
				s := a["eu-canary/shard-"+shard]
				rule := s.one(t, "AWS::ElasticLoadBalancingV2::ListenerRule")
				if got := text(rule.at("Conditions")); got != `[{"Field":"http-header","HttpHeaderConfig":{"HttpHeaderName":"Cellwall-Shard","Values":["`+shard+`"]}}]` {
					t.Errorf("%s is chosen by %s", shard, got)
				}
				slot := group + text(rule.at("Priority"))
				if taken[slot] {
					t.Errorf("%s takes priority %s a second time", shard, slot)
				}
				taken[slot] = true
				listener, _ := json.Marshal(rule.at("ListenerArn"))
				if !strings.Contains(string(listener), "coreingress"+group+"listener") {
					t.Errorf("%s stands behind %s, want %s", shard, listener, group)
				}
				if n := len(s.of("AWS::ElasticLoadBalancingV2::LoadBalancer")); n > 0 {
					t.Errorf("%s has %d load balancers of its own", shard, n)
				}
			}
		})
	}
}

// TestStore: the cell's store exists in mode cell alone, and says what it is.
func TestStore(t *testing.T) {
	store := shape(t, "per-shard")["eu-canary/core"].one(t, "AWS::DynamoDB::Table")
	if store.at("TableName") != "orders-eu-canary-store" || text(store.at("Tags")) != `[{"Key":"cellwall:role","Value":"cell-store"}]` {
		t.Errorf("the store is %v with tags %s", store.at("TableName"), text(store.at("Tags")))
	}
	for _, name := range []string{"home", "lambda-only"} {
		if n := len(shape(t, name)["eu-canary/core"].of("AWS::DynamoDB::Table")); n > 0 {
			t.Errorf("%s has %d tables in the core", name, n)
		}
	}
}
