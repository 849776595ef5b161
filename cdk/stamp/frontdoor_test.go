package stamp

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/routerenv"
)

// doors gives the fleet front doors, and a cell of another account and region.
func doors(f *fleet.Fleet) {
	abroad(f)
	f.FrontDoor = &fleet.FrontDoor{Memory: 256, ReservedConcurrency: 50}
}

// TestFrontDoors: one of each region that has the directory, with nothing of a cell in it.
func TestFrontDoors(t *testing.T) {
	a := synth(t, sample(t, doors))
	for region, table := range map[string]string{"eu-west-1": "", "us-east-1": "arn:aws:dynamodb:eu-west-1:111111111111:table/orders-directory"} {
		t.Run(region, func(t *testing.T) {
			s := a["frontdoor-"+region]
			if got := fmt.Sprintf("%s %s %v", s.Name, s.Environment, s.Tags); got != "orders-global-frontdoor aws://111111111111/"+region+" map[cellwall:service:orders]" {
				t.Errorf("the stack is %s", got)
			}
			role := "arn:aws:iam::111111111111:role/orders-global-frontdoor-role-" + region
			fn := s.named(t, "AWS::Lambda::Function", "FunctionName", "orders-global-frontdoor")
			for property, want := range map[string]any{"FunctionName": "orders-global-frontdoor", "Runtime": "provided.al2023", "Handler": "bootstrap", "MemorySize": 256.0,
				"ReservedConcurrentExecutions": 50.0, "Timeout": 29.0, "Architectures": []any{"arm64"}, "VpcConfig": nil, "Role": role} {
				if d := cmp.Diff(want, fn.at(property)); d != "" {
					t.Errorf("%s (-want +got):\n%s", property, d)
				}
			}
			if logs := s.named(t, "AWS::Logs::LogGroup", "LogGroupName", "/cellwall/orders/global/frontdoor"); logs.at("RetentionInDays") != 30.0 {
				t.Errorf("logs are %s", text(logs.Properties))
			}
			checkIngress(t, s, "orders-global-frontdoor", "JWT", "Live848578DF")
			if roles := s.of("AWS::IAM::Role"); len(roles) != 1 || roles[0].at("RoleName") != "orders-global-keeper-role-"+region {
				t.Errorf("%d roles: that of the front door is in the global stack, and the keeper's is wanted alone", len(roles))
			}
			got, err := routerenv.ParseFrontDoor(s.environment(t, "orders-global-frontdoor"))
			if err != nil {
				t.Fatalf("the front door refuses its environment: %v", err)
			}
			want := routerenv.FrontDoor{Service: "orders", Role: role,
				Auth:      routerenv.Auth{Source: "jwt", Issuer: "https://login.example.com/", Audience: "orders", Claim: "tenant_id"},
				Directory: "arn:aws:dynamodb:" + region + ":111111111111:table/orders-directory", DirectoryRegion: region, HomeRegion: "eu-west-1", Home: table,
				Snapshots: "orders-global-0snap-111111111111-" + region,
				Cells:     map[string]string{"eu-canary": "eu-west-1/111111111111", "us-1": "us-east-1/222222222222"}}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("environment (-fleet +front door):\n%s", d)
			}
			home := "arn:aws:dynamodb:eu-west-1:111111111111:table/orders-directory"
			tables := []string{home}
			if table != "" {
				tables = append(tables, got.Directory)
			}
			permissions := []statement{
				{Effect: "Allow", Action: []string{"logs:CreateLogStream", "logs:PutLogEvents"}, Resource: []string{"arn:aws:logs:" + region + ":111111111111:log-group:/cellwall/orders/global/frontdoor:*"}},
				{Effect: "Allow", Action: []string{"dynamodb:GetItem"}, Resource: tables},
				{Effect: "Allow", Action: []string{"lambda:InvokeFunction"}, Resource: []string{
					"arn:aws:lambda:eu-west-1:111111111111:function:orders-eu-canary-router:live", "arn:aws:lambda:us-east-1:222222222222:function:orders-us-1-router:live"}},
				{Effect: "Allow", Action: []string{"s3:GetObject"}, Resource: []string{"arn:aws:s3:::" + got.Snapshots + "/snapshot"}},
				{Effect: "Allow", Action: []string{"s3:ListBucket"}, Resource: []string{"arn:aws:s3:::" + got.Snapshots}},
				{Effect: "Allow", Action: []string{"kms:Decrypt"}, Resource: []string{"arn:aws:kms:" + region + ":111111111111:key/*"},
					Condition: `{"ForAnyValue:StringEquals":{"kms:ResourceAliases":"alias/orders-global-snapshot"},` + strings.TrimPrefix(frontDoorContext, "{")},
				{Effect: "Allow", Action: []string{"kms:VerifyMac"}, Resource: []string{"arn:aws:kms:" + region + ":111111111111:key/*"},
					Condition: `{"ForAnyValue:StringEquals":{"kms:ResourceAliases":"alias/orders-global-snapshot-mac"}}`},
			}
			if d := cmp.Diff(permissions, a["global"].permissions(t, "orders-global-frontdoor-role-"+region)); d != "" {
				t.Errorf("permissions (-want +got):\n%s", d)
			}
			for _, cell := range []string{"eu-canary", "us-1"} {
				core := a[cell+"/core"]
				p := core.named(t, "AWS::Lambda::Permission", "Principal", role)
				if got := text(p.Properties); got != `{"Action":"lambda:InvokeFunction","FunctionName":{"Ref":"RouterLive07757374"},"Principal":"`+role+`"}` {
					t.Errorf("%s: the front door may %s", cell, got)
				}
				env, err := routerenv.Parse(core.environment(t, "orders-"+cell+"-router"))
				if err != nil || !slices.Contains(env.Auth.FrontDoors, role) || len(env.Auth.FrontDoors) != 2 {
					t.Errorf("%s: the router knows the front doors %v, %v", cell, env.Auth.FrontDoors, err)
				}
			}
		})
	}
	// The directory is created last: its table is protected, and would stay when a role's name is taken.
	global := a["global"]
	table := global.one(t, "AWS::DynamoDB::GlobalTable")
	for id := range global.Template.Resources {
		if global.Template.Resources[id].Type != table.Type && !slices.Contains(table.DependsOn, id) {
			t.Errorf("the directory does not wait for %s", id)
		}
	}
	// The CDK deploys them after the stack with their roles.
	var manifest struct {
		Artifacts map[string]struct{ Dependencies []string }
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(filepath.Dir(global.file), "manifest.json"))), &manifest); err != nil {
		t.Fatal(err)
	}
	for _, region := range []string{"eu-west-1", "us-east-1"} {
		if got := manifest.Artifacts["frontdoor-"+region].Dependencies; !slices.Contains(got, "global") {
			t.Errorf("the front door of %s waits for %v", region, got)
		}
	}
}

