package change

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/audit/assembly"
	"cellwall.dev/cellwall/internal/template"
)

var update = flag.Bool("update", false, "write what the comparison says into testdata")

func load(t *testing.T, dir string) audit.Input {
	t.Helper()
	in, err := assembly.Load(os.DirFS(filepath.Join("testdata", dir)))
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// TestReport: a fleet whose instances and slices grow, with a router that shrinks, a key, an endpoint in one more
// zone, one shard more and one less, in the words that people read and as JSON.
func TestReport(t *testing.T) {
	r := Compare(load(t, "was"), load(t, "next"), Options{})
	var text, asJSON bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	enc := json.NewEncoder(&asJSON)
	enc.SetIndent("", " ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		t.Fatal(err)
	}
	var again Report
	if err := json.Unmarshal(asJSON.Bytes(), &again); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(r, again, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Resource{}, Step{}), cmp.Comparer(equal)); d != "" {
		t.Errorf("read back as JSON (-first +again):\n%s", d)
	}
	for name, got := range map[string]string{"report.txt": text.String(), "report.json": asJSON.String()} {
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("%s (-want +got):\n%s\nhint: go test ./internal/change -run TestReport -update writes it", name, d)
		}
	}
}

// TestPropertiesAreCurrent: the generated table is what the pinned cfn-lint's schemas give.
func TestPropertiesAreCurrent(t *testing.T) {
	pins, err := os.ReadFile("../../requirements.txt")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Source string }
	if err := json.Unmarshal(propertiesJSON, &file); err != nil {
		t.Fatal(err)
	}
	version := strings.TrimSuffix(strings.Fields(file.Source)[1], ",")
	if !strings.Contains(string(pins), "\ncfn-lint=="+version+"\n") {
		t.Errorf("the table is of cfn-lint %s, which requirements.txt does not pin: scripts/create-only.py makes it anew", version)
	}
	python := "../../.venv/bin/python"
	if _, err := os.Stat(python); err != nil {
		t.Skip("the pinned cfn-lint is not installed; make test installs it")
	}
	if out, err := exec.Command(python, "../../scripts/create-only.py", "--check").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// one compares two stacks named s, by the text of their sections.
func one(t *testing.T, was, next string) Report {
	t.Helper()
	of := func(text string) audit.Input {
		return audit.Input{Stacks: []audit.Stack{{Name: "s", Account: "111111111111", Region: "eu-west-1", File: "s.json", Template: parse(t, text)}}}
	}
	return Compare(of(was), of(next), Options{})
}

