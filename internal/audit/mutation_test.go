package audit_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/audit/assembly"
)

type object = map[string]any

// stackSet is a set of stacks in the making, by stack name.
type stackSet map[string]object

func (s stackSet) section(stack, section string) object {
	if s[stack] == nil {
		s[stack] = object{"Resources": object{}}
	}
	if s[stack][section] == nil {
		s[stack][section] = object{}
	}
	return s[stack][section].(object)
}

func (s stackSet) put(stack, id, typ string, properties object) object {
	r := object{"Type": typ, "Properties": properties}
	s.section(stack, "Resources")[id] = r
	return r
}

func (s stackSet) run(t testing.TB) audit.Report { return audit.Run(s.load(t), audit.Options{}) }

func (s stackSet) load(t testing.TB) audit.Input {
	t.Helper()
	fsys := fstest.MapFS{}
	artifacts := object{}
	for name, tpl := range s {
		data, err := json.Marshal(tpl)
		if err != nil {
			t.Fatal(err)
		}
		fsys[name+".template.json"] = &fstest.MapFile{Data: data}
		artifacts[name] = object{"type": "aws:cloudformation:stack", "environment": "aws://111111111111/eu-west-1",
			"properties": object{"templateFile": name + ".template.json", "stackName": name}}
	}
	data, err := json.Marshal(object{"version": "48.0.0", "artifacts": artifacts})
	if err != nil {
		t.Fatal(err)
	}
	fsys["manifest.json"] = &fstest.MapFile{Data: data}
	in, err := assembly.Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

var threeShards = []string{"s01", "s02", "s03"}

const core = "orders-eu-1-core"

func shardStackName(shard string) string { return "orders-eu-1-shard-" + shard }

func tags(shard string) []object {
	return []object{{"Key": "cellwall:cell", "Value": "eu-1"}, {"Key": "cellwall:shard", "Value": shard}}
}

// cleanFleet is a core stack and three shards that share nothing but a network. With one stack, what
// belongs to which shard is said by tags alone.
func cleanFleet(oneStack bool) (stackSet, func(shard string) (stack, prefix string)) {
	s := stackSet{}
	where := func(shard string) (string, string) { return shardStackName(shard), "" }
	if oneStack {
		where = func(shard string) (string, string) { return "everything", strings.ToUpper(shard) }
	}
	coreStack := core
	if oneStack {
		coreStack = "everything"
	}
	s.put(coreStack, "Vpc", "AWS::EC2::VPC", object{"CidrBlock": "10.0.0.0/16"})
	for _, sh := range threeShards {
		st, p := where(sh)
		ref := func(id string) object { return object{"Ref": p + id} }
		arn := func(id string) object { return object{"Fn::GetAtt": []any{p + id, "Arn"}} }
		s.put(st, p+"Table", "AWS::DynamoDB::Table", object{"TableName": "orders-eu-1-" + sh + "-state", "Tags": tags(sh)})
		s.put(st, p+"Dead", "AWS::SQS::Queue", object{"Tags": tags(sh)})
		s.put(st, p+"Queue", "AWS::SQS::Queue", object{"QueueName": "orders-eu-1-" + sh + "-work", "Tags": tags(sh),
			"RedrivePolicy": object{"deadLetterTargetArn": arn("Dead")}})
		s.put(st, p+"Bucket", "AWS::S3::Bucket", object{"BucketName": "orders-eu-1-" + sh + "-111111111111", "Tags": tags(sh)})
		s.put(st, p+"Role", "AWS::IAM::Role", object{"Tags": tags(sh), "AssumeRolePolicyDocument": object{"Statement": []object{
			{"Effect": "Allow", "Principal": object{"Service": "lambda.amazonaws.com"}}}}})
		s.put(st, p+"Policy", "AWS::IAM::Policy", object{"Roles": []any{ref("Role")}, "PolicyDocument": object{"Statement": []any{
			object{"Effect": "Allow", "Resource": []any{arn("Table"), arn("Queue"), object{"Fn::Join": []any{"", []any{arn("Bucket"), "/*"}}}}}}}})
		s.put(st, p+"Worker", "AWS::Lambda::Function", object{"FunctionName": "orders-eu-1-" + sh + "-worker", "Role": arn("Role"), "Tags": tags(sh),
			"ReservedConcurrentExecutions": 20, "Environment": object{"Variables": object{"TABLE": ref("Table"), "CELL": "eu-1", "SHARD": sh}}})
		s.put(st, p+"Source", "AWS::Lambda::EventSourceMapping", object{"FunctionName": ref("Worker"), "EventSourceArn": arn("Queue")})
		s.put(st, p+"Targets", "AWS::ElasticLoadBalancingV2::TargetGroup", object{"Name": "orders-eu-1-" + sh + "-tg", "Tags": tags(sh)})
		s.put(st, p+"Group", "AWS::AutoScaling::AutoScalingGroup", object{"TargetGroupARNs": []any{ref("Targets")},
			"Tags": []object{{"Key": "cellwall:cell", "Value": "eu-1", "PropagateAtLaunch": true}, {"Key": "cellwall:shard", "Value": sh, "PropagateAtLaunch": true}}})
		s.put(st, p+"Alb", "AWS::ElasticLoadBalancingV2::LoadBalancer", object{"Name": "orders-eu-1-" + sh + "-lb", "Tags": tags(sh)})
		s.put(st, p+"Http", "AWS::ElasticLoadBalancingV2::Listener", object{"LoadBalancerArn": ref("Alb"),
			"DefaultActions": []object{{"Type": "forward", "TargetGroupArn": ref("Targets")}}})
	}
	return s, where
}

// candidates are things that shards may come to share: the rule that must find each, its properties and
// its ARN ("" when its name does not give it).
var candidates = []struct {
	typ, rule, level, arn string
	properties            object
}{
	{"AWS::ElasticLoadBalancingV2::LoadBalancer", "SD001", "error", "arn:aws:elasticloadbalancing:eu-west-1:111111111111:loadbalancer/app/the-shared-one/0123456789abcdef", object{"Name": "the-shared-one"}},
	{"AWS::DynamoDB::Table", "SD002", "error", "arn:aws:dynamodb:eu-west-1:111111111111:table/the-shared-one", object{"TableName": "the-shared-one"}},
	{"AWS::DynamoDB::GlobalTable", "SD002", "error", "arn:aws:dynamodb:eu-west-1:111111111111:table/the-shared-one/index/by-date", object{"TableName": "the-shared-one"}},
	{"AWS::SQS::Queue", "SD003", "error", "arn:aws:sqs:eu-west-1:111111111111:the-shared-one", object{"QueueName": "the-shared-one"}},
	{"AWS::S3::Bucket", "SD004", "error", "arn:aws:s3:::the-shared-one/some/*", object{"BucketName": "the-shared-one"}},
	{"AWS::Kinesis::Stream", "SD005", "error", "arn:aws:kinesis:eu-west-1:111111111111:stream/the-shared-one", object{"Name": "the-shared-one"}},
	{"AWS::ElastiCache::ReplicationGroup", "SD006", "error", "", object{"ReplicationGroupId": "the-shared-one"}},
	{"AWS::RDS::DBProxy", "SD007", "error", "", object{"DBProxyName": "the-shared-one"}},
	{"AWS::RDS::DBCluster", "SD007", "error", "arn:aws:rds:eu-west-1:111111111111:cluster:the-shared-one", object{"DBClusterIdentifier": "the-shared-one"}},
	{"AWS::Lambda::Function", "SD008", "error", "arn:aws:lambda:eu-west-1:111111111111:function:the-shared-one:live", object{"FunctionName": "the-shared-one"}},
	{"AWS::EFS::FileSystem", "SD009", "error", "", object{}},
	{"AWS::ApiGatewayV2::Api", "SD010", "error", "", object{}},
	{"AWS::SNS::Topic", "SD011", "error", "arn:aws:sns:eu-west-1:111111111111:the-shared-one", object{"TopicName": "the-shared-one"}},
	{"AWS::ElasticLoadBalancingV2::TargetGroup", "SD012", "error", "arn:aws:elasticloadbalancing:eu-west-1:111111111111:targetgroup/the-shared-one/0123456789abcdef", object{"Name": "the-shared-one"}},
	{"AWS::StepFunctions::StateMachine", "SD013", "error", "arn:aws:states:eu-west-1:111111111111:stateMachine:the-shared-one", object{"StateMachineName": "the-shared-one"}},
	{"AWS::IAM::Role", "SI001", "warning", "arn:aws:iam::111111111111:role/the-shared-one", object{"RoleName": "the-shared-one"}},
	{"AWS::SecretsManager::Secret", "SI002", "warning", "arn:aws:secretsmanager:eu-west-1:111111111111:secret:the-shared-one-AbCdEf", object{"Name": "the-shared-one"}},
	{"AWS::KMS::Key", "SI002", "warning", "", object{}},
	{"AWS::EC2::SecurityGroup", "SI004", "warning", "", object{"GroupName": "the-shared-one"}},
	{"AWS::Logs::LogGroup", "SI005", "warning", "arn:aws:logs:eu-west-1:111111111111:log-group:the-shared-one:*", object{"LogGroupName": "the-shared-one"}},
	{"AWS::New::Thing", "SI000", "warning", "", object{}},
}

// referenceKinds make a shard's function refer to the resource Shared of the core stack.
var referenceKinds = []struct {
	name     string
	oneStack bool // the kind exists within one stack only
	needs    func(arn string, properties object) bool
	refer    func(s stackSet, stack string, worker object, arn string)
}{
	{"Ref", true, nil, func(_ stackSet, _ string, w object, _ string) { setenv(w, object{"Ref": "Shared"}) }},
	{"GetAtt", true, nil, func(_ stackSet, _ string, w object, _ string) {
		setenv(w, object{"Fn::GetAtt": []any{"Shared", "Arn"}})
	}},
	{"Sub", true, nil, func(_ stackSet, _ string, w object, _ string) { setenv(w, object{"Fn::Sub": "x-${Shared}-y"}) }},
	{"Sub attribute", true, nil, func(_ stackSet, _ string, w object, _ string) { setenv(w, object{"Fn::Sub": "${Shared.Arn}/*"}) }},
	{"Sub map", true, nil, func(_ stackSet, _ string, w object, _ string) {
		setenv(w, object{"Fn::Sub": []any{"${it}", object{"it": object{"Ref": "Shared"}}}})
	}},
	{"Join in If", true, nil, func(_ stackSet, _ string, w object, _ string) {
		setenv(w, object{"Fn::If": []any{"Never", "", object{"Fn::Join": []any{"", []any{"x", object{"Ref": "Shared"}}}}}})
	}},
	{"parameter of a condition", true, nil, func(s stackSet, st string, w object, _ string) {
		s.section(st, "Conditions")["Big"] = object{"Fn::Equals": []any{object{"Ref": "Shared"}, "x"}}
		w["Condition"] = "Big"
	}},
	{"import", false, nil, func(s stackSet, _ string, w object, _ string) {
		s.section(core, "Outputs")["Out"] = object{"Value": object{"Ref": "Shared"}, "Export": object{"Name": object{"Fn::Sub": "${AWS::StackName}-shared"}}}
		setenv(w, object{"Fn::ImportValue": object{"Fn::Join": []any{"-", []any{"orders", "eu-1-core", "shared"}}}})
	}},
	{"stack output", false, nil, func(s stackSet, _ string, w object, _ string) {
		s.section(core, "Outputs")["Out"] = object{"Value": object{"Fn::GetAtt": []any{"Shared", "Arn"}}}
		setenv(w, object{"Fn::GetStackOutput": object{"StackName": core, "OutputName": "Out"}})
	}},
	{"typed parameter", false, nil, func(s stackSet, st string, w object, _ string) {
		publish(s)
		s.section(st, "Parameters")["P"] = object{"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/cellwall/shared"}
		setenv(w, object{"Ref": "P"})
	}},
	{"dynamic reference", false, nil, func(s stackSet, _ string, w object, _ string) {
		publish(s)
		setenv(w, "{{resolve:ssm:/cellwall/shared:3}}")
	}},
	{"ARN", false, hasARN, func(_ stackSet, _ string, w object, arn string) { setenv(w, arn) }},
	{"ARN from pseudo parameters", false, hasARN, func(_ stackSet, _ string, w object, arn string) {
		arn = strings.ReplaceAll(strings.ReplaceAll(arn, "eu-west-1", "${AWS::Region}"), "111111111111", "${AWS::AccountId}")
		setenv(w, object{"Fn::Sub": strings.Replace(arn, "arn:aws:", "arn:${AWS::Partition}:", 1)})
	}},
	{"ARN in a policy", false, hasARN, func(s stackSet, st string, _ object, arn string) {
		policy := s.section(st, "Resources")["Policy"].(object)["Properties"].(object)["PolicyDocument"].(object)
		policy["Statement"] = append(policy["Statement"].([]any), object{"Effect": "Allow", "Action": "dynamodb:GetItem", "Resource": arn})
	}},
	{"name", false, hasName, func(s stackSet, _ string, w object, _ string) { setenvAs(w, typeKey(s), "the-shared-one") }},
	{"name within a text", false, hasName, func(s stackSet, _ string, w object, _ string) {
		setenv(w, "mode=fast;"+typeKey(s)+"=the-shared-one")
	}},
	{"name from a parameter", false, hasName, func(s stackSet, st string, w object, _ string) {
		s.section(st, "Parameters")["P"] = object{"Type": "String", "Default": "shared"}
		setenvAs(w, typeKey(s), object{"Fn::Sub": "the-${P}-one"})
	}},
}

func hasARN(arn string, _ object) bool { return arn != "" }
func hasName(_ string, properties object) bool {
	return strings.Contains(fmt.Sprint(properties), "the-shared-one")
}

func setenv(worker object, v any) { setenvAs(worker, "SHARED", v) }

func setenvAs(worker object, key string, v any) {
	worker["Properties"].(object)["Environment"].(object)["Variables"].(object)[key] = v
}

// typeKey is a setting's key that says what the shared resource is: DB_CLUSTER_NAME would do as well.
func typeKey(s stackSet) string {
	typ := s.section(core, "Resources")["Shared"].(object)["Type"].(string)
	return typ[strings.LastIndexByte(typ, ':')+1:] + "_NAME"
}

func publish(s stackSet) {
	s.put(core, "Published", "AWS::SSM::Parameter", object{"Name": "/cellwall/shared", "Value": object{"Ref": "Shared"}})
}

// above are the findings that a clean fleet has none of.
func above(r audit.Report, l audit.Level) []audit.Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f audit.Finding) bool { return f.Level < l })
}

