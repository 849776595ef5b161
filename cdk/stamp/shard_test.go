package stamp

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/fleet"
)

const shardPath = "eu-canary/shard-s01"

// TestSlice: the function, its alias, and what its code is told.
func TestSlice(t *testing.T) {
	s := shape(t, "per-shard")[shardPath]
	fn := s.one(t, "AWS::Lambda::Function")
	for property, want := range map[string]any{
		"FunctionName": "orders-eu-canary-s01-worker", "Runtime": "provided.al2023", "Handler": "bootstrap", "MemorySize": 512.0,
		"ReservedConcurrentExecutions": 20.0, "Timeout": 20.0, "Architectures": []any{"arm64"}, "VpcConfig": nil,
		"Environment": map[string]any{"Variables": map[string]any{
			"CELLWALL_SERVICE": "orders", "CELLWALL_CELL": "eu-canary", "CELLWALL_SHARD": "s01",
			"CELLWALL_TABLE": "orders-eu-canary-store", "CELLWALL_SHARD_TABLE": "orders-eu-canary-s01-state",
			"CELLWALL_BUCKET":         "orders-eu-canary-s01-111111111111-eu-west-1",
			"CELLWALL_DISPATCH_QUEUE": "orders-eu-canary-dispatch", "CELLWALL_DEAD_QUEUE": "orders-eu-canary-s01-dead"}},
	} {
		if d := cmp.Diff(want, fn.at(property)); d != "" {
			t.Errorf("%s (-want +got):\n%s", property, d)
		}
	}
	alias := s.one(t, "AWS::Lambda::Alias")
	if alias.at("Name") != "live" || !strings.Contains(text(alias.at("FunctionVersion")), "WorkerCurrentVersion") {
		t.Errorf("alias %v is version %s", alias.at("Name"), text(alias.at("FunctionVersion")))
	}
	if logs := s.named(t, "AWS::Logs::LogGroup", "LogGroupName", "/cellwall/orders/eu-canary/s01/worker"); logs.at("RetentionInDays") != 30.0 {
		t.Errorf("logs are kept for %v days", logs.at("RetentionInDays"))
	}
}

// TestEnvironmentOfState: CELLWALL_TABLE is the cell's store, the shard's own table, or absent.
func TestEnvironmentOfState(t *testing.T) {
	for name, want := range map[string]any{"per-shard": "orders-eu-canary-store", "home": "orders-eu-canary-s01-state", "lambda-only": nil} {
		env := shape(t, name)[shardPath].one(t, "AWS::Lambda::Function").at("Environment", "Variables").(map[string]any)
		if env["CELLWALL_TABLE"] != want {
			t.Errorf("%s: CELLWALL_TABLE is %v, want %v", name, env["CELLWALL_TABLE"], want)
		}
	}
}

// TestQueue: redrive, consumer and the time that a message stays hidden, for several time-outs.
func TestQueue(t *testing.T) {
	for _, timeout := range []int{1, 20, 900} {
		s := synth(t, sample(t, func(f *fleet.Fleet) {
			f.Shard.Lambda.Timeout = timeout
			f.Cells[0].Shards = f.Cells[0].Shards[:1]
		}))[shardPath]
		queue := s.named(t, "AWS::SQS::Queue", "QueueName", "orders-eu-canary-s01-work")
		dead := s.named(t, "AWS::SQS::Queue", "QueueName", "orders-eu-canary-s01-dead")
		source := s.one(t, "AWS::Lambda::EventSourceMapping")
		window, _ := source.at("MaximumBatchingWindowInSeconds").(float64)
		if got := queue.at("VisibilityTimeout").(float64); got < 6*float64(timeout)+window || got > 43_200 {
			t.Errorf("messages stay hidden for %v s, with a time-out of %d s and a window of %v s", got, timeout, window)
		}
		if got := text(queue.at("RedrivePolicy")); got != `{"deadLetterTargetArn":{"Fn::GetAtt":["DeadLettersBBF8BAAB","Arn"]},"maxReceiveCount":5}` {
			t.Errorf("redrive is %s", got)
		}
		if dead.at("MessageRetentionPeriod") != 1_209_600.0 {
			t.Errorf("dead letters are kept for %v s", dead.at("MessageRetentionPeriod"))
		}
		if source.at("ScalingConfig", "MaximumConcurrency") != 5.0 || text(source.at("FunctionResponseTypes")) != `["ReportBatchItemFailures"]` ||
			!strings.Contains(text(source.at("FunctionName")), ":live") {
			t.Errorf("the event source is %s", text(source.Properties))
		}
		for _, q := range []resource{queue, dead} {
			if q.DeletionPolicy != "RetainExceptOnCreate" || q.UpdateReplacePolicy != "Retain" {
				t.Errorf("%v is not kept: %s, %s", q.at("QueueName"), q.DeletionPolicy, q.UpdateReplacePolicy)
			}
			if q.at("SqsManagedSseEnabled") != true {
				t.Errorf("%v is not encrypted", q.at("QueueName"))
			}
		}
	}
}