// TestEffects: what a change of one value does to its resource.
func TestEffects(t *testing.T) {
	for name, c := range map[string]struct {
		typ, was, next string
		want           Kind
	}{
		"changed in place":           {"AWS::SQS::Queue", `{"VisibilityTimeout": 30}`, `{"VisibilityTimeout": 60}`, Changed},
		"for life":                   {"AWS::EC2::VPC", `{"CidrBlock": "10.0.0.0/16"}`, `{"CidrBlock": "10.1.0.0/16"}`, Replaced},
		"for life, set now":          {"AWS::EC2::SecurityGroup", `{}`, `{"GroupName": "g"}`, Replaced},
		"for life, not set any more": {"AWS::EC2::SecurityGroup", `{"GroupName": "g"}`, `{}`, Replaced},
		"that depends":               {"AWS::EC2::VPC", `{"InstanceTenancy": "default"}`, `{"InstanceTenancy": "dedicated"}`, MayReplace},
		"identity":                   {"AWS::Route53::RecordSet", `{"Name": "a."}`, `{"Name": "b."}`, MayReplace},
		"below a property":           {"AWS::EC2::VPCEndpoint", `{"DnsOptions": {"DnsRecordIpType": "ipv4"}}`, `{"DnsOptions": {"DnsRecordIpType": "ipv6"}}`, Changed},
		"below, for life":            {"AWS::EC2::VPCEndpoint", `{"DnsOptions": {"PrivateDnsPreference": "a"}}`, `{"DnsOptions": {"PrivateDnsPreference": "b"}}`, Replaced},
		"all of it, with what is":    {"AWS::EC2::VPCEndpoint", `{}`, `{"DnsOptions": {"PrivateDnsPreference": "b"}}`, Replaced},
		"all of it, without":         {"AWS::EC2::VPCEndpoint", `{}`, `{"DnsOptions": {"DnsRecordIpType": "ipv6"}}`, Changed},
		"all of it, unknown":         {"AWS::EC2::VPCEndpoint", `{}`, `{"DnsOptions": {"Ref": "P"}}`, MayReplace},
		"property nobody knows":      {"AWS::SQS::Queue", `{"Unheard": 1}`, `{"Unheard": 2}`, MayReplace},
		"type nobody knows":          {"AWS::Unheard::Of", `{"A": 1}`, `{"A": 2}`, MayReplace},
		"custom resource":            {"Custom::Thing", `{"A": 1}`, `{"A": 2}`, MayReplace},
		"keys in another order":      {"AWS::SQS::Queue", `{"QueueName": "q", "DelaySeconds": 1}`, `{"DelaySeconds": 1, "QueueName": "q"}`, ""},
		"no properties":              {"AWS::SQS::Queue", `{}`, `null`, ""},
		"list grows":                 {"AWS::EC2::VPCEndpoint", `{"SubnetIds": ["a"]}`, `{"SubnetIds": ["a", "b"]}`, Changed},
	} {
		t.Run(name, func(t *testing.T) {
			resource := func(p string) string {
				return `{"Resources": {"R": {"Type": "` + c.typ + `", "Properties": ` + p + `}}}`
			}
			got := Kind("")
			if e := what(one(t, resource(c.was), resource(c.next)))["s.R"]; e != nil {
				got = e.Kind
			}
			if got != c.want {
				t.Errorf("it is %q, want %q", got, c.want)
			}
		})
	}
}

// TestPathsInLists: a path of the table that leads through a list.
func TestPathsInLists(t *testing.T) {
	table := map[string]resourceType{"T": {Is: []string{"L"}, Replace: []string{"L/*/A"}}}
	at := func(path ...string) []string { return path }
	node := func(text string) *template.Node {
		n, err := template.DecodeJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return &n
	}
	for _, c := range []struct {
		path []string
		to   *template.Node
		want Kind
	}{
		{at("L", "3", "A"), node("1"), Replaced},
		{at("L", "3", "A", "deeper"), node("1"), Replaced},
		{at("L", "3", "B"), node("1"), Changed},
		{at("L", "3"), node(`{"A": 1}`), Replaced},
		{at("L", "3"), node(`{"B": 1}`), Changed},
		{at("L"), node(`[{"B": 1}, {"A": 1}]`), Replaced},
		{at("L"), node(`[{"B": 1}, {"Ref": "P"}]`), MayReplace},
		{at("L"), node(`[]`), Changed},
	} {
		if got := effect(table, "T", c.path, nil, c.to); got != c.want {
			t.Errorf("%v to %v: %q, want %q", c.path, c.to, got, c.want)
		}
	}
}

