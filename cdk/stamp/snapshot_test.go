package stamp

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/routerenv"
)

// What the roles of keeper and router say of the snapshot.
const (
	snapshotBucket  = "arn:aws:s3:::orders-eu-canary-0snap-111111111111-eu-west-1"
	snapshotContext = `{"StringEquals":{"kms:EncryptionContext:cell":"eu-canary","kms:EncryptionContext:purpose":"snapshot","kms:EncryptionContext:service":"orders"}}`
)

// TestKeeperReachesItsCellAlone: every permission of the keeper's role.
func TestKeeperReachesItsCellAlone(t *testing.T) {
	const table = "arn:aws:dynamodb:eu-west-1:111111111111:table/orders-directory"
	metrics := statement{Effect: "Allow", Action: []string{"cloudwatch:GetMetricData"}, Resource: []string{"*"}}
	both := statement{Effect: "Allow", Action: append(slices.Clone(metrics.Action), "elasticloadbalancing:DescribeTargetGroups", "elasticloadbalancing:DescribeTargetHealth"), Resource: []string{"*"}}
	for name, looks := range map[string]statement{"per-shard": both, "lambda-only": metrics, "http-only": both} {
		t.Run(name, func(t *testing.T) {
			want := []statement{
				{Effect: "Allow", Action: []string{"logs:CreateLogStream", "logs:PutLogEvents"}, Resource: []string{`{"Fn::GetAtt":["KeeperLogs1C85E533","Arn"]}`}},
				{Effect: "Allow", Action: []string{"dynamodb:GetItem", "dynamodb:Query"}, Resource: []string{table, table + "/index/first"}},
				{Effect: "Allow", Action: []string{"dynamodb:GetItem"}, Resource: []string{table}},
				{Effect: "Allow", Action: []string{"dynamodb:UpdateItem"}, Resource: []string{table}, Condition: `{"ForAllValues:StringEquals":{"dynamodb:LeadingKeys":["CELL#eu-canary"]}}`},
				looks,
				{Effect: "Allow", Action: []string{"secretsmanager:DescribeSecret", "secretsmanager:GetSecretValue"}, Resource: []string{`{"Ref":"PlacementKey0DD64F4C"}`}},
				{Effect: "Allow", Action: []string{"s3:GetObject", "s3:PutObject"}, Resource: []string{snapshotBucket + "/snapshot"}},
				{Effect: "Allow", Action: []string{"s3:ListBucket"}, Resource: []string{snapshotBucket}},
				{Effect: "Allow", Action: []string{"kms:Decrypt", "kms:GenerateDataKey"}, Resource: []string{`{"Fn::GetAtt":["SnapshotKeyD4D086C1","Arn"]}`}, Condition: snapshotContext},
				{Effect: "Allow", Action: []string{"kms:GenerateMac"}, Resource: []string{`{"Fn::GetAtt":["SnapshotMAC39ABE3E9","Arn"]}`}},
			}
			if d := cmp.Diff(want, shape(t, name)["eu-canary/core"].permissions(t, "orders-eu-canary-keeper-role")); d != "" {
				t.Errorf("the keeper's permissions (-want +got):\n%s", d)
			}
		})
	}
}

