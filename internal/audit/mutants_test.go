package audit_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
)

// shardResource is one resource of a shard of the sample fleet that mutants make a shared one of.
type shardResource struct {
	typ, id string // id is the logical id in a shard's stack
	rule    string // the rule that must find it
	found   string // the type that it may be reported as: its whole's, where it is a part
	own     string // the rule when only the part is shared; "" is rule
	name    string // property with the physical name, or ""
	arn     string // with NAME in it; "" where the physical name does not give it
	refARN  bool   // Ref is the ARN and not the name
	key     string // a setting's key that says the type
}

// perShard are all types of which a shard has resources, in any shape of the fleet. Rules, properties and ARNs are
// written down here a second time on purpose: the catalogue is what is tested.
var perShard = []shardResource{
	{typ: "AWS::DynamoDB::Table", id: "TableCD117FA1", rule: "SD002", name: "TableName", arn: "arn:aws:dynamodb:eu-west-1:111111111111:table/NAME", key: "ORDERS_TABLE"},
	{typ: "AWS::S3::Bucket", id: "Bucket83908E77", rule: "SD004", name: "BucketName", arn: "arn:aws:s3:::NAME", key: "UPLOAD_BUCKET"},
	{typ: "AWS::S3::BucketPolicy", id: "BucketPolicyE9A3008A", rule: "SD004", found: "AWS::S3::Bucket"},
	{typ: "AWS::Logs::LogGroup", id: "WorkerLogsC1193B08", rule: "SI005", name: "LogGroupName", arn: "arn:aws:logs:eu-west-1:111111111111:log-group:NAME:*", key: "LOG_GROUP"},
	{typ: "AWS::IAM::Role", id: "WorkerRole8DD27D41", rule: "SI001", name: "RoleName", arn: "arn:aws:iam::111111111111:role/NAME", key: "ASSUME_ROLE"},
	{typ: "AWS::IAM::Role", id: "InstanceRole3CCE2F1D", rule: "SI001", name: "RoleName", arn: "arn:aws:iam::111111111111:role/a/path/NAME", key: "roleName"},
	{typ: "AWS::IAM::Policy", id: "WorkerRoleDefaultPolicy1750E153", rule: "SI001", found: "AWS::IAM::Role"},
	{typ: "AWS::Lambda::Function", id: "Worker11F36D0F", rule: "SD008", name: "FunctionName", arn: "arn:aws:lambda:eu-west-1:111111111111:function:NAME", key: "WORKER_FUNCTION"},
	{typ: "AWS::Lambda::Version", id: "WorkerCurrentVersion8AEC97ECDIGEST", rule: "SD008", found: "AWS::Lambda::Function"},
	{typ: "AWS::Lambda::Alias", id: "WorkerLive5169039E", rule: "SD008", found: "AWS::Lambda::Function"},
	{typ: "AWS::Lambda::EventInvokeConfig", id: "Fails", rule: "SD008", found: "AWS::Lambda::Function"},
	{typ: "AWS::Lambda::Permission", id: "Scheduled", rule: "SD008", found: "AWS::Lambda::Function", own: "SI001"},
	{typ: "AWS::Lambda::EventSourceMapping", id: "WorkerLiveSqsEventSourceeucanaryshards01Queue926AE952BE31ED0A", rule: "SD003", found: "AWS::SQS::Queue"},
	{typ: "AWS::SQS::Queue", id: "Queue4A7E3555", rule: "SD003", name: "QueueName", arn: "arn:aws:sqs:eu-west-1:111111111111:NAME", key: "JobQueueName"},
	{typ: "AWS::SQS::Queue", id: "DeadLettersBBF8BAAB", rule: "SD003", name: "QueueName", arn: "arn:aws:sqs:eu-west-1:111111111111:NAME", key: "dead-queue"},
	{typ: "AWS::SQS::QueuePolicy", id: "QueuePolicy25439813", rule: "SD003", found: "AWS::SQS::Queue"},
	{typ: "AWS::EC2::SecurityGroup", id: "InstanceGroupD2EF7A13", rule: "SI004", name: "GroupName", key: "SecurityGroupName"},
	{typ: "AWS::EC2::SecurityGroup", id: "AlbGroupC166012E", rule: "SI004", name: "GroupName", key: "security_group"},
	{typ: "AWS::EC2::SecurityGroupIngress", id: "InstanceGroupfromeucanaryshards01AlbGroupFB2C1EF48080D7B919C7", rule: "SI004", found: "AWS::EC2::SecurityGroup"},
	{typ: "AWS::EC2::SecurityGroupEgress", id: "AlbGrouptoeucanaryshards01InstanceGroup15DAD411808024000E15", rule: "SI004", found: "AWS::EC2::SecurityGroup"},
	{typ: "AWS::IAM::InstanceProfile", id: "TemplateProfile1CBC5090", rule: "SI001", name: "InstanceProfileName", arn: "arn:aws:iam::111111111111:instance-profile/NAME", key: "InstanceProfile"},
	{typ: "AWS::EC2::LaunchTemplate", id: "Template576A9730", rule: "SI006", name: "LaunchTemplateName", key: "LaunchTemplateName"},
	{typ: "AWS::AutoScaling::AutoScalingGroup", id: "Instances", rule: "SD012", name: "AutoScalingGroupName", key: "AutoScalingGroupName",
		arn: "arn:aws:autoscaling:eu-west-1:111111111111:autoScalingGroup:01234567-89ab-cdef-0123-456789abcdef:autoScalingGroupName/NAME"},
	{typ: "AWS::AutoScaling::ScalingPolicy", id: "InstancesScalingPolicyCpu34659A8B", rule: "SD012", found: "AWS::AutoScaling::AutoScalingGroup"},
	{typ: "AWS::ElasticLoadBalancingV2::TargetGroup", id: "Targets8080ownDCF06043", rule: "SD012", name: "Name", refARN: true, key: "TARGET_GROUP",
		arn: "arn:aws:elasticloadbalancing:eu-west-1:111111111111:targetgroup/NAME/0123456789abcdef"},
	{typ: "AWS::ElasticLoadBalancingV2::LoadBalancer", id: "Alb16C2F182", rule: "SD001", name: "Name", refARN: true, key: "LOAD_BALANCER",
		arn: "arn:aws:elasticloadbalancing:eu-west-1:111111111111:loadbalancer/app/NAME/0123456789abcdef"},
	{typ: "AWS::ElasticLoadBalancingV2::Listener", id: "AlbHttp7966E42E", rule: "SD001", found: "AWS::ElasticLoadBalancingV2::LoadBalancer"},
	{typ: "AWS::ElasticLoadBalancingV2::ListenerRule", id: "Route", rule: "SD001", found: "AWS::ElasticLoadBalancingV2::LoadBalancer"},
	{typ: "AWS::Route53::RecordSet", id: "Name", rule: "SD001", found: "AWS::ElasticLoadBalancingV2::LoadBalancer"},
	{typ: "AWS::KMS::Key", id: "Key", rule: "SI002"},
	{typ: "AWS::KMS::Alias", id: "KeyAlias", rule: "SI002", found: "AWS::KMS::Key", name: "AliasName", arn: "arn:aws:kms:eu-west-1:111111111111:NAME", key: "KMS_ALIAS"},
	{typ: "AWS::Events::Rule", id: "Schedule", rule: "SD011", name: "Name", arn: "arn:aws:events:eu-west-1:111111111111:rule/NAME"},
	{typ: "AWS::CloudWatch::Alarm", id: "Alarmerrors", rule: "SI000", name: "AlarmName", arn: "arn:aws:cloudwatch:eu-west-1:111111111111:alarm:NAME", key: "ALARM_NAME"},
	{typ: "AWS::CloudWatch::CompositeAlarm", id: "Health", rule: "SI000", name: "AlarmName", arn: "arn:aws:cloudwatch:eu-west-1:111111111111:alarm:NAME", key: "CompositeAlarm"},
}