// TestFollowed: what becomes of those that name a resource that changes.
func TestFollowed(t *testing.T) {
	for name, c := range map[string]struct {
		text     string // with %V%, which is "1" and then "2"
		id       string
		want     Kind
		wantsWhy string
	}{
		"id of what is replaced, for life": {`{"Resources": {"V": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": %V%}},
			"R": {"Type": "AWS::EC2::Subnet", "Properties": {"VpcId": {"Ref": "V"}}}}}`, "R", Replaced, "VpcId names VPC V, which is replaced"},
		"through two": {`{"Resources": {"V": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": %V%}},
			"S": {"Type": "AWS::EC2::Subnet", "Properties": {"VpcId": {"Ref": "V"}}},
			"R": {"Type": "AWS::EC2::SubnetRouteTableAssociation", "Properties": {"SubnetId": {"Fn::GetAtt": ["S", "SubnetId"]}}}}}`, "R", Replaced, "names subnet S"},
		"in place": {`{"Resources": {"V": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": %V%}},
			"R": {"Type": "AWS::SSM::Parameter", "Properties": {"Value": {"Fn::Sub": "vpc is ${V}"}}}}}`, "R", Changed, "Value names VPC V"},
		"of what may be replaced": {`{"Resources": {"V": {"Type": "AWS::EC2::VPC", "Properties": {"InstanceTenancy": %V%}},
			"R": {"Type": "AWS::EC2::Subnet", "Properties": {"VpcId": {"Ref": "V"}}}}}`, "R", MayReplace, "which may be replaced"},
		"id of what changes in place": {`{"Resources": {"V": {"Type": "AWS::EC2::VPC", "Properties": {"Tags": [%V%]}},
			"R": {"Type": "AWS::EC2::Subnet", "Properties": {"VpcId": {"Ref": "V"}}}}}`, "R", "", ""},
		"ARN of what changes in place": {`{"Resources": {"V": {"Type": "AWS::SQS::Queue", "Properties": {"DelaySeconds": %V%}},
			"R": {"Type": "AWS::Lambda::EventSourceMapping", "Properties": {"EventSourceArn": {"Fn::GetAtt": ["V", "Arn"]}}}}}`, "R", "", ""},
		"a doubtful attribute, for life": {`{"Resources": {"V": {"Type": "AWS::EC2::VPC", "Properties": {"Tags": [%V%]}},
			"R": {"Type": "AWS::EC2::Subnet", "Properties": {"CidrBlock": {"Fn::GetAtt": ["V", "CidrBlockAssociations"]}}}}}`, "R", MayReplace, "CidrBlockAssociations"},
		"a version that moves": {`{"Resources": {"V": {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": {"ImageId": %V%}}},
			"R": {"Type": "AWS::AutoScaling::AutoScalingGroup", "Properties": {"LaunchTemplate": {"Version": {"Fn::GetAtt": ["V", "LatestVersionNumber"]}}}}}}`, "R", Changed, "instances that run stay as they are until an instance refresh"},
		"a group that is rolled": {`{"Resources": {"V": {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": {"ImageId": %V%}}},
			"R": {"Type": "AWS::AutoScaling::AutoScalingGroup", "UpdatePolicy": {"AutoScalingRollingUpdate": {"MaxBatchSize": "3"}}, "Properties": {"LaunchTemplate": {"Version": {"Fn::GetAtt": ["V", "LatestVersionNumber"]}}}}}}`, "R", Changed, "3 at a time"},
		"a group that is replaced": {`{"Resources": {"V": {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": {"ImageId": %V%}}},
			"R": {"Type": "AWS::AutoScaling::AutoScalingGroup", "UpdatePolicy": {"AutoScalingReplacingUpdate": {"WillReplace": true}}, "Properties": {"LaunchTemplate": {"Version": {"Fn::GetAtt": ["V", "LatestVersionNumber"]}}}}}}`, "R", Replaced, "LatestVersionNumber"},
		"a parameter's default": {`{"Parameters": {"P": {"Type": "String", "Default": %V%}},
			"Resources": {"R": {"Type": "AWS::EC2::Subnet", "Properties": {"CidrBlock": {"Ref": "P"}}}}}`, "R", Replaced, `was "1" and is "2"`},
		"a condition": {`{"Conditions": {"C": {"Fn::Equals": [%V%, "1"]}},
			"Resources": {"R": {"Type": "AWS::SQS::Queue", "Condition": "C"}}}`, "R", MayReplace, "its condition C"},
		"a condition of a parameter": {`{"Parameters": {"P": {"Type": "String", "Default": %V%}}, "Conditions": {"D": {"Fn::Equals": [{"Ref": "P"}, "1"]}, "C": {"Condition": "D"}},
			"Resources": {"R": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": {"Fn::If": ["C", "a", "b"]}}}}}`, "R", MayReplace, "depends on the condition C"},
		"a mapping": {`{"Mappings": {"M": {"k": {"v": %V%}}},
			"Resources": {"R": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": {"Fn::FindInMap": ["M", "k", "v"]}}}}}`, "R", MayReplace, "Mappings"},
	} {
		t.Run(name, func(t *testing.T) {
			at := func(v string) string { return strings.ReplaceAll(c.text, "%V%", v) }
			e := what(one(t, at(`"1"`), at(`"2"`)))["s."+c.id]
			if e == nil {
				e = &Resource{}
			}
			if e.Kind != c.want || !strings.Contains(strings.Join(e.Why, "\n"), c.wantsWhy) {
				t.Errorf("it is %q because %q, want %q because %q", e.Kind, e.Why, c.want, c.wantsWhy)
			}
		})
	}
}

