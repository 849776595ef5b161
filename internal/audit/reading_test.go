package audit_test

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/audit/assembly"
)

// TestCrossRegionReferences holds that what CDK's crossRegionReferences writes in one region and reads in another
// is followed, value by value.
func TestCrossRegionReferences(t *testing.T) {
	reader := func(uses string) deployed {
		return deployed{environment: "111111111111/us-east-1", template: object{"Resources": object{
			"Reader": object{"Type": "Custom::CrossRegionExportReader", "Properties": object{"ReaderProps": object{"region": "us-east-1", "imports": object{
				uses: "{{resolve:ssm:" + uses + "}}"}}}},
			"F": object{"Type": "AWS::Lambda::Function", "Properties": object{"ReservedConcurrentExecutions": 1, "Environment": object{"Variables": object{"X": object{"Fn::GetAtt": []any{"Reader", uses}}}}}},
		}}}
	}
	stacks := map[string]deployed{
		"shared": {template: object{"Resources": object{
			"Table": object{"Type": "AWS::DynamoDB::Table", "Properties": object{}}, "Queue": object{"Type": "AWS::SQS::Queue", "Properties": object{}},
			"Writer": object{"Type": "Custom::CrossRegionExportWriter", "Properties": object{"WriterProps": object{"region": "us-east-1", "exports": object{
				"/cdk/exports/x/Table": object{"Ref": "Table"}, "/cdk/exports/x/Queue": object{"Fn::GetAtt": []any{"Queue", "Arn"}}}}}},
		}}},
		"orders-eu-1-shard-s01": reader("/cdk/exports/x/Table"), "orders-eu-1-shard-s02": reader("/cdk/exports/x/Table"), "orders-eu-1-shard-s03": reader("/cdk/exports/x/Queue"),
	}
	r := audit.Run(manifestOf(t, stacks), audit.Options{})
	found := map[string]audit.Finding{}
	for _, f := range r.Findings {
		if f.Level >= audit.Error {
			found[f.Rule] = f
		}
	}
	if f := found["SD002"]; len(f.Shards) != 2 || f.Paths[0].Steps[1].How != "dynamic reference" || f.Paths[0].Steps[1].Stack != "shared" {
		t.Errorf("table: %+v", f)
	}
	if f, ok := found["SD003"]; ok {
		t.Errorf("the queue is one shard's alone: %+v", f)
	}
}