// TestEventSources holds in every shape: a queue's consumers fit into the function's own concurrency, where any more
// would be throttled and their messages counted as received for nothing; and a message that is being worked on stays
// hidden for as long as AWS advises (AWS Lambda developer guide, Using Lambda with Amazon SQS).
func TestEventSources(t *testing.T) {
	eachShape(t, func(t *testing.T, a assembly) {
		for _, path := range a.paths() {
			all := a[path].Template.Resources
			for _, source := range a[path].of("AWS::Lambda::EventSourceMapping") {
				function := all[behind(all, source.at("FunctionName"))]
				for function.Type == "AWS::Lambda::Alias" {
					function = all[behind(all, function.at("FunctionName"))]
				}
				queue := all[behind(all, source.at("EventSourceArn"))]
				if function.Type != "AWS::Lambda::Function" || queue.Type != "AWS::SQS::Queue" {
					t.Errorf("%s: an event source from %s to %s", path, queue.Type, function.Type)
					continue
				}
				consumers, _ := source.at("ScalingConfig", "MaximumConcurrency").(float64)
				if own, _ := function.at("ReservedConcurrentExecutions").(float64); consumers < 2 || consumers > own {
					t.Errorf("%s: %v consumers of %v reserved", path, consumers, own)
				}
				window, _ := source.at("MaximumBatchingWindowInSeconds").(float64)
				if got, timeout := queue.at("VisibilityTimeout").(float64), function.at("Timeout").(float64); timeout < 1 || got < 6*timeout+window || got > 43_200 {
					t.Errorf("%s: messages stay hidden for %v s, with a time-out of %v s and a window of %v s", path, got, timeout, window)
				}
				if text(source.at("FunctionResponseTypes")) != `["ReportBatchItemFailures"]` {
					t.Errorf("%s: a batch fails as a whole", path)
				}
			}
		}
	})
}

// behind is the first resource that a value refers to.
func behind(all map[string]resource, value any) string {
	id := referred.FindStringSubmatch(text(value))
	if id == nil {
		return ""
	}
	return id[1]
}

var referred = regexp.MustCompile(`"(?:Ref":|Fn::GetAtt":\[)"([A-Za-z0-9]+)"`)

// TestState: a shard's table and bucket outlive its stack, and are protected.
func TestState(t *testing.T) {
	s := shape(t, "per-shard")[shardPath]
	table, bucket := s.one(t, "AWS::DynamoDB::Table"), s.one(t, "AWS::S3::Bucket")
	for _, r := range []resource{table, bucket} {
		if r.DeletionPolicy != "RetainExceptOnCreate" || r.UpdateReplacePolicy != "Retain" {
			t.Errorf("%s is not kept: %s, %s", r.Type, r.DeletionPolicy, r.UpdateReplacePolicy)
		}
	}
	if table.at("DeletionProtectionEnabled") != true || table.at("PointInTimeRecoverySpecification", "PointInTimeRecoveryEnabled") != true ||
		table.at("TableName") != "orders-eu-canary-s01-state" || table.at("StreamSpecification", "StreamViewType") != "NEW_AND_OLD_IMAGES" ||
		table.at("BillingMode") != "PAY_PER_REQUEST" {
		t.Errorf("the table is %s", text(table.Properties))
	}
	if bucket.at("VersioningConfiguration", "Status") != "Enabled" || bucket.at("BucketName") != "orders-eu-canary-s01-111111111111-eu-west-1" ||
		text(bucket.at("PublicAccessBlockConfiguration")) != `{"BlockPublicAcls":true,"BlockPublicPolicy":true,"IgnorePublicAcls":true,"RestrictPublicBuckets":true}` {
		t.Errorf("the bucket is %s", text(bucket.Properties))
	}
	if policy := text(s.one(t, "AWS::S3::BucketPolicy").Properties); !strings.Contains(policy, `{"Bool":{"aws:SecureTransport":"false"}}`) {
		t.Errorf("the bucket takes requests without TLS: %s", policy)
	}
}