// TestFollowedToOtherStacks: an id that a stack publishes as an SSM parameter or an export reaches those that read
// it, and in no other region.
func TestFollowedToOtherStacks(t *testing.T) {
	at := func(cidr string) audit.Input {
		core := audit.Stack{Name: "core", Account: "1", Region: "eu-west-1", Template: parse(t, `{"Resources": {"Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "`+cidr+`"}},
			"P": {"Type": "AWS::SSM::Parameter", "Properties": {"Name": "/vpc", "Value": {"Ref": "Vpc"}}}},
			"Outputs": {"O": {"Value": {"Ref": "Vpc"}, "Export": {"Name": "vpc"}}}}`)}
		reads := `{"Parameters": {"V": {"Type": "AWS::SSM::Parameter::Value<AWS::EC2::VPC::Id>", "Default": "/vpc"}},
			"Resources": {"ByParameter": {"Type": "AWS::EC2::Subnet", "Properties": {"VpcId": {"Ref": "V"}}},
			"ByExport": {"Type": "AWS::EC2::Subnet", "Properties": {"VpcId": {"Fn::ImportValue": "vpc"}}}}}`
		return audit.Input{Stacks: []audit.Stack{
			{Name: "a-first", Account: "1", Region: "eu-west-1", Template: parse(t, reads)}, core,
			{Name: "elsewhere", Account: "1", Region: "us-east-1", Template: parse(t, reads)},
		}}
	}
	found := what(Compare(at("10.0.0.0/16"), at("10.1.0.0/16"), Options{}))
	for id, want := range map[string]Kind{"a-first.ByParameter": Replaced, "a-first.ByExport": Replaced} {
		if e := found[id]; e == nil || e.Kind != want {
			t.Errorf("%s: %+v, want %s", id, e, want)
		}
	}
	for _, id := range []string{"elsewhere.ByParameter", "elsewhere.ByExport"} {
		if e := found[id]; e != nil {
			t.Errorf("%s of another region: %+v", id, e)
		}
	}
}

// TestFollowedFromAParameterItself: a parameter whose text changes reaches its readers, too.
func TestFollowedFromAParameterItself(t *testing.T) {
	at := func(vpc string) audit.Input {
		reader := stackOf(t, "reader", `"Group": {"Type": "AWS::EC2::SecurityGroup", "Properties": {"VpcId": {"Ref": "V"}}}`)
		reader.Template = parse(t, `{"Parameters": {"V": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/vpc"}},
			"Resources": {"Group": {"Type": "AWS::EC2::SecurityGroup", "Properties": {"VpcId": {"Ref": "V"}}}}}`)
		return audit.Input{Stacks: []audit.Stack{reader, stackOf(t, "writer", `"P": {"Type": "AWS::SSM::Parameter", "Properties": {"Name": "/vpc", "Value": "`+vpc+`"}}`)}}
	}
	if e := what(Compare(at("vpc-1"), at("vpc-2"), Options{}))["reader.Group"]; e == nil || e.Kind != Replaced {
		t.Errorf("the reader's group: %+v, want it replaced", e)
	}
}

// TestOnlyAttributes: what stands beside the properties.
func TestOnlyAttributes(t *testing.T) {
	r := one(t, `{"Resources": {"R": {"Type": "AWS::SQS::Queue", "DeletionPolicy": "Retain", "DependsOn": ["A", "B"]}, "A": {"Type": "AWS::SNS::Topic"}, "B": {"Type": "AWS::SNS::Topic", "DependsOn": "A"}}}`,
		`{"Resources": {"R": {"Type": "AWS::SQS::Queue", "DependsOn": "A", "Metadata": {"k": 1}}, "A": {"Type": "AWS::SNS::Topic"}, "B": {"Type": "AWS::SNS::Topic"}}}`)
	e := what(r)["s.R"]
	want := []string{"its DeletionPolicy was Retain and is Delete", "its Metadata changes"}
	if n := len(what(r)); n != 1 {
		t.Errorf("%d resources change: %+v", n, r)
	}
	if e == nil || e.Kind != Changed || !slices.Equal(e.Why, want) || !e.Stateful {
		t.Errorf("got %+v, want it changed, stateful, because %q", e, want)
	}
}

