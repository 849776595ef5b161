package audit_test

import (
	"fmt"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
)

// levelOf is the level of the worst finding of a rule, or "".
func levelOf(r audit.Report, rule string) string {
	for _, f := range r.Findings {
		if f.Rule == rule {
			return f.Level.String()
		}
	}
	return ""
}

// TestReferencesOutsideOfProperties holds that a shared table is found from every part of a resource
// that runs or deploys something, and that a tool's notes in Metadata are not.
func TestReferencesOutsideOfProperties(t *testing.T) {
	imported := object{"Fn::ImportValue": "table"}
	for name, c := range map[string]struct {
		part  string
		value object
		want  string
	}{
		"cfn-init": {"Metadata", object{"AWS::CloudFormation::Init": object{"config": object{"files": object{"/etc/app.conf": object{
			"content": object{"Fn::Sub": []any{"table=${T}", object{"T": imported}}}}}}}}, "error"},
		"cfn-init by ARN": {"Metadata", object{"AWS::CloudFormation::Init": object{"config": object{"files": object{"/etc/app.conf": object{
			"content": "table = arn:aws:dynamodb:eu-west-1:111111111111:table/legacy\n"}}}}}, "error"},
		"other metadata":       {"Metadata", object{"settings": imported}, "error"},
		"traffic hook":         {"UpdatePolicy", object{"CodeDeployLambdaAliasUpdate": object{"BeforeAllowTrafficHook": imported}}, "error"},
		"creation":             {"CreationPolicy", object{"X": imported}, "error"},
		"CDK's path":           {"Metadata", object{"aws:cdk:path": imported, "aws:asset:path": "arn:aws:dynamodb:eu-west-1:111111111111:table/legacy"}, ""},
		"a linter's exception": {"Metadata", object{"cdk_nag": object{"rules_to_suppress": []any{imported}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := stackSet{}
			s.put(core, "Table", "AWS::DynamoDB::Table", object{"TableName": "legacy"})
			s.section(core, "Outputs")["T"] = object{"Value": object{"Ref": "Table"}, "Export": object{"Name": "table"}}
			for i := range 2 {
				r := s.put(shardStackName(fmt.Sprint("s0", i)), "Host", "AWS::EC2::Instance", object{"InstanceType": "t3.small"})
				r[c.part] = c.value
			}
			if got := levelOf(s.run(t), "SD002"); got != c.want {
				t.Errorf("the table is %q, want %q", got, c.want)
			}
		})
	}
}