// frontDoorContext is the condition on data keys of a front door's snapshot.
const frontDoorContext = `{"StringEquals":{"kms:EncryptionContext:cell":"global","kms:EncryptionContext:purpose":"snapshot","kms:EncryptionContext:service":"orders"}}`

// TestFrontDoorSnapshot: a front door's keeper lists the cells' tenants in its own region and writes its one object;
// the front door opens that, and nobody else does.
func TestFrontDoorSnapshot(t *testing.T) {
	a := synth(t, sample(t, doors, func(f *fleet.Fleet) {
		f.Auth.Source, f.Auth.Algorithms = fleet.AuthVerify, []string{"RS256"}
		f.Keeper = fleet.Keeper{Every: 5 * time.Minute, Memory: 1024}
	}))
	for _, region := range []string{"eu-west-1", "us-east-1"} {
		s := a["frontdoor-"+region]
		bucket, table := "arn:aws:s3:::orders-global-0snap-111111111111-"+region, "arn:aws:dynamodb:"+region+":111111111111:table/orders-directory"
		want := []statement{
			{Effect: "Allow", Action: []string{"logs:CreateLogStream", "logs:PutLogEvents"}, Resource: []string{`{"Fn::GetAtt":["KeeperLogs1C85E533","Arn"]}`}},
			{Effect: "Allow", Action: []string{"dynamodb:Query"}, Resource: []string{table + "/index/first"}},
			{Effect: "Allow", Action: []string{"dynamodb:GetItem"}, Resource: []string{table}, Condition: `{"ForAllValues:StringEquals":{"dynamodb:LeadingKeys":["META"]}}`},
			{Effect: "Allow", Action: []string{"s3:GetObject", "s3:PutObject"}, Resource: []string{bucket + "/snapshot"}},
			{Effect: "Allow", Action: []string{"s3:ListBucket"}, Resource: []string{bucket}},
			{Effect: "Allow", Action: []string{"kms:Decrypt", "kms:GenerateDataKey"}, Resource: []string{`{"Fn::GetAtt":["SnapshotKeyD4D086C1","Arn"]}`}, Condition: frontDoorContext},
			{Effect: "Allow", Action: []string{"kms:GenerateMac"}, Resource: []string{`{"Fn::GetAtt":["SnapshotMAC39ABE3E9","Arn"]}`}},
		}
		if d := cmp.Diff(want, s.permissions(t, "orders-global-keeper-role-"+region)); d != "" {
			t.Errorf("the keeper's permissions (-want +got):\n%s", d)
		}
		for _, alias := range []string{"alias/orders-global-snapshot", "alias/orders-global-snapshot-mac"} {
			id, _ := s.named(t, "AWS::KMS::Alias", "AliasName", alias).at("TargetKeyId", "Fn::GetAtt", 0).(string)
			key := s.Template.Resources[id]
			if got := text(key.at("KeyPolicy", "Statement")); got != `[{"Action":"kms:*","Effect":"Allow","Principal":{"AWS":"arn:aws:iam::111111111111:root"},"Resource":"*"}]` {
				t.Errorf("%s: its policy is %s", alias, got)
			}
			if key.at("KeySpec") != nil && key.at("KeySpec") != "HMAC_256" || (key.at("KeySpec") == "HMAC_256") != strings.HasSuffix(alias, "-mac") {
				t.Errorf("%s is %s", alias, text(key.Properties))
			}
		}
		if b := s.one(t, "AWS::S3::Bucket"); b.at("BucketName") != "orders-global-0snap-111111111111-"+region || b.DeletionPolicy != "RetainExceptOnCreate" || text(b.at("VersioningConfiguration")) != `{"Status":"Enabled"}` {
			t.Errorf("the bucket is %s, and %s", text(b.Properties), b.DeletionPolicy)
		}
		fn := s.named(t, "AWS::Lambda::Function", "FunctionName", "orders-global-keeper")
		for property, want := range map[string]any{"MemorySize": 1024.0, "ReservedConcurrentExecutions": 1.0, "Timeout": 300.0, "Architectures": []any{"arm64"}, "VpcConfig": nil} {
			if d := cmp.Diff(want, fn.at(property)); d != "" {
				t.Errorf("%s (-want +got):\n%s", property, d)
			}
		}
		if rule := s.one(t, "AWS::Events::Rule"); rule.at("Name") != "orders-global-keeper" || rule.at("ScheduleExpression") != "rate(5 minutes)" || !slices.ContainsFunc(rule.DependsOn, func(id string) bool { return s.Template.Resources[id].Type == "AWS::S3::Bucket" }) {
			t.Errorf("the schedule is %s and waits for %v", text(rule.Properties), rule.DependsOn)
		}
		if got := s.named(t, "AWS::Lambda::Permission", "Principal", "events.amazonaws.com").at("SourceArn"); got != "arn:aws:events:"+region+":111111111111:rule/orders-global-keeper" {
			t.Errorf("it is invoked by %v", got)
		}
		got, err := routerenv.ParseFrontDoorKeeper(s.environment(t, "orders-global-keeper"))
		if d := cmp.Diff(routerenv.FrontDoorKeeper{
			Service: "orders", Cells: map[string]string{"eu-canary": "eu-west-1/111111111111", "us-1": "us-east-1/222222222222"},
			Directory: table, DirectoryRegion: region, Snapshots: "orders-global-0snap-111111111111-" + region, Issuer: "https://login.example.com/",
		}, got); d != "" || err != nil {
			t.Errorf("environment, %v (-fleet +keeper):\n%s", err, d)
		}
	}
	// Where the API verifies, the issuer is nobody's to ask.
	jwt := frontDoorKeeperEnvironment(sample(t, doors), "eu-west-1")
	if _, asks := jwt["CELLWALL_ISSUER"]; asks || !routerenv.OfFrontDoor(func(name string) string { return jwt[name] }) {
		t.Errorf("with an API that verifies, the keeper is told %v", jwt)
	}
	checkAudit(t, a, nil)
}