// TestRefused: what had better not be deployed, by a part of what is refused; "" for nothing.
func TestRefused(t *testing.T) {
	const kept = `, "DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"`
	queue := func(name, more string) string {
		return `"Q": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "` + name + `"}` + more + `}`
	}
	for name, c := range map[string]struct{ was, next, want, why string }{
		"data removed":           {queue("q", ""), ``, "removes queue Q", "the data that it keeps goes with it"},
		"data kept":              {queue("q", kept), ``, "", ""},
		"a snapshot is no table": {`"D": {"Type": "AWS::RDS::DBInstance", "DeletionPolicy": "Snapshot"}`, ``, "removes DB instance D", "goes with it"},
		"data replaced":          {queue("q", ""), queue("r", ""), "replaces queue Q", "goes with it: QueueName changes"},
		"data left behind":       {queue("q", kept), queue("r", kept), "replaces queue Q", "the new one is empty"},
		"data kept, no more":     {queue("q", kept), queue("r", ""), "replaces queue Q", "goes with it"},
		"perhaps replaced":       {`"T": {"Type": "AWS::DynamoDB::Table", "Properties": {"KeySchema": [1]}}`, `"T": {"Type": "AWS::DynamoDB::Table", "Properties": {"KeySchema": [2]}}`, "may replace table T", "KeySchema.0 changes"},
		"retained by somebody":   {`"X": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "a"}` + kept + `}`, `"X": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "b"}` + kept + `}`, "replaces topic X", "the new one is empty"},
		"nothing to lose":        {`"X": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "a"}}`, `"X": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "b"}}`, "", ""},
		"under its own name": {`"G": {"Type": "AWS::ElasticLoadBalancingV2::TargetGroup", "Properties": {"Name": "g", "Port": 1}}`,
			`"G": {"Type": "AWS::ElasticLoadBalancingV2::TargetGroup", "Properties": {"Name": "g", "Port": 2}}`, "replaces target group G under the name that it has", "Port changes"},
		"under another name": {`"G": {"Type": "AWS::ElasticLoadBalancingV2::TargetGroup", "Properties": {"Name": "g", "Port": 1}}`,
			`"G": {"Type": "AWS::ElasticLoadBalancingV2::TargetGroup", "Properties": {"Name": "h", "Port": 2}}`, "", ""},
		"another type":                   {`"X": {"Type": "AWS::SNS::Topic"}`, `"X": {"Type": "AWS::IAM::Role"}`, "makes X a resource of another type", "CloudFormation refuses"},
		"another id, same name":          {`"A": {"Type": "AWS::IAM::Role", "Properties": {"RoleName": "r"}}`, `"B": {"Type": "AWS::IAM::Role", "Properties": {"RoleName": "r"}}`, "adds role B, named r", "goes only after all is made"},
		"name of what is behind":         {queue("q", kept), `"Z": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "q"}}`, "adds queue Z, named q", "stays behind"},
		"a key that goes with its stack": {`"K": {"Type": "AWS::KMS::Key", "DeletionPolicy": "Delete"}`, ``, "", ""},
		"a key of which nobody says":     {`"K": {"Type": "AWS::KMS::Key"}`, ``, "removes KMS key K", "goes with it"},
		"two replicas at once": {`"T": {"Type": "AWS::DynamoDB::GlobalTable", "Properties": {"Replicas": [{"Region": "a"}]}}`,
			`"T": {"Type": "AWS::DynamoDB::GlobalTable", "Properties": {"Replicas": [{"Region": "a"}, {"Region": "b"}, {"Region": "c"}]}}`, "adds or removes 2 replicas of global table T at once", "one replica in an update"},
		"one replica more": {`"T": {"Type": "AWS::DynamoDB::GlobalTable", "Properties": {"Replicas": [{"Region": "a"}]}}`,
			`"T": {"Type": "AWS::DynamoDB::GlobalTable", "Properties": {"Replicas": [{"Region": "a"}, {"Region": "b"}]}}`, "", ""},
		"all indexes at once": {`"T": {"Type": "AWS::DynamoDB::Table", "Properties": {"GlobalSecondaryIndexes": [{"IndexName": "a"}, {"IndexName": "b"}]}}`,
			`"T": {"Type": "AWS::DynamoDB::Table", "Properties": {}}`, "adds or removes 2 global secondary indexes of table T at once", "one global secondary index"},
		"a new version": {`"F": {"Type": "AWS::Lambda::Function"}, "V1": {"Type": "AWS::Lambda::Version", "Properties": {"FunctionName": {"Ref": "F"}}}`,
			`"F": {"Type": "AWS::Lambda::Function"}, "V2": {"Type": "AWS::Lambda::Version", "Properties": {"FunctionName": {"Ref": "F"}}}`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := one(t, `{"Resources": {`+c.was+`}}`, `{"Resources": {`+c.next+`}}`)
			switch {
			case c.want == "" && len(r.Refused) > 0:
				t.Errorf("refused: %+v", r.Refused)
			case c.want != "" && !slices.ContainsFunc(r.Refused, func(e Refusal) bool {
				return e.What == c.want && strings.Contains(e.Why, c.why) && e.Next != "" && e.Stack == "s"
			}):
				t.Errorf("refused: %+v, want %q because %q", r.Refused, c.want, c.why)
			}
		})
	}
}