// TestBoundsOfTables: a shard's table takes no more than the fleet says, which is a new table's throughput if it says
// nothing; the store of the cell is bounded by the account alone.
func TestBoundsOfTables(t *testing.T) {
	for name, want := range map[string]string{
		"per-shard":  `{"MaxReadRequestUnits":12000,"MaxWriteRequestUnits":4000}`,
		"everything": `{"MaxReadRequestUnits":900,"MaxWriteRequestUnits":300}`,
	} {
		for _, path := range []string{shardPath, "eu-canary/shard-s04"} {
			if got := text(shape(t, name)[path].one(t, "AWS::DynamoDB::Table").at("OnDemandThroughput")); got != want {
				t.Errorf("%s: the table of %s takes %s", name, path, got)
			}
		}
		if got := shape(t, name)["eu-canary/core"].one(t, "AWS::DynamoDB::Table").at("OnDemandThroughput"); got != nil {
			t.Errorf("%s: the store takes %v", name, got)
		}
	}
}

// TestStateComesLast: a table, which is protected from deletion, waits for all other resources of its
// stack, a schedule for all but that, and a bucket for all but these and its policy: what fails before leaves no
// state behind. Nothing plainly retained is left behind either, and nothing but a bucket's policy refers to state.
func TestStateComesLast(t *testing.T) {
	eachShape(t, func(t *testing.T, a assembly) {
		for _, path := range a.paths() {
			all := a[path].Template.Resources
			for id, r := range all {
				if r.DeletionPolicy == "Retain" {
					t.Errorf("%s: a failed first deployment leaves %s behind", path, id)
				}
				for other, o := range all {
					named := slices.Contains(r.DependsOn, other)
					refers := named || strings.Contains(text(r.Properties), `"`+other+`"`)
					var waits bool
					switch {
					case isTable(o):
					case isTable(r):
						waits = true
					case o.Type == "AWS::Events::Rule":
					case r.Type == "AWS::Events::Rule":
						waits = true
					case o.Type == "AWS::S3::Bucket":
						waits = r.Type == "AWS::S3::BucketPolicy"
					case r.Type == "AWS::S3::Bucket":
						waits = o.Type != "AWS::S3::BucketPolicy"
					default:
						continue
					}
					if id != other && refers != waits {
						t.Errorf("%s: that %s waits for %s is %v, want %v", path, id, other, refers, waits)
					}
				}
			}
		}
	})
}

func isTable(r resource) bool {
	return r.Type == "AWS::DynamoDB::Table" || r.Type == "AWS::DynamoDB::GlobalTable"
}

// assets is the bucket that the account's CDK bootstrap keeps a service's archive in.
var assets = regexp.MustCompile(`^arn:aws:s3:::cdk-[a-z0-9]{1,10}-assets-111111111111-eu-west-1/`)