// TestKeeperReadsTheFleet: of every shape, what the keeper reads from its environment is what the fleet says; and
// nobody is asked whose answer nobody needs.
func TestKeeperReadsTheFleet(t *testing.T) {
	eachShape(t, func(t *testing.T, a assembly) {
		f := sample(t, shapes[path.Base(t.Name())])
		core := a["eu-canary/core"]
		env := core.environment(t, "orders-eu-canary-keeper")
		got, err := routerenv.ParseKeeper(env)
		if err != nil {
			t.Fatalf("the keeper refuses its environment: %v", err)
		}
		want := routerenv.Keeper{
			Service: "orders", Cell: "eu-canary", KeySecret: "cellwall/orders/eu-canary/placement-key",
			Directory: "arn:aws:dynamodb:eu-west-1:111111111111:table/orders-directory", DirectoryRegion: "eu-west-1",
			Snapshots: "orders-eu-canary-0snap-111111111111-eu-west-1",
			Slices:    f.Shard.Lambda != nil, Queues: f.Shard.Queue != nil, Balancers: []string{}, Quarantine: append([]string{}, f.Cells[0].Quarantine...),
			Stateful: f.Shard.State.Mode == fleet.StateHome, HashTenants: f.Router.HashTenants,
		}
		want.Home, want.HomeRegion = want.Directory, want.DirectoryRegion
		switch {
		case f.Shard.Table != nil:
			want.Holdings = routerenv.HoldingsTable
		case f.Shard.State.Mode == fleet.StateCell:
			want.Holdings = routerenv.HoldingsStore
		}
		if f.Auth.Source == fleet.AuthVerify || f.FrontDoor != nil {
			want.Issuer = f.Auth.Issuer
		}
		if f.Shard.HTTP != nil {
			want.Port = f.Shard.HTTP.Port
			want.Balancers = map[fleet.IngressKind][]string{fleet.IngressPerShard: {"own"}, fleet.IngressGrouped: {"g01", "g02"}, fleet.IngressShared: {"shared"}}[f.Shard.HTTP.Ingress.Kind]
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("environment (-fleet +keeper):\n%s", d)
		}
		if f.Shard.HTTP == nil {
			return
		}
		// The keeper finds every shard's target group by what it is told.
		for _, s := range f.Cells[0].Shards {
			group := a["eu-canary/shard-"+s.ID].one(t, "AWS::ElasticLoadBalancingV2::TargetGroup").at("Name")
			found := slices.ContainsFunc(got.Balancers, func(b string) bool {
				return names.ForFleet("orders").Cell("eu-canary").Shard(s.ID).TargetGroup(got.Port, b) == group
			})
			if !found {
				t.Errorf("the keeper does not find target group %v of shard %s behind %v", group, s.ID, got.Balancers)
			}
		}
	})
}

// TestKeeperFunction: one at a time, outside of the cell's network, without repeats, by its alias.
func TestKeeperFunction(t *testing.T) {
	core := synth(t, sample(t, func(f *fleet.Fleet) { f.Keeper = fleet.Keeper{Every: 5 * time.Minute, Memory: 1024} }))["eu-canary/core"]
	fn := core.named(t, "AWS::Lambda::Function", "FunctionName", "orders-eu-canary-keeper")
	for property, want := range map[string]any{"Runtime": "provided.al2023", "Handler": "bootstrap", "MemorySize": 1024.0,
		"ReservedConcurrentExecutions": 1.0, "Timeout": 300.0, "Architectures": []any{"arm64"}, "VpcConfig": nil,
		"LoggingConfig": map[string]any{"LogGroup": map[string]any{"Ref": "KeeperLogs1C85E533"}}} {
		if d := cmp.Diff(want, fn.at(property)); d != "" {
			t.Errorf("%s (-want +got):\n%s", property, d)
		}
	}
	if logs := core.named(t, "AWS::Logs::LogGroup", "LogGroupName", "/cellwall/orders/eu-canary/keeper"); logs.at("RetentionInDays") != 30.0 {
		t.Errorf("logs are kept for %v days", logs.at("RetentionInDays"))
	}
	const alias = `{"Ref":"KeeperLiveAA2CDC02"}`
	if live := core.Template.Resources["KeeperLiveAA2CDC02"]; live.at("Name") != "live" || !strings.Contains(text(live.at("FunctionVersion")), "KeeperCurrentVersion") {
		t.Errorf("the alias is %s", text(live.Properties))
	}
	if got := text(core.Template.Resources["KeeperLiveEventInvokeConfigD3E68A36"].Properties); got != `{"FunctionName":{"Ref":"KeeperD1EBA005"},"MaximumEventAgeInSeconds":60,"MaximumRetryAttempts":0,`+
		`"Qualifier":{"Fn::Select":[7,{"Fn::Split":[":",`+alias+`]}]}}` {
		t.Errorf("what is asked of it asynchronously is repeated by %s", got)
	}
	rule := core.one(t, "AWS::Events::Rule")
	if rule.at("Name") != "orders-eu-canary-keeper" || rule.at("ScheduleExpression") != "rate(5 minutes)" || rule.at("State") != nil ||
		text(rule.at("Targets")) != `[{"Arn":`+alias+`,"Id":"keeper","Input":"{}","RetryPolicy":{"MaximumEventAgeInSeconds":60,"MaximumRetryAttempts":0}}]` {
		t.Errorf("the schedule is %s", text(rule.Properties))
	}
	permission := core.named(t, "AWS::Lambda::Permission", "Principal", "events.amazonaws.com")
	if got := text(permission.Properties); got != `{"Action":"lambda:InvokeFunction","FunctionName":`+alias+`,"Principal":"events.amazonaws.com","SourceArn":"arn:aws:events:eu-west-1:111111111111:rule/orders-eu-canary-keeper"}` {
		t.Errorf("the schedule may %s", got)
	}
	if got := shape(t, "per-shard")["eu-canary/core"].one(t, "AWS::Events::Rule").at("ScheduleExpression"); got != "rate(1 minute)" {
		t.Errorf("by default it runs by %v", got)
	}
}