// TestMovedBetweenStacks: a name passes from a stack that goes to another one when nothing stays behind, and not
// when it does.
func TestMovedBetweenStacks(t *testing.T) {
	for policy, refused := range map[string]int{"Delete": 0, "Retain": 1} {
		in := func(stack string) audit.Input {
			return audit.Input{Stacks: []audit.Stack{stackOf(t, stack, `"X": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "n"}, "DeletionPolicy": "`+policy+`"}`)}}
		}
		if r := Compare(in("a"), in("b"), Options{}); len(r.Refused) != refused {
			t.Errorf("%s: refused %+v, want %d", policy, r.Refused, refused)
		}
	}
}

// TestBilled: what is billed for as long as it is there, and what stays behind of it.
func TestBilled(t *testing.T) {
	r := one(t, `{"Resources": {
		"Key": {"Type": "AWS::KMS::Key", "DeletionPolicy": "Retain"},
		"Alarm": {"Type": "AWS::CloudWatch::Alarm"},
		"Alias": {"Type": "AWS::Lambda::Alias", "Properties": {"ProvisionedConcurrencyConfig": {"ProvisionedConcurrentExecutions": 2}}},
		"Free": {"Type": "AWS::EC2::VPCEndpoint"},
		"Group": {"Type": "AWS::AutoScaling::AutoScalingGroup", "Properties": {"MinSize": "2", "MaxSize": 4}}}}`,
		`{"Resources": {
		"Nat": {"Type": "AWS::EC2::NatGateway"}, "Ip": {"Type": "AWS::EC2::EIP"},
		"Lb": {"Type": "AWS::ElasticLoadBalancingV2::LoadBalancer", "Properties": {"Type": "network"}},
		"Alarm": {"Type": "AWS::CloudWatch::Alarm", "Properties": {"Metrics": [{"Id": "a", "MetricStat": {}}, {"Id": "b", "MetricStat": {}}, {"Id": "e", "Expression": "a/b"}]}},
		"Alias": {"Type": "AWS::Lambda::Alias", "Properties": {"ProvisionedConcurrencyConfig": {"ProvisionedConcurrentExecutions": 5}}},
		"Paid": {"Type": "AWS::EC2::VPCEndpoint", "Properties": {"VpcEndpointType": "Interface", "SubnetIds": ["a", "b", "c"]}},
		"Group": {"Type": "AWS::AutoScaling::AutoScalingGroup", "Properties": {"MinSize": "2", "MaxSize": 6}}}}`)
	want := []Billed{
		{What: "KMS key", From: Count{1, 1}, Kept: 1},
		{What: "NAT gateway", To: Count{1, 1}},
		{What: "instance", From: Count{2, 4}, To: Count{2, 6}},
		{What: "interface endpoint in a zone", To: Count{3, 3}},
		{What: "metric watched by an alarm", From: Count{1, 1}, To: Count{2, 2}},
		{What: "network load balancer", To: Count{1, 1}},
		{What: "provisioned execution environment", From: Count{2, 2}, To: Count{5, 5}},
		{What: "public IPv4 address", To: Count{1, 1}},
	}
	if d := cmp.Diff(want, r.Billed); d != "" {
		t.Errorf("billed (-want +got):\n%s", d)
	}
}