func TestCleanFleetHasNoFinding(t *testing.T) {
	for _, one := range []bool{false, true} {
		s, _ := cleanFleet(one)
		r := s.run(t)
		if len(r.Findings) != 0 {
			t.Errorf("one stack %v: %+v", one, r.Findings)
		}
		if len(r.Summary.Shards) != 3 {
			t.Errorf("shards %v", r.Summary.Shards)
		}
	}
}

// TestMutants makes one shared resource out of each type, lets shards refer to it in each way, and
// expects exactly one finding at the type's level, with exactly those shards.
func TestMutants(t *testing.T) {
	n := 0
	for _, c := range candidates {
		for _, k := range referenceKinds {
			if k.needs != nil && !k.needs(c.arn, c.properties) {
				continue
			}
			for _, users := range [][]string{{"s01", "s03"}, threeShards} {
				n++
				name := fmt.Sprintf("%s/%s/%d", c.typ, k.name, len(users))
				s, where := cleanFleet(k.oneStack)
				home := core
				if k.oneStack {
					home = "everything"
				}
				s.put(home, "Shared", c.typ, c.properties)
				for _, sh := range users {
					st, p := where(sh)
					k.refer(s, st, s.section(st, "Resources")[p+"Worker"].(object), c.arn)
				}
				var found []audit.Finding
				for _, f := range above(s.run(t), audit.Warning) {
					if f.Rule == "SI003" {
						t.Errorf("%s: the parameter itself is %v", name, f.Level)
					}
					found = append(found, f)
				}
				if len(found) != 1 {
					t.Errorf("%s: %d findings, want 1: %+v", name, len(found), found)
					continue
				}
				f := found[0]
				if f.Rule != c.rule || f.Level.String() != c.level || f.Resource.LogicalID != "Shared" {
					t.Errorf("%s: found %s %s of %s, want %s %s of Shared", name, f.Level, f.Rule, f.Resource.LogicalID, c.level, c.rule)
				}
				if got := shardIDs(f); !slices.Equal(got, users) {
					t.Errorf("%s: shards %v, want %v", name, got, users)
				}
			}
		}
	}
	t.Logf("%d mutants, all found", n)
}