// TestEveryPerShardTypeHasMutants reads the types of shards' stacks from the golden lists of all shapes.
func TestEveryPerShardTypeHasMutants(t *testing.T) {
	files, err := filepath.Glob("../../cdk/stamp/testdata/*.golden")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden lists: %v", err)
	}
	line := regexp.MustCompile(`^  \S+ (AWS::\S+)`)
	have := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		inShard := false
		for l := range strings.SplitSeq(string(data), "\n") {
			m := line.FindStringSubmatch(l)
			if m == nil {
				inShard = strings.Contains(l, "/shard-")
			} else if inShard && !strings.HasPrefix(m[1], "AWS::SSM::Parameter::Value<") {
				have[m[1]] = true
			}
		}
	}
	if len(have) < 20 {
		t.Fatalf("only the types %v were found", have)
	}
	for typ := range have {
		if !slices.ContainsFunc(perShard, func(r shardResource) bool { return r.typ == typ }) {
			t.Errorf("%s stands in shards' stacks and has no mutants", typ)
		}
	}
}

const sharedName = "the-shared-one"

// aliases' and log groups' names have a form of their own.
func (r shardResource) sharedName() string {
	if r.typ == "AWS::KMS::Alias" {
		return "alias/" + sharedName
	}
	return sharedName
}

func (r shardResource) sharedARN() string { return strings.ReplaceAll(r.arn, "NAME", r.sharedName()) }

// idIn is the resource's logical id in that shard's stack.
func (r shardResource) idIn(cell, shard string) string {
	return strings.NewReplacer("s01", shard, "eucanary", strings.ReplaceAll(cell, "-", "")).Replace(r.id)
}