// functions is a stack with reservations by logical id, in JSON.
func functions(t *testing.T, name string, reserved map[string]string) audit.Stack {
	var all []string
	for id, n := range reserved {
		all = append(all, `"`+id+`": {"Type": "AWS::Lambda::Function", "Properties": {"ReservedConcurrentExecutions": `+n+`}}`)
	}
	return stackOf(t, name, strings.Join(all, ","))
}

// TestConcurrency: the order of stacks, and what is said when there is none.
func TestConcurrency(t *testing.T) {
	type side = map[string]map[string]string
	for name, c := range map[string]struct {
		was, next side
		limit     int
		order     []string
		fits      bool
		next1     string // a part of what to do instead
	}{
		"lower first": {side{"a": {"F": "400"}, "b": {"F": "400"}}, side{"a": {"F": "600"}, "b": {"F": "200"}}, 1000, []string{"b", "a"}, true, ""},
		"what goes first": {side{"core": {"F": "100"}, "shard-1": {"F": "300"}, "shard-2": {"F": "300"}}, side{"core": {"F": "100"}, "new": {"F": "600"}}, 1000,
			[]string{"shard-2", "shard-1", "new"}, true, ""},
		"cores before new shards":    {side{}, side{"shard": {"F": "20"}, "core": {"F": "100"}}, 1000, []string{"core", "shard"}, true, ""},
		"shards before their core":   {side{"shard": {"F": "20"}, "core": {"F": "100"}}, side{}, 1000, []string{"shard", "core"}, true, ""},
		"more than there is":         {side{"a": {"F": "400"}}, side{"a": {"F": "901"}}, 1000, []string{"a"}, false, "reserve less"},
		"as much as there is":        {side{"a": {"F": "400"}}, side{"a": {"F": "900"}}, 1000, []string{"a"}, true, ""},
		"a raise inside of a stack":  {side{"a": {"F": "500", "G": "300"}}, side{"a": {"F": "300", "G": "500"}}, 1000, []string{"a"}, false, "deploy twice"},
		"too much already, and less": {side{"a": {"F": "950"}}, side{"a": {"F": "920"}}, 1000, []string{"a"}, true, ""},
		"a larger account":           {side{"a": {"F": "400"}}, side{"a": {"F": "901"}}, 2000, []string{"a"}, true, ""},
		"known at deployment only":   {side{"a": {"F": "400", "G": `{"Ref": "P"}`}}, side{"a": {"F": "500", "G": `{"Ref": "P"}`}}, 1000, []string{"a"}, true, "as a number"},
	} {
		t.Run(name, func(t *testing.T) {
			in := func(s side) (in audit.Input) {
				for stack, reserved := range s {
					in.Stacks = append(in.Stacks, functions(t, stack, reserved))
				}
				return in
			}
			r := Compare(in(c.was), in(c.next), Options{Concurrency: map[string]int{"111111111111": c.limit}})
			if len(r.Concurrency) != 1 {
				t.Fatalf("rooms: %+v", r.Concurrency)
			}
			var order []string
			for _, s := range r.Concurrency[0].Steps {
				order = append(order, s.Stack)
			}
			if !slices.Equal(order, c.order) || r.Concurrency[0].Fits != c.fits {
				t.Errorf("order %v fits: %t, want %v: %t", order, r.Concurrency[0].Fits, c.order, c.fits)
			}
			said := ""
			for _, e := range r.Refused {
				said += e.Next
			}
			if (c.next1 == "") != (said == "") || !strings.Contains(said, c.next1) {
				t.Errorf("it says %q, want %q", said, c.next1)
			}
		})
	}
}