// TestSnapshotBucket: private, over TLS only, versioned for a week, kept when the stack goes.
func TestSnapshotBucket(t *testing.T) {
	core := shape(t, "per-shard")["eu-canary/core"]
	bucket := core.one(t, "AWS::S3::Bucket")
	for property, want := range map[string]string{
		"BucketName":                     `"orders-eu-canary-0snap-111111111111-eu-west-1"`,
		"PublicAccessBlockConfiguration": `{"BlockPublicAcls":true,"BlockPublicPolicy":true,"IgnorePublicAcls":true,"RestrictPublicBuckets":true}`,
		"VersioningConfiguration":        `{"Status":"Enabled"}`,
		"OwnershipControls":              `{"Rules":[{"ObjectOwnership":"BucketOwnerEnforced"}]}`,
		"BucketEncryption":               `{"ServerSideEncryptionConfiguration":[{"ServerSideEncryptionByDefault":{"SSEAlgorithm":"AES256"}}]}`,
		"LifecycleConfiguration": `{"Rules":[{"AbortIncompleteMultipartUpload":{"DaysAfterInitiation":7},"Id":"abandoned-uploads","Status":"Enabled"},` +
			`{"Id":"old-snapshots","NoncurrentVersionExpiration":{"NoncurrentDays":7},"Status":"Enabled"}]}`,
	} {
		if got := text(bucket.at(property)); got != want {
			t.Errorf("%s is %s, want %s", property, got, want)
		}
	}
	if bucket.DeletionPolicy != "RetainExceptOnCreate" || bucket.UpdateReplacePolicy != "Retain" {
		t.Errorf("it is not kept: %s, %s", bucket.DeletionPolicy, bucket.UpdateReplacePolicy)
	}
	if policy := text(core.one(t, "AWS::S3::BucketPolicy").Properties); !strings.Contains(policy, `{"Bool":{"aws:SecureTransport":"false"}}`) {
		t.Errorf("it takes requests without TLS: %s", policy)
	}
}

// TestSnapshotKeys: a key that encrypts and one that signs, by the aliases that keeper and router derive. The
// account's policies say who may use them, and they go with the stack, which a first deployment that fails needs.
func TestSnapshotKeys(t *testing.T) {
	core := shape(t, "per-shard")["eu-canary/core"]
	for alias, want := range map[string]struct{ about, spec, usage, rotation string }{
		"alias/orders-eu-canary-snapshot":     {"Encrypts the snapshot of cell eu-canary of orders", "null", "null", "true"},
		"alias/orders-eu-canary-snapshot-mac": {"Signs the snapshot of cell eu-canary of orders", `"HMAC_256"`, `"GENERATE_VERIFY_MAC"`, "null"},
	} {
		var target []string
		for id, r := range core.Template.Resources {
			if r.Type == "AWS::KMS::Key" && r.Properties["Description"] == want.about {
				target = append(target, id)
			}
		}
		if got := text(core.named(t, "AWS::KMS::Alias", "AliasName", alias).at("TargetKeyId")); len(target) != 1 || got != `{"Fn::GetAtt":["`+target[0]+`","Arn"]}` {
			t.Fatalf("%s stands for %s, and %q are %v", alias, got, want.about, target)
		}
		key := core.Template.Resources[target[0]]
		if text(key.at("KeySpec")) != want.spec || text(key.at("KeyUsage")) != want.usage || text(key.at("EnableKeyRotation")) != want.rotation || key.at("PendingWindowInDays") != 7.0 {
			t.Errorf("%s is %s", alias, text(key.Properties))
		}
		if got := text(key.at("KeyPolicy", "Statement")); got != `[{"Action":"kms:*","Effect":"Allow","Principal":{"AWS":"arn:aws:iam::111111111111:root"},"Resource":"*"}]` {
			t.Errorf("%s: its policy is %s", alias, got)
		}
		if key.DeletionPolicy != "Delete" || key.UpdateReplacePolicy != "Delete" {
			t.Errorf("%s: %s, %s", alias, key.DeletionPolicy, key.UpdateReplacePolicy)
		}
	}
	if got := slices.Sorted(maps.Keys(core.Template.Resources)); len(core.of("AWS::KMS::Key")) != 3 {
		t.Errorf("three keys are wanted among %v", got)
	}
}