// TestNoFrontDoors: a fleet without has nothing of them, and neither has a cell that is synthesised alone.
func TestNoFrontDoors(t *testing.T) {
	for _, path := range shape(t, "per-shard").paths() {
		if s := shape(t, "per-shard")[path]; strings.HasPrefix(path, "frontdoor") || strings.Contains(s.text, "frontdoor") || strings.Contains(s.text, "frontDoors") {
			t.Errorf("%s knows of front doors", path)
		}
	}
	in := input(sample(t, doors))
	in.Cell, in.FrontDoor = "eu-canary", "not/there"
	folder, err := try(t, in)
	if err != nil {
		t.Fatal(err)
	}
	alone := open(t, folder)
	for _, path := range alone.paths() {
		if !strings.HasPrefix(path, "eu-canary/") {
			t.Errorf("a cell alone has %s", path)
		}
	}
	let := 0
	for _, p := range alone["eu-canary/core"].of("AWS::Lambda::Permission") {
		if strings.Contains(p.at("Principal").(string), ":role/orders-global-frontdoor-role-") {
			let++
		}
	}
	if let != 2 {
		t.Errorf("a cell alone lets %d front doors in", let)
	}
}

// TestFrontDoorTooSmall: a fleet whose cells do not fit into a front door's environment is refused.
func TestFrontDoorTooSmall(t *testing.T) {
	_, err := try(t, input(sample(t, shapes["lambda-only"], doors, func(f *fleet.Fleet) {
		f.Cells = f.Cells[:1]
		env := func(f *fleet.Fleet) error { _, err := frontDoorEnvironment(Input{Fleet: f}, "eu-west-1"); return err }
		for i := 0; env(f) == nil; i++ {
			c := f.Cells[0]
			c.Name, c.Account = fmt.Sprintf("cell-%04d", i), fmt.Sprintf("%012d", 222222222222+i)
			c.Shards = c.Shards[:1]
			f.Cells = append(f.Cells, c)
		}
		if n := len(f.Cells); n < 80 {
			t.Errorf("a front door has room for %d cells", n-1)
		}
	})))
	if !strings.Contains(message(err), "the front door's environment takes 4") {
		t.Errorf("the error is %v", err)
	}
}