// TestConcurrencyOfReplaced: of a function that is replaced, both stand until the old one goes.
func TestConcurrencyOfReplaced(t *testing.T) {
	at := func(name, reserved string) audit.Input {
		return audit.Input{Stacks: []audit.Stack{stackOf(t, "s", `"F": {"Type": "AWS::Lambda::Function", "Properties": {"FunctionName": "`+name+`", "ReservedConcurrentExecutions": `+reserved+`}}`)}}
	}
	r := Compare(at("f", "500"), at("g", "450"), Options{})
	if len(r.Concurrency) != 1 || r.Concurrency[0].Steps[0].Peak != 950 || r.Concurrency[0].Fits || r.Concurrency[0].Twice {
		t.Errorf("rooms: %+v", r.Concurrency)
	}
}

// TestWords: types in words.
func TestWords(t *testing.T) {
	for typ, want := range map[string]string{
		"AWS::SQS::Queue": "queue", "AWS::EC2::SecurityGroup": "security group", "AWS::EC2::VPC": "VPC", "Custom::Thing": "Custom::Thing",
		"AWS::Lambda::Version": "function's version", "AWS::EC2::DHCPOptions": "DHCP options", "AWS::IAM::OIDCProvider": "OIDC provider",
	} {
		if got := word(typ); got != want {
			t.Errorf("%s is %q, want %q", typ, got, want)
		}
	}
	for want, got := range map[string]string{"2 policies": plural(2, "policy"), "2 security group ingresses": plural(2, "security group ingress"), "1 queue": plural(1, "queue"), "2 NAT gateways": plural(2, "NAT gateway"), "2 KMS keys": plural(2, "KMS key"), "2 function's aliases": plural(2, "function's alias")} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestListed: names told by the first and the last of a row, and none left out.
func TestListed(t *testing.T) {
	for want, names := range map[string][]string{
		"":                        nil,
		"s01 s02":                 {"s01", "s02"},
		"s01 to s03":              {"s01", "s02", "s03"},
		"s01 to s03 s05 s06 blue": {"s01", "s02", "s03", "s05", "s06", "blue"},
		"s9 to s11":               {"s9", "s10", "s11"},
		"s08 to s10 s011":         {"s08", "s09", "s10", "s011"},
		"a1 b2 c3":                {"a1", "b2", "c3"},
		"x-1-s02 to x-1-s04":      {"x-1-s02", "x-1-s03", "x-1-s04"},
	} {
		if got := listed(names); got != want {
			t.Errorf("%q: got %q, want %q", names, got, want)
		}
	}
}

// TestNotes: what is not compared is said.
func TestNotes(t *testing.T) {
	r := one(t, `{"Transform": "AWS::Serverless-2016-10-31", "Resources": {}}`, `{"Resources": {"Fn::ForEach::Q": []}}`)
	if len(r.Notes) != 2 || !strings.Contains(r.Notes[0], "AWS::Serverless-2016-10-31") || !strings.Contains(r.Notes[1], "Fn::ForEach::Q") {
		t.Errorf("notes: %q", r.Notes)
	}
	if r := Compare(audit.Input{}, audit.Input{}, Options{Fleet: []Edit{{Path: "placement.perTenant", From: "2", To: "3"}}}); !r.Empty() || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "topology publish") {
		t.Errorf("of placement: %q", r.Notes)
	}
}

// TestTableOwnsItsTypes: the types with rules of their own are in the generated table, under the properties that
// the rules look at.
func TestTableOwnsItsTypes(t *testing.T) {
	table := properties()
	for typ, property := range naming {
		if known, ok := table[typ]; !ok || !slices.Contains(known.Is, property) {
			t.Errorf("%s has no property %s in the table", typ, property)
		}
	}
	for typ, attributes := range moving {
		for _, a := range attributes {
			if slices.Contains(table[typ].Is, a) || slices.Contains(table[typ].Fixed, a) {
				t.Errorf("%s of %s is a property or an identity: it does not move", a, typ)
			}
		}
	}
	var n template.Node
	if effect(table, "AWS::SQS::Queue", nil, &n, &n) != MayReplace {
		t.Error("a change of all properties at once is not doubted")
	}
}