func shardIDs(f audit.Finding) []string {
	var ids []string
	for _, s := range f.Shards {
		ids = append(ids, s.ID)
	}
	return ids
}

// TestNeighbourMutants lets shards use another shard's resource instead of their own.
func TestNeighbourMutants(t *testing.T) {
	for _, id := range []string{"Table", "Queue", "Bucket", "Role", "Worker", "Targets", "Alb"} {
		s, where := cleanFleet(true)
		_, p := where("s01")
		setenv(s.section("everything", "Resources")["S03Worker"].(object), object{"Fn::GetAtt": []any{p + id, "Arn"}})
		found := above(s.run(t), audit.Warning)
		i := slices.IndexFunc(found, func(f audit.Finding) bool { return f.Resource.LogicalID == p+id })
		if i < 0 {
			t.Errorf("%s of s01 used by s03: not found in %+v", id, found)
			continue
		}
		if got := shardIDs(found[i]); !slices.Equal(got, []string{"s01", "s03"}) {
			t.Errorf("%s: shards %v", id, got)
		}
	}
}

// TestTiesWithoutRequests shares one table over ties that no request travels.
func TestTiesWithoutRequests(t *testing.T) {
	for name, c := range map[string]struct {
		tie         func(s stackSet, shard, prefix string)
		rule, level string
	}{
		"DependsOn": {func(s stackSet, _, p string) {
			s.section("everything", "Resources")[p+"Worker"].(object)["DependsOn"] = []string{"Shared"}
		}, "SI007", "warning"},
		"alarm": {func(s stackSet, sh, p string) {
			s.put("everything", p+"Alarm", "AWS::CloudWatch::Alarm", object{"Tags": tags(sh), "Dimensions": []any{object{"Name": "t", "Value": object{"Ref": "Shared"}}}})
		}, "SD002", "info"},
	} {
		s, place := cleanFleet(true)
		s.put("everything", "Shared", "AWS::DynamoDB::Table", object{})
		for _, sh := range []string{"s01", "s03"} {
			_, p := place(sh)
			c.tie(s, sh, p)
		}
		r := s.run(t)
		if len(r.Findings) != 1 || r.Findings[0].Rule != c.rule || r.Findings[0].Level.String() != c.level || !slices.Equal(shardIDs(r.Findings[0]), []string{"s01", "s03"}) {
			t.Errorf("%s: %+v", name, r.Findings)
		}
	}
}