// TestSampleHasNoFinding holds that there is no false finding on the fleet as it is, and that its mutants begin clean.
func TestSampleHasNoFinding(t *testing.T) {
	s := loadSample(t)
	for name, s := range map[string]sample{"its stacks": s, "one stack": s.oneStack(t)} {
		r := audit.Run(s.input(), audit.Options{})
		for _, f := range r.Findings {
			// PL rules are about two cells in one account, which the sample has here so that names may cross.
			if f.Level > audit.Info && !strings.HasPrefix(f.Rule, "PL") {
				t.Errorf("%s: %s %s: %s (%v)", name, f.Level, f.Rule, f.Message, f.Shards)
			}
		}
	}
}

// home is where the shared resource stands.
type home struct {
	name, path  string
	cell, shard string
}

var crossHomes = []home{
	{"core", "eu-canary/core", "eu-canary", ""},
	{"nobody's stack", "shared", "", ""},
	{"neighbour", "eu-canary/shard-s01", "eu-canary", "s01"},
	{"other cell's core", "eu-2/core", "eu-2", ""},
	{"other cell's shard", "eu-2/shard-s01", "eu-2", "s01"},
}

// oneHomes are those in a single stack.
var oneHomes = []home{{"core", "everything", "eu-canary", ""}, {"neighbour", "everything", "eu-canary", "s01"}}

// userSets are the shards that use what is shared, in turn.
var userSets = [][]string{{"s02", "s04"}, {"s02", "s03", "s04"}, {"s03", "s04"}}

// allHomes makes TestSampleMutants put each hole into each of its places; else each is in one of them, in turn.
var allHomes = flag.Bool("all-homes", false, "put each hole into each place where it may be")

// TestSampleMutants replaces each resource of a shard in turn by one that several shards share, in each place where it
// may stand, through each way to refer to it. Each hole must be found by the type's rule, with exactly the shards that it
// is in, and nothing may be found besides what the shared resource leads to.
func TestSampleMutants(t *testing.T) {
	s := loadSample(t)
	one := s.oneStack(t)
	n, made, turn := 0, 0, 0
	for _, r := range perShard {
		for _, k := range sampleKinds {
			if k.needs != nil && !k.needs(r) {
				continue
			}
			turn++
			base, homes := s, crossHomes
			if k.oneStack {
				base, homes = one, oneHomes
			}
			for i, h := range homes {
				n++
				if !*allHomes && i != turn%len(homes) {
					continue
				}
				made++
				fleet := maps.Clone(base)
				maps.DeleteFunc(fleet, func(path string, st sampleStack) bool { return st.cell == "eu-2" && h.cell != "eu-2" })
				m := &mutant{testing: t, sample: fleet, one: k.oneStack, res: r, home: h, users: userSets[n%len(userSets)]}
				m.make(k)
				m.judge(fmt.Sprintf("%s %s/%s/%s/%v", r.typ, r.id, k.name, h.name, m.users), k)
			}
		}
	}
	t.Logf("%d mutants of %d resources, of which %d were made", n, len(perShard), made)
}

// TestSampleAttachmentMutants shares one thing by attaching each shard of the sample fleet to it, from the core's stack
// and from the shards' own.
func TestSampleAttachmentMutants(t *testing.T) {
	s := loadSample(t)
	ids := map[string]string{"Targets": "Targets8080ownDCF06043", "Worker": "WorkerLive5169039E", "Queue": "Queue4A7E3555", "Http": "AlbHttp7966E42E"}
	for _, a := range attachmentMutants {
		for _, from := range []string{"core", "shard"} {
			m := &mutant{testing: t, sample: maps.Clone(s), res: shardResource{typ: a.typ, rule: a.rule}, home: crossHomes[0], users: []string{"s02", "s04"}, shared: "Shared"}
			maps.DeleteFunc(m.sample, func(_ string, st sampleStack) bool { return st.cell == "eu-2" })
			m.sample.edit(t, m.home.path, func(body object) {
				resourcesOf(body)["Shared"] = object{"Type": a.typ, "Properties": a.properties}
			})
			for _, shard := range m.users {
				path, _ := m.at(shard)
				at, shared := m.home.path, any(object{"Ref": "Shared"})
				own := func(id string) any {
					out := "Out" + id
					m.sample.edit(t, path, func(body object) {
						body["Outputs"].(object)[out] = object{"Value": object{"Ref": ids[id]}, "Export": object{"Name": shard + out}}
					})
					return object{"Fn::ImportValue": shard + out}
				}
				if from == "shard" {
					at, shared = path, object{"Fn::ImportValue": m.export("")}
					own = func(id string) any { return object{"Ref": ids[id]} }
				}
				link := object{"Type": a.typOfLink, "Properties": a.link(own, shared)}
				m.sample.edit(t, at, func(body object) { resourcesOf(body)["Link"+shard] = link })
			}
			m.judge(a.name+"/"+from, sampleKind{})
		}
	}
}