// TestShardRolesReachTheShardAlone: no wildcard, and no resource but the shard's, the cell's store, the service's
// archive, and the dispatch queue, to send jobs there.
func TestShardRolesReachTheShardAlone(t *testing.T) {
	eachShape(t, func(t *testing.T, a assembly) {
		for _, path := range a.paths() {
			id, ok := strings.CutPrefix(path, "eu-canary/shard-")
			if !ok {
				continue
			}
			for _, policy := range a[path].of("AWS::IAM::Policy") {
				for _, s := range statements(t, policy.at("PolicyDocument")) {
					for _, action := range s.Action {
						if strings.Contains(action, "*") || strings.HasSuffix(action, ":Scan") {
							t.Errorf("%s may do %s", path, action)
						}
					}
					for _, r := range s.Resource {
						ours := strings.Contains(r, "orders-eu-canary-"+id+"-") || text(s.Action) == `["cloudformation:SignalResource"]` && r == `{"Ref":"AWS::StackId"}` || strings.Contains(r, `"Fn::GetAtt"`) ||
							strings.HasSuffix(r, ":table/orders-eu-canary-store") ||
							r == "arn:aws:sqs:eu-west-1:111111111111:orders-eu-canary-dispatch" && text(s.Action) == `["sqs:GetQueueUrl","sqs:SendMessage"]` ||
							assets.MatchString(r) && strings.HasSuffix(r, ".zip")
						if !ours {
							t.Errorf("%s reaches %s", path, r)
						}
					}
				}
			}
			for _, role := range a[path].of("AWS::IAM::Role") {
				if role.at("ManagedPolicyArns") != nil || role.at("RoleName") != nil {
					t.Errorf("%s: role %s", path, text(role.Properties))
				}
			}
		}
	})
}

// TestInstances: the group, its template and the way to it.
func TestInstances(t *testing.T) {
	s := shape(t, "per-shard")[shardPath]
	group := s.one(t, "AWS::AutoScaling::AutoScalingGroup")
	for property, want := range map[string]any{"AutoScalingGroupName": "orders-eu-canary-s01-asg", "MinSize": "2", "MaxSize": "6",
		"DesiredCapacity": nil, "LaunchConfigurationName": nil, "HealthCheckType": "ELB"} {
		if d := cmp.Diff(want, group.at(property)); d != "" {
			t.Errorf("%s (-want +got):\n%s", property, d)
		}
	}
	if got := text(group.at("LaunchTemplate", "Version")); !strings.Contains(got, "LatestVersionNumber") {
		t.Errorf("instances are launched from version %s", got)
	}
	rolling, _ := group.UpdatePolicy["AutoScalingRollingUpdate"].(map[string]any)
	if rolling["MinInstancesInService"] != 2.0 || rolling["MaxBatchSize"] != 1.0 || rolling["WaitOnResourceSignals"] != true ||
		rolling["MinSuccessfulInstancesPercent"] != 100.0 || rolling["PauseTime"] != "PT10M" {
		t.Errorf("the update policy is %v", group.UpdatePolicy)
	}
	if got := text(group.CreationPolicy); got != `{"AutoScalingCreationPolicy":{"MinSuccessfulInstancesPercent":100},"ResourceSignal":{"Count":2,"Timeout":"PT10M"}}` {
		t.Errorf("the creation policy is %s", got)
	}
	scaling := s.one(t, "AWS::AutoScaling::ScalingPolicy")
	if got := text(scaling.at("TargetTrackingConfiguration")); scaling.at("PolicyType") != "TargetTrackingScaling" ||
		got != `{"PredefinedMetricSpecification":{"PredefinedMetricType":"ASGAverageCPUUtilization"},"TargetValue":60}` {
		t.Errorf("the group scales by %s", got)
	}
	data := s.one(t, "AWS::EC2::LaunchTemplate").at("LaunchTemplateData").(map[string]any)
	for property, want := range map[string]string{
		"ImageId": `"ami-0123456789abcdef0"`, "InstanceType": `"t4g.small"`, "MetadataOptions": `{"HttpPutResponseHopLimit":1,"HttpTokens":"required"}`,
		"BlockDeviceMappings": `[{"DeviceName":"/dev/xvda","Ebs":{"Encrypted":true,"VolumeType":"gp3"}}]`} {
		if got := text(data[property]); got != want {
			t.Errorf("%s is %s, want %s", property, got, want)
		}
	}
	targets := s.one(t, "AWS::ElasticLoadBalancingV2::TargetGroup")
	if targets.at("Name") != "orders-eu-canary-s01-tg-8080-own" || targets.at("Port") != 8080.0 || targets.at("HealthCheckPath") != "/healthz" {
		t.Errorf("the target group is %s", text(targets.Properties))
	}
	alb := s.one(t, "AWS::ElasticLoadBalancingV2::LoadBalancer")
	if alb.at("Scheme") != "internal" || alb.at("Name") != "orders-eu-canary-s01-lb" {
		t.Errorf("the load balancer is %s", text(alb.Properties))
	}
	name := s.one(t, "AWS::Route53::RecordSet")
	if name.at("Name") != "s01.eu-canary.orders.internal." || name.at("Type") != "A" {
		t.Errorf("its name is %v, %v", name.at("Name"), name.at("Type"))
	}
	for _, sg := range s.of("AWS::EC2::SecurityGroup") {
		if sg.at("SecurityGroupIngress") != nil {
			t.Errorf("a security group lets in %s", text(sg.at("SecurityGroupIngress")))
		}
	}
}

