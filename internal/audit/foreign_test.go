package audit_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/audit/assembly"
)

// foreign loads stacks of names that cellwall does not know, from templates in YAML.
func foreign(t testing.TB, files map[string]string) audit.Input {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	in, err := assembly.Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// findingsOf are the findings of a rule.
func findingsOf(r audit.Report, rule string) []audit.Finding {
	var out []audit.Finding
	for _, f := range r.Findings {
		if f.Rule == rule {
			out = append(out, f)
		}
	}
	return out
}

// flow is a workflow that starts another one of its account and publishes, in the form that people write.
const flow = `Resources:
  Flow:
    Type: AWS::StepFunctions::StateMachine
    Properties:
      DefinitionString: !Sub |
        {"StartAt": "A", "States": {
          "A": {"Type": "Task", "Resource": "arn:${AWS::Partition}:states:::lambda:invoke", "Parameters": {"FunctionName": "${Work.Arn}"}, "Next": "B"},
          "B": {"Type": "Task", "Resource": "arn:aws:states:::states:startExecution.sync:2", "Parameters": {"StateMachineArn": "arn:aws:states:${AWS::Region}:${AWS::AccountId}:stateMachine:common"}, "Next": "C"},
          "C": {"Type": "Task", "Resource": "arn:aws:states:::aws-sdk:dynamodb:getItem", "Parameters": {"TableName": "ship-all"}, "End": true}}}
  Work: {Type: AWS::Lambda::Function, Properties: {Environment: {Variables: {BUS_NAME: ship-bus}}}}
`

// TestWorkflowTasks holds that what a workflow's task does is no resource, and that what it does it to is one.
func TestWorkflowTasks(t *testing.T) {
	in := foreign(t, map[string]string{"ship-1.yaml": flow, "ship-2.yaml": flow, "common.yaml": `Resources:
  Bus: {Type: AWS::Events::EventBus, Properties: {Name: ship-bus}}
  Common: {Type: AWS::StepFunctions::StateMachine, Properties: {StateMachineName: common}}
  All: {Type: AWS::DynamoDB::Table, Properties: {TableName: ship-all}}
`})
	r := audit.Run(in, audit.Options{Mapping: rulesOf(t, `stack:ship-(?P<shard>\d)`)})
	var found []string
	for _, f := range r.Findings {
		found = append(found, f.Rule+" "+f.Resource.LogicalID)
	}
	if got := strings.Join(found, ", "); got != "SD002 All, SD011 Bus, SD013 Common" {
		t.Errorf("found %s", got)
	}
}

// TestAssociationWritesNothing holds that who uses a firewall's rules does not write them.
func TestAssociationWritesNothing(t *testing.T) {
	use := "Resources:\n  Use: {Type: AWS::WAFv2::WebACLAssociation, Properties: {ResourceArn: !Ref Lb, WebACLArn: !ImportValue acl}}\n  Lb: {Type: AWS::ElasticLoadBalancingV2::LoadBalancer}\n"
	in := foreign(t, map[string]string{"web-1.yaml": use, "web-2.yaml": use,
		"acl.yaml": "Resources:\n  Acl: {Type: AWS::WAFv2::WebACL}\nOutputs: {A: {Value: !GetAtt Acl.Arn, Export: {Name: acl}}}\n"})
	found := findingsOf(audit.Run(in, audit.Options{Mapping: rulesOf(t, `stack:web-(?P<shard>\d)`)}), "SI004")
	if len(found) != 1 || found[0].Level != audit.Warning || found[0].Reason != "" {
		t.Errorf("%+v", found)
	}
}

// TestPoolOfRegion holds that a pool is as large as AWS publishes it for its region.
func TestPoolOfRegion(t *testing.T) {
	template := object{"Resources": object{"P": object{"Type": "AWS::IAM::Policy", "Properties": object{"PolicyDocument": object{
		"Statement": []any{object{"Effect": "Allow", "Action": "kms:Decrypt", "Resource": "*"}}}}}}}
	for region, want := range map[string]int{"eu-west-1": 100_000, "eu-central-1": 20_000, "eu-north-1": 10_000} {
		stacks := map[string]deployed{}
		for _, name := range []string{"a-1", "b-1"} {
			stacks[name] = deployed{template: template, environment: "111111111111/" + region}
		}
		found := findingsOf(audit.Run(manifestOf(t, stacks), audit.Options{Mapping: rulesOf(t, `stack:(?P<cell>\w)-(?P<shard>\d)`)}), "PL002")
		if len(found) != 1 || found[0].Limit.Max != want {
			t.Errorf("%s: %+v", region, found)
		}
	}
}

// TestCellsAlone holds that a mapping which says cells, where nothing says shards, is judged by whole cells.
func TestCellsAlone(t *testing.T) {
	stacks := map[string]deployed{"global": {template: object{"Resources": object{"T": object{"Type": "AWS::DynamoDB::Table", "Properties": object{"TableName": "sessions"}}}}}}
	for _, region := range []string{"eu-west-1", "us-east-1"} {
		stacks["app-"+region] = deployed{template: one("arn:aws:dynamodb:eu-west-1:111111111111:table/sessions"), environment: "111111111111/" + region}
	}
	r := audit.Run(manifestOf(t, stacks), audit.Options{Mapping: rulesOf(t, `stack:app-(?P<cell>.+)`)})
	found := findingsOf(r, "SD002")
	if len(found) != 1 || !strings.HasPrefix(found[0].Message, "2 of 2 shards of 2 cells (eu-west-1, us-east-1) depend on table") || r.Unjudged() != "" {
		t.Errorf("%+v", r.Findings)
	}
	if got := shardNames(r); got != "eu-west-1/all us-east-1/all" {
		t.Errorf("shards %s", got)
	}
	stacks["node-1"] = deployed{template: object{"Resources": object{"Q": object{"Type": "AWS::SQS::Queue"}}}}
	if r := audit.Run(manifestOf(t, stacks), audit.Options{Mapping: rulesOf(t, `stack:app-(?P<cell>.+)`, `stack:node-(?P<shard>\d)`)}); shardNames(r) != "1" {
		t.Errorf("beside a shard, cells are shards: %s", shardNames(r))
	}
	if r := audit.Run(manifestOf(t, stacks), audit.Options{}); len(r.Summary.Shards) != 0 {
		t.Errorf("without a mapping: %s", shardNames(r))
	}
}

// TestOneTemplateNestedTwice holds that stacks of one template are told apart by what their parent calls them.
func TestOneTemplateNestedTwice(t *testing.T) {
	in := foreign(t, map[string]string{"root.yaml": `Resources:
  Blobs: {Type: AWS::S3::Bucket}
  UnitOne: {Type: AWS::CloudFormation::Stack, Properties: {TemplateURL: ./unit.yaml, Parameters: {Blobs: !Ref Blobs}}}
  UnitTwo: {Type: AWS::CloudFormation::Stack, Properties: {TemplateURL: ./unit.yaml, Parameters: {Blobs: !Ref Blobs}}}
`, "unit.yaml": "Parameters: {Blobs: {Type: String}}\nResources:\n  F: {Type: AWS::Lambda::Function, Properties: {Environment: {Variables: {BLOBS: !Ref Blobs}}}}\n"})
	r := audit.Run(in, audit.Options{Mapping: rulesOf(t, `path:Unit(?P<shard>\w+)`)})
	if found := findingsOf(r, "SD004"); len(found) != 1 || len(found[0].Shards) != 2 || shardNames(r) != "One Two" {
		t.Errorf("shards %s: %+v", shardNames(r), r.Findings)
	}
}

// TestReplicasAreOne holds that a table or secret with replicas is one thing in each of their regions, and in no other.
func TestReplicasAreOne(t *testing.T) {
	for name, c := range map[string]struct{ typ, key, list, rule string }{
		"table":  {"AWS::DynamoDB::GlobalTable", "TableName", "Replicas", "SD002"},
		"secret": {"AWS::SecretsManager::Secret", "Name", "ReplicaRegions", "SI002"},
	} {
		stacks := map[string]deployed{"global": {environment: "111111111111/eu-west-1", template: object{"Resources": object{"T": object{"Type": c.typ, "Properties": object{
			c.key: "all-sessions", c.list: []any{object{"Region": "eu-west-1"}, object{"Region": "us-east-1"}}}}}}}}
		for _, region := range []string{"eu-west-1", "us-east-1", "ap-south-1"} {
			stacks["app-"+region] = deployed{environment: "111111111111/" + region, template: object{"Resources": object{"F": object{"Type": "AWS::Lambda::Function",
				"Properties": object{"Environment": object{"Variables": object{map[string]string{"table": "TABLE_NAME", "secret": "SECRET_NAME"}[name]: "all-sessions"}}}}}}}
		}
		r := audit.Run(manifestOf(t, stacks), audit.Options{Mapping: rulesOf(t, `stack:app-(?P<shard>.+)`)})
		found := findingsOf(r, c.rule)
		if len(found) != 1 || len(found[0].Shards) != 2 || found[0].Shards[0].ID != "eu-west-1" || found[0].Shards[1].ID != "us-east-1" || found[0].Resource.LogicalID != "T" {
			t.Errorf("%s: %+v", name, r.Findings)
		}
	}
}