// attachmentMutants share one thing by attaching each shard to it, from the core stack and from the
// shard's own.
var attachmentMutants = []struct {
	name, typ, rule string
	properties      object
	// link attaches the shard, given references to its own resources, and says in which stack.
	typOfLink string
	link      func(own func(id string) any, shared any) object
}{
	{"rule of a shared listener", "AWS::ElasticLoadBalancingV2::Listener", "SD001", object{}, "AWS::ElasticLoadBalancingV2::ListenerRule",
		func(own func(string) any, shared any) object {
			return object{"ListenerArn": shared, "Actions": []object{{"Type": "forward", "ForwardConfig": object{"TargetGroups": []object{{"TargetGroupArn": own("Targets"), "Weight": 1}}}}}}
		}},
	{"integration of a shared API", "AWS::ApiGatewayV2::Api", "SD010", object{}, "AWS::ApiGatewayV2::Integration",
		func(own func(string) any, shared any) object {
			return object{"ApiId": shared, "IntegrationUri": own("Worker")}
		}},
	{"subscription of a shared topic", "AWS::SNS::Topic", "SD011", object{}, "AWS::SNS::Subscription",
		func(own func(string) any, shared any) object {
			return object{"TopicArn": shared, "Endpoint": own("Queue")}
		}},
	{"rule of a shared event bus", "AWS::Events::EventBus", "SD011", object{}, "AWS::Events::Rule",
		func(own func(string) any, shared any) object {
			return object{"EventBusName": shared, "Targets": []object{{"Id": "t", "Arn": own("Worker")}}}
		}},
	{"source of a shared stream", "AWS::Kinesis::Stream", "SD005", object{}, "AWS::Lambda::EventSourceMapping",
		func(own func(string) any, shared any) object {
			return object{"EventSourceArn": shared, "FunctionName": own("Worker")}
		}},
	{"shared consumer of the queues", "AWS::Lambda::Function", "SD008", object{}, "AWS::Lambda::EventSourceMapping",
		func(own func(string) any, shared any) object {
			return object{"EventSourceArn": own("Queue"), "FunctionName": shared}
		}},
	{"shared targets behind own listeners", "AWS::ElasticLoadBalancingV2::TargetGroup", "SD012", object{}, "AWS::ElasticLoadBalancingV2::ListenerRule",
		func(own func(string) any, shared any) object {
			return object{"ListenerArn": own("Http"), "Actions": []object{{"TargetGroupArn": shared}}}
		}},
}