// TestMinInstancesOfFullGroup: a group that cannot grow must be able to replace one.
func TestMinInstancesOfFullGroup(t *testing.T) {
	for _, c := range []struct{ min, max, want int }{{1, 1, 0}, {3, 3, 2}, {1, 3, 1}} {
		s := synth(t, sample(t, func(f *fleet.Fleet) {
			f.Shard.HTTP.Min, f.Shard.HTTP.Max = c.min, c.max
			f.Cells[0].Shards = f.Cells[0].Shards[:1]
		}))[shardPath]
		rolling := s.one(t, "AWS::AutoScaling::AutoScalingGroup").UpdatePolicy["AutoScalingRollingUpdate"].(map[string]any)
		if rolling["MinInstancesInService"] != float64(c.want) {
			t.Errorf("with %d to %d instances, %v stay in service, want %d", c.min, c.max, rolling["MinInstancesInService"], c.want)
		}
		if n := len(s.of("AWS::AutoScaling::ScalingPolicy")); n != min(1, c.max-c.min) {
			t.Errorf("with %d to %d instances there are %d scaling policies", c.min, c.max, n)
		}
	}
}

// TestPartsOff: a block that the fleet leaves out leaves nothing behind.
func TestPartsOff(t *testing.T) {
	for name, want := range map[string][]string{
		"lambda-only": {"CloudWatch::Alarm", "CloudWatch::CompositeAlarm", "IAM::Policy", "IAM::Role", "Lambda::Alias", "Lambda::Function", "Lambda::Version", "Logs::LogGroup"},
		"http-only": {"AutoScaling::AutoScalingGroup", "AutoScaling::ScalingPolicy", "CloudWatch::Alarm", "CloudWatch::CompositeAlarm", "EC2::LaunchTemplate", "EC2::SecurityGroup", "EC2::SecurityGroupEgress", "EC2::SecurityGroupIngress",
			"ElasticLoadBalancingV2::Listener", "ElasticLoadBalancingV2::LoadBalancer", "ElasticLoadBalancingV2::TargetGroup",
			"IAM::InstanceProfile", "IAM::Policy", "IAM::Role", "Logs::LogGroup", "Route53::RecordSet"},
	} {
		types := map[string]bool{}
		for _, r := range shape(t, name)[shardPath].Template.Resources {
			types[strings.TrimPrefix(r.Type, "AWS::")] = true
		}
		if d := cmp.Diff(want, slices.Sorted(maps.Keys(types))); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	core := shape(t, "http-only")["eu-canary/core"]
	for _, s := range core.permissions(t, "orders-eu-canary-router-role") {
		if slices.Contains(s.Action, "lambda:InvokeFunction") || slices.Contains(s.Action, "sqs:SendMessage") {
			t.Errorf("the router may do %v, though shards have neither slice nor queue", s.Action)
		}
	}
	if n := len(core.of("AWS::EC2::VPCEndpoint")); n != 6 {
		t.Errorf("the cell pays for %d endpoints, want the two gateways, the key store's, KMS's, CloudFormation's and CloudWatch Logs'", n)
	}
}
