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