func TestAttachmentMutants(t *testing.T) {
	for _, m := range attachmentMutants {
		for _, where := range []string{"core", "shard", "one stack"} {
			t.Run(m.name+"/"+where, func(t *testing.T) {
				one := where == "one stack"
				s, place := cleanFleet(one)
				home := core
				if one {
					home = "everything"
				}
				s.put(home, "Shared", m.typ, m.properties)
				for _, sh := range []string{"s02", "s03"} {
					st, p := place(sh)
					own := func(id string) any { return object{"Ref": p + id} }
					shared := any(object{"Ref": "Shared"})
					at := st
					switch where {
					case "core":
						at = core
						own = func(id string) any {
							export := sh + "-" + id
							s.section(st, "Outputs")["Out"+id] = object{"Value": object{"Ref": id}, "Export": object{"Name": export}}
							return object{"Fn::ImportValue": export}
						}
					case "shard":
						s.section(core, "Outputs")["Out"] = object{"Value": object{"Ref": "Shared"}, "Export": object{"Name": "shared"}}
						shared = object{"Fn::ImportValue": "shared"}
					}
					s.put(at, "Link"+sh, m.typOfLink, m.link(own, shared))
				}
				r := s.run(t)
				found := above(r, audit.Warning)
				if len(found) != 1 || found[0].Rule != m.rule || found[0].Resource.LogicalID != "Shared" {
					t.Fatalf("found %+v, want one %s of Shared", found, m.rule)
				}
				if got := shardIDs(found[0]); !slices.Equal(got, []string{"s02", "s03"}) {
					t.Errorf("shards %v", got)
				}
			})
		}
	}
}