// TestStagesWithinStages holds that assemblies inside of assemblies are one input, whatever their depth, and that an
// asset's template is found from each.
func TestStagesWithinStages(t *testing.T) {
	stack := func(file, name string) string {
		return `{"type": "aws:cloudformation:stack", "environment": "aws://111111111111/eu-west-1", "properties": {"templateFile": "` + file + `", "stackName": "` + name + `"}}`
	}
	const nest = `{"Resources": {"N": {"Type": "AWS::CloudFormation::Stack", "Metadata": {"aws:asset:path": "n.nested.template.json"}, "Properties": {"Parameters": {"T": "arn:aws:dynamodb:eu-west-1:111111111111:table/all"}}}}}`
	const nested = `{"Parameters": {"T": {"Type": "String"}}, "Resources": {"Q": {"Type": "AWS::SQS::Queue", "Properties": {"X": {"Ref": "T"}}}}}`
	fsys := fstest.MapFS{}
	for name, text := range map[string]string{
		"manifest.json":                       `{"version": "48.0.0", "artifacts": {"assembly-a": {"type": "cdk:cloud-assembly", "properties": {"directoryName": "assembly-a"}}}}`,
		"assembly-a/manifest.json":            `{"version": "48.0.0", "artifacts": {"assembly-b": {"type": "cdk:cloud-assembly", "properties": {"directoryName": "b"}}, "s": ` + stack("s.json", "orders-eu-1-shard-s01") + `}}`,
		"assembly-a/s.json":                   nest,
		"assembly-a/n.nested.template.json":   nested,
		"assembly-a/b/manifest.json":          `{"version": "48.0.0", "artifacts": {"s": ` + stack("s.json", "orders-eu-1-shard-s02") + `}}`,
		"assembly-a/b/s.json":                 nest,
		"assembly-a/b/n.nested.template.json": nested,
	} {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	in, err := assembly.Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	r := audit.Run(in, audit.Options{})
	if r.Summary.Stacks != 4 || len(r.Findings) != 1 || r.Findings[0].Rule != "SD002" || len(r.Findings[0].Shards) != 2 {
		t.Errorf("%d stacks, %+v", r.Summary.Stacks, r.Findings)
	}
}

// TestYAMLShortForms holds that each short form of an intrinsic function leads to the shared table.
func TestYAMLShortForms(t *testing.T) {
	const core = "Resources: {T: {Type: AWS::DynamoDB::Table, Properties: {TableName: all-orders}}}\nOutputs: {O: {Value: !Ref T, Export: {Name: t}}}\n"
	for name, value := range map[string]string{
		"ImportValue":        "!ImportValue t",
		"ImportValue of Sub": "!ImportValue {\"Fn::Sub\": t}",
		"Sub":                "!Sub arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table/all-orders",
		"Sub with a list":    "!Sub [\"arn:aws:dynamodb:${AWS::Region}:${AWS::AccountId}:table/${n}\", {n: all-orders}]",
		"Join":               "!Join [\":\", [arn:aws:dynamodb, !Ref AWS::Region, !Ref AWS::AccountId, table/all-orders]]",
		"Select":             "!Select [1, [x, !ImportValue t]]",
		"If":                 "!If [C, !ImportValue t, x]",
		"Split":              "!Select [0, !Split [\"|\", !ImportValue t]]",
		"FindInMap":          "!Sub [\"arn:aws:dynamodb:${AWS::Region}:${AWS::AccountId}:table/${n}\", {n: !FindInMap [M, a, b]}]",
		"Base64":             "!Base64 \"TABLE_NAME=all-orders\"",
		"GetStackOutput":     "{\"Fn::GetStackOutput\": {StackName: core, OutputName: O}}",
	} {
		shard := "Conditions: {C: !Equals [!Ref AWS::Region, eu-west-1]}\nMappings: {M: {a: {b: all-orders}}}\nResources:\n  F:\n    Type: AWS::Lambda::Function\n" +
			"    Properties:\n      ReservedConcurrentExecutions: 1\n      Environment:\n        Variables:\n          TABLE_NAME: " + value + "\n"
		r := bare(t, map[string]string{"core.yaml": core, "o-c-shard-1.yaml": shard, "o-c-shard-2.yml": shard})
		if len(r.Findings) != 1 || r.Findings[0].Rule != "SD002" || r.Findings[0].Resource.Stack != "core" {
			t.Errorf("%s: %+v", name, r.Findings)
		}
	}
}

// TestParametersWrittenAndRead holds each way in which one stack reads what another writes to the Parameter Store.
func TestParametersWrittenAndRead(t *testing.T) {
	const core = "Resources:\n  T: {Type: AWS::DynamoDB::Table}\n  P: {Type: AWS::SSM::Parameter, Properties: {Name: !Sub \"/${AWS::StackName}/table\", Value: !GetAtt T.Arn}}\n"
	for name, shard := range map[string]string{
		"typed parameter":   "Parameters: {P: {Type: \"AWS::SSM::Parameter::Value<String>\", Default: /core/table}}\nResources: {Q: {Type: AWS::SQS::Queue, Properties: {X: !Ref P}}}\n",
		"dynamic reference": "Resources: {Q: {Type: AWS::SQS::Queue, Properties: {X: \"{{resolve:ssm:/core/table}}\"}}}\n",
		"secure reference":  "Resources: {Q: {Type: AWS::SQS::Queue, Properties: {X: \"{{resolve:ssm-secure:/core/table:3}}\"}}}\n",
		"by a Sub":          "Resources: {Q: {Type: AWS::SQS::Queue, Properties: {X: !Sub \"{{resolve:ssm:/${N}/table}}\"}}}\nParameters: {N: {Type: String, Default: core}}\n",
	} {
		r := bare(t, map[string]string{"core.yaml": core, "o-c-shard-1.yaml": shard, "o-c-shard-2.yml": shard})
		if levelOf(r, "SD002") != "error" {
			t.Errorf("%s: %+v", name, r.Findings)
		}
	}
}

// TestUnresolvedIsReviewed holds that what cannot be resolved is a review item: no failure, and never dropped.
func TestUnresolvedIsReviewed(t *testing.T) {
	const good = "  T: {Type: AWS::SQS::Queue}\n"
	for name, shard := range map[string]string{
		"Ref":                 "Resources:\n" + good + "  Q: {Type: AWS::SQS::Queue, Properties: {X: !Ref Nothing}}\n",
		"GetAtt":              "Resources:\n" + good + "  Q: {Type: AWS::SQS::Queue, Properties: {X: !GetAtt Nothing.Arn}}\n",
		"Sub":                 "Resources:\n" + good + "  Q: {Type: AWS::SQS::Queue, Properties: {X: !Sub \"${Nothing}\"}}\n",
		"DependsOn":           "Resources:\n" + good + "  Q: {Type: AWS::SQS::Queue, DependsOn: Nothing}\n",
		"Condition":           "Resources:\n" + good + "  Q: {Type: AWS::SQS::Queue, Condition: Nothing}\n",
		"ImportValue":         "Resources:\n" + good + "  Q: {Type: AWS::SQS::Queue, Properties: {X: !ImportValue nothing}}\n",
		"ImportValue unknown": "Parameters: {P: {Type: String}}\nResources:\n" + good + "  Q: {Type: AWS::SQS::Queue, Properties: {X: !ImportValue {\"Fn::Sub\": \"${P}-x\"}}}\n",
		"parameter":           "Parameters: {P: {Type: String}}\nResources:\n" + good + "  Q: {Type: AWS::SQS::Queue, Properties: {X: !Ref P}}\n",
		"SSM":                 "Resources:\n" + good + "  Q: {Type: AWS::SQS::Queue, Properties: {X: \"{{resolve:ssm:/nothing}}\"}}\n",
		"macro":               "Transform: Ours\nResources:\n" + good,
		"function":            "Resources:\n" + good + "  Q: {Type: AWS::SQS::Queue, Properties: {X: {\"Fn::Ours\": 1}}}\n",
		"nested stack":        "Resources:\n" + good + "  N: {Type: AWS::CloudFormation::Stack, Properties: {TemplateURL: \"https://example.com/x\"}}\n",
	} {
		r := bare(t, map[string]string{"o-c-shard-1.yaml": shard, "o-c-shard-2.yml": shard})
		if r.Summary.Findings["review"] == 0 || r.AtLeast(audit.Warning) > 0 {
			t.Errorf("%s: %+v", name, r.Findings)
		}
	}
}

// TestUnknownNetworks holds that a network which only a deployment knows is a review item where there are several cells,
// and that anything else is one in any case.
func TestUnknownNetworks(t *testing.T) {
	const text = `{"Parameters": {"Typed": {"Type": "AWS::EC2::VPC::Id"}, "Nets": {"Type": "CommaDelimitedList"}, "Zones": {"Type": "List<AWS::EC2::AvailabilityZone::Name>"}, "Table": {"Type": "String"}},
		"Resources": {"G": {"Type": "AWS::EC2::SecurityGroup", "Properties": {"GroupDescription": "x", "VpcId": {"Ref": "Typed"}}},
			"A": {"Type": "AWS::AutoScaling::AutoScalingGroup", "Properties": {"VPCZoneIdentifier": {"Ref": "Nets"}, "AvailabilityZones": {"Ref": "Zones"}}},
			"F": {"Type": "AWS::Lambda::Function", "Properties": {"ReservedConcurrentExecutions": 1, "Environment": {"Variables": {"TABLE": {"Ref": "Table"}}}}}}}`
	for _, c := range []struct {
		other string // the second stack
		want  map[string]string
	}{
		{"orders-eu-1-shard-s02", map[string]string{"Typed": "SI008 info", "Nets": "SI008 info", "Table": "UN002 review"}},
		{"orders-eu-2-shard-s01", map[string]string{"Typed": "UN002 review", "Nets": "UN002 review", "Table": "UN002 review"}},
	} {
		in, err := assembly.Load(fstest.MapFS{"orders-eu-1-shard-s01.json": {Data: []byte(text)}, c.other + ".json": {Data: []byte(text)}})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		r := audit.Run(in, audit.Options{})
		for _, f := range r.Findings {
			if f.Resource != nil && f.Resource.File == c.other+".json" && f.Level < audit.Warning {
				got[f.Resource.LogicalID] = f.Rule + " " + f.Level.String()
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("with %s: %s", c.other, diff)
		}
	}
}
